// Every row of fold_rules.def, in every spelling: both sides have the same value, and it is found.
#include "passes/fold_rules.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "epifuse/error.h"
#include "ir/text.h"
#include "passes/pipeline.h"

namespace epifuse::passes {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

using Variables = std::map<char, double>;

double evaluate(const Pattern& pattern, const Variables& variables) {
  if (pattern.kind == PatternKind::variable) return variables.at(pattern.variable);
  if (pattern.kind == PatternKind::number) return pattern.number;
  double x[3] = {};
  for (std::size_t i = 0; i < pattern.args.size(); ++i) x[i] = evaluate(pattern.args[i], variables);
  return ir::info(pattern.op).reference(x);
}

void collect_variables(const Pattern& pattern, std::set<char>& variables) {
  if (pattern.kind == PatternKind::variable) variables.insert(pattern.variable);
  for (const Pattern& arg : pattern.args) collect_variables(arg, variables);
}

// Ops and constants that a spelling is made of; what a variable stands for is not its own.
int num_nodes(const Pattern& pattern) {
  int count = pattern.kind == PatternKind::variable ? 0 : 1;
  for (const Pattern& arg : pattern.args) count += num_nodes(arg);
  return count;
}

// Nodes that a rule makes: ops on constants fold to one.
int num_nodes_made(const Pattern& pattern) {
  std::set<char> variables;
  collect_variables(pattern, variables);
  if (variables == std::set<char>{kConstantVariable}) return 1;
  int count = pattern.kind == PatternKind::variable ? 0 : 1;
  for (const Pattern& arg : pattern.args) count += num_nodes_made(arg);
  return count;
}

std::string describe(const SpelledRule& rule) { return print(rule.from) + " -> " + print(rule.to); }

// Fewer where each of several variables takes all of them.
std::vector<double> points(std::size_t num_variables) {
  std::vector<double> points = {kNan,   kInfinity, -kInfinity, 0.0,  -0.0, 1e-40, -1e-40,
                                1e-10,  -1e-10,    3.0,        -3.0, 20.0, -20.0, 88.5,
                                -88.5,  750.0,     -750.0,     1e4,  -1e4, 1e15,  -1e15,
                                3.4e38, -3.4e38,   0.1,        6.0,  -6.0};
  if (num_variables > 1) return points;
  for (int i = -160; i <= 160; ++i) points.push_back(i / 16.0);
  for (int i = -40; i <= 40; ++i) points.push_back(i * 1.0009765625);
  return points;
}

// Every value for every variable of the pattern; constants are finite.
void for_each_assignment(const Pattern& pattern,
                         const std::function<void(const Variables&)>& body) {
  std::set<char> names;
  collect_variables(pattern, names);
  const std::vector<double> all = points(names.size());
  std::function<void(std::set<char>::iterator, Variables&)> assign = [&](auto name,
                                                                         Variables& values) {
    if (name == names.end()) return body(values);
    for (const double value : all) {
      if (*name == kConstantVariable && !std::isfinite(value)) continue;
      values[*name] = value;
      assign(std::next(name), values);
    }
  };
  Variables values;
  assign(names.begin(), values);
}

// Equal to far below float32's rounding, 6e-8. (Beyond 20 softplus is x, which is 1e-10 off.) 1 +
// erf and the like cancel: the error is double's rounding of 1, times x.
bool agree(double from, double to, double scale) {
  if (std::isnan(from) || std::isnan(to)) return std::isnan(from) && std::isnan(to);
  if (std::isinf(from) || std::isinf(to)) return from == to;
  return std::fabs(from - to) <= 1e-9 * std::fabs(from) + 1e-15 * std::fmin(scale, 1e4);
}

bool is_exempt(const SpelledRule& rule, double from) {
  return rule.where == FoldWhere::left_finite && !std::isfinite(from);
}

TEST(FoldRules, BothSidesHaveTheSameValue) {
  for (const SpelledRule& rule : spelled_rules()) {
    int num_failed = 0;
    for_each_assignment(rule.from, [&](const Variables& variables) {
      const double from = evaluate(rule.from, variables), to = evaluate(rule.to, variables);
      double scale = 1;
      for (const auto& [name, value] : variables) scale = std::fmax(scale, std::fabs(value));
      if (is_exempt(rule, from) || agree(from, to, scale) || num_failed++ > 3) return;
      ADD_FAILURE() << describe(rule) << " at " << variables.begin()->second << ": " << from
                    << " against " << to;
    });
    EXPECT_EQ(num_failed, 0) << describe(rule);
  }
}

// Else a row would be exempt for nothing.
TEST(FoldRules, ExemptRowsOverflowSomewhere) {
  for (const SpelledRule& rule : spelled_rules()) {
    if (rule.where != FoldWhere::left_finite) continue;
    bool overflows = false;
    for_each_assignment(rule.from, [&](const Variables& variables) {
      const double from = evaluate(rule.from, variables), to = evaluate(rule.to, variables);
      overflows = overflows || (!std::isfinite(from) && std::isfinite(to));
    });
    EXPECT_TRUE(overflows) << describe(rule);
  }
}

// So folding ends.
TEST(FoldRules, LeaveFewerNodes) {
  for (const SpelledRule& rule : spelled_rules()) {
    EXPECT_LT(num_nodes_made(rule.to), num_nodes(rule.from)) << describe(rule);
  }
}

TEST(FoldRules, BindWhatTheyUse) {
  for (const SpelledRule& rule : spelled_rules()) {
    std::set<char> from, to;
    collect_variables(rule.from, from);
    collect_variables(rule.to, to);
    for (const char variable : to) EXPECT_TRUE(from.count(variable)) << describe(rule);
  }
}

TEST(FoldRules, NoSpellingStandsTwice) {
  std::set<std::string> seen;
  for (const SpelledRule& rule : spelled_rules()) {
    EXPECT_TRUE(seen.insert(print(rule.from)).second) << describe(rule);
  }
}

// A graph of one output `y` that is the pattern, constants second; `reversed` swaps the operands of
// commuting ops.
class GraphOf {
 public:
  GraphOf(const Pattern& pattern, DType dtype, bool reversed) : dtype_(dtype), reversed_(reversed) {
    graph_.name = "g";
    std::set<char> variables;
    collect_variables(pattern, variables);
    for (const char variable : variables) {
      ir::Node node{.op = ir::Op::input, .name = std::string(1, variable)};
      node.type = {dtype_, {Dim(6)}, {}};
      if (variable == kConstantVariable) node = {.op = ir::Op::constant, .value = -1.702};
      ids_[print({.variable = variable})] = ir::append(graph_, node);
    }
    graph_.outputs.push_back({"y", add(pattern)});
  }
  const ir::Graph& graph() const { return graph_; }

