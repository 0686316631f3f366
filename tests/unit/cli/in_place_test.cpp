// Random graphs whose outputs overwrite inputs in place: what is not refused is right.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "check/random_graph.h"
#include "cli/tensors.h"
#include "epifuse/error.h"
#include "ir/text.h"

namespace epifuse::cli {
namespace {

// The bytes of a tensor that is dense, or that nobody looks between the elements of.
std::vector<unsigned char> bytes_of(const TensorView& view, std::size_t count) {
  const auto* data = static_cast<const unsigned char*>(view.data);
  return {data, data + count};
}

// Rows of no group, and those that no index names, hold anything.
bool leaves_rows_out(const ir::Graph& graph) {
  return std::ranges::any_of(graph.nodes, [](const ir::Node& node) {
    return node.op == ir::Op::grouped_matmul || node.op == ir::Op::scaled_grouped_matmul ||
           node.op == ir::Op::put_rows;
  });
}

struct Counts {
  int right = 0, refused = 0;
};

// Binds output `out` to the memory of input `in` as well, where they are alike, and compares.
void check(const Program& program, HostTensors& tensors, std::size_t in, std::size_t out,
           Counts& counts) {
  std::vector<Binding> bindings = tensors.bindings();
  TensorView& output = bindings[out].view;
  const TensorView input = bindings[in].view;
  const bool is_alike = output.dtype == input.dtype && output.shape == input.shape &&
                        tensors.bytes(in) == tensors.bytes(out) &&
                        input.strides_or_dense() == output.strides_or_dense();
  if (!is_alike || input.num_elements() == 0) return;
  const auto expected = bytes_of(output, tensors.bytes(out));
  const auto before = bytes_of(input, tensors.bytes(in));
  output.data = input.data;
  try {
    program.run(bindings);
    EXPECT_EQ(bytes_of(input, tensors.bytes(in)), expected)
        << bindings[out].name << " over " << bindings[in].name;
    ++counts.right;
  } catch (const ArgumentError& error) {
    EXPECT_NE(std::string(error.what()).find("shares memory"), std::string::npos) << error.what();
    ++counts.refused;
  }
  std::memcpy(input.data, before.data(), before.size());
}

TEST(InPlace, WhatIsNotRefusedIsRight) {
  Counts counts;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const RandomGraph random = random_graph(seed);
    if (leaves_rows_out(random.graph)) continue;
    SCOPED_TRACE(seed);
    CompileOptions options;
    options.fuse = seed % 4 != 0;
    const Program program = compile(Graph::parse(ir::print(random.graph)), Target::cpu(), options);
    HostTensors tensors(random.graph, random.sizes, {});
    program.run(tensors.bindings());
    for (std::size_t in = 0; in < tensors.bindings().size(); ++in) {
      for (std::size_t out = 0; out < tensors.bindings().size(); ++out) {
        if (tensors.is_output(in) || !tensors.is_output(out)) continue;
        check(program, tensors, in, out, counts);
      }
    }
  }
  EXPECT_GT(counts.right, 20);
  EXPECT_GT(counts.refused, 20);
}

}  // namespace
}  // namespace epifuse::cli
