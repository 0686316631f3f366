#include "calibrate_device.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "backends/backend.h"
#include "backends/cuda/choose/scratch_tensors.h"
#include "backends/cuda/driver/context.h"
#include "backends/cuda/driver/timing.h"
#include "backends/pointer_arrays.h"
#include "base/measure.h"
#include "bench_options.h"
#include "calibrate_fit.h"
#include "calibrate_probes.h"
#include "codegen/family.h"
#include "compile/program_state.h"
#include "ir/text.h"
#include "jit/compile_inputs.h"
#include "jit/jit.h"
#include "plan/plan.h"
#include "split_run.h"
#include "tune/shortlist.h"

namespace epifuse::cli {
namespace {

using codegen::GemmSizes;

constexpr int kRounds = 12;
constexpr double kMostSeconds = 0.5;       // of one time
constexpr double kSecondsForTheFit = 8.0;  // and for one to half of the products
// Of one size: compiling all candidates would leave time for two or three sizes.
constexpr backends::MeasureRules kRulesOfWays{.seconds = 0.12, .most_candidates = 24};

Sizes sizes_of(const GemmSizes& s) { return {{"M", s.m}, {"N", s.n}, {"K", s.k}}; }

// A program, and tensors of its own at some sizes.
class ScratchRun {
 public:
  ScratchRun(const Program& program, const Sizes& sizes)
      : program_(program),
        executable_(*program.state().executable),
        bound_(backends::bind_stand_ins(executable_.plan(), sizes, DeviceKind::cuda)),
        form_(backends::form_of(executable_.plan(), bound_)),
        tensors_(cuda::Device::require(), executable_.plan(), form_, nullptr),
        call_(executable_.prepare(form_)) {}

  void run() const { call_->run(tensors_.values(), nullptr); }

 private:
  const Program program_;
  const backends::Executable& executable_;
  const codegen::Bound bound_;
  const backends::CallForm form_;
  const cuda::ScratchTensors tensors_;
  const std::shared_ptr<const backends::PreparedCall> call_;
};

// The microseconds of one run that begins with a cold L2; of two behind each other the second's.
double us_of(const std::function<void()>& run) {
  return cuda::time_interleaved({run}, kRounds, kMostSeconds).front();
}
double us_behind(const std::function<void()>& run, int more) {
  const auto many = [&] {
    for (int i = 0; i <= more; ++i) run();
  };
  const auto us = cuda::time_interleaved({run, many}, kRounds, kMostSeconds);
  return std::max(us[1] - us[0], 0.1) / more;
}

class Calibrator {
 public:
  Calibrator(double seconds, const std::function<void(const std::string&)>& say)
      : seconds_(seconds),
        say_(say),
        target_(require_target()),
        device_(cuda::Device::require()),
        jit_(std::make_shared<jit::Jit>(jit::KernelCache(jit::KernelCache::default_folder()))) {}

  Calibration run() {
    targets::StoredProfile& profile = out_.profile;
    profile.device = device_->info().name;
    measure_rates();
    measure_products();
    const targets::DeviceProfile known = profile_now();
    profile.limits = known.limits;
    if (known.known != nullptr) {  // these are not measured here
      profile.misaligned.assign(known.known->measured->misaligned.begin(),
                                known.known->measured->misaligned.end());
      profile.rows_first = known.known->measured->rows_first;
    }
    out_.held_out = judge_fit(points_, target_, known);
    FittedModel model = fit_model(points_, target_, known);
    profile.constants = std::move(model.constants);
    out_.error_before = model.error_before;
    out_.error_after = model.error_after;
    profile.origin = origin(model);
    return std::move(out_);
  }

 private:
  bool has_time() const { return seconds_since(start_) + kSecondsForTheFit < seconds_; }

  Program program(const char* text, bool fuse = true) const {
    CompileOptions options;
    options.fuse = fuse;
    options.tune = Tune::off;
    return compile(Graph::parse(text), Target::parse(std::string(target_.name)), options);
  }

  void measure_rates() {
    targets::DeviceRates& rates = out_.profile.rates;
    const Program add = program(kTwo);
    constexpr std::int64_t kTensors = 3, kBytes = 4, kFew = 1024, kMany = std::int64_t{1} << 26;
    const ScratchRun small(add, {{"N", kFew}}), large(add, {{"N", kMany}});
    const auto moved = [&](std::int64_t n) { return static_cast<double>(kTensors * kBytes * n); };
    rates.start_us = us_of([&] { small.run(); });
    rates.launch_us = us_behind([&] { small.run(); }, 8);
    rates.bytes_per_us = moved(kMany) / us_of([&] { large.run(); });
    const auto in_l2 = std::max<std::int64_t>(
        kFew, static_cast<std::int64_t>(device_->info().l2_bytes) / (4 * kTensors * kBytes));
    const ScratchRun cached(add, {{"N", in_l2}});
    rates.l2_bytes_per_us = moved(in_l2) / us_behind([&] { cached.run(); }, 16);
    const GemmSizes big{1, 8192, 8192, 8192};
    const ScratchRun product(bare(), sizes_of(big));
    const double us = cuda::time_sustained({[&] { product.run(); }}, 0.8, 1).front();
    rates.flops_per_us = 2.0 * static_cast<double>(big.m * big.n * big.k) / us;
    say_(
        fmt::format("rates: {:.0f} TFLOP/s, {:.2f} TB/s from memory, {:.2f} TB/s from L2; a kernel "
                    "{:.1f} us, one behind another {:.1f} us",
                    rates.flops_per_us / 1e6, rates.bytes_per_us / 1e6, rates.l2_bytes_per_us / 1e6,
                    rates.start_us, rates.launch_us));
  }

