// Checks the tensors of a call against what the graph declares, and reads its sizes off them.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "backends/bind.h"
#include "epifuse/error.h"
#include "ir/text.h"

namespace epifuse::backends {
namespace {

std::string_view device_name(DeviceKind device) {
  return device == DeviceKind::cpu ? "host" : "CUDA device";
}

// One declared tensor and what the caller bound to it.
struct Pair {
  std::string_view role;  // "input" or "output"
  std::string_view name;
  const ir::TensorType* type;
  const TensorView* view;

  std::string declared() const {
    return fmt::format("{} '{}' is declared {}", role, name, ir::print(*type));
  }
  [[noreturn]] void fail(const std::string& came) const {
    throw ArgumentError(fmt::format("{}: got {}", declared(), came));
  }
};

class Matcher {
 public:
  Matcher(const ir::Graph& graph, std::span<const Binding> tensors, DeviceKind device,
          Outputs outputs)
      : graph_(graph), tensors_(tensors), device_(device), outputs_(outputs) {}

  Matched run() {
    check_names();
    match_sources();
    match_outputs();
    for (const Pair& pair : pairs_) check_form(pair);
    for (const Pair& pair : pairs_) solve_sizes(pair);
    for (const Pair& pair : pairs_) solve_strides(pair);
    for (const Pair& pair : pairs_) check_sizes(pair);
    return std::move(result_);
  }

 private:
  void check_names() const;
  void match_sources();
  void match_outputs();
  const Binding* find(std::string_view name) const;
  void check_form(const Pair& pair) const;
  void solve_sizes(const Pair& pair);
  void solve_strides(const Pair& pair);
  void check_sizes(const Pair& pair) const;
  void check_strides(const Pair& pair) const;
  std::int64_t eval(const Pair& pair, const Dim& dim) const;

  const ir::Graph& graph_;
  std::span<const Binding> tensors_;
  DeviceKind device_;
  Outputs outputs_;
  std::vector<Pair> pairs_;
  Matched result_;
};

bool is_signature(const ir::Node& node) {
  return node.op == ir::Op::input || node.op == ir::Op::scalar;
}

void Matcher::check_names() const {
  std::vector<std::string_view> known;
  for (const ir::Node& node : graph_.nodes) {
    if (is_signature(node)) known.push_back(node.name);
  }
  for (const ir::Output& output : graph_.outputs) known.push_back(output.name);
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const std::string& name = tensors_[i].name;
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw ArgumentError(fmt::format("graph '{}' has no input or output '{}'; it has {}",
                                      graph_.name, name, fmt::join(known, ", ")));
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (tensors_[j].name == name) {
        throw ArgumentError(fmt::format("'{}' is bound twice in one call", name));
      }
    }
  }
}

const Binding* Matcher::find(std::string_view name) const {
  for (const Binding& binding : tensors_) {
    if (binding.name == name) return &binding;
  }
  return nullptr;
}

void Matcher::match_sources() {
  for (const ir::Node& node : graph_.nodes) {
    const Binding* binding = is_signature(node) ? find(node.name) : nullptr;
    result_.sources.push_back(binding);
    if (!is_signature(node)) continue;
    if (binding == nullptr) {
      throw ArgumentError(fmt::format("nothing is bound to {} '{}' of graph '{}'",
                                      ir::name(node.op), node.name, graph_.name));
    }
    if (node.op == ir::Op::input) {
      pairs_.push_back({"input", node.name, &node.type, &binding->view});
    } else if (binding->view.data != nullptr || !binding->view.shape.empty()) {
      throw ArgumentError(
          fmt::format("'{}' is a run-time scalar: expected a number, got a tensor", node.name));
    }
  }
}

void Matcher::match_outputs() {
  for (const ir::Output& output : graph_.outputs) {
    const Binding* binding = find(output.name);
    if (binding == nullptr && outputs_ == Outputs::required) {
      throw ArgumentError(
          fmt::format("nothing is bound to output '{}' of graph '{}'", output.name, graph_.name));
    }
    result_.outputs.push_back(binding);
    if (binding == nullptr) continue;
    pairs_.push_back({"output", output.name, &graph_[output.value].type, &binding->view});
  }
}

