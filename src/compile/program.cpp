// Running a compiled graph and asking what it became.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "backends/overlaps.h"
#include "backends/pointer_arrays.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/strided.h"
#include "compile/program_state.h"
#include "epifuse/error.h"
#include "explain/explain.h"

namespace epifuse {
namespace {

// Of what a form is told by.
std::uint64_t hash_of(std::span<const Binding> tensors) {
  std::uint64_t hash = 0;
  for (const Binding& tensor : tensors) {
    hash = hash_next(hash, backends::remainder_of(tensor.view.data));
    for (const std::vector<std::int64_t>* numbers : {&tensor.view.shape, &tensor.view.strides}) {
      for (const std::int64_t number : *numbers) {
        hash = hash_next(hash, static_cast<std::uint64_t>(number));
      }
    }
  }
  return hash;
}

bool same_form(const Binding& a, const Binding& b) {
  return backends::remainder_of(a.view.data) == backends::remainder_of(b.view.data) &&
         a.view.shape == b.view.shape && a.view.strides == b.view.strides &&
         a.view.dtype == b.view.dtype && a.view.device == b.view.device && a.name == b.name;
}

// Where each name is among the bindings.
std::vector<std::size_t> places_of(std::span<const std::string_view> names,
                                   std::span<const Binding> tensors) {
  std::vector<std::size_t> places;
  for (const std::string_view name : names) {
    const auto found = std::ranges::find(tensors, name, &Binding::name);
    EPIFUSE_CHECK(found != tensors.end(), "bound tensors are matched");
    places.push_back(static_cast<std::size_t>(found - tensors.begin()));
  }
  return places;
}

// The plan as it would run on dense tensors of these sizes; symbols without one are 4096, as in
// explain_text. Empty when the sizes fit no tensors, or what they need cannot be compiled here:
// `refusal` says which.
backends::RunPlan run_plan_at(const Program::State& state, Sizes sizes, std::string& refusal) {
  try {
    const plan::Plan& plan = state.executable->plan();
    return state.executable->plan_for(
        backends::bind_stand_ins(plan, std::move(sizes), state.target.kind));
  } catch (const ArgumentError& error) {
    refusal = error.what();
  } catch (const UnavailableError& error) {
    refusal = error.what();
  }
  return {};
}

// "the product h" of a step that is one.
std::string product_name(const plan::Plan& plan, std::size_t step) {
  const auto* gemm = std::get_if<plan::FusedGemm>(&plan.steps[step]);
  if (gemm == nullptr) return fmt::format("step {}", step + 1);
  return fmt::format("the product {}", plan.graph[gemm->gemm.matmul].name);
}

}  // namespace

RecentForm::RecentForm(const backends::Executable& executable, std::span<const Binding> tensors_,
                       DeviceKind device)
    : tensors(tensors_.begin(), tensors_.end()),
      call(executable, backends::bind(executable.plan(), tensors_, device)) {
  const CallNames names(executable.plan().graph);
  tensor_places = places_of(names.tensors, tensors);
  scalar_places = places_of(names.scalars, tensors);
}

void RecentForm::run(std::span<const Binding> bindings, Stream stream) const {
  std::vector<std::uintptr_t> bases;
  std::vector<double> scalars;
  bases.reserve(tensor_places.size());
  scalars.reserve(scalar_places.size());
  for (const std::size_t place : tensor_places) {
    bases.push_back(backends::base_of(bindings[place].view.data));
  }
  for (const std::size_t place : scalar_places) scalars.push_back(bindings[place].scalar);
  call.run({bases, scalars}, stream);
}

void Program::run(std::span<const Binding> tensors, Stream stream) const {
  const std::uint64_t hash = hash_of(tensors);
  auto form = state_->recent.find(hash, [&](const RecentForm& known) {
    return std::ranges::equal(known.tensors, tensors, same_form);
  });
  if (form == nullptr) {
    form = std::make_shared<const RecentForm>(*state_->executable, tensors, state_->target.kind);
    state_->recent.add(hash, form);
  }
  form->run(tensors, stream);
}

void Program::prepare(std::span<const Binding> tensors) const {
  state_->executable->prepare_for(
      backends::bind(state_->executable->plan(), tensors, state_->target.kind));
}

void Program::run_pointer_arrays(const PointerArrays& problems, Stream stream) const {
  const backends::Executable& executable = *state_->executable;
  executable.run_pointer_arrays(backends::match_pointer_arrays(executable.plan(), problems),
                                stream);
}

std::string Program::explain_pointer_arrays() const {
  return state_->executable->explain_pointer_arrays();
}

std::vector<std::string> Program::tune(std::span<const Binding> tensors) const {
  const plan::Plan& plan = state_->executable->plan();
  const codegen::Bound bound = backends::bind(plan, tensors, state_->target.kind);
  backends::check_overlaps(plan, bound, backends::InPlace::allowed);
  return state_->executable->tune(bound);
}

std::string Program::explain(const Sizes& sizes, std::string_view machine) const {
  for (const auto& [symbol, size] : sizes) check_size(symbol, size);
  std::string text = explain_text(state_->executable->plan(), state_->executable->report(),
                                  state_->target, sizes, machine);
  std::string refusal;
  const backends::RunPlan run = run_plan_at(*state_, sizes, refusal);
  if (!refusal.empty()) text += fmt::format("At these sizes nothing runs: {}\n", refusal);
  for (const plan::WhyNot& why : run.splits) {
    text += fmt::format("At these sizes a fused step runs as product and tail: {} ({})\n",
                        why.sentence, why.code);
  }
  for (std::size_t i = 0; i < run.how.size(); ++i) {
    if (run.grounds[i].empty()) continue;
    text += fmt::format("At these sizes {} runs by {}: {}.\n", product_name(run.plan, i),
                        run.how[i], run.grounds[i]);
  }
  return run.profile.empty() ? text : text + run.profile + "\n";
}

std::string Program::explain_json(const Sizes& sizes, std::string_view machine) const {
  for (const auto& [symbol, size] : sizes) check_size(symbol, size);
  nlohmann::ordered_json all = nlohmann::ordered_json::parse(epifuse::explain_json(
      state_->executable->plan(), state_->executable->report(), state_->target, sizes, machine));
  std::string refusal;
  const backends::RunPlan run = run_plan_at(*state_, sizes, refusal);
  all["refusal"] = refusal;
  all["splits"] = nlohmann::ordered_json::array();
  for (const plan::WhyNot& why : run.splits) {
    all["splits"].push_back({{"code", why.code}, {"sentence", why.sentence}});
  }
  all["runs"] = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < run.how.size(); ++i) {
    all["runs"].push_back({{"how", run.how[i]}, {"grounds", run.grounds[i]}});
  }
  all["profile"] = run.profile;
  return all.dump(2);
}

std::vector<std::pair<std::string, std::string>> Program::sources() const {
  return state_->executable->sources();
}

std::vector<std::pair<std::string, std::string>> Program::pointer_array_sources() const {
  return state_->executable->pointer_array_sources();
}

int Program::num_kernels() const {
  const plan::Plan& plan = state_->executable->plan();
  const bool is_cuda = target().kind == DeviceKind::cuda;
  return is_cuda ? plan::num_kernels(plan) : static_cast<int>(plan.steps.size());
}

const Target& Program::target() const { return state_->target; }

}  // namespace epifuse
