#include "backends/cuda/run/pointer_arrays.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "backends/pointer_arrays.h"
#include "base/strided.h"
#include "codegen/k_major_copies.h"
#include "codegen/problem_views.h"
#include "epifuse/error.h"

namespace epifuse::cuda {
namespace {

using plan::WhyNot;

// The only step, where a family takes it on dense tensors as they usually are.
std::optional<WhyNot> why_not_family(const Prepared& prepared, codegen::Bound& typical,
                                     codegen::GemmVariant& variant) {
  if (auto no = codegen::why_not_pointer_arrays(prepared.plan)) return no;
  const StepKernels& kernels = prepared.steps.front();
  if (kernels.kind != StepKind::family) {
    const std::vector<WhyNot>& refusals = kernels.report.why_not;
    if (!refusals.empty()) return refusals.front();
    return WhyNot{"bare_product",
                  "nothing is fused into the product, so the vendor's GEMM does it."};
  }
  if (kernels.family->pointer_arrays == nullptr) {
    return WhyNot{"no_pointer_array_kernels",
                  fmt::format("{} has no kernels for many problems.", kernels.family->name)};
  }
  try {
    typical = backends::bind_stand_ins(prepared.plan, {}, DeviceKind::cuda);
  } catch (const ArgumentError& error) {
    return WhyNot{"problem_sizes", error.what()};
  }
  const auto& step = std::get<plan::FusedGemm>(prepared.plan.steps.front());
  if (auto no = kernels.family->why_not_bound(prepared.plan, step, typical)) return no;
  variant = kernels.family->variant(prepared.plan, step, typical);
  if (!kernels.family->pointer_arrays->takes(variant)) {
    return WhyNot{"problem_layout", "its tensors are not contiguous along the last dim."};
  }
  return std::nullopt;
}

// Problems are multiplied as they lie. Of a plan that does that already there is none.
std::optional<Prepared> without_copies(const Prepared& prepared,
                                       const targets::TargetInfo& target) {
  if (prepared.plan.steps.size() != 1) return std::nullopt;
  const auto* const step = std::get_if<plan::FusedGemm>(&prepared.plan.steps.front());
  if (step == nullptr || !codegen::has_k_major_copies(step->gemm)) return std::nullopt;
  plan::Plan plan = prepared.plan;
  plan.steps.front() = codegen::without_k_major_copies(*step);
  const std::string_view named = prepared.is_named ? prepared.steps.front().family->name : "";
  return prepare_uncompiled(plan, target, true, named, false);
}

}  // namespace

const void* HostPointerArrays::copy(const Device& device, const void* from, std::size_t bytes,
                                    jit::CuStream stream) {
  if (from == nullptr || bytes == 0) return nullptr;
  memory_.push_back(std::make_unique<std::byte[]>(bytes));
  device.check(device.api().memcpy_device_to_host_async(
                   memory_.back().get(), reinterpret_cast<jit::CuDevicePtr>(from), bytes, stream),
               "cuMemcpyDtoHAsync");
  return memory_.back().get();
}

HostPointerArrays::HostPointerArrays(const Device& device,
                                     const codegen::BoundPointerArrays& problems,
                                     jit::CuStream stream)
    : arrays_(problems) {
  jit::CuStreamCaptureStatus capture{};
  device.check(device.api().stream_is_capturing(stream, &capture), "cuStreamIsCapturing");
  if (capture != jit::CuStreamCaptureStatus::none) {
    throw UnavailableError(
        "problems that run one after another cannot be captured: their sizes and addresses are "
        "read by the host (Program::explain_pointer_arrays says why they are not one launch)");
  }
  const auto count = static_cast<std::size_t>(problems.count);
  const auto integers = [&](const std::int64_t* from, std::size_t each) {
    return static_cast<const std::int64_t*>(
        copy(device, from, count * each * sizeof(std::int64_t), stream));
  };
  arrays_.sizes = integers(problems.sizes, problems.symbols.size());
  for (codegen::BoundPointerArrays::Tensor& tensor : arrays_.tensors) {
    tensor.data = static_cast<const void* const*>(
        copy(device, tensor.data, count * sizeof(const void*), stream));
    tensor.row_strides = integers(tensor.row_strides, 1);
  }
  device.check(device.api().stream_synchronize(stream), "cuStreamSynchronize");
}

PointerArrayRunner::PointerArrayRunner(const Prepared& prepared, const targets::TargetInfo& target,
                                       std::shared_ptr<jit::Jit> jit)
    : without_copies_(without_copies(prepared, target)),
      prepared_(without_copies_ ? *without_copies_ : prepared),
      target_(target),
      jit_(std::move(jit)) {
  why_not_ = why_not_family(prepared_, typical_, variant_);
  if (!why_not_) configs_ = functions().configs(prepared_.steps.front().candidates);
  if (!why_not_ && configs_.empty()) {
    why_not_ = WhyNot{"no_config", "only kernels of clusters take it."};
  }
}

const codegen::PointerArrayFunctions& PointerArrayRunner::functions() const {
  return *prepared_.steps.front().family->pointer_arrays;
}

const plan::FusedGemm& PointerArrayRunner::step() const {
  return std::get<plan::FusedGemm>(prepared_.plan.steps.front());
}

// A mean problem, as far as the host knows; without symbols all sizes are a usual one.
codegen::GemmSizes PointerArrayRunner::sizes_of(const codegen::BoundPointerArrays& problems) const {
  constexpr std::int64_t kUsualSize = 1024;
  const plan::GemmDesc& gemm = step().gemm;
  const std::size_t width = problems.symbols.size();
  const bool is_known = problems.host_sizes != nullptr;
  std::array<std::int64_t, 3> sums{};
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < (is_known ? problems.count : 1); ++i) {
    Sizes sizes;
    for (const std::string& symbol : codegen::problem_symbols(prepared_.plan.graph)) {
      sizes[symbol] = kUsualSize;
    }
    for (std::size_t s = 0; is_known && s < width; ++s) {
      const std::int64_t size = problems.host_sizes[static_cast<std::size_t>(i) * width + s];
      check_size(problems.symbols[s], size);
      sizes[problems.symbols[s]] = size;
    }
    const std::array of_this{gemm.m.eval(sizes), gemm.n.eval(sizes), gemm.k.eval(sizes)};
    if (of_this[0] <= 0 || of_this[1] <= 0) continue;
    for (std::size_t d = 0; d < sums.size(); ++d) {
      if (__builtin_add_overflow(sums[d], of_this[d], &sums[d])) {
        throw ArgumentError("the sizes of all problems add up to more than 64 bits hold");
      }
    }
    ++count;
  }
  const std::int64_t mean_of = std::max<std::int64_t>(count, 1);
  const auto mean = [&](std::int64_t sum) {
    return std::max<std::int64_t>((sum + mean_of - 1) / mean_of, 1);
  };
  return {is_known ? mean_of : std::max<std::int64_t>(problems.count, 1), mean(sums[0]),
          mean(sums[1]), mean(sums[2]), 0};
}

