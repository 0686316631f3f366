// Reads layouts off tensors, and keeps a program for each set of them.
#include "capi/layout_programs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>

#include "backends/bind.h"
#include "base/strided.h"
#include "capi/c_tensors.h"
#include "compile/compile.h"
#include "compile/program_state.h"
#include "epifuse/error.h"
#include "ir/strides.h"
#include "ir/text.h"

namespace epifuse {
namespace {

// A layout: row-major, which a graph need not declare, or kDeclared with two bits for each dim.
constexpr unsigned kRowMajor = 0, kDeclared = 1U << 15;
using ir::Stride;

unsigned bits(Stride stride, std::size_t dim) { return static_cast<unsigned>(stride) << (2 * dim); }
Stride stride_of(unsigned layout, std::size_t dim) {
  return static_cast<Stride>(layout >> (2 * dim) & 3U);
}

bool is_empty(const EpifuseTensor& tensor) {
  return std::ranges::find(sizes_of(tensor), 0) != sizes_of(tensor).end();
}

// A dim of size 1 gets the stride that it has in a dense tensor: its own says nothing.
std::vector<std::int64_t> meaningful_strides(const EpifuseTensor& tensor) {
  const auto sizes = sizes_of(tensor);
  std::vector<std::int64_t> strides(sizes.size());
  const bool empty = is_empty(tensor);
  std::int64_t inner = 1;
  for (std::size_t d = sizes.size(); d-- > 0;) {
    strides[d] = empty || sizes[d] == 1 ? inner : tensor.strides[d];
    inner = std::max(inner, sizes[d] * strides[d]);
  }
  return strides;
}

// The first dim with stride 1, or the rank. A dim of size 1 is taken where there is no other, so
// that it is the same dim when the size is 1 in some calls.
std::size_t unit_dim(const EpifuseTensor& tensor) {
  const auto rank = static_cast<std::size_t>(tensor.rank);
  for (const std::int64_t least_size : {2, 1}) {
    for (std::size_t d = 0; d < rank; ++d) {
      if (tensor.strides[d] == 1 && tensor.sizes[d] >= least_size) return d;
    }
  }
  return rank;
}

// The layout of a tensor with these meaningful strides.
unsigned layout_of(const EpifuseTensor& tensor, std::vector<std::int64_t>& strides) {
  if (strides.empty()) return kRowMajor;
  unsigned zeros = 0;
  for (std::size_t d = 0; d < strides.size(); ++d) {
    if (strides[d] == 0) zeros |= bits(Stride::zero, d);
  }
  if (zeros == 0 && strides.back() == 1) return kRowMajor;
  const std::size_t unit = unit_dim(tensor);
  if (unit == strides.size()) return kDeclared | zeros;
  strides[unit] = 1;
  return kDeclared | zeros | bits(Stride::one, unit);
}

TensorView view_of(const EpifuseTensor& tensor, std::vector<std::int64_t> strides,
                   DeviceKind device) {
  const auto sizes = sizes_of(tensor);
  return {tensor.data,
          static_cast<DType>(tensor.dtype),
          {sizes.begin(), sizes.end()},
          std::move(strides),
          device};
}

void add_numbers(std::vector<std::int64_t>& numbers, const EpifuseTensor& tensor) {
  numbers.push_back(reinterpret_cast<std::intptr_t>(tensor.data));
  numbers.insert(numbers.end(), tensor.sizes, tensor.sizes + tensor.rank);
  numbers.insert(numbers.end(), tensor.strides, tensor.strides + tensor.rank);
}

std::string name_of(const plan::Plan& plan) {
  for (const plan::Step& step : plan.steps) {
    if (const auto* gemm = std::get_if<plan::FusedGemm>(&step)) {
      return "matmul_" + plan::identifier(gemm->epilogue);
    }
  }
  return "kernel";
}

}  // namespace

LayoutPrograms::LayoutPrograms(const Graph& graph, Target target, CompileOptions options,
                               plan::Plans& plans)
    : graph_(graph.ir()), target_(std::move(target)), options_(options), plans_(plans) {
  for (const ir::Node& node : graph_.nodes) {
    if (node.op == ir::Op::scalar) {
      throw ArgumentError(fmt::format(
          "graph '{}': expected tensors as inputs, got the scalar '{}'; declare it f32[]",
          graph_.name, node.name));
    }
    if (node.op != ir::Op::input) continue;
    if (!node.type.strides.empty()) {
      throw ArgumentError(fmt::format(
          "graph '{}': expected inputs without strides, which are read off the tensors, got {}: {}",
          graph_.name, node.name, ir::print(node.type)));
    }
    // Symbols are read off inputs, so these go in before the first size is looked up.
    inputs_.push_back({"input", node.name, &node.type, {}});
  }
  for (Declared& input : inputs_) input = declare("input", input.name, *input.type);
  for (const ir::Output& output : graph_.outputs) {
    outputs_.push_back(declare("output", output.name, graph_[output.value].type));
  }
  for (const std::vector<Declared>* tensors : {&inputs_, &outputs_}) {
    for (const Declared& tensor : *tensors) ranks_.push_back(tensor.sizes.size());
  }
  for (const std::size_t rank : ranks_) num_numbers_ += 1 + 2 * rank;
}

LayoutPrograms::Declared LayoutPrograms::declare(std::string_view role, std::string_view name,
                                                 const ir::TensorType& type) const {
  Declared declared{role, name, &type, {}};
  for (const Dim& dim : type.shape) declared.sizes.push_back(size_of(dim));
  return declared;
}

LayoutPrograms::Size LayoutPrograms::size_of(const Dim& dim) const {
  if (const auto number = dim.constant()) return {.number = *number};
  if (!dim.symbol()) {
    for (const std::string& symbol : dim.symbols()) size_of(Dim(symbol));
    return {.is_polynomial = true};
  }
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const ir::Shape& shape = inputs_[i].type->shape;
    const auto place = std::find(shape.begin(), shape.end(), dim);
    if (place == shape.end()) continue;
    return {.input = static_cast<int>(i), .dim = static_cast<int>(place - shape.begin())};
  }
  throw ArgumentError(
      fmt::format("graph '{}': '{}' cannot be read off any tensor, as it stands alone in no size "
                  "of an input",
                  graph_.name, dim.str()));
}

