// Outputs that share memory with other tensors of a call: those whose intervals of addresses meet
// are looked at element by element.
#include "backends/overlaps.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/strided.h"
#include "epifuse/error.h"
#include "ir/views.h"

namespace epifuse::backends {
namespace {

using codegen::Bound;
using codegen::BoundTensor;
using ir::ValueId;

// An input or output, with the bytes from its first element to behind its last.
struct Place {
  std::int64_t begin, end;
  std::size_t problem;
  ValueId value;
  const ir::Output* output;  // null of an input
};

Strided strided(const BoundTensor& tensor, DType dtype) {
  const auto bytes = static_cast<std::int64_t>(size_bytes(dtype));
  return {reinterpret_cast<std::intptr_t>(tensor.data) + tensor.layout.offset * bytes, bytes,
          tensor.layout.shape, tensor.layout.strides};
}

// The first byte of a tensor and the one behind its last; none where it has no element.
std::optional<std::pair<std::int64_t, std::int64_t>> interval_of(const ir::Graph& graph,
                                                                 const Bound& bound,
                                                                 ValueId value) {
  const BoundTensor& tensor = bound[value];
  const ir::Layout& layout = tensor.layout;
  if (std::ranges::find(layout.shape, 0) != layout.shape.end()) return std::nullopt;
  const std::optional<Reach> reach = checked_reach(layout.shape, layout.strides);
  const Strided memory = strided(tensor, graph[value].type.dtype);
  return std::pair{memory.address + reach.value().first * memory.element_bytes,
                   memory.address + (reach->last + 1) * memory.element_bytes};
}

// Steps of two layouts over the same elements, those of dims of size 1 aside.
bool lie_alike(const BoundTensor& a, const BoundTensor& b) {
  const ir::Layout &x = a.layout, &y = b.layout;
  if (a.data != b.data || x.offset != y.offset || x.shape != y.shape) return false;
  for (std::size_t d = 0; d < x.shape.size(); ++d) {
    if (x.shape[d] > 1 && x.strides[d] != y.strides[d]) return false;
  }
  return true;
}

// Whether `slot` is computed from the load in slot `load`.
bool depends(const plan::Epilogue& epilogue, plan::Slot slot, plan::Slot load) {
  std::vector<bool> reached(static_cast<std::size_t>(epilogue.num_slots()), false);
  reached[static_cast<std::size_t>(load)] = true;
  auto next = static_cast<std::size_t>(epilogue.first_compute());
  for (const plan::Compute& compute : epilogue.computes) {
    for (const plan::Slot arg : compute.args) {
      if (arg >= 0 && reached[static_cast<std::size_t>(arg)]) reached[next] = true;
    }
    ++next;
  }
  return reached[static_cast<std::size_t>(slot)];
}

class Checker {
 public:
  Checker(const plan::Plan& plan, InPlace in_place) : plan_(plan), in_place_(in_place) {
    constexpr std::size_t kUsual = 8;  // tensors of a call
    places_.reserve(kUsual);
    inputs_.reserve(kUsual);
  }

  void add(const Bound& bound) {
    const ir::Graph& graph = plan_.graph;
    for (std::size_t id = 0; id < graph.nodes.size(); ++id) {
      if (graph.nodes[id].op == ir::Op::input) add(bound, static_cast<ValueId>(id), nullptr);
    }
    for (const ir::Output& output : graph.outputs) add(bound, output.value, &output);
    bounds_.push_back(&bound);
  }

  // Each place is compared with those before it that end behind its beginning.
  void run() {
    std::ranges::sort(places_, {}, &Place::begin);
    for (const Place& place : places_) {
      check(place, outputs_);
      if (place.output != nullptr) check(place, inputs_);
      (place.output != nullptr ? outputs_ : inputs_).push_back(&place);
    }
  }

 private:
  void add(const Bound& bound, ValueId value, const ir::Output* output) {
    const auto interval = interval_of(plan_.graph, bound, value);
    if (!interval) return;
    places_.push_back({interval->first, interval->second, bounds_.size(), value, output});
  }

  Strided memory_of(const Place& place) const {
    return strided((*bounds_[place.problem])[place.value], plan_.graph[place.value].type.dtype);
  }

