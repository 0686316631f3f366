// Text of generated sources.
#pragma once

#include <string>
#include <string_view>

#include "codegen/launch.h"
#include "plan/epilogue.h"
#include "targets/targets.h"

namespace epifuse::codegen {

// Every line of `text` as a `//` comment.
std::string comment(std::string_view text);

// A source without its `//` comments. They name the user's graph and tensors, which change nothing
// in the binary: kernels that differ in them only are one kernel.
std::string without_comments(std::string_view source);

// The kernel's name as profilers show it, with its epilogue's ops: "epifuse_gemm_bias_silu".
std::string entry_name(std::string_view kind, const plan::Epilogue& epilogue);

// The parts of a kernel's file, in the order in which they stand there.
struct KernelParts {
  std::string comment;    // lines, without their slashes
  std::string includes;   // and what parts them from the comment
  std::string generated;  // in namespace epifuse::generated; "" for a kernel without any
  std::string bounds;     // of its launch
  std::string entry;      // the extern "C" name
  std::string params;     // the type of its parameter `p`, in namespace epifuse
  std::string body;       // lines
};
KernelSource kernel_source(const targets::TargetInfo& target, const KernelParts& parts);

}  // namespace epifuse::codegen