 private:
  // Equal parts are one value, as after common_subexpressions.
  ir::ValueId add(const Pattern& pattern) {
    const std::string key = print(pattern);
    if (const auto found = ids_.find(key); found != ids_.end()) return found->second;
    ir::Node node{.op = ir::Op::constant, .value = pattern.number};
    if (pattern.kind == PatternKind::op) {
      node = {.op = pattern.op};
      for (const Pattern& arg : pattern.args) node.args.push_back(add(arg));
      if (ir::info(node.op).commutes && reversed_ == stands_second(node)) {
        std::swap(node.args[0], node.args[1]);
      }
    }
    return ids_[key] = ir::append(graph_, node);
  }

  bool stands_second(const ir::Node& node) const {
    const auto is_constant = [&](ir::ValueId id) { return graph_[id].op == ir::Op::constant; };
    return is_constant(node.args[1]) || !is_constant(node.args[0]);
  }

  DType dtype_;
  bool reversed_;
  ir::Graph graph_;
  std::map<std::string, ir::ValueId> ids_;
};

ir::Graph only_live(const ir::Graph& graph) { return dead_code(common_subexpressions(graph)); }

// The row, and not one before it that takes its operands away.
TEST(FoldRules, EverySpellingIsFound) {
  for (const SpelledRule& rule : spelled_rules()) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      for (const bool reversed : {false, true}) {
        const ir::Graph graph = GraphOf(rule.from, dtype, reversed).graph();
        const ir::Graph folded = only_live(fold_activations(graph));
        int num_left = 0;
        for (const ir::Node& node : folded.nodes) num_left += node.op != ir::Op::input ? 1 : 0;
        const bool keeps_c = rule.to.args.size() == 2 && rule.to.args[1].variable == 'c';
        EXPECT_LE(num_left, num_nodes_made(rule.to) + (keeps_c ? 1 : 0)) << describe(rule) << "\n"
                                                                         << ir::print(folded);
      }
    }
  }
}

