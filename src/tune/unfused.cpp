// What a fused step would take as the vendor's product and a tail kernel.
//
//   us = limit * correction,  log(correction) = mean of the rows', weighted by 1 / distance^4
//
// `limit` is what the device's rates allow, the correction how far the vendor stays behind it. It
// changes slowly with the sizes, so that it may be interpolated where the time itself may not.
#include "tune/unfused.h"

#include <algorithm>

#include "tune/interpolate.h"

namespace epifuse::tune {
namespace {

constexpr Measured kMeasured[] = {
#define EPIFUSE_VENDOR_GEMM(m, n, k, us) {{1, m, n, k}, us},
#include "tune/vendor_gemm.def"
#undef EPIFUSE_VENDOR_GEMM
};

constexpr Measured kMeasuredBare[] = {
#define EPIFUSE_BARE_GEMM(m, n, k, ratio) {{1, m, n, k}, ratio},
#include "tune/bare_gemm.def"
#undef EPIFUSE_BARE_GEMM
};

struct Unaligned {
  Rows a, b;
  double fused, vendor_even, vendor_odd;
};

constexpr Unaligned kUnaligned[] = {
#define EPIFUSE_UNALIGNED_GEMM(a, b, fused, even, odd) {Rows::a, Rows::b, fused, even, odd},
#include "tune/unaligned_gemm.def"
#undef EPIFUSE_UNALIGNED_GEMM
};
constexpr int kEvenBytes = 4;

// H200, as reached by large products and by elementwise kernels (2026-11-21).
constexpr double kFlopsPerUs = 700e6;
constexpr double kBytesPerUs = 4.0e6;
constexpr double kStartUs = 4.2;   // of a kernel alone, as the measured times contain it
constexpr double kLaunchUs = 2.0;  // of a kernel behind another one

constexpr int kMeasuredBytes = 2;  // an element of is_measured_kind
constexpr double kFarthest = 2.5;  // powers of 2 over m, n and k together
constexpr double kFarthestBare = 1.5;
constexpr double kMargin = 1.1;  // of two models
constexpr double kGain = 0.99;   // at most, of a bare product

double limit_us(const codegen::GemmSizes& s) {
  const auto m = static_cast<double>(s.m), n = static_cast<double>(s.n);
  const auto k = static_cast<double>(s.k);
  const double bytes = kMeasuredBytes * (m * k + k * n + m * n);
  return std::max(2 * m * n * k / kFlopsPerUs, bytes / kBytesPerUs) + kStartUs;
}

bool is_measured_kind(const plan::GemmDesc& gemm, const codegen::GemmSizes& sizes) {
  if (gemm.is_grouped()) return false;
  return is_float(gemm.a.dtype) && size_bytes(gemm.a.dtype) == kMeasuredBytes && sizes.batch == 1 &&
         std::min({sizes.m, sizes.n, sizes.k}) >= 1;
}

double num_elements(const plan::Load& load, const codegen::GemmSizes& s) {
  const double batch = load.batched ? static_cast<double>(s.batch) : 1;
  switch (load.access) {
    case plan::Access::parameter: return 0;
    case plan::Access::scalar: return batch;
    case plan::Access::row: return batch * static_cast<double>(s.n);
    case plan::Access::col: return batch * static_cast<double>(s.m);
    case plan::Access::tile: return batch * static_cast<double>(s.m * s.n);
  }
  return 0;
}

}  // namespace

std::optional<double> vendor_gemm_us(const plan::GemmDesc& gemm, const codegen::GemmSizes& sizes) {
  if (!is_measured_kind(gemm, sizes)) return std::nullopt;
  const auto correction =
      interpolate(std::span(kMeasured), sizes, kFarthest,
                  [](const Measured& row) { return row.value / limit_us(row.sizes); });
  if (!correction) return std::nullopt;
  return limit_us(sizes) * *correction;
}

std::optional<double> bare_ratio(const plan::GemmDesc& gemm, const codegen::GemmSizes& sizes) {
  if (!is_measured_kind(gemm, sizes)) return std::nullopt;
  return interpolate(kMeasuredBare, sizes, kFarthestBare,
                     [](const Measured& row) { return row.value; });
}

bool beats_vendor(std::optional<double> bare_ratio) { return bare_ratio.value_or(1.0) < kGain; }

double tail_us(const plan::FusedGemm& step, const codegen::GemmSizes& sizes) {
  if (plan::is_bare(step)) return 0;
  const double elements = static_cast<double>(sizes.batch) * static_cast<double>(sizes.m * sizes.n);
  double bytes = elements * static_cast<double>(size_bytes(step.gemm.result)) *
                 static_cast<double>(step.epilogue.num_accumulators);
  bool stores_anything = false;
  for (const plan::Load& load : step.epilogue.loads) {
    bytes += num_elements(load, sizes) * static_cast<double>(size_bytes(load.dtype));
  }
  for (const plan::Store& store : step.epilogue.stores) {
    const bool is_second =
        step.gemm.gating == plan::Gating::separate && store.value == step.gemm.second;
    if (store.value == step.gemm.matmul || is_second) continue;  // the product has written it
    stores_anything = true;
    const bool is_full = store.kind == plan::StoreKind::tile;
    if (is_full) bytes += elements * static_cast<double>(size_bytes(store.dtype));
  }
  return stores_anything ? bytes / kBytesPerUs + kLaunchUs : 0;
}

std::optional<double> unfused_us(const plan::FusedGemm& step, const codegen::GemmSizes& sizes,
                                 double slowdown) {
  codegen::GemmSizes product_sizes = sizes;
  const bool is_one = step.gemm.gating != plan::Gating::separate;
  if (is_one && step.gemm.gating != plan::Gating::none) product_sizes.n *= 2;
  const std::optional<double> product = vendor_gemm_us(step.gemm, product_sizes);
  if (!product) return std::nullopt;
  return slowed_down(*product, slowdown) * (is_one ? 1 : 2) + tail_us(step, sizes);
}

bool wants_rows_first(const plan::FusedGemm& step, const codegen::GemmSizes& sizes) {
  // Of 8 groups of 1024 rows, 4096x2048 (docs/gotchas-groups.md). With fewer rows a group than
  // these, weights are what takes the time.
  constexpr double kGatherSlows = 0.15;
  constexpr std::int64_t kFewestRows = 128;
  if (step.gemm.a.lookup < 0 || sizes.m < kFewestRows * std::max<std::int64_t>(sizes.groups, 1)) {
    return false;
  }
  const double rows = static_cast<double>(sizes.m) * static_cast<double>(sizes.k);
  const double products = step.gemm.gating == plan::Gating::none ? 1 : 2;
  const double product_us = 2 * rows * static_cast<double>(sizes.n) * products / kFlopsPerUs;
  const double copied = 2 * rows * static_cast<double>(size_bytes(step.gemm.a.dtype));
  return kGatherSlows * product_us > kMargin * (copied / kBytesPerUs + kLaunchUs);
}

std::optional<Slowdown> slowdown(Rows a, Rows b, int boundary_bytes) {
  for (const Unaligned& row : kUnaligned) {
    if (row.a != a || row.b != b) continue;
    return Slowdown{row.fused, boundary_bytes >= kEvenBytes ? row.vendor_even : row.vendor_odd};
  }
  return std::nullopt;
}

double slowed_down(double us, double slowdown) {
  return us + std::max(us - kStartUs, 0.0) * (slowdown - 1);
}

bool is_clearly_slower(double fused_us, double unfused_us) {
  return fused_us > kMargin * unfused_us;
}

}  // namespace epifuse::tune