  // Those that end before `place` begins are met no more.
  void check(const Place& place, std::vector<const Place*>& open) {
    std::erase_if(open, [&](const Place* other) { return other->end <= place.begin; });
    for (const Place* other : open) {
      if (!share_memory(memory_of(place), memory_of(*other))) continue;
      const bool is_first = place.output != nullptr;
      const Place &output = is_first ? place : *other, &tensor = is_first ? *other : place;
      if (!may_share(output, tensor)) fail(output, tensor);
    }
  }

  // Whether the output may lie in the other tensor.
  bool may_share(const Place& output, const Place& tensor) const;
  bool reads_in_place(std::size_t step, const Place& output, ValueId input) const;
  bool lies_as(const plan::Load& load, const Place& output) const;
  // Whether a step reads the value's memory other than by loads of its epilogue; by any.
  bool multiplies(std::size_t step, ValueId input) const;
  bool reads(std::size_t step, ValueId input) const;
  bool is_storage(ValueId input, ValueId value) const {
    return value >= 0 && ir::storage(plan_.graph, value) == input;
  }
  bool names_rows(ValueId input, ValueId lookup) const {
    return lookup >= 0 && is_storage(input, ir::index_of(plan_.graph[lookup]));
  }

  [[noreturn]] void fail(const Place& output, const Place& tensor) const;

