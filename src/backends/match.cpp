// Checks the tensors of a call against what the graph declares, and reads its sizes off them.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "backends/bind.h"
#include "base/strided.h"
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
    index_names();
    match_sources();
    match_outputs();
    if (num_found_ < tensors_.size()) check_unknown();
    for (const Pair& pair : pairs_) check_form(pair);
    for (const Pair& pair : pairs_) solve_sizes(pair);
    for (const bool of_steps : {true, false}) {
      for (const Pair& pair : pairs_) solve_strides(pair, of_steps);
    }
    for (const Pair& pair : pairs_) check_sizes(pair);
    return std::move(result_);
  }

 private:
  void index_names();
  const Binding* find(std::string_view name) const;
  [[noreturn]] static void fail_twice(std::string_view name);
  void check_unknown() const;
  [[noreturn]] void fail_missing(std::string_view role, std::string_view name) const;
  void match_sources();
  void match_outputs();
  void check_form(const Pair& pair) const;
  static void check_bounds(const Pair& pair);
  void solve_sizes(const Pair& pair);
  void solve_strides(const Pair& pair, bool of_steps);
  void check_sizes(const Pair& pair) const;
  void check_strides(const Pair& pair) const;
  std::int64_t eval(const Pair& pair, const Dim& dim) const;

  const ir::Graph& graph_;
  std::span<const Binding> tensors_;
  DeviceKind device_;
  Outputs outputs_;
  std::unordered_map<std::string_view, const Binding*> by_name_;  // where there are many
  std::size_t num_found_ = 0;                                     // tensors that the graph names
  std::vector<Pair> pairs_;
  Matched result_;
};

bool is_signature(const ir::Node& node) {
  return node.op == ir::Op::input || node.op == ir::Op::scalar;
}

// A few names are compared one with another; more are looked up.
constexpr std::size_t kFewNames = 16;

void Matcher::index_names() {
  if (tensors_.size() <= kFewNames) return;
  for (const Binding& binding : tensors_) {
    if (!by_name_.emplace(binding.name, &binding).second) fail_twice(binding.name);
  }
}

const Binding* Matcher::find(std::string_view name) const {
  if (tensors_.size() > kFewNames) {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }
  const Binding* found = nullptr;
  for (const Binding& binding : tensors_) {
    if (binding.name != name) continue;
    if (found != nullptr) fail_twice(name);
    found = &binding;
  }
  return found;
}

void Matcher::fail_twice(std::string_view name) {
  throw ArgumentError(fmt::format("'{}' is bound twice in one call", name));
}

// Throws where a tensor has a name that the graph has not.
void Matcher::check_unknown() const {
  constexpr std::size_t kMostNamed = 20;
  std::vector<std::string_view> known;
  for (const ir::Node& node : graph_.nodes) {
    if (is_signature(node)) known.push_back(node.name);
  }
  for (const ir::Output& output : graph_.outputs) known.push_back(output.name);
  const std::unordered_set<std::string_view> names(known.begin(), known.end());
  for (const Binding& binding : tensors_) {
    if (names.contains(binding.name)) continue;
    const std::size_t rest = known.size() - std::min(known.size(), kMostNamed);
    known.resize(known.size() - rest);
    throw ArgumentError(fmt::format("graph '{}' has no input or output '{}'; it has {}{}",
                                    graph_.name, binding.name, fmt::join(known, ", "),
                                    rest == 0 ? "" : fmt::format(" and {} more", rest)));
  }
}

void Matcher::fail_missing(std::string_view role, std::string_view name) const {
  check_unknown();  // it may be there under another name
  throw ArgumentError(
      fmt::format("nothing is bound to {} '{}' of graph '{}'", role, name, graph_.name));
}

