// The road from source to cubin: this process's memory, then disk, then NVRTC.
#include "jit/jit.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <mutex>

#include "base/parallel.h"
#include "epifuse/error.h"
#include "jit/key_lock.h"
#include "jit/toolchain.h"

namespace epifuse::jit {
namespace {

// Longer than a kernel takes to compile on a machine that is busy.
constexpr std::chrono::milliseconds kMaxWait{60000};

using Result = std::shared_ptr<const Binary>;

// A source that this call found first and must answer for all who ask.
struct Job {
  const codegen::KernelSource* source;
  std::string key;
  std::promise<Result> promise;
  bool settled = false;
};

// For `epifuse cache`: what the kernel is, and the source's opening comment.
std::string describe(const codegen::KernelSource& source) {
  std::string text = fmt::format("{} {}", source.arch, source.entry);
  if (!source.text.starts_with("// ")) return text;
  return fmt::format("{}: {}", text, source.text.substr(3, source.text.find('\n') - 3));
}

Binary compile_or_report(const Nvrtc& nvrtc, const codegen::KernelSource& source) {
  try {
    return nvrtc.compile(source);
  } catch (const CompileError& error) {
    Binary refused;
    refused.log = error.log;
    refused.problems.push_back(error.log.empty() ? error.what() : error.log);
    return refused;
  }
}

}  // namespace

struct Jit::Impl {
  explicit Impl(KernelCache cache_) : cache(std::move(cache_)) {}

  const KernelCache cache;

  // The NVRTC of this process, opened at first need.
  std::shared_ptr<const Nvrtc> nvrtc() {
    const std::lock_guard lock(open_mutex);
    if (opened != nullptr) return opened;
    std::vector<std::string> looked_in;
    opened = Nvrtc::open(&looked_in);
    if (opened == nullptr) {
      throw UnavailableError(
          fmt::format("NVRTC, which compiles kernels, was not found. Set EPIFUSE_NVRTC to the path "
                      "of a libnvrtc.so of CUDA 12 or later, or `pip install nvidia-cuda-nvrtc`. "
                      "Looked in:\n  {}",
                      fmt::join(looked_in, "\n  ")));
    }
    record_toolchain(cache.folder(), *opened);
    return opened;
  }

  // What keys are formed with, found once.
  std::string toolchain() {
    {
      const std::lock_guard lock(open_mutex);
      if (!known_toolchain) known_toolchain = recorded_toolchain(cache.folder());
      if (known_toolchain) return *known_toolchain;
    }
    const std::string opened_toolchain = nvrtc()->toolchain();
    const std::lock_guard lock(open_mutex);
    known_toolchain = opened_toolchain;
    return opened_toolchain;
  }

  // The future of each source; those that nobody asked for before are added to `jobs`.
  std::vector<std::shared_future<Result>> claim(std::span<const codegen::KernelSource> sources,
                                                std::vector<Job>& jobs) {
    const std::string used_toolchain = toolchain();
    std::vector<std::shared_future<Result>> futures;
    for (const codegen::KernelSource& source : sources) {
      std::string key = cache_key(source, used_toolchain);
      const std::lock_guard lock(results_mutex);
      auto found = results.find(key);
      if (found == results.end()) {
        jobs.push_back({&source, key, {}, false});
        found = results.emplace(std::move(key), jobs.back().promise.get_future()).first;
      }
      futures.push_back(found->second);
    }
    return futures;
  }

  void compile(Job& job) {
    const std::shared_ptr<const Nvrtc> compiler = nvrtc();
    ++num_compiled;
    auto binary = std::make_shared<const Binary>(compile_or_report(*compiler, *job.source));
    compile_seconds += binary->compile_seconds;
    if (!binary->cubin.empty()) {
      // Named by the compiler that made it: the record that gave job.key may have been out of date.
      cache.store(cache_key(*job.source, compiler->toolchain()), *binary, describe(*job.source));
    }
    settle(job, std::move(binary));
  }

