// What is measured of a framework's way, by the time there is.
#pragma once

#include <optional>

namespace epifuse::tune {

struct FrameworkWay {
  double chosen_us, split_us;  // of the way that was chosen, and of our product and tail
  bool pads;                   // a framework may pad the operands
  bool is_rate_known;          // of a pass on the device
};

// What takes turns with the chosen way.
struct FrameworkRounds {
  bool tail;              // our product and tail, and its product alone; else a pass by its bytes
  bool product_as_asked;  // a framework's; one of padded operands runs wherever there is one
  int rounds;
  bool operator==(const FrameworkRounds&) const = default;
};

// All of it, or less where rounds of all, one of them unmeasured, take more than `left_us`: of a
// framework that pads, the product of operands as they are is the slow one. Empty where even that
// takes longer.
std::optional<FrameworkRounds> what_fits(const FrameworkWay& way, double left_us);

}  // namespace epifuse::tune