void Matcher::check_form(const Pair& pair) const {
  const TensorView& view = *pair.view;
  if (view.dtype != pair.type->dtype) pair.fail(fmt::format("{} elements", name(view.dtype)));
  if (view.shape.size() != pair.type->shape.size()) {
    pair.fail(
        fmt::format("a tensor of {} dims, [{}]", view.shape.size(), fmt::join(view.shape, ", ")));
  }
  if (!view.strides.empty() && view.strides.size() != view.shape.size()) {
    pair.fail(fmt::format("{} strides for {} dims", view.strides.size(), view.shape.size()));
  }
  for (std::int64_t size : view.shape) {
    if (size < 0) pair.fail(fmt::format("a negative size in [{}]", fmt::join(view.shape, ", ")));
  }
  if (view.data == nullptr && view.num_elements() > 0) pair.fail("a null pointer");
  if (view.device != device_) {
    pair.fail(fmt::format("{} memory where {} memory is expected", device_name(view.device),
                          device_name(device_)));
  }
}

// Reads the symbols that stand alone.
void Matcher::solve_sizes(const Pair& pair) {
  for (std::size_t d = 0; d < pair.type->shape.size(); ++d) {
    if (const auto symbol = pair.type->shape[d].symbol()) {
      result_.sizes.emplace(*symbol, pair.view->shape[d]);
    }
  }
}

void Matcher::solve_strides(const Pair& pair) {
  const std::vector<std::int64_t> strides = pair.view->strides_or_dense();
  for (std::size_t d = 0; d < pair.type->strides.size(); ++d) {
    if (const auto symbol = pair.type->strides[d].symbol()) {
      result_.sizes.emplace(*symbol, strides[d]);
    }
  }
}

std::int64_t Matcher::eval(const Pair& pair, const Dim& dim) const {
  for (const std::string& symbol : dim.symbols()) {
    if (!result_.sizes.contains(symbol)) {
      throw ArgumentError(fmt::format(
          "{}: '{}' cannot be read off any tensor, as it stands alone in no size or stride",
          pair.declared(), symbol));
    }
  }
  return dim.eval(result_.sizes);
}

void Matcher::check_sizes(const Pair& pair) const {
  const ir::Shape& shape = pair.type->shape;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const std::int64_t expected = eval(pair, shape[d]);
    if (pair.view->shape[d] == expected) continue;
    std::string came = fmt::format("[{}]", fmt::join(pair.view->shape, ", "));
    if (shape[d].constant()) {
      pair.fail(came);
    }
    pair.fail(fmt::format("{}, where {} is {}", came, shape[d].str(), expected));
  }
  check_strides(pair);
}

void Matcher::check_strides(const Pair& pair) const {
  const TensorView& view = *pair.view;
  if (view.num_elements() == 0) return;
  const std::vector<std::int64_t> strides = view.strides_or_dense();
  for (std::size_t d = 0; d < strides.size(); ++d) {
    if (view.shape[d] == 1) continue;
    const bool declared = !pair.type->strides.empty();
    // An output is laid out as its tensor is; an input without strides is row-major.
    const bool must_be_unit = pair.role == "input" && d + 1 == strides.size();
    const bool wrong = declared ? strides[d] != eval(pair, pair.type->strides[d])
                                : must_be_unit && strides[d] != 1;
    if (wrong) {
      pair.fail(fmt::format("strides [{}]{}", fmt::join(strides, ", "),
                            declared ? "" : ", where the last must be 1"));
    }
    if (pair.role == "output" && strides[d] == 0) {
      pair.fail(fmt::format("strides [{}], whose elements overlap", fmt::join(strides, ", ")));
    }
  }
}

}  // namespace

Matched match(const ir::Graph& graph, std::span<const Binding> tensors, DeviceKind device,
              Outputs outputs) {
  return Matcher(graph, tensors, device, outputs).run();
}

}  // namespace epifuse::backends
