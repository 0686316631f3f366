// The JSON of the C interface.
#include "capi/c_options.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "base/tune_mode.h"
#include "codegen/family.h"
#include "epifuse/error.h"
#include "ir/graph.h"
#include "ir/words.h"

namespace epifuse {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void fail(std::string_view key, std::string_view expected, const Json& came) {
  throw ArgumentError(fmt::format("option '{}': expected {}, got {}", key, expected, came.dump()));
}

std::string read_text(std::string_view key, std::string_view expected, const Json& value) {
  if (!value.is_string()) fail(key, expected, value);
  return value.get<std::string>();
}

void read_target(const Json& value, FrameworkOptions& options) {
  options.target = read_text("target", "the name of a target", value);
}

void read_numerics(const Json& value, FrameworkOptions& options) {
  constexpr std::string_view kExpected = R"("fast", "exact" or "approx")";
  const std::string word = read_text("numerics", kExpected, value);
  for (const Numerics numerics : {Numerics::fast, Numerics::exact, Numerics::approx}) {
    if (word != name(numerics)) continue;
    options.compile.numerics = numerics;
    return;
  }
  fail("numerics", kExpected, value);
}

void read_tf32(const Json& value, FrameworkOptions& options) {
  if (!value.is_boolean()) fail("tf32", "true or false", value);
  options.compile.allow_tf32 = value.get<bool>();
}

void read_tune(const Json& value, FrameworkOptions& options) {
  const std::string expected(kTuneModes);
  options.compile.tune = find_tune(read_text("tune", expected, value));
  if (!options.compile.tune) fail("tune", expected, value);
}

std::vector<std::string> read_names(std::string_view key, const Json& value) {
  constexpr std::string_view kExpected = "a list of names";
  if (!value.is_array()) fail(key, kExpected, value);
  std::vector<std::string> names;
  for (const Json& each : value) names.push_back(read_text(key, kExpected, each));
  return names;
}

void read_whole(const Json& value, FrameworkOptions& options) {
  if (!value.is_array()) fail("whole", "a list of lists of names", value);
  for (const Json& each : value) options.fusion.whole.push_back(read_names("whole", each));
}

void read_after(const Json& value, FrameworkOptions& options) {
  if (!value.is_object()) fail("after", "an object of lists of names", value);
  for (const auto& [input, names] : value.items()) {
    options.fusion.after[input] = read_names("after", names);
  }
}

void read_in_memory(const Json& value, FrameworkOptions& options) {
  for (std::string& name : read_names("in_memory", value)) {
    options.fusion.in_memory.insert(std::move(name));
  }
}

void read_unstored(const Json& value, FrameworkOptions& options) {
  for (std::string& name : read_names("unstored", value)) {
    options.fusion.unstored.insert(std::move(name));
  }
}

bool read_bool(std::string_view key, const Json& value) {
  if (!value.is_boolean()) fail(key, "true or false", value);
  return value.get<bool>();
}

void read_only_faster(const Json& value, FrameworkOptions& options) {
  options.fusion.only_faster = read_bool("only_faster", value);
}

void read_sums_both_ways(const Json& value, FrameworkOptions& options) {
  options.fusion.sums_both_ways = read_bool("sums_both_ways", value);
}

void read_likely_sizes(const Json& value, FrameworkOptions& options) {
  constexpr std::string_view kExpected = "an object of sizes";
  if (!value.is_object()) fail("likely_sizes", kExpected, value);
  for (const auto& [symbol, size] : value.items()) {
    if (!size.is_number_integer()) fail("likely_sizes", kExpected, value);
    constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
    if (size.is_number_unsigned() && size.get<std::uint64_t>() > kMost) {
      fail("likely_sizes", "integers of 64 bits", value);
    }
    options.fusion.likely_sizes[symbol] = size.get<std::int64_t>();
  }
}

void read_family(const Json& value, FrameworkOptions& options) {
  options.compile.family = read_text("family", "the name of a kernel family", value);
  codegen::check_family(options.compile.family);
}

struct Option {
  std::string_view key;
  void (*read)(const Json&, FrameworkOptions&);
  bool only_fusions = false;
};
constexpr Option kOptions[] = {
    {"target", read_target},
    {"numerics", read_numerics},
    {"tf32", read_tf32},
    {"tune", read_tune},
    {"family", read_family},
    {"whole", read_whole, true},
    {"after", read_after, true},
    {"in_memory", read_in_memory, true},
    {"unstored", read_unstored, true},
    {"only_faster", read_only_faster, true},
    {"sums_both_ways", read_sums_both_ways, true},
    {"likely_sizes", read_likely_sizes, true},
};

const Option& find_option(std::string_view key, OptionsOf what) {
  std::string known;
  for (const Option& option : kOptions) {
    if (option.only_fusions && what != OptionsOf::fusions) continue;
    if (option.key == key) return option;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", option.key);
  }
  throw ArgumentError(fmt::format("options: expected keys among {}, got '{}'", known, key));
}

Json shape_json(const std::vector<Dim>& shape) {
  Json sizes = Json::array();
  for (const Dim& dim : shape) sizes.push_back(dim.str());
  return sizes;
}

Json tensor_json(const std::string& name, const ir::Node& node) {
  const bool is_scalar = node.op == ir::Op::scalar;
  return {{"name", name},
          {"dtype", is_scalar ? "scalar" : epifuse::name(node.type.dtype)},
          {"shape", shape_json(node.type.shape)}};
}

Json fusion_tensors_json(const std::vector<FusionTensor>& tensors) {
  Json all = Json::array();
  for (const FusionTensor& tensor : tensors) {
    all.push_back({{"value", tensor.value},
                   {"shape", tensor.shape ? shape_json(*tensor.shape) : Json(nullptr)}});
    if (!tensor.order.empty()) all.back()["order"] = tensor.order;
  }
  return all;
}

Json kernels_json(const std::vector<FusedKernel>& kernels) {
  Json all = Json::array();
  for (const FusedKernel& kernel : kernels) {
    all.push_back({{"name", kernel.name},
                   {"epilogue", kernel.epilogue},
                   {"graph", kernel.graph.str()},
                   {"inputs", fusion_tensors_json(kernel.inputs)},
                   {"outputs", fusion_tensors_json(kernel.outputs)},
                   {"values", kernel.values},
                   {"apart", kernels_json(kernel.apart)}});
  }
  return all;
}

}  // namespace