  const plan::Plan& plan_;
  InPlace in_place_;
  std::vector<const Bound*> bounds_;
  std::vector<Place> places_;
  std::vector<const Place*> inputs_, outputs_;  // that may still be met
};

bool Checker::multiplies(std::size_t step, ValueId input) const {
  const auto* fused = std::get_if<plan::FusedGemm>(&plan_.steps[step]);
  if (fused == nullptr) return false;
  const plan::GemmDesc& gemm = fused->gemm;
  const std::vector<ValueId> operands = gemm.reads();
  return is_storage(input, gemm.groups) || is_storage(input, gemm.k_groups) ||
         names_rows(input, gemm.a.lookup) ||
         std::ranges::any_of(operands, [&](ValueId id) { return is_storage(input, id); });
}

bool Checker::reads(std::size_t step, ValueId input) const {
  const plan::Epilogue& epilogue = plan_.epilogue(step);
  return multiplies(step, input) ||
         std::ranges::any_of(epilogue.loads,
                             [&](const plan::Load& load) {
                               return is_storage(input, load.value) ||
                                      names_rows(input, load.lookup);
                             }) ||
         std::ranges::any_of(epilogue.stores, [&](const plan::Store& store) {
           return is_storage(input, store.index);
         });
}

// Whether the step writes the output, all of it once, from elements of the input that lie where it
// writes: those are read before, in whatever order the step does its work.
bool Checker::reads_in_place(std::size_t step, const Place& output, ValueId input) const {
  const plan::Epilogue& epilogue = plan_.epilogue(step);
  if (multiplies(step, input)) return false;
  plan::Slot source = -1, load = -1;
  for (const plan::Store& store : epilogue.stores) {
    if (is_storage(input, store.index)) return false;
    if (store.value != output.value) continue;
    const bool is_whole = store.kind == plan::StoreKind::tile && store.part == plan::Part::whole;
    if (!is_whole || store.index >= 0) return false;
    source = store.source;
  }
  for (std::size_t i = 0; i < epilogue.loads.size(); ++i) {
    if (names_rows(input, epilogue.loads[i].lookup)) return false;
    if (!is_storage(input, epilogue.loads[i].value)) continue;
    if (load >= 0 || !lies_as(epilogue.loads[i], output)) return false;
    load = epilogue.first_load() + static_cast<plan::Slot>(i);
  }
  return load >= 0 && source >= 0 && depends(epilogue, source, load);
}

bool Checker::lies_as(const plan::Load& load, const Place& output) const {
  const Bound& bound = *bounds_[output.problem];
  return load.lookup < 0 &&
         size_bytes(load.dtype) == size_bytes(plan_.graph[output.value].type.dtype) &&
         lie_alike(bound[load.value], bound[output.value]);
}

bool Checker::may_share(const Place& output, const Place& tensor) const {
  if (tensor.output != nullptr || tensor.problem != output.problem) return false;
  std::optional<std::size_t> last;  // that reads the input
  for (std::size_t step = 0; step < plan_.steps.size(); ++step) {
    if (reads(step, tensor.value)) last = step;
  }
  if (!last) return true;
  if (in_place_ == InPlace::refused) return false;
  const auto writes = [&](const plan::Store& store) { return store.value == output.value; };
  return std::ranges::any_of(plan_.epilogue(*last).stores, writes) &&
         reads_in_place(*last, output, tensor.value);
}

void Checker::fail(const Place& output, const Place& tensor) const {
  const auto described = [&](const Place& place) {
    const bool is_input = place.output == nullptr;
    return fmt::format("{} '{}'{}", is_input ? "input" : "output",
                       is_input ? plan_.graph[place.value].name : place.output->name,
                       bounds_.size() > 1 ? fmt::format(" of problem {}", place.problem) : "");
  };
  throw ArgumentError(fmt::format(
      "{} shares memory with {}: expected memory of its own{}", described(output),
      described(tensor),
      in_place_ == InPlace::refused || tensor.output != nullptr
          ? ""
          : ", or the input itself where the step that writes the output reads it element by "
            "element and no later step reads it"));
}

}  // namespace

void check_overlaps(const plan::Plan& plan, const Bound& bound, InPlace in_place) {
  Checker checker(plan, in_place);
  checker.add(bound);
  checker.run();
}

OverlapCheck::OverlapCheck(const plan::Plan& plan, const CallForm& form) {
  const std::size_t num_inputs = form.tensors.size() - plan.graph.outputs.size();
  for (std::size_t i = 0; i < form.tensors.size(); ++i) {
    const auto interval = interval_of(plan.graph, form.bound, form.tensors[i]);
    if (!interval) continue;
    const auto base = reinterpret_cast<std::intptr_t>(codegen::placeholder(i));
    extents_.push_back({i, interval->first - base, interval->second - base, i >= num_inputs});
  }
}

// Of every output with another tensor, in order of numbers.
std::vector<OverlapCheck::Meeting> OverlapCheck::meetings(std::span<const Extent> extents,
                                                          std::span<const std::uintptr_t> bases) {
  std::vector<Meeting> out;
  std::vector<const Extent*> inputs, outputs;  // that may still be met
  const auto add = [&](const Extent& extent, std::vector<const Extent*>& open) {
    std::erase_if(open, [&](const Extent* other) { return other->end <= extent.begin; });
    for (const Extent* other : open) {
      const auto [first, second] = std::minmax(extent.number, other->number);
      out.push_back({first, second, static_cast<std::int64_t>(bases[second] - bases[first])});
    }
  };
  for (const Extent& extent : extents) {
    add(extent, outputs);
    if (extent.is_output) add(extent, inputs);
    (extent.is_output ? outputs : inputs).push_back(&extent);
  }
  std::ranges::sort(out);
  return out;
}

// By pairs, as most calls have a few tensors and one output.
bool OverlapCheck::lie_apart(std::span<const std::uintptr_t> bases) const {
  const auto begins = [&](const Extent& extent) {
    return static_cast<std::int64_t>(bases[extent.number]) + extent.begin;
  };
  for (auto output = extents_.rbegin(); output != extents_.rend() && output->is_output; ++output) {
    const std::int64_t begin = begins(*output), end = begin + output->end - output->begin;
    for (auto other = output + 1; other != extents_.rend(); ++other) {
      const std::int64_t other_begin = begins(*other);
      if (other_begin < end && begin < other_begin + other->end - other->begin) return false;
    }
  }
  return true;
}

void OverlapCheck::run(const plan::Plan& plan, const CallForm& form,
                       const codegen::CallValues& values) const {
  constexpr std::size_t kFew = 16;  // beyond these it is sooner found by sorting
  if (extents_.size() <= kFew && lie_apart(values.bases)) return;
  std::vector<Extent> extents = extents_;
  for (Extent& extent : extents) {
    const auto base = static_cast<std::int64_t>(values.bases[extent.number]);
    extent.begin += base;
    extent.end += base;
  }
  std::ranges::sort(extents, {}, &Extent::begin);
  std::vector<Meeting> met = meetings(extents, values.bases);
  if (met.empty()) return;
  {
    const std::scoped_lock lock(mutex_);
    if (met == allowed_) return;
  }
  Bound bound = form.bound;
  set_values(form.bound, form, values, bound);
  check_overlaps(plan, bound, InPlace::allowed);
  const std::scoped_lock lock(mutex_);
  allowed_ = std::move(met);
}

void check_overlaps(const plan::Plan& plan,
                    std::span<const std::shared_ptr<const Bound>> problems) {
  Checker checker(plan, InPlace::allowed);
  for (const auto& bound : problems) checker.add(*bound);
  checker.run();
}

}  // namespace epifuse::backends
