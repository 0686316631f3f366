// The cp.async + mma.sync GEMM as a row of the table of families.
#include "codegen/family_row.h"
#include "codegen/sm80/gemm.h"
#include "codegen/sm80/model_constants.h"

namespace epifuse::codegen::sm80 {
namespace {

struct Functions {
  using Config = sm80::Config;
  using Variant = sm80::Variant;
  static constexpr auto why_not = sm80::why_not;
  static constexpr auto suits = sm80::suits;
  static constexpr auto configs = sm80::configs;
  static constexpr auto expected_us = sm80::expected_us;
  static constexpr auto source = sm80::source;
  static constexpr auto why_not_bound = sm80::why_not_bound;
  static constexpr auto fitted = sm80::fitted;
  static constexpr auto variant = sm80::variant;
  static constexpr auto roles = sm80::roles;
  static constexpr auto partials = sm80::partials;
  static constexpr auto scratch = sm80::scratch;
  static constexpr auto launch = sm80::launch;
};

}  // namespace

// Of the row in families.def.
KernelFamily family(std::string_view name, std::string_view summary) {
  KernelFamily out = family_row<Functions>(name, summary);
  out.pointer_arrays = &pointer_arrays();
  out.constants = named_constants;
  return out;
}

}  // namespace epifuse::codegen::sm80
