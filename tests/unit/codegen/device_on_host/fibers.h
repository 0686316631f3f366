// The CUDA threads of a block as fibers of one thread of the host, which take turns where they
// wait: a thread of the host for each would spend its time being woken.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

namespace epifuse::device_on_host {

class Fibers {
 public:
  // `resumed` is told which of them goes on.
  explicit Fibers(std::function<void(unsigned)> resumed) : resumed_(std::move(resumed)) {}

  // Runs body(0) .. body(count - 1) to their ends. They are resumed in order, and in the opposite
  // order by turns, so that neither hides a wait that is missing.
  void run(unsigned count, const std::function<void(unsigned)>& body) {
    body_ = &body;
    running = this;
    fibers_ = std::vector<Fiber>(count);
    for (Fiber& fiber : fibers_) begin(fiber);
    for (bool is_reverse = false; num_running_ > 0; is_reverse = !is_reverse) {
      for (unsigned i = 0; i < count; ++i) resume(is_reverse ? count - 1 - i : i);
    }
    running = nullptr;
  }

  static inline Fibers* running = nullptr;

  // Of the fiber that runs: lets the others go on.
  void yield() {
    Fiber& fiber = fibers_[current_];
    leave(fiber);
    swapcontext(&fiber.context, &main_);
    arrived(fiber.fake_stack);
  }

 private:
  static constexpr std::size_t kStackBytes = 256 << 10;
  struct Fiber {
    std::unique_ptr<std::byte[]> stack;
    ucontext_t context{};
    void* fake_stack = nullptr;
    bool is_done = false;
  };

  static void enter() {
    Fibers& all = *running;
    all.arrived(nullptr);
    (*all.body_)(all.current_);
    Fiber& fiber = all.fibers_[all.current_];
    fiber.is_done = true;
    --all.num_running_;
    all.leave(fiber);
    swapcontext(&fiber.context, &all.main_);  // for good
  }

  void begin(Fiber& fiber) {
    fiber.stack.reset(new std::byte[kStackBytes]);
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStackBytes;
    makecontext(&fiber.context, enter, 0);
    ++num_running_;
  }

  void resume(unsigned index) {
    Fiber& fiber = fibers_[index];
    if (fiber.is_done) return;
    current_ = index;
    resumed_(index);
#ifdef __SANITIZE_ADDRESS__
    void* fake_stack = nullptr;
    __sanitizer_start_switch_fiber(&fake_stack, fiber.stack.get(), kStackBytes);
#endif
    swapcontext(&main_, &fiber.context);
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
  }

  // Tell the address sanitizer which stack is in use.
  void leave([[maybe_unused]] Fiber& fiber) {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(fiber.is_done ? nullptr : &fiber.fake_stack, main_stack_,
                                   main_bytes_);
#endif
  }
  void arrived([[maybe_unused]] void* fake_stack) {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(fake_stack, &main_stack_, &main_bytes_);
#endif
  }

  ucontext_t main_{};
  std::vector<Fiber> fibers_;
  const std::function<void(unsigned)>* body_ = nullptr;
  std::function<void(unsigned)> resumed_;
  unsigned current_ = 0, num_running_ = 0;
  const void* main_stack_ = nullptr;
  std::size_t main_bytes_ = 0;
};

// Where something else must go on first, also between threads of the host.
inline void yield() {
  if (Fibers::running != nullptr) {
    Fibers::running->yield();
  } else {
    std::this_thread::yield();
  }
}

// As __syncthreads, of so many fibers.
class Barrier {
 public:
  explicit Barrier(unsigned count) : count_(count) {}
  void arrive_and_wait() {
    if (++num_arrived_ == count_) {
      num_arrived_ = 0;
      ++num_ended_;
      return;
    }
    for (const unsigned before = num_ended_; num_ended_ == before;) yield();
  }

 private:
  unsigned count_, num_arrived_ = 0, num_ended_ = 0;
};

}  // namespace epifuse::device_on_host
