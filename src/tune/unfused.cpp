// What a fused step would take as the vendor's product and a tail kernel.
//
//   us = limit * correction,  log(correction) = mean of the rows', weighted by 1 / distance^4
//
// `limit` is what the device's rates allow, the correction how far the vendor stays behind it. It
// changes slowly with the sizes, so that it may be interpolated where the time itself may not.
#include "tune/unfused.h"

#include <algorithm>
#include <set>

#include "tune/interpolate.h"

namespace epifuse::tune {
namespace {

constexpr int kEvenBytes = 4, kBoundaryBytes = 16;
constexpr int kMeasuredBytes = 2;  // an element of is_measured_kind
constexpr double kFarthest = 2.5;  // powers of 2 over m, n and k together
constexpr double kFarthestBare = 1.5;
constexpr double kMargin = 1.1;  // of two models
constexpr double kGain = 0.99;   // at most, of a bare product

double limit_us(const codegen::GemmSizes& s, const targets::DeviceRates& rates) {
  const auto m = static_cast<double>(s.m), n = static_cast<double>(s.n);
  const auto k = static_cast<double>(s.k);
  const double bytes = kMeasuredBytes * (m * k + k * n + m * n);
  return std::max(2 * m * n * k / rates.flops_per_us, bytes / rates.bytes_per_us) + rates.start_us;
}

bool is_measured_kind(const plan::GemmDesc& gemm, const codegen::GemmSizes& sizes) {
  if (gemm.has_groups()) return false;
  return is_float(gemm.a.dtype) && size_bytes(gemm.a.dtype) == kMeasuredBytes && sizes.batch == 1 &&
         std::min({sizes.m, sizes.n, sizes.k}) >= 1;
}

// Of the vendor's product on rows off 16-byte boundaries. It reads them in smaller pieces, the
// smaller the further off they are: that takes longer at the start and by a part of the aligned
// time. And it multiplies by instructions that take `slowdown` times as long. Fitted to 172 random
// products on an H100 and an H200.
double off_boundaries_us(double aligned_us, const codegen::GemmSizes& s, double slowdown,
                         const targets::DeviceRates& rates) {
  constexpr double kStartUs = 2.2, kOfWork = 0.66, kOfPieces = 0.27;
  if (slowdown == 1) return aligned_us;
  const double flops = 2 * static_cast<double>(s.batch) * static_cast<double>(s.m) *
                       static_cast<double>(s.n) * static_cast<double>(s.k);
  const double work_us = std::max(aligned_us - rates.start_us, 0.0);
  return rates.start_us + kStartUs + (kOfWork + kOfPieces * slowdown) * work_us +
         slowdown * flops / rates.flops_per_us;
}

// Of a copy of b in 16 bits, which the vendor multiplies.
double widening_us(const plan::GemmDesc& gemm, const codegen::GemmSizes& s,
                   const targets::DeviceRates& rates) {
  if (!gemm.widens_b()) return 0;
  const double copies = gemm.gating == plan::Gating::none ? 1 : 2;
  const double bytes = static_cast<double>(size_bytes(gemm.a.dtype) + size_bytes(gemm.b.dtype));
  const std::int64_t matrices = gemm.b.batched ? s.batch : 1;
  return targets::pass_us(copies * bytes * static_cast<double>(matrices * s.n * s.k), rates);
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

std::optional<double> vendor_gemm_us(const plan::GemmDesc& gemm, const codegen::GemmSizes& sizes,
                                     const targets::DeviceProfile& device) {
  if (device.known == nullptr || !is_measured_kind(gemm, sizes)) return std::nullopt;
  const targets::Measurements& measured = *device.known->measured;
  const auto correction =
      interpolate(measured.vendor_us, sizes, kFarthest, [&](const targets::MeasuredProduct& row) {
        return row.value / limit_us({1, row.m, row.n, row.k}, measured.rates);
      });
  if (!correction) return std::nullopt;
  return limit_us(sizes, measured.rates) * *correction;
}

std::optional<double> bare_ratio(const plan::GemmDesc& gemm, const codegen::GemmSizes& sizes,
                                 const targets::DeviceProfile& device) {
  if (device.known == nullptr || !is_measured_kind(gemm, sizes)) return std::nullopt;
  return interpolate(device.known->measured->bare_ratios, sizes, kFarthestBare,
                     [](const targets::MeasuredProduct& row) { return row.value; });
}

bool beats_vendor(std::optional<double> bare_ratio) { return bare_ratio.value_or(1.0) < kGain; }

namespace {

double bytes_loaded(const plan::FusedGemm& step, const codegen::GemmSizes& sizes) {
  double bytes = 0;
  for (const plan::Load& load : step.epilogue.loads) {
    bytes += num_elements(load, sizes) * static_cast<double>(size_bytes(load.dtype));
  }
  return bytes;
}

// What the tail of a step moves; 0 when the product is all there is to do.
double tail_bytes(const plan::FusedGemm& step, const codegen::GemmSizes& sizes, DType product) {
  const double elements = static_cast<double>(sizes.batch) * static_cast<double>(sizes.m * sizes.n);
  double bytes = elements * static_cast<double>(size_bytes(product)) *
                 static_cast<double>(step.epilogue.num_accumulators);
  bytes += bytes_loaded(step, sizes);
  bool stores_anything = false;
  for (const plan::Store& store : step.epilogue.stores) {
    const bool is_second =
        step.gemm.gating == plan::Gating::separate && store.value == step.gemm.second;
    if (store.value == step.gemm.matmul || is_second) continue;  // the product has written it
    stores_anything = true;
    const bool is_full = store.kind == plan::StoreKind::tile;
    if (is_full) bytes += elements * static_cast<double>(size_bytes(store.dtype));
  }
  return stores_anything ? bytes : 0;
}

// What a framework reads again, in a pass of its own, where it reduces columns of what it stores.
double bytes_read_again(const plan::FusedGemm& step, const codegen::GemmSizes& sizes) {
  const std::vector<plan::Store>& stores = step.epilogue.stores;
  const auto is_reduced = [&](const plan::Store& full) {
    return full.kind == plan::StoreKind::tile && full.value != step.gemm.matmul &&
           std::ranges::any_of(stores, [&](const plan::Store& store) {
             return plan::reduces_columns(store.kind) && store.source == full.source;
           });
  };
  const auto full = std::ranges::find_if(stores, is_reduced);
  if (full == stores.end()) return 0;
  return static_cast<double>(sizes.batch) * static_cast<double>(sizes.m * sizes.n) *
         static_cast<double>(size_bytes(full->dtype));
}

// What a framework does of a step in passes of their own: sums of columns of what is loaded.
struct SumsApart {
  plan::FusedGemm rest;  // without them, and without what only they load
  double bytes = 0;      // that they read
};

SumsApart sums_apart(const plan::FusedGemm& step, const codegen::GemmSizes& sizes) {
  SumsApart found{step};
  plan::Epilogue& epilogue = found.rest.epilogue;
  const auto is_sum = [&](const plan::Store& store) {
    return plan::reduces_columns(store.kind) && store.source >= epilogue.first_load() &&
           store.source < epilogue.first_compute();
  };
  std::set<plan::Slot> summed, read;
  for (const plan::Store& store : epilogue.stores) {
    (is_sum(store) ? summed : read).insert(store.source);
  }
  for (const plan::Compute& compute : epilogue.computes) {
    read.insert(compute.args.begin(), compute.args.end());
  }
  std::erase_if(epilogue.stores, is_sum);
  for (const plan::Slot slot : summed) {
    plan::Load& load = epilogue.loads[static_cast<std::size_t>(slot - epilogue.first_load())];
    found.bytes += num_elements(load, sizes) * static_cast<double>(size_bytes(load.dtype));
    if (!read.contains(slot)) load.access = plan::Access::parameter;
  }
  return found;
}

// Whether a framework has a pass over the full result in any case, which does the epilogue too:
// rows whose maximum is taken are scaled by it next.
bool has_pass_behind(const plan::FusedGemm& step) {
  const auto stores = [&](plan::StoreKind kind) {
    return std::ranges::find(step.epilogue.stores, kind, &plan::Store::kind) !=
           step.epilogue.stores.end();
  };
  return stores(plan::StoreKind::row_max) && stores(plan::StoreKind::tile);
}

}  // namespace

double tail_us(const plan::FusedGemm& step, const codegen::GemmSizes& sizes,
               const targets::DeviceRates& rates) {
  if (plan::is_bare(step)) return 0;
  const double bytes = tail_bytes(step, sizes, step.gemm.result);
  return bytes > 0 ? targets::pass_us(bytes, rates) : 0;
}

bool adds_one_row(const plan::FusedGemm& step, const codegen::GemmSizes& sizes) {
  constexpr std::string_view kOneRow = "bias";  // of a product without a batch: addmm
  return sizes.batch == 1 && plan::label(step.epilogue) == kOneRow;
}

const plan::Load* row_of_product(const plan::FusedGemm& step) {
  const plan::Epilogue& epilogue = step.epilogue;
  if (!step.gemm.batch.empty() || step.gemm.has_groups() || epilogue.num_accumulators != 1 ||
      epilogue.computes.empty() || epilogue.computes.front().op != ir::Op::add) {
    return nullptr;
  }
  constexpr plan::Slot kProduct = 0;
  const auto reads_product = [&](const plan::Compute& compute) {
    return std::ranges::find(compute.args, kProduct) != compute.args.end();
  };
  const auto stores_product = [&](const plan::Store& store) { return store.source == kProduct; };
  const plan::Compute& first = epilogue.computes.front();
  const plan::Slot other = first.args[first.args[0] == kProduct ? 1 : 0];
  if (std::ranges::count_if(epilogue.computes, reads_product) != 1 || !reads_product(first) ||
      std::ranges::any_of(epilogue.stores, stores_product) || other < epilogue.first_load() ||
      other >= epilogue.first_compute()) {
    return nullptr;
  }
  const plan::Load& load = epilogue.loads[static_cast<std::size_t>(other - epilogue.first_load())];
  const bool is_row = load.access == plan::Access::row && load.unit_stride;
  return is_row && load.dtype == step.gemm.a.dtype ? &load : nullptr;
}

DType framework_dtype(const plan::GemmDesc& gemm) {
  return is_fp8(gemm.a.dtype) ? DType::bf16 : gemm.a.dtype;
}

double framework_part_of_tail(const plan::FusedGemm& step, const codegen::GemmSizes& sizes) {
  if (adds_one_row(step, sizes)) return 0;
  const double ours = tail_bytes(step, sizes, step.gemm.result);
  if (has_pass_behind(step)) return bytes_loaded(step, sizes) / ours;
  const SumsApart sums = sums_apart(step, sizes);
  const double its = tail_bytes(sums.rest, sizes, framework_dtype(step.gemm)) +
                     bytes_read_again(sums.rest, sizes) + sums.bytes;
  return ours > 0 ? its / ours : 0;
}

std::optional<double> framework_tail_us(const plan::FusedGemm& step,
                                        const codegen::GemmSizes& sizes,
                                        const targets::DeviceProfile& device) {
  constexpr double kOfRate =
      1.1;  // a pass takes as much longer than its bytes at the device's rate
  if (device.known == nullptr) return std::nullopt;
  if (adds_one_row(step, sizes)) return 0;
  const targets::DeviceRates& rates = device.known->measured->rates;
  if (has_pass_behind(step)) return kOfRate * bytes_loaded(step, sizes) / rates.bytes_per_us;
  const SumsApart sums = sums_apart(step, sizes);
  double us = 0;
  for (const double bytes : {tail_bytes(sums.rest, sizes, framework_dtype(step.gemm)),
                             bytes_read_again(sums.rest, sizes), sums.bytes}) {
    if (bytes > 0) us += targets::pass_us(kOfRate * bytes, rates);
  }
  return us;
}

std::optional<double> unfused_us(const plan::FusedGemm& step, const codegen::GemmSizes& sizes,
                                 const targets::DeviceProfile& device, double slowdown) {
  if (step.gemm.is_scaled()) return std::nullopt;  // on copies in float32, which take far longer
  codegen::GemmSizes product_sizes = sizes;
  const bool is_one = step.gemm.gating != plan::Gating::separate;
  // What was measured writes rows on boundaries; off them the vendor took up to 8 times as long.
  const auto row_bytes = sizes.n * static_cast<std::int64_t>(size_bytes(step.gemm.result));
  if (slowdown == 1 && row_bytes % kBoundaryBytes != 0) return std::nullopt;
  if (is_one && step.gemm.gating != plan::Gating::none) product_sizes.n *= 2;
  const std::optional<double> product = vendor_gemm_us(step.gemm, product_sizes, device);
  if (!product) return std::nullopt;
  const targets::DeviceRates& rates = device.known->measured->rates;
  return off_boundaries_us(*product, product_sizes, slowdown, rates) * (is_one ? 1 : 2) +
         widening_us(step.gemm, sizes, rates) + tail_us(step, sizes, rates);
}

bool wants_rows_first(const plan::FusedGemm& step, const codegen::GemmSizes& sizes,
                      const targets::DeviceProfile& device) {
  if (step.gemm.a.lookup < 0 || device.known == nullptr) return false;
  const targets::Measurements& measured = *device.known->measured;
  const std::optional<targets::RowsFirst>& known = measured.rows_first;
  if (!known || sizes.m < known->fewest_rows * std::max<std::int64_t>(sizes.groups, 1)) {
    return false;
  }
  const double rows = static_cast<double>(sizes.m) * static_cast<double>(sizes.k);
  const double products = step.gemm.gating == plan::Gating::none ? 1 : 2;
  const double product_us =
      2 * rows * static_cast<double>(sizes.n) * products / measured.rates.flops_per_us;
  const double copied = 2 * rows * static_cast<double>(size_bytes(step.gemm.a.dtype));
  const double copy_us = targets::pass_us(copied, measured.rates);
  return known->gather_slows * product_us > kMargin * copy_us;
}

std::optional<Slowdown> slowdown(targets::Rows a, targets::Rows b, int boundary_bytes,
                                 const targets::DeviceProfile& device) {
  if (device.known == nullptr) return std::nullopt;
  const auto* const row = targets::find_misaligned(*device.known->measured, a, b);
  if (row == nullptr) return std::nullopt;
  const double another = boundary_bytes >= 2 * kEvenBytes ? row->another_8
                         : boundary_bytes >= kEvenBytes   ? row->another_4
                                                          : row->another_2;
  return Slowdown{boundary_bytes >= kEvenBytes ? row->vendor_even : row->vendor_odd, another};
}

bool is_clearly_slower(double fused_us, double unfused_us) {
  return fused_us > kMargin * unfused_us;
}

}  // namespace epifuse::tune
