// One of two types.
#pragma once

namespace epifuse {

template <bool kIsFirst, class First, class Second>
struct Either {
  using Type = First;
};
template <class First, class Second>
struct Either<false, First, Second> {
  using Type = Second;
};

}  // namespace epifuse
