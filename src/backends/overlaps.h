// Outputs that share memory with other tensors of a call.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "backends/call_form.h"
#include "codegen/bound.h"
#include "plan/plan.h"

namespace epifuse::backends {

// Whether an output may be an input itself (include/epifuse/program.h says when).
enum class InPlace : std::uint8_t { allowed, refused };

// Throws ArgumentError naming both tensors where an output shares memory with an input or another
// output. Takes n log n time for n tensors that lie apart.
void check_overlaps(const plan::Plan& plan, const codegen::Bound& bound, InPlace in_place);

// The same, in place allowed, for all calls of one form. Thread-safe.
class OverlapCheck {
 public:
  OverlapCheck(const plan::Plan& plan, const CallForm& form);
  // Throws as check_overlaps does. Elements are looked at only where tensors meet in another way
  // than those of the call before that met.
  void run(const plan::Plan& plan, const CallForm& form, const codegen::CallValues& values) const;

 private:
  // A tensor of at least one element: where it begins and ends, in bytes from the call's base.
  struct Extent {
    std::size_t number;
    std::int64_t begin, end;
    bool is_output;
  };
  // Two tensors whose intervals of addresses meet, and how far apart their bases are.
  struct Meeting {
    std::size_t first, second;
    std::int64_t bytes;
    auto operator<=>(const Meeting&) const = default;
  };
  bool lie_apart(std::span<const std::uintptr_t> bases) const;
  static std::vector<Meeting> meetings(std::span<const Extent> extents,
                                       std::span<const std::uintptr_t> bases);
  std::vector<Extent> extents_;
  mutable std::mutex mutex_;
  mutable std::vector<Meeting> allowed_;  // of the call before that met
};

// The same for problems that run as if at once: nor may an output lie in a tensor of another one.
void check_overlaps(const plan::Plan& plan,
                    std::span<const std::shared_ptr<const codegen::Bound>> problems);

}  // namespace epifuse::backends
