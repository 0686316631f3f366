// What families that do many problems share: the kernels beside their own, as text, and the
// launches of these.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "codegen/epilogue_layout.h"
#include "codegen/pointer_arrays.h"
#include "codegen/problem_views.h"
#include "kernels/abi.h"

namespace epifuse::codegen {

// The only step of such a plan.
const plan::FusedGemm& only_step(const plan::Plan& plan);

// The body of a function that describes a problem: one constant or call a line.
class DescribeText {
 public:
  explicit DescribeText(const ir::Graph& graph);

  void line(const std::string& line) { text_ += "    " + line + "\n"; }
  // Names a view.
  std::string view(std::string name, const ViewText& view);
  std::string size(const Dim& dim) const { return views_.text(dim); }
  const std::string& text() const { return text_; }

 private:
  ProblemViews views_;
  std::string text_;
};

// What a family's kernel takes of the matrices of a problem; it adds lines for each, of which
// `view` is the name.
struct Description {
  std::string_view header, describer;  // a file of kernels/, and its class
  // `field` is a, b or second_b. Where two products read one operand by turns, b is all of it.
  std::function<void(DescribeText&, std::string_view field, const plan::Operand&,
                     const std::string& view)>
      operand;
  std::function<void(DescribeText&, const Place&, const std::string&view)> load, store;
  std::string finish;  // what the last call says beside the sizes: ", 64"
};

// `step`: as the family's kernel computes it; `by_hand`: as by_hand_source does.
KernelSource describe_source(const plan::Plan& plan, const plan::FusedGemm& step,
                             const plan::FusedGemm& by_hand, const Description& description,
                             const targets::TargetInfo& target);
KernelSource by_hand_source(const plan::Plan& plan, const plan::FusedGemm& by_hand,
                            const targets::TargetInfo& target);

// Of the workspace, and where problems are described in it.
std::size_t problem_bytes(std::int64_t count);
abi::ProblemList problem_list(std::int64_t count, char* workspace);

// Of a product's kernel that many problems take.
struct ProblemTiling {
  int tile_rows = 0, tile_columns = 0;  // of results
  int ctas = 1;                         // of an SM
};
// All three; the product's lacks its parameters. `block` is the usual one's, and gets the scalars.
PointerArrayLaunches launches_of(const plan::Plan& plan, abi::GemmParams& block,
                                 const ProblemTiling& tiling, const Launch& usual,
                                 const BoundPointerArrays& problems,
                                 const targets::DeviceLimits& limits, char* workspace);

}  // namespace epifuse::codegen
