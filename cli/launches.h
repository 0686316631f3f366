// What launches of a step on tensors of a benchmark need, prepared once.
#pragma once

#include <memory>
#include <vector>

#include "backends/cuda/driver/context.h"
#include "backends/cuda/run/run_builder.h"
#include "bench_options.h"
#include "jit/jit.h"

namespace epifuse::cli {

struct Launches {
  const targets::TargetInfo& target = require_target();
  std::shared_ptr<jit::Jit> jit =
      std::make_shared<jit::Jit>(jit::KernelCache(jit::KernelCache::default_folder()));
  cuda::Context context{cuda::Device::require(), target};
  cuda::DeviceBuffer workspace = {};
  std::vector<cuda::Action> actions = {};

  void run() const {
    for (const cuda::Action& action : actions) cuda::run(context.device(), action, nullptr);
  }
};

}  // namespace epifuse::cli
