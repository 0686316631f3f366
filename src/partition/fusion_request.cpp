#include "partition/fusion_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/strided.h"
#include "codegen/problem_views.h"
#include "epifuse/error.h"

namespace epifuse {
namespace {

void check_likely_sizes(const FusionRequest& request, const ir::Graph& graph) {
  if (request.likely_sizes.empty()) return;
  const std::vector<std::string> symbols = codegen::problem_symbols(graph);
  for (const auto& [symbol, size] : request.likely_sizes) {
    if (!std::ranges::binary_search(symbols, symbol)) {
      throw ArgumentError(
          fmt::format("likely_sizes: expected size symbols of the graph, got '{}'", symbol));
    }
    check_size(symbol, size);
  }
}

void check_names(const FusionRequest& request, const FrameworkValues& names) {
  const auto check = [&](std::string_view what, const std::string& name) {
    if (names.contains(name)) return;
    throw ArgumentError(fmt::format("{}: expected values of the graph, got '{}'", what, name));
  };
  for (const auto& values : request.whole) {
    for (const std::string& value : values) check("whole", value);
  }
  for (const auto& [input, values] : request.after) {
    check("after", input);
    for (const std::string& value : values) check("after", value);
  }
  for (const std::string& value : request.in_memory) check("in_memory", value);
  for (const std::string& value : request.unstored) check("unstored", value);
}

}  // namespace

void check(const FusionRequest& request, const ir::Graph& graph, const FrameworkValues& values) {
  check_names(request, values);
  check_likely_sizes(request, graph);
}

}  // namespace epifuse
