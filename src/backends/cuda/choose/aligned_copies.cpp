// Operands whose rows start off the boundaries that kernels copy by, as rows that do not; and those
// that kernels read along K alone, along K.
#include "backends/cuda/choose/aligned_copies.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "backends/backend.h"
#include "base/ceil_div.h"
#include "base/check.h"
#include "codegen/k_major_copies.h"

namespace epifuse::cuda {
namespace {

// Of the last two dims the one that rows lie along.
std::size_t row_dim(const ir::Layout& layout) {
  const std::size_t last = layout.shape.size() - 1;
  const bool is_last = layout.strides[last] == 1 && layout.shape[last] > 1;
  const bool is_other = layout.strides[last - 1] == 1 && layout.shape[last - 1] > 1;
  return is_other && !is_last ? last - 1 : last;
}

bool repeats(const ir::Layout& layout, std::size_t dim) {
  return layout.strides[dim] == 0 && layout.shape[dim] > 1;
}

// Elements from one row to the next: loads of whole lines of memory take less time, so rows start
// at lines, else at sectors, where that adds little to them.
std::int64_t row_stride(std::int64_t elements, DType dtype) {
  constexpr std::int64_t kLineBytes = 128, kSectorBytes = 32, kMostAdded = 16;  // a 16th
  const auto bytes = static_cast<std::int64_t>(size_bytes(dtype));
  const std::int64_t length = std::max<std::int64_t>(elements, 1);
  for (const std::int64_t boundary : {kLineBytes, kSectorBytes}) {
    const std::int64_t stride = round_up(length, boundary / bytes);
    if (kMostAdded * (stride - length) <= length) return stride;
  }
  return round_up(length, kBoundaryBytes / bytes);
}

// With rows along that dim, one of the last two.
AlignedCopy copy_along(std::size_t along, ir::ValueId operand, DType dtype,
                       const codegen::Bound& bound) {
  const ir::Layout& from = bound[operand].layout;
  const std::size_t rank = from.shape.size();
  EPIFUSE_CHECK(rank >= 2, "a matrix has two dims");
  const std::size_t across = along == rank - 1 ? rank - 2 : rank - 1;
  AlignedCopy out{operand, {nullptr, {0, from.shape, std::vector<std::int64_t>(rank)}}};
  std::vector<std::int64_t>& strides = out.to.layout.strides;
  strides[along] = 1;
  strides[across] = row_stride(from.shape[along], dtype);
  std::int64_t count = strides[across] * from.shape[across];
  for (std::size_t dim = rank - 2; dim-- > 0;) {
    strides[dim] = repeats(from, dim) ? 0 : count;
    count *= repeats(from, dim) ? 1 : from.shape[dim];
  }
  out.bytes = static_cast<std::size_t>(count) * size_bytes(dtype);
  return out;
}

}  // namespace

int boundary_bytes(const codegen::BoundTensor& tensor, DType dtype) {
  auto starts = reinterpret_cast<std::uintptr_t>(tensor.data) | kBoundaryBytes;
  for (std::size_t dim = 0; dim < tensor.layout.shape.size(); ++dim) {
    const std::int64_t stride = tensor.layout.strides[dim];
    if (stride == 1 || tensor.layout.shape[dim] <= 1) continue;
    starts |= static_cast<std::uintptr_t>(stride) * size_bytes(dtype);
  }
  return static_cast<int>(starts & -starts);
}

std::vector<AlignedCopy> aligned_copies(const plan::FusedGemm& step, const codegen::Bound& bound) {
  std::vector<AlignedCopy> out;
  if (step.gemm.a.lookup >= 0) return out;
  std::set<ir::ValueId> seen;
  for (const ir::ValueId operand : step.gemm.operands()) {
    const DType dtype = operand == step.gemm.a.value ? step.gemm.a.dtype : step.gemm.b.dtype;
    if (!seen.insert(operand).second) continue;
    if (bound[operand].layout.shape.size() < 2) return {};  // not placed yet
    if (boundary_bytes(bound[operand], dtype) >= kBoundaryBytes) continue;
    out.push_back(copy_along(row_dim(bound[operand].layout), operand, dtype, bound));
  }
  return out;
}

std::vector<AlignedCopy> k_major_copies(const plan::FusedGemm& step, const codegen::Bound& bound) {
  std::vector<AlignedCopy> out;
  std::set<ir::ValueId> seen;
  for (const plan::Operand* operand : {&step.gemm.a, &step.gemm.b, &step.gemm.second_b}) {
    if (!operand->k_major_copy || !seen.insert(operand->value).second) continue;
    const std::size_t rank = bound[operand->value].layout.shape.size();
    if (rank < 2) return {};  // not placed yet
    const std::size_t k_dim = codegen::k_is_last(step.gemm, *operand) ? rank - 1 : rank - 2;
    out.push_back(copy_along(k_dim, operand->value, operand->dtype, bound));
  }
  return out;
}

bool can_expect_copies(const targets::DeviceProfile& device) {
  return device.known != nullptr || device.driver.bytes_per_us > 0;
}

double copies_us(std::span<const AlignedCopy> copies, const targets::DeviceProfile& device) {
  constexpr double kStartUs = 1.9, kOfRate = 0.75;
  constexpr double kOfPins = 0.85, kLaunchUs = 2.5;  // as an H100's and an H200's passes take
  if (!can_expect_copies(device)) return 0;
  const auto rates =
      device.known != nullptr
          ? device.known->measured->rates
          : targets::DeviceRates{.flops_per_us = 0,
                                 .bytes_per_us = kOfPins * device.driver.bytes_per_us,
                                 .start_us = 0,
                                 .launch_us = kLaunchUs};
  double us = 0;
  for (const AlignedCopy& copy : copies) {
    us += kStartUs + targets::pass_us(2 * static_cast<double>(copy.bytes) / kOfRate, rates);
  }
  return us;
}

ReadTensors::ReadTensors(const plan::FusedGemm& step, const codegen::Bound& bound)
    : given_(bound), copies_(k_major_copies(step, bound)) {
  if (copies_.empty()) return;
  copied_ = bound;
  for (const AlignedCopy& copy : copies_) {
    (*copied_)[copy.operand] = copy.to;
    (*copied_)[copy.operand].data = backends::stand_in_address();
  }
}

codegen::BoundTensor as_copied(codegen::BoundTensor tensor, const codegen::BoundTensor& like) {
  const std::size_t rank = like.layout.shape.size();
  for (std::size_t dim = 0; dim < rank; ++dim) {
    if (repeats(like.layout, dim)) tensor.layout.shape[dim] = 1;
  }
  if (row_dim(like.layout) == rank - 2) {
    std::swap(tensor.layout.shape[rank - 2], tensor.layout.shape[rank - 1]);
    std::swap(tensor.layout.strides[rank - 2], tensor.layout.strides[rank - 1]);
  }
  return tensor;
}

}  // namespace epifuse::cuda