  const Program& bare() {
    if (!bare_) bare_ = program(kBare, false);
    return *bare_;
  }

  const Program& program_of(const char* text) {
    const auto known = programs_.find(text);
    return known != programs_.end() ? known->second
                                    : programs_.emplace(text, program(text)).first->second;
  }

  // Whether a family of the device takes the product: not all multiply 8-bit elements.
  bool is_taken(const char* text) const {
    const plan::Plan plan = plan::make_plan(ir::parse(text), {});
    const auto* const step = std::get_if<plan::FusedGemm>(&plan.steps.front());
    return step != nullptr &&
           std::ranges::any_of(codegen::families_for(target_), [&](const auto* family) {
             return !family->why_not(plan, *step, target_);
           });
  }

  // The best candidates by the model at some sizes; the time of the fastest of ours.
  std::optional<double> measure_ways(const Program& program, const GemmSizes& sizes) {
    const backends::Executable& executable = *program.state().executable;
    const codegen::Bound bound =
        backends::bind_stand_ins(executable.plan(), sizes_of(sizes), DeviceKind::cuda);
    std::optional<double> best;
    for (backends::MeasuredStep& step : executable.measure(bound, kRulesOfWays)) {
      for (const auto& way : step.ways) {
        if (way.name != tune::kProductAndTail) best = std::min(best.value_or(way.us), way.us);
      }
      points_.push_back({fmt::format("{}x{}x{}", sizes.m, sizes.n, sizes.k),
                         std::make_shared<const plan::Plan>(executable.plan()), sizes,
                         std::move(step.ways), out_.num_products});
    }
    return best;
  }

  void measure(const Probe& probe) {
    const GemmSizes& sizes = probe.sizes;
    if (probe.is_usual) {
      const ScratchRun vendor(bare(), sizes_of(sizes));
      const double us = us_of([&] { vendor.run(); });
      out_.profile.vendor_us.push_back({sizes.m, sizes.n, sizes.k, us});
    }
    const auto ours = measure_ways(program_of(probe.texts.front()), sizes);
    if (ours && probe.is_usual) {
      out_.profile.bare_ratios.push_back(
          {sizes.m, sizes.n, sizes.k, *ours / out_.profile.vendor_us.back().value});
    }
    for (std::size_t i = 1; i < probe.texts.size() && has_time(); ++i) {
      if (!is_taken(probe.texts[i])) continue;
      measure_ways(program_of(probe.texts[i]), sizes);
    }
    ++out_.num_products;
  }

  void measure_products() {
    const std::vector<Probe> all = probes();
    for (const Probe& probe : all) {
      if (!has_time()) break;
      measure(probe);
      say_(fmt::format("{}x{}x{}: {} of {} products, {:.0f} s of {:.0f}", probe.sizes.m,
                       probe.sizes.n, probe.sizes.k, out_.num_products, all.size(),
                       seconds_since(start_), seconds_));
    }
  }

  // What is known of the device before this: its limits are counted with a kernel of ours.
  targets::DeviceProfile profile_now() {
    cuda::Context context(device_, target_);
    for (const TimedPoint& point : points_) {
      for (const codegen::KernelFamily& family : codegen::all_families()) {
        if (family.why_not(*point.plan, point.step(), target_)) continue;
        const auto configs = family.configs(point.step(), target_);
        const codegen::KernelSource source =
            family.source(*point.plan, point.step(), configs.front(), {}, target_);
        const auto binaries = jit_->get({&source, 1});
        if (binaries.front()->cubin.empty()) continue;
        context.count_clusters(binaries.front(), source.entry);
        return context.profile();
      }
    }
    return context.profile();
  }

  std::string origin(const FittedModel& model) const {
    return fmt::format(
        "epifuse {} calibrate, driver {}, {:%Y-%m-%d}, {} products, {} times of candidates that "
        "the model is {:.1f} % off from on average",
        jit::epifuse_version(), cuda::version_text(device_->info().driver_version),
        fmt::gmtime(std::time(nullptr)), out_.num_products, model.num_times,
        100 * model.error_after);
  }

  const double seconds_;
  const std::function<void(const std::string&)>& say_;
  const targets::TargetInfo& target_;
  const std::shared_ptr<const cuda::Device> device_;
  const std::shared_ptr<jit::Jit> jit_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::optional<Program> bare_;
  std::map<const char*, Program> programs_;  // by text
  std::vector<TimedPoint> points_;
  Calibration out_;
};

}  // namespace

Calibration calibrate(double seconds, const std::function<void(const std::string&)>& say) {
  return Calibrator(seconds, say).run();
}

}  // namespace epifuse::cli