PointerArrayRunner::Kernels PointerArrayRunner::kernels_of(
    const codegen::GemmConfig& config) const {
  const StepKernels& usual = prepared_.steps.front();
  const plan::Plan& plan = prepared_.plan;
  Kernels out;
  out.describe = {{}, functions().describe_source(plan, config, variant_, target_), nullptr};
  out.product = {config, usual.family->source(plan, step(), config, variant_, target_), nullptr};
  out.by_hand = {{}, functions().by_hand_source(plan, target_), nullptr};
  return out;
}

std::vector<std::pair<std::string, std::string>> PointerArrayRunner::sources() const {
  if (why_not_) return {};
  const std::scoped_lock lock(mutex_);
  if (configs_.empty()) return {};
  const std::size_t best = codegen::choose(*prepared_.steps.front().family, step(), configs_,
                                           sizes_of({}), targets::reference_profile(target_));
  const Kernels kernels = kernels_of(configs_[best]);
  const std::string& name = prepared_.plan.graph.name;
  return {{name + "_describe_problems.cu", kernels.describe.source.text},
          {name + "_problems.cu", kernels.product.source.text},
          {name + "_problems_by_hand.cu", kernels.by_hand.source.text}};
}

// Of the config that `choose` gives of those that compile well.
std::shared_ptr<const PointerArrayRunner::Kernels> PointerArrayRunner::compiled(
    Context& context, const std::function<std::vector<std::size_t>()>& choose) const {
  const auto source = [&](const codegen::GemmConfig& config) {
    return kernels_of(config).product.source;
  };
  std::vector<Kernel> product;
  const Kernels first = kernels_of(configs_[choose().front()]);
  compile_candidates({{{configs_, product, choose, source}}}, {},
                     {first.describe.source, first.by_hand.source}, *jit_);
  if (product.empty()) throw UnavailableError("no kernel of these problems compiles well");
  auto out = std::make_shared<Kernels>(kernels_of(product.front().config));
  out->product = std::move(product.front());
  compile_candidates({}, std::array{&out->describe, &out->by_hand}, {}, *jit_);
  codegen::Launch launch = prepared_.steps.front().family->launch(
      prepared_.plan, step(), out->product.config, variant_, typical_, context.limits());
  out->usual = launch;
  out->usual.params = prepare_call(context.device(), nullptr, std::move(launch)).params;
  out->usual.maps.clear();
  return out;
}

// Those of the config that the model expects to take least.
std::shared_ptr<const PointerArrayRunner::Kernels> PointerArrayRunner::kernels_for(
    Context& context, const codegen::GemmSizes& sizes) const {
  const std::scoped_lock lock(mutex_);
  const auto best = [&]() -> std::vector<std::size_t> {
    if (configs_.empty()) return {};
    return {codegen::choose(*prepared_.steps.front().family, step(), configs_, sizes,
                            context.profile())};
  };
  const auto known = [&](const codegen::GemmConfig& config) {
    return std::ranges::find(kernels_, config,
                             [](const auto& kernels) { return kernels->product.config; });
  };
  const std::vector<std::size_t> chosen = best();
  if (chosen.empty()) throw UnavailableError("no kernel of these problems compiles well");
  if (const auto found = known(configs_[chosen.front()]); found != kernels_.end()) return *found;
  auto fresh = compiled(context, best);
  const auto found = known(fresh->product.config);
  return found != kernels_.end() ? *found : kernels_.emplace_back(std::move(fresh));
}

void PointerArrayRunner::run(Context& context, const codegen::BoundPointerArrays& problems,
                             jit::CuStream stream) const {
  const auto kernels = kernels_for(context, sizes_of(problems));
  const Workspace workspace(context, functions().workspace_bytes(problems.count), stream);
  const codegen::PointerArrayLaunches launches =
      functions().launches(prepared_.plan, kernels->product.config, kernels->usual, problems,
                           context.limits(), workspace.data());
  const auto queue = [&](const Kernel& kernel, const codegen::Launch& launch) {
    const jit::CuFunction function =
        context.modules().get(kernel.binary, kernel.source.entry, launch.smem_bytes);
    cuda::run(context.device(), prepare_call(context.device(), function, launch), stream);
  };
  queue(kernels->describe, launches.describe);
  queue(kernels->product, launches.product);
  queue(kernels->by_hand, launches.by_hand);
}

}  // namespace epifuse::cuda
