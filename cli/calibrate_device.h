// Measures the GPU at hand, within a number of seconds.
#pragma once

#include <functional>
#include <string>

#include "calibrate_fit.h"
#include "targets/profile_text.h"

namespace epifuse::cli {

struct Calibration {
  targets::StoredProfile profile;
  std::size_t num_products = 0;
  double error_before = 0, error_after = 0;  // of the model, before and after the fit
  ModelError held_out;                       // judge_fit, of all products
};

// Launch costs, rates of copies from memory and L2, the vendor's largest rate, then products of
// many sizes: the vendor's and ours, as long as there is time. The model is fitted to what they
// took. Says on `say` what is done. Throws UnavailableError without a GPU that has kernels.
Calibration calibrate(double seconds, const std::function<void(const std::string&)>& say);

}  // namespace epifuse::cli
