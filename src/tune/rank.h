// Which of several ways is best, measured twice: one by one, and back to back.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace epifuse::tune {

// The one that is least behind the best, where it is behind more in the two lists of times: a way
// that only wins while the card is cool, or only at its power limit, loses to one that is good at
// both. Ties go to the smaller product of both times. One whose interleaved time is more than
// `most` times the best one's is not taken. The lists are of one length, not empty.
std::size_t least_behind(std::span<const double> interleaved, std::span<const double> sustained,
                         double most = std::numeric_limits<double>::infinity());

// The `most` of least time, and `always` (one of them or not), in ascending order: those worth
// being measured further. Ties go to the first.
std::vector<std::size_t> finalists(std::span<const double> us, std::size_t most,
                                   std::size_t always);

}  // namespace epifuse::tune