std::int64_t LayoutPrograms::eval(const Declared& declared, std::size_t dim,
                                  std::span<const EpifuseTensor> inputs) const {
  const auto read = [&](const Size& size) {
    return size.input < 0 ? size.number
                          : inputs[static_cast<std::size_t>(size.input)].sizes[size.dim];
  };
  const Size& size = declared.sizes[dim];
  if (!size.is_polynomial) return read(size);
  const Dim& polynomial = declared.type->shape[dim];
  Sizes values;
  for (const std::string& symbol : polynomial.symbols()) {
    values.emplace(symbol, read(size_of(Dim(symbol))));
  }
  return polynomial.eval(values);
}

void LayoutPrograms::check_forms(std::span<const Declared> declared,
                                 std::span<const EpifuseTensor> tensors, Needs needs) {
  for (std::size_t i = 0; i < declared.size(); ++i) {
    epifuse::check_form(declared[i].role, declared[i].name, *declared[i].type, tensors[i], needs);
  }
}

void LayoutPrograms::check_bounds(std::span<const Declared> declared,
                                  std::span<const EpifuseTensor> tensors) {
  for (std::size_t i = 0; i < declared.size(); ++i) {
    epifuse::check_bounds(declared[i].role, declared[i].name, *declared[i].type, tensors[i]);
  }
}

std::vector<EpifuseTensor> LayoutPrograms::take_tensors(std::span<const Declared> declared,
                                                        CallNumbers& numbers) {
  std::vector<EpifuseTensor> tensors;
  for (const Declared& each : declared) {
    const std::size_t rank = each.sizes.size();
    tensors.push_back({reinterpret_cast<void*>(numbers[0]),
                       static_cast<std::int32_t>(each.type->dtype), static_cast<std::int32_t>(rank),
                       numbers.data() + 1, numbers.data() + 1 + rank});
    numbers = numbers.subspan(1 + 2 * rank);
  }
  return tensors;
}

