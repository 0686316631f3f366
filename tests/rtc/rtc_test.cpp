// NVRTC takes every kernel of the corpus, or what is leaner: no error, no serialised wgmma, and few
// whose leanest spills. No GPU is used, and no cache: each kernel is compiled here and now.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>

#include "base/parallel.h"
#include "codegen/tail.h"
#include "corpus_kernels.h"
#include "epifuse/error.h"
#include "ir/text.h"
#include "jit/jit.h"
#include "plan/plan.h"
#include "targets/targets.h"

namespace epifuse::rtc {
namespace {

struct Outcome {
  double seconds = 0;
  int registers = 0;
  std::string failure;  // empty when the kernel may be used
};

Outcome compile(const jit::Nvrtc& nvrtc, const codegen::KernelSource& source) {
  try {
    const jit::Binary binary = nvrtc.compile(source);
    return {binary.compile_seconds, binary.registers,
            fmt::format("{}", fmt::join(binary.problems, "; "))};
  } catch (const CompileError& error) {
    return {0, 0, error.what()};
  }
}

// As kernels are prepared: where one has a problem, what is leaner takes its place.
Outcome compile(const jit::Nvrtc& nvrtc, const CorpusKernel& kernel) {
  Outcome out = compile(nvrtc, kernel.source);
  for (const codegen::KernelSource& leaner : kernel.leaner) {
    if (out.failure.empty()) break;
    const double before = out.seconds;
    out = compile(nvrtc, leaner);
    out.seconds += before;
  }
  return out;
}

// Compiles all in threads, with a line of progress every few seconds.
std::vector<Outcome> compile_all(const jit::Nvrtc& nvrtc,
                                 const std::vector<CorpusKernel>& kernels) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::seconds kBetweenLines(5);
  std::vector<Outcome> outcomes(kernels.size());
  std::mutex mutex;
  std::size_t num_done = 0;
  Clock::time_point last_line = Clock::now();
  parallel_for(std::ssize(kernels), [&](std::int64_t i, int) {
    const auto index = static_cast<std::size_t>(i);
    outcomes[index] = compile(nvrtc, kernels[index]);
    const std::lock_guard lock(mutex);
    ++num_done;
    if (Clock::now() - last_line < kBetweenLines) return;
    last_line = Clock::now();
    fmt::print("  {} of {} kernels compiled\n", num_done, kernels.size());
    std::fflush(stdout);
  });
  return outcomes;
}

std::string row(std::string_view kind, std::vector<Outcome> outcomes) {
  std::sort(outcomes.begin(), outcomes.end(),
            [](const Outcome& a, const Outcome& b) { return a.seconds < b.seconds; });
  const auto most_registers = std::max_element(
      outcomes.begin(), outcomes.end(),
      [](const Outcome& a, const Outcome& b) { return a.registers < b.registers; });
  const auto num_bad = std::count_if(outcomes.begin(), outcomes.end(), [](const Outcome& outcome) {
    return !outcome.failure.empty();
  });
  return fmt::format("  {:<52} {:>5} {:>9.2f} {:>9.2f} {:>9} {:>4}\n", kind, outcomes.size(),
                     outcomes[outcomes.size() / 2].seconds, outcomes.back().seconds,
                     most_registers->registers, num_bad);
}

void print_table(const std::vector<CorpusKernel>& kernels, const std::vector<Outcome>& outcomes) {
  std::map<std::string, std::vector<Outcome>> by_kind;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    by_kind[kernels[i].kind].push_back(outcomes[i]);
  }
  std::string table = fmt::format("  {:<52} {:>5} {:>9} {:>9} {:>9} {:>4}\n", "kernel", "count",
                                  "median s", "max s", "registers", "bad");
  for (const auto& [kind, of_kind] : by_kind) table += row(kind, of_kind);
  fmt::print("{}{}", table, row("all", outcomes));
}

