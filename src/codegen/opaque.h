// Values whose type only a kernel family knows.
#pragma once

#include <cstddef>
#include <cstring>
#include <type_traits>

#include "base/check.h"

namespace epifuse::codegen {

// What can be asked of a T that an Opaque<Functions> holds: a table `kTable` of type Functions. Its
// address stands for T.
template <class Functions, class T>
struct FunctionsOf;

// A small value of a family's own type, or nothing. Others copy it, compare it, ask it what its
// Functions answer, and hand it back to its family, which knows the type and looks inside.
template <class Functions>
class Opaque {
 public:
  Opaque() = default;
  template <class T>
  requires(!std::is_same_v<T, Opaque>) explicit Opaque(const T& value)
      : functions_(&FunctionsOf<Functions, T>::kTable) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof bytes_);
    std::memcpy(&bytes_, &value, sizeof value);
  }

  bool is_empty() const { return functions_ == nullptr; }
  // Throws InternalError unless it holds a T.
  template <class T>
  T as() const {
    EPIFUSE_CHECK((functions_ == &FunctionsOf<Functions, T>::kTable), "a value of this family");
    T out;
    std::memcpy(static_cast<void*>(&out), &bytes_, sizeof out);
    return out;
  }
  const Functions& functions() const {
    EPIFUSE_CHECK(!is_empty(), "a value of some family");
    return *functions_;
  }

  friend bool operator==(const Opaque& x, const Opaque& y) {
    if (x.functions_ != y.functions_) return false;
    // Copies have the same bytes; values that are made apart may differ in those that pad them.
    return std::memcmp(&x.bytes_, &y.bytes_, sizeof x.bytes_) == 0 || x.functions_->equal(x, y);
  }

 private:
  std::byte bytes_[72] = {};
  const Functions* functions_ = nullptr;
};

}  // namespace epifuse::codegen
