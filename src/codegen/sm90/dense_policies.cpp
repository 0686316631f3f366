// The policies that a config and a variant of the Hopper GEMM stand for, as
// kernels/sm90/policies.cuh names them.
#include <fmt/format.h>

#include "codegen/epilogue_cuda.h"
#include "codegen/sm90/dense.h"

namespace epifuse::codegen::sm90 {
namespace {

std::string who_multiplies(const Config& config) {
  const std::string_view of_tile = consumers(config) == 3    ? "sm90::ThreeCooperative"
                                   : config.cooperative      ? "sm90::Cooperative"
                                   : is_one_consumer(config) ? "sm90::OneConsumer"
                                                             : "sm90::PingPong";
  if (config.split_k == 1) return std::string(of_tile);
  return fmt::format("sm90::SplitK<{}, {}>", of_tile, config.split_k);
}

std::string scheduler(const plan::GemmDesc& gemm, const Config& config) {
  const std::string out = gemm.is_padded()        ? "sm90::PaddedGroups"
                          : gemm.is_grouped()     ? "sm90::GroupedProducts"
                          : gemm.is_k_grouped()   ? "sm90::GroupsOfK"
                          : is_batched(gemm)      ? "sm90::BatchOfProducts"
                          : config.pointer_arrays ? "sm90::ManyProblems"
                          : config.side_by_side   ? "sm90::SideBySide"
                                                  : "sm90::OneProduct";
  return config.two_widths ? fmt::format("sm90::TwoWidths<{}>", out) : out;
}

std::string_view major(const plan::Operand& operand) {
  return operand.major == plan::Major::k ? "sm90::Major::k" : "sm90::Major::mn";
}

std::string producer(const plan::GemmDesc& gemm, const Config& config, const Variant& variant) {
  std::string out = fmt::format("sm90::TmaProducer<{}, {}>", major(gemm.a), major(gemm.b));
  if (config.cluster_m * config.cluster_n > 1) {
    out = fmt::format("sm90::Multicast<{}, {}, {}>", out, config.cluster_m, config.cluster_n);
  }
  if (variant.is_misaligned()) {
    out = fmt::format("sm90::MisalignedRows<{}, {}, {}>", out, variant.misaligned_a,
                      variant.misaligned_b);
  }
  if (config.widens_b) {
    out = fmt::format("sm90::WidenedB<{}, {}, {}>", out, element_cuda(gemm.b.dtype),
                      element_cuda(gemm.a.dtype));
  }
  return config.gathers ? fmt::format("sm90::GatheredRows<{}>", out) : out;
}

std::string staging(const EpilogueLayout& layout, const Config& config, const Variant& variant) {
  const bool by_tma = variant.non_tma_loads == 0 && variant.non_tma_stores == 0;
  const std::string_view how = config.in_place && by_tma                ? "StagingInPlace"
                               : loads_in_ring(layout, config, variant) ? "LoadsInRing"
                                                                        : "OwnStaging";
  const auto out = fmt::format("sm90::{}<{}, {}>", how, config.load_depth, config.store_depth);
  return config.swapped ? fmt::format("sm90::Transposed<{}>", out) : out;
}

}  // namespace

std::string policies_text(const plan::GemmDesc& gemm, const EpilogueLayout& layout,
                          const Config& config, const Variant& variant) {
  return fmt::format(
      "  using Consumers = {};\n"
      "  using Scheduler = {};\n"
      "  using Producer = {};\n"
      "  using Staging = {};  // chunks of loads and of stores in flight, a consumer\n",
      who_multiplies(config), scheduler(gemm, config), producer(gemm, config, variant),
      staging(layout, config, variant));
}

}  // namespace epifuse::codegen::sm90