TEST(Rtc, HasKernelsOfEveryTarget) {
  constexpr int kFewest = 5;
  std::map<std::string_view, int> counts;
  const std::vector<CorpusKernel> kernels = corpus_kernels();
  for (const CorpusKernel& kernel : kernels) ++counts[kernel.source.arch];
  for (const targets::TargetInfo& target : targets::all_targets()) {
    if (target.kind != DeviceKind::cuda) continue;
    EXPECT_GE(counts[target.name], kFewest) << target.name;
    fmt::print("  {:<8} {:>5} kernels\n", target.name, counts[target.name]);
  }
}

TEST(Rtc, HasKernelsOfFp8OfEveryTargetWithInstructionsForIt) {
  constexpr int kFewest = 2;
  std::map<std::string_view, int> counts;
  const std::vector<CorpusKernel> kernels = corpus_kernels();
  for (const CorpusKernel& kernel : kernels) {
    if (kernel.graph.starts_with("fp8_") && kernel.kind.starts_with("sm")) {
      ++counts[kernel.source.arch];
    }
  }
  for (const targets::TargetInfo& target : targets::all_targets()) {
    if (target.fp8_macs_per_clock == 0) continue;
    EXPECT_GE(counts[target.name], kFewest) << target.name;
    fmt::print("  {:<8} {:>5} kernels\n", target.name, counts[target.name]);
  }
}

// From Blackwell on NVRTC computes ahead of a loop what others compute in it.
TEST(Rtc, ReductionsOfRowsSpillOnNoTarget) {
  constexpr std::string_view kTexts[] = {
      "graph parts_of_softmax(x: bf16[M, N], m: bf16[M, 1]) {\n"
      "  s = sub x, m\n  e = exp s\n  t = row_sum e\n  return e, t\n}\n",
      "graph largest_of_a_row(x: f32[M, N], b: f32[N]) {\n"
      "  y = add x, b\n  a = abs y\n  t = row_max a\n  return y, t\n}\n"};
  const auto nvrtc = jit::Nvrtc::open();
  ASSERT_NE(nvrtc, nullptr);
  for (const std::string_view text : kTexts) {
    const plan::Plan plan = plan::make_plan(ir::parse(text), {Numerics::fast, true});
    ASSERT_EQ(plan.steps.size(), 1U);
    const auto& tail = std::get<plan::Tail>(plan.steps.front());
    for (const targets::TargetInfo& target : targets::all_targets()) {
      if (target.kind != DeviceKind::cuda) continue;
      const Outcome outcome = compile(*nvrtc, codegen::tail_source(plan, tail, target));
      EXPECT_EQ(outcome.failure, "") << plan.graph.name << ", " << target.name;
    }
  }
}

TEST(Rtc, EveryKernelOfTheCorpusCompilesCleanly) {
  const std::vector<CorpusKernel> kernels = corpus_kernels();
  ASSERT_FALSE(kernels.empty());
  std::vector<std::string> looked_in;
  const auto nvrtc = jit::Nvrtc::open(&looked_in);
  ASSERT_NE(nvrtc, nullptr) << "no NVRTC in " << ::testing::PrintToString(looked_in);
  const std::vector<Outcome> outcomes = compile_all(*nvrtc, kernels);
  print_table(kernels, outcomes);
  constexpr int kMaxShown = 10;
  int num_bad = 0, num_dropped = 0;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (outcomes[i].failure.empty()) continue;
    if (!kernels[i].leaner.empty() && outcomes[i].failure.starts_with("spills")) {
      ++num_dropped;  // another candidate takes its place
      fmt::print("  dropped: {}, {} {}: {}\n", kernels[i].graph, kernels[i].source.arch,
                 kernels[i].kind, outcomes[i].failure);
      continue;
    }
    fmt::print("  bad: {}, {}: {}\n", kernels[i].graph, kernels[i].kind, outcomes[i].failure);
    if (++num_bad > kMaxShown) continue;
    ADD_FAILURE() << kernels[i].graph << ", " << kernels[i].kind << ": " << outcomes[i].failure
                  << "\n"
                  << (num_bad == 1 ? kernels[i].source.text : "");
  }
  EXPECT_EQ(num_bad, 0) << "kernels that must not be used, of " << kernels.size();
  EXPECT_LE(num_dropped * 100, std::ssize(kernels)) << "configs whose leanest kernel spills";
}

}  // namespace
}  // namespace epifuse::rtc
