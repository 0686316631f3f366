// Invariants: a broken one is our bug and throws InternalError.
#pragma once

#include <string>

#include "epifuse/error.h"

#define EPIFUSE_CHECK(condition, message)                                         \
  do {                                                                            \
    if (!(condition)) {                                                           \
      throw ::epifuse::InternalError(std::string(message) + " [" #condition "]"); \
    }                                                                             \
  } while (false)
