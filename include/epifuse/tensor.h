// A non-owning view of memory as a tensor.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "epifuse/dtype.h"

namespace epifuse {

/// The most that is taken of a size, of the elements of a tensor (sizes of 0 count as 1), and of
/// the elements from its first in memory to its last, between which its strides lead: 2^40. More is
/// an ArgumentError, here and wherever tensors and sizes come in.
constexpr std::int64_t kMaxElements = std::int64_t{1} << 40;

enum class DeviceKind : std::uint8_t { cpu, cuda };  ///< where memory is and work runs

/// Memory seen as a tensor. Nothing is owned: the memory must outlive the call (for a stream: the
/// work queued on it).
struct TensorView {
  void* data = nullptr;                    ///< the first element
  DType dtype = DType::f32;                ///< of the elements
  std::vector<std::int64_t> shape = {};    ///< sizes, outermost first; empty for a 0-d tensor
  std::vector<std::int64_t> strides = {};  ///< in elements; empty means dense row-major
  DeviceKind device = DeviceKind::cpu;     ///< where `data` is

  /// Product of the sizes; 1 for a 0-d tensor. Throws ArgumentError for a negative size and for
  /// more than kMaxElements.
  std::int64_t num_elements() const;
  /// Strides of a dense row-major tensor of this shape. Throws as num_elements does.
  static std::vector<std::int64_t> dense_strides(const std::vector<std::int64_t>& shape);
  /// `strides`, or the dense ones when that is empty.
  std::vector<std::int64_t> strides_or_dense() const;
};

}  // namespace epifuse