// Dtypes and ranks have been checked; so have the sizes of `inputs`, or they are `tensors`.
void LayoutPrograms::check_sizes(std::span<const Declared> declared,
                                 std::span<const EpifuseTensor> tensors,
                                 std::span<const EpifuseTensor> inputs) const {
  for (std::size_t i = 0; i < declared.size(); ++i) {
    const ir::Shape& shape = declared[i].type->shape;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const std::int64_t expected = eval(declared[i], d, inputs), came = tensors[i].sizes[d];
      if (came == expected && came >= 0) continue;
      std::string why;
      if (came != expected && !shape[d].constant()) {
        why = fmt::format(", where {} is {}", shape[d].str(), expected);
      }
      throw ArgumentError(fmt::format("{} '{}' is declared {}: got [{}]{}", declared[i].role,
                                      declared[i].name, ir::print(*declared[i].type),
                                      fmt::join(sizes_of(tensors[i]), ", "), why));
    }
  }
}

TensorForm LayoutPrograms::output(std::span<const EpifuseTensor> inputs, int index) const {
  if (index < 0 || index >= std::ssize(outputs_)) {
    throw ArgumentError(fmt::format("graph '{}': expected an output below {}, got {}", graph_.name,
                                    outputs_.size(), index));
  }
  check_forms(inputs_, inputs, Needs::sizes);
  check_sizes(inputs_, inputs, inputs);
  const Declared& declared = outputs_[static_cast<std::size_t>(index)];
  TensorForm form{declared.type->dtype, static_cast<int>(declared.sizes.size()), {}};
  for (std::size_t d = 0; d < declared.sizes.size(); ++d) {
    form.sizes[d] = eval(declared, d, inputs);
    if (form.sizes[d] >= 0) continue;
    throw ArgumentError(fmt::format("output '{}' is declared {}: {} would be {}", declared.name,
                                    ir::print(*declared.type), declared.type->shape[d].str(),
                                    form.sizes[d]));
  }
  const std::span sizes(form.sizes.data(), declared.sizes.size());
  if (!checked_count(sizes)) {
    throw ArgumentError(
        fmt::format("output '{}' is declared {}: [{}] would be more than 2^40 "
                    "elements",
                    declared.name, ir::print(*declared.type), fmt::join(sizes, ", ")));
  }
  return form;
}

LayoutPrograms::Call LayoutPrograms::call_on(std::span<const EpifuseTensor> inputs,
                                             std::span<const EpifuseTensor> outputs) const {
  Call call;
  call.layouts.reserve(inputs.size());
  call.tensors.reserve(inputs.size() + outputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    std::vector<std::int64_t> strides = meaningful_strides(inputs[i]);
    call.layouts.push_back(static_cast<Layout>(layout_of(inputs[i], strides)));
    call.tensors.emplace_back(std::string(inputs_[i].name),
                              view_of(inputs[i], std::move(strides), target_.kind));
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    call.tensors.emplace_back(std::string(outputs_[i].name),
                              view_of(outputs[i], meaningful_strides(outputs[i]), target_.kind));
  }
  return call;
}

void LayoutPrograms::run(std::span<const EpifuseTensor> inputs,
                         std::span<const EpifuseTensor> outputs, Stream stream) const {
  check_forms(inputs_, inputs, Needs::strides);
  check_forms(outputs_, outputs, Needs::strides);
  std::vector<std::int64_t> numbers;
  numbers.reserve(num_numbers_);
  for (const EpifuseTensor& tensor : inputs) add_numbers(numbers, tensor);
  for (const EpifuseTensor& tensor : outputs) add_numbers(numbers, tensor);
  auto form =
      recent_.find(hash_of(numbers), [&](const Form& known) { return is_of_form(numbers, known); });
  if (form == nullptr) form = bind(numbers, inputs, outputs);
  run_form(*form, numbers, stream);
}

// A program that takes an input to be row-major may see a reshape of it as a view, which padded
// rows cannot be. One that takes its strides to be any numbers copies.
void LayoutPrograms::with_copies(Call& call,
                                 const std::function<void(const Program&)>& action) const {
  for (;;) {
    try {
      return action(find_or_compile(call.layouts));
    } catch (const backends::NeedsCopy& error) {
      const auto input = std::ranges::find(inputs_, error.tensor, &Declared::name);
      if (input == inputs_.end()) throw;
      Layout& layout = call.layouts[static_cast<std::size_t>(input - inputs_.begin())];
      if (layout != kRowMajor) throw;
      layout = static_cast<Layout>(kDeclared | bits(Stride::one, input->sizes.size() - 1));
    }
  }
}

