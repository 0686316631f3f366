// Text of generated sources.
#pragma once

#include <string>
#include <string_view>

namespace epifuse::codegen {

// Every line of `text` as a `//` comment.
std::string comment(std::string_view text);

// A source without its `//` comments. They name the user's graph and tensors, which change nothing
// in the binary: kernels that differ in them only are one kernel.
std::string without_comments(std::string_view source);

}  // namespace epifuse::codegen
