// Text of generated sources.
#pragma once

#include <string>
#include <string_view>

#include "plan/epilogue.h"

namespace epifuse::codegen {

// Every line of `text` as a `//` comment.
std::string comment(std::string_view text);

// A source without its `//` comments. They name the user's graph and tensors, which change nothing
// in the binary: kernels that differ in them only are one kernel.
std::string without_comments(std::string_view source);

// The kernel's name as profilers show it, with its epilogue's ops: "epifuse_gemm_bias_silu".
std::string entry_name(std::string_view kind, const plan::Epilogue& epilogue);

}  // namespace epifuse::codegen
