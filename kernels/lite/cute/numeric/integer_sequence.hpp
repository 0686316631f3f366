// Stand-in for cute/numeric/integer_sequence.hpp: packs of indices.
#pragma once

#include <cute/config.hpp>

namespace cute {

template <int... I>
struct int_sequence {};
template <int... I>
using seq = int_sequence<I...>;

template <size_t... I>
struct index_sequence {};

template <size_t Count, size_t... I>
struct MakeIndexSequence : MakeIndexSequence<Count - 1, Count - 1, I...> {};
template <size_t... I>
struct MakeIndexSequence<0, I...> {
  using type = index_sequence<I...>;
};
template <size_t Count>
using make_index_sequence = typename MakeIndexSequence<Count>::type;

}  // namespace cute