// No call where every output is empty.
std::shared_ptr<const LayoutPrograms::Form> LayoutPrograms::bind(
    CallNumbers numbers, std::span<const EpifuseTensor> inputs,
    std::span<const EpifuseTensor> outputs) const {
  check_sizes(inputs_, inputs, inputs);
  check_sizes(outputs_, outputs, inputs);
  check_bounds(inputs_, inputs);
  check_bounds(outputs_, outputs);
  auto form = std::make_shared<Form>();
  form->numbers.assign(numbers.begin(), numbers.end());
  if (!std::ranges::all_of(outputs, is_empty)) {
    Call call = call_on(inputs, outputs);
    with_copies(call, [&](const Program& program) {
      const backends::Executable& executable = *program.state().executable;
      const codegen::Bound bound = backends::bind(executable.plan(), call.tensors, target_.kind);
      form->call = std::make_unique<const ProgramCall>(executable, bound);
      form->address_places = address_places(executable.plan().graph);
    });
  }
  recent_.add(hash_of(numbers), form);
  return form;
}

std::optional<backends::RunPlan> LayoutPrograms::prepare(
    std::span<const EpifuseTensor> inputs) const {
  check_forms(inputs_, inputs, Needs::strides);
  check_bounds(inputs_, inputs);
  std::vector<TensorForm> forms;
  std::vector<std::vector<std::int64_t>> strides;
  for (std::size_t i = 0; i < num_outputs(); ++i) {
    const TensorForm& form = forms.emplace_back(output(inputs, static_cast<int>(i)));
    strides.push_back(
        TensorView::dense_strides({form.sizes.begin(), form.sizes.begin() + form.rank}));
  }
  std::vector<EpifuseTensor> outputs;
  for (std::size_t i = 0; i < forms.size(); ++i) {
    outputs.push_back({nullptr, static_cast<std::int32_t>(forms[i].dtype), forms[i].rank,
                       forms[i].sizes.data(), strides[i].data()});
  }
  if (std::ranges::all_of(outputs, is_empty)) return std::nullopt;
  Call call = call_on(inputs, outputs);
  for (Binding& tensor : call.tensors) tensor.view.data = backends::stand_in_address();
  backends::RunPlan run;
  with_copies(call, [&](const Program& program) {
    const backends::Executable& executable = *program.state().executable;
    const codegen::Bound bound = backends::bind(executable.plan(), call.tensors, target_.kind);
    executable.prepare_for(bound);
    run = executable.plan_for(bound);
  });
  return run;
}

const Program* LayoutPrograms::find(std::span<const Layout> layouts) const {
  const std::shared_lock lock(mutex_);
  for (const Entry& entry : entries_) {
    if (std::ranges::equal(entry.layouts, layouts)) return &entry.program;
  }
  return nullptr;
}

const Program& LayoutPrograms::find_or_compile(const std::vector<Layout>& layouts) const {
  if (const Program* program = find(layouts)) return *program;
  const std::scoped_lock compiling(compiling_);
  if (const Program* program = find(layouts)) return *program;
  const auto start = std::chrono::steady_clock::now();
  Program program = compile(with_strides(layouts), target_, options_, plans_);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  planning_seconds_ += seconds.count();
  const std::unique_lock lock(mutex_);
  entries_.push_front({layouts, std::move(program)});
  return entries_.front().program;
}

Graph LayoutPrograms::with_strides(std::span<const Layout> layouts) const {
  std::vector<std::vector<Stride>> strides(layouts.size());
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    for (std::size_t d = 0; layouts[i] != kRowMajor && d < inputs_[i].sizes.size(); ++d) {
      strides[i].push_back(stride_of(layouts[i], d));
    }
  }
  return Graph::parse(ir::print(ir::with_strides(graph_, strides)));
}

ProgramStats LayoutPrograms::stats() const {
  ProgramStats stats{.name = "kernel", .compile_seconds = planning_seconds_};
  const std::shared_lock lock(mutex_);
  for (const Entry& entry : entries_) {
    const backends::Executable& executable = *entry.program.state().executable;
    ++stats.programs;
    stats.binaries += executable.num_compiled();
    stats.compile_seconds += executable.compile_seconds();
    stats.name = name_of(executable.plan());
  }
  return stats;
}

}  // namespace epifuse
