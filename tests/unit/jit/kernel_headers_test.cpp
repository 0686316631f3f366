// What the kernels of each family include is among the embedded headers.
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <string>

#include "codegen/family.h"
#include "ir/text.h"
#include "jit/jit.h"

namespace epifuse::jit {
namespace {

std::set<std::string> embedded_names() {
  std::set<std::string> names;
  for (const Header& header : embedded_headers()) names.emplace(header.name);
  return names;
}

std::set<std::string> included(const std::string& text) {
  static const std::regex kInclude("#include \"([^\"]+)\"");
  std::set<std::string> names;
  for (std::sregex_iterator i(text.begin(), text.end(), kInclude), end; i != end; ++i) {
    names.insert((*i)[1]);
  }
  return names;
}

// Of a bare product of a dtype: what the kernels of all configs of a family include.
std::set<std::string> included(const codegen::KernelFamily& family, DType dtype) {
  const std::string type(name(dtype));
  const plan::Plan plan =
      plan::make_plan(ir::parse("graph g(x: " + type + "[M, K], w: " + type + "[N, K]) {\n" +
                                "  y = matmul x, w^T\n  return y\n}\n"),
                      {.allow_tf32 = true});
  const auto& step = std::get<plan::FusedGemm>(plan.steps.front());
  const targets::TargetInfo& target = targets::usual_target(DeviceKind::cuda);
  std::set<std::string> names;
  if (family.why_not(plan, step, target)) return names;
  for (const codegen::GemmConfig& config : family.configs(step, target)) {
    names.merge(included(family.source(plan, step, config, {}, target).text));
  }
  return names;
}

TEST(KernelHeaders, AllThatKernelsIncludeAreEmbedded) {
  const std::set<std::string> embedded = embedded_names();
  for (const codegen::KernelFamily& family : codegen::all_families()) {
    std::set<DType> taken;
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {  // that matmul takes
      for (const std::string& header : included(family, dtype)) {
        taken.insert(dtype);
        EXPECT_TRUE(embedded.contains(header)) << family.name << " includes " << header;
      }
    }
    EXPECT_GE(taken.size(), 1u) << family.name;
  }
}

}  // namespace
}  // namespace epifuse::jit
