// libFuzzer target: any text either gives a ParseError or a graph that verifies and round-trips.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>

#include "epifuse/error.h"
#include "ir/graph.h"
#include "ir/text.h"

namespace epifuse {
namespace {

void require(bool holds, std::string_view what, const std::string& printed) {
  if (holds) return;
  std::cerr << what << ":\n" << printed;
  std::abort();
}

void check(std::string_view text) {
  ir::Graph graph;
  try {
    graph = ir::parse(text);
  } catch (const ParseError& error) {
    require(error.line >= 1 && error.column >= 1, "error without a position", error.what());
    return;
  }
  ir::verify(graph);
  const std::string printed = ir::print(graph);
  const ir::Graph again = ir::parse(printed);
  require(again == graph, "parse(print(graph)) is another graph", printed);
  require(ir::print(again) == printed, "it prints differently again", printed);
}

}  // namespace
}  // namespace epifuse

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  epifuse::check({reinterpret_cast<const char*>(data), size});
  return 0;
}
