// A non-owning view of memory as a tensor.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "epifuse/dtype.h"

namespace epifuse {

enum class DeviceKind : std::uint8_t { cpu, cuda };  ///< where memory is and work runs

/// Memory seen as a tensor. Nothing is owned: the memory must outlive the call (for a stream: the
/// work queued on it).
struct TensorView {
  void* data = nullptr;                 ///< the first element
  DType dtype = DType::f32;             ///< of the elements
  std::vector<std::int64_t> shape;      ///< sizes, outermost first; empty for a 0-d tensor
  std::vector<std::int64_t> strides;    ///< in elements; empty means dense row-major
  DeviceKind device = DeviceKind::cpu;  ///< where `data` is

  std::int64_t num_elements() const;  ///< product of the sizes; 1 for a 0-d tensor
  /// Strides of a dense row-major tensor of this shape.
  static std::vector<std::int64_t> dense_strides(const std::vector<std::int64_t>& shape);
  /// `strides`, or the dense ones when that is empty.
  std::vector<std::int64_t> strides_or_dense() const;
};

}  // namespace epifuse
