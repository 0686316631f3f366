// A tensor in host memory that owns its bytes, for tests.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "base/float_types.h"
#include "epifuse/program.h"

namespace epifuse::testing {

class HostTensor {
 public:
  // Strides in elements; empty: dense. The tensor starts `margin` elements into its memory and ends
  // as many before its end. Bytes start as all ones, which is NaN in every float dtype: a result
  // that is not written cannot pass.
  HostTensor(DType dtype, std::vector<std::int64_t> shape, std::vector<std::int64_t> strides = {},
             std::int64_t margin = 0)
      : dtype_(dtype), shape_(std::move(shape)), strides_(std::move(strides)), margin_(margin) {
    if (strides_.empty()) strides_ = TensorView::dense_strides(shape_);
    std::int64_t last = 0;
    for (std::size_t d = 0; d < shape_.size(); ++d) last += (shape_[d] - 1) * strides_[d];
    const std::int64_t span = size() > 0 ? last + 1 + 2 * margin_ : 0;
    bytes_.assign(static_cast<std::size_t>(span) * size_bytes(dtype), 0xff);
  }

  std::int64_t size() const {
    std::int64_t count = 1;
    for (std::int64_t extent : shape_) count *= extent;
    return count;
  }
  DType dtype() const { return dtype_; }
  const std::vector<std::int64_t>& shape() const { return shape_; }
  const std::vector<std::int64_t>& strides() const { return strides_; }
  std::vector<unsigned char>& bytes() { return bytes_; }
  const std::vector<unsigned char>& bytes() const { return bytes_; }

  // Elements by their number in row-major order of the shape.
  double get(std::int64_t index) const { return load_element(bytes_.data(), dtype_, place(index)); }
  void set(std::int64_t index, double x) { store_element(bytes_.data(), dtype_, place(index), x); }

  // A null pointer when there is no element.
  TensorView view() {
    return {bytes_.empty() ? nullptr : bytes_.data() + margin_bytes(), dtype_, shape_, strides_};
  }
  std::size_t margin_bytes() const {
    return static_cast<std::size_t>(margin_) * size_bytes(dtype_);
  }
  Binding bind(const std::string& name) { return Binding(name, view()); }

  HostTensor& fill_normal(std::mt19937_64& random, double deviation = 1) {
    std::normal_distribution<double> normal(0, deviation);
    for (std::int64_t i = 0; i < size(); ++i) set(i, normal(random));
    return *this;
  }
  HostTensor& fill(const std::vector<double>& values) {
    for (std::int64_t i = 0; i < size(); ++i) set(i, values.at(static_cast<std::size_t>(i)));
    return *this;
  }
  // Whether every byte that belongs to no element is as it was made: nobody wrote into the gaps
  // between rows or around the tensor.
  bool gaps_untouched() const {
    if (bytes_.size() == static_cast<std::size_t>(size()) * size_bytes(dtype_)) return true;
    std::vector<bool> is_element(bytes_.size(), false);
    for (std::int64_t i = 0; i < size(); ++i) {
      const std::size_t first = static_cast<std::size_t>(place(i)) * size_bytes(dtype_);
      for (std::size_t b = 0; b < size_bytes(dtype_); ++b) is_element[first + b] = true;
    }
    for (std::size_t b = 0; b < bytes_.size(); ++b) {
      if (!is_element[b] && bytes_[b] != 0xff) return false;
    }
    return true;
  }
  std::vector<double> values() const {
    std::vector<double> result;
    for (std::int64_t i = 0; i < size(); ++i) result.push_back(get(i));
    return result;
  }

 private:
  std::int64_t place(std::int64_t index) const {
    std::int64_t offset = margin_;
    for (std::size_t d = shape_.size(); d-- > 0;) {
      offset += index % shape_[d] * strides_[d];
      index /= shape_[d];
    }
    return offset;
  }

  DType dtype_;
  std::vector<std::int64_t> shape_, strides_;
  std::int64_t margin_;
  std::vector<unsigned char> bytes_;
};

}  // namespace epifuse::testing
