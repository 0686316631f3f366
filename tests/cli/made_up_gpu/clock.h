// The clock of the made-up GPU.
#pragma once

namespace epifuse::jit {

void spend_us(double us);

}  // namespace epifuse::jit