  static void settle(Job& job, Result result) {
    job.promise.set_value(std::move(result));
    job.settled = true;
  }

  // Those who wait get the exception; who asks later tries again.
  void give_up(Job& job) {
    {
      const std::lock_guard lock(results_mutex);
      results.erase(job.key);
    }
    job.promise.set_exception(std::current_exception());
    job.settled = true;
  }

  bool settle_from_disk(Job& job) {
    std::optional<Binary> binary = cache.load(job.key);
    if (!binary) return false;
    settle(job, std::make_shared<const Binary>(std::move(*binary)));
    return true;
  }

  // What another process compiles at this moment is left for later.
  void compile_unless_busy(Job& job) {
    const KeyLock lock(cache.folder(), job.key);
    if (lock.state() == KeyLock::State::busy) return;
    if (!settle_from_disk(job)) compile(job);
  }

  // Who waited in vain once, for a process that hangs, does not wait for other kernels.
  void compile_or_wait(Job& job, std::atomic<bool>& waits) {
    const KeyLock lock(cache.folder(), job.key, waits ? kMaxWait : kMaxWait.zero());
    if (lock.state() == KeyLock::State::busy) waits = false;
    if (!settle_from_disk(job)) compile(job);
  }

  void for_unsettled(std::vector<Job>& jobs, const std::function<void(Job&)>& function) {
    std::vector<Job*> left;
    for (Job& job : jobs) {
      if (!job.settled) left.push_back(&job);
    }
    parallel_for(std::ssize(left), [&](std::int64_t i, int) {
      Job& job = *left[static_cast<std::size_t>(i)];
      try {
        function(job);
      } catch (...) {
        give_up(job);
      }
    });
  }

  // Answers every job: from disk, else by compiling, else by waiting for who compiles it.
  void work_off(std::vector<Job>& jobs) {
    for (Job& job : jobs) settle_from_disk(job);
    for_unsettled(jobs, [&](Job& job) { compile_unless_busy(job); });
    std::atomic<bool> waits = true;
    for_unsettled(jobs, [&](Job& job) { compile_or_wait(job, waits); });
  }

  std::mutex open_mutex;
  std::shared_ptr<const Nvrtc> opened;
  std::optional<std::string> known_toolchain;
  std::mutex results_mutex;
  std::map<std::string, std::shared_future<Result>> results;
  std::atomic<std::int64_t> num_compiled = 0;
  std::atomic<double> compile_seconds = 0;
};

Jit::Jit(KernelCache cache) : impl_(std::make_shared<Impl>(std::move(cache))) {}

const KernelCache& Jit::cache() const { return impl_->cache; }

std::string Jit::toolchain() const { return impl_->toolchain(); }

std::int64_t Jit::num_compiled() const { return impl_->num_compiled; }

double Jit::compile_seconds() const { return impl_->compile_seconds; }

std::vector<Result> Jit::get(std::span<const codegen::KernelSource> sources) {
  std::vector<Job> jobs;
  const std::vector<std::shared_future<Result>> futures = impl_->claim(sources, jobs);

  try {
    impl_->work_off(jobs);
  } catch (...) {
    for (Job& job : jobs) {
      if (!job.settled) impl_->give_up(job);
    }
    throw;
  }

  std::vector<Result> results;
  for (const std::shared_future<Result>& future : futures) results.push_back(future.get());
  return results;
}

std::shared_ptr<const Binary> Jit::find(const codegen::KernelSource& source) {
  const std::string key = cache_key(source, toolchain());
  {
    const std::lock_guard lock(impl_->results_mutex);
    const auto found = impl_->results.find(key);
    if (found != impl_->results.end()) {
      const bool is_done =
          found->second.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
      return is_done ? found->second.get() : nullptr;
    }
  }
  return cache().load(key) ? get({&source, 1}).front() : nullptr;
}

}  // namespace epifuse::jit