// Rows are written as canonicalise leaves a graph; else the pipeline would never meet them.
TEST(FoldRules, SpellingsAreCanonical) {
  for (const SpelledRule& rule : spelled_rules()) {
    const ir::Graph graph = GraphOf(rule.from, DType::f32, false).graph();
    EXPECT_EQ(ir::print(only_live(canonicalise(graph))), ir::print(only_live(graph)))
        << describe(rule);
  }
}

// No fold may reach across a cast: rounding to bf16 was asked for.
TEST(FoldRules, CastsAreBarriers) {
  for (const SpelledRule& rule : spelled_rules()) {
    for (std::size_t i = 0; i < rule.from.args.size(); ++i) {
      if (rule.from.args[i].kind != PatternKind::op) continue;
      const ir::Graph graph = GraphOf(rule.from, DType::f32, false).graph();
      const ir::Node root = graph[graph.outputs[0].value];
      if (graph[root.args[i]].type.dtype != DType::f32) continue;  // a condition is no number
      ir::Graph cut{"g", {}, {}};
      cut.nodes.assign(graph.nodes.begin(), graph.nodes.end() - 1);
      ir::Node down{.op = ir::Op::cast, .name = "down", .args = {root.args[i]}};
      down.type.dtype = DType::bf16;
      const ir::ValueId narrow = ir::append(cut, down);
      ir::Node up{.op = ir::Op::cast, .name = "up", .args = {narrow}};
      ir::Node user = root;
      user.args[i] = ir::append(cut, up);
      cut.outputs.push_back({"y", ir::append(cut, user)});
      const ir::Graph folded = only_live(fold_activations(cut));
      const ir::Node& last = folded[folded.outputs[0].value];
      EXPECT_EQ(last.op, root.op) << describe(rule) << "\n" << print(folded);
    }
  }
}

TEST(FoldPatterns, FormsAreSpelledInEveryWay) {
  const FoldForm forms[] = {
      {"twice(a)", "add(a, a)"}, {"twice(a)", "mul(a, 2)"}, {"four(b)", "twice(twice(b))"}};
  std::set<std::string> spellings;
  for (const Pattern& pattern : parse_patterns("exp(four(x))", forms)) {
    spellings.insert(print(pattern));
  }
  EXPECT_EQ(spellings, (std::set<std::string>{"exp(add(add(x, x), add(x, x)))",
                                              "exp(add(mul(x, 2), mul(x, 2)))",
                                              "exp(mul(add(x, x), 2))", "exp(mul(mul(x, 2), 2))"}));
}

TEST(FoldPatterns, RejectsWhatIsNoPattern) {
  const FoldForm forms[] = {{"twice(a)", "add(a, a)"}, {"free(a)", "add(a, b)"}};
  for (const char* text : {"nosuch(x)", "add(x)", "add(x, y", "add(x, y) z", "twice(x, y)",
                           "free(x)", "matmul(x, y)", "cast(x)", "add", "", "X"}) {
    EXPECT_THROW(parse_patterns(text, forms), InternalError) << text;
  }
}

}  // namespace
}  // namespace epifuse::passes