void Matcher::match_sources() {
  for (const ir::Node& node : graph_.nodes) {
    const Binding* binding = is_signature(node) ? find(node.name) : nullptr;
    result_.sources.push_back(binding);
    if (!is_signature(node)) continue;
    if (binding == nullptr) fail_missing(ir::name(node.op), node.name);
    ++num_found_;
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
    if (binding == nullptr && outputs_ == Outputs::required) fail_missing("output", output.name);
    result_.outputs.push_back(binding);
    if (binding == nullptr) continue;
    ++num_found_;
    pairs_.push_back({"output", output.name, &graph_[output.value].type, &binding->view});
  }
}

void Matcher::check_form(const Pair& pair) const {
  const TensorView& view = *pair.view;
  const bool is_nothing = view.data == nullptr && view.shape.empty();
  if (is_nothing && !pair.type->shape.empty()) pair.fail("a number, which run-time scalars take");
  if (view.dtype != pair.type->dtype) pair.fail(fmt::format("{} elements", name(view.dtype)));
  if (view.shape.size() != pair.type->shape.size()) {
    pair.fail(
        fmt::format("a tensor of {} dims, [{}]", view.shape.size(), fmt::join(view.shape, ", ")));
  }
  if (!view.strides.empty() && view.strides.size() != view.shape.size()) {
    pair.fail(fmt::format("{} strides for {} dims", view.strides.size(), view.shape.size()));
  }
  check_bounds(pair);
  if (view.data == nullptr && view.num_elements() > 0) pair.fail("a null pointer");
  const std::size_t bytes = size_bytes(view.dtype);
  if (reinterpret_cast<std::uintptr_t>(view.data) % bytes != 0 && view.num_elements() > 0) {
    pair.fail(fmt::format("an address that is no multiple of an element's {} bytes", bytes));
  }
  if (view.device != device_) {
    pair.fail(fmt::format("{} memory where {} memory is expected", device_name(view.device),
                          device_name(device_)));
  }
}

// Nothing that is made of sizes and strides wraps from here on.
void Matcher::check_bounds(const Pair& pair) {
  const TensorView& view = *pair.view;
  for (const std::int64_t size : view.shape) {
    if (size < 0) pair.fail(fmt::format("a negative size in [{}]", fmt::join(view.shape, ", ")));
  }
  if (!checked_count(view.shape)) {
    pair.fail(fmt::format("[{}], more than 2^40 elements", fmt::join(view.shape, ", ")));
  }
  if (!view.strides.empty() && !checked_reach(view.shape, view.strides)) {
    pair.fail(fmt::format("[{}] with strides [{}], which reach over more than 2^40 elements",
                          fmt::join(view.shape, ", "), fmt::join(view.strides, ", ")));
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

// Those of dims of size 1 and 0 say little: they count where no other dim tells. An output lies as
// its tensor does, whatever its value, which may be an input or a view of one, declares.
void Matcher::solve_strides(const Pair& pair, bool of_steps) {
  if (pair.role == "output") return;
  const std::vector<std::int64_t> strides = pair.view->strides_or_dense();
  for (std::size_t d = 0; d < pair.type->strides.size(); ++d) {
    if ((pair.view->shape[d] > 1) != of_steps) continue;
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
  if (pair.role == "output") {
    if (!folds(view.shape, strides)) return;
    pair.fail(fmt::format("strides [{}], whose elements overlap", fmt::join(strides, ", ")));
  }
  const bool declared = !pair.type->strides.empty();
  for (std::size_t d = 0; d < strides.size(); ++d) {
    if (view.shape[d] == 1) continue;
    const bool must_be_unit = d + 1 == strides.size();  // one without strides is row-major
    const bool wrong = declared ? strides[d] != eval(pair, pair.type->strides[d])
                                : must_be_unit && strides[d] != 1;
    if (!wrong) continue;
    pair.fail(fmt::format("strides [{}]{}", fmt::join(strides, ", "),
                          declared ? "" : ", where the last must be 1"));
  }
}

}  // namespace

Matched match(const ir::Graph& graph, std::span<const Binding> tensors, DeviceKind device,
              Outputs outputs) {
  return Matcher(graph, tensors, device, outputs).run();
}

}  // namespace epifuse::backends