FrameworkOptions parse_options(std::string_view json, OptionsOf what) {
  FrameworkOptions options;
  if (json.empty()) return options;
  const Json all = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!all.is_object()) {
    throw ArgumentError(fmt::format("options: expected a JSON object, got {}", json));
  }
  for (const auto& [key, value] : all.items()) find_option(key, what).read(value, options);
  return options;
}

std::string reserved_words_json() { return Json(ir::reserved_words()).dump(); }

std::string describe_json(const Graph& graph) {
  const ir::Graph& ir = graph.ir();
  Json inputs = Json::array(), outputs = Json::array();
  for (const ir::Node& node : ir.nodes) {
    if (node.op == ir::Op::input || node.op == ir::Op::scalar) {
      inputs.push_back(tensor_json(node.name, node));
    }
  }
  for (const ir::Output& output : ir.outputs) {
    outputs.push_back(tensor_json(output.name, ir[output.value]));
  }
  return Json{{"name", ir.name}, {"inputs", inputs}, {"outputs", outputs}}.dump();
}

std::string fusions_json(const Fusions& fusions) {
  Json left_out = Json::array();
  for (const LeftOutValue& each : fusions.left_out) {
    left_out.push_back({{"value", each.value}, {"code", each.code}, {"why", each.why}});
  }
  return Json{{"kernels", kernels_json(fusions.kernels)}, {"left_out", left_out}}.dump();
}

std::string choice_json(const std::optional<backends::RunPlan>& run) {
  const backends::RunPlan known = run.value_or(backends::RunPlan{});
  Json left;
  if (known.why_left) left = {{"code", known.why_left->code}, {"why", known.why_left->sentence}};
  return Json{{"how", known.how}, {"grounds", known.grounds}, {"left", left}}.dump();
}

std::string stats_json(std::span<const KernelUse> kernels) {
  Json all = Json::array();
  for (const KernelUse& kernel : kernels) {
    all.push_back({{"name", kernel.programs.name},
                   {"graph", kernel.graph},
                   {"options", kernel.options},
                   {"calls", kernel.calls},
                   {"programs", kernel.programs.programs},
                   {"binaries", kernel.programs.binaries},
                   {"compile_seconds", kernel.programs.compile_seconds}});
  }
  return Json{{"kernels", all}}.dump();
}

}  // namespace epifuse
