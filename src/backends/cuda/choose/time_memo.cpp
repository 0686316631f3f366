// What the families' models of time say, remembered for steps that are alike.
#include "backends/cuda/choose/time_memo.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "tune/shortlist.h"

namespace epifuse::cuda {
namespace {

using codegen::GemmConfig;
using ir::ValueId;
using plan::FusedGemm;

// Values by the order in which a step names them first: which of its values are one stays known.
class Renamer {
 public:
  void rename(ValueId& value) {
    if (value < 0) return;
    const auto known = std::find(seen_.begin(), seen_.end(), value);
    const auto place = known - seen_.begin();
    if (known == seen_.end()) seen_.push_back(value);
    value = static_cast<ValueId>(place);
  }
  void rename(plan::Operand& operand) {
    rename(operand.value);
    rename(operand.lookup);
  }

 private:
  std::vector<ValueId> seen_;  // a few: what an epilogue loads and stores is limited
};

FusedGemm without_names(FusedGemm step) {
  Renamer renamer;
  plan::GemmDesc& gemm = step.gemm;
  for (ValueId* value : {&gemm.matmul, &gemm.first, &gemm.second, &gemm.groups, &gemm.k_groups}) {
    renamer.rename(*value);
  }
  for (plan::Operand* operand : {&gemm.a, &gemm.b, &gemm.second_b}) renamer.rename(*operand);
  for (plan::Load& load : step.epilogue.loads) {
    renamer.rename(load.value);
    renamer.rename(load.lookup);
    load.name.clear();
  }
  for (plan::Store& store : step.epilogue.stores) {
    renamer.rename(store.value);
    renamer.rename(store.index);
    store.name.clear();
  }
  return step;
}

// Of what most often differs; equal steps have equal ones.
std::size_t hash_of(const FusedGemm& step) {
  std::size_t hash = 0;
  const auto add = [&hash](std::size_t part) {
    hash ^= part + 0x9e3779b97f4a7c15 + (hash << 6) + (hash >> 2);
  };
  for (const Dim* dim : {&step.gemm.m, &step.gemm.n, &step.gemm.k}) {
    add(std::hash<std::int64_t>()(dim->constant().value_or(-1)));
  }
  add(static_cast<std::size_t>(step.gemm.a.dtype));
  add(static_cast<std::size_t>(step.gemm.b.dtype));
  for (const plan::Load& load : step.epilogue.loads) add(static_cast<std::size_t>(load.access));
  for (const plan::Compute& compute : step.epilogue.computes) {
    add(static_cast<std::size_t>(compute.op));
    add(std::hash<double>()(compute.value));
  }
  for (const plan::Store& store : step.epilogue.stores) add(static_cast<std::size_t>(store.kind));
  return hash;
}

// The answer to the same question; null when it was not asked.
template <class Known>
const Known* find(const std::vector<Known>& all, std::span<const GemmConfig> configs) {
  const auto known = std::find_if(all.begin(), all.end(), [&](const Known& each) {
    return std::equal(each.configs.begin(), each.configs.end(), configs.begin(), configs.end());
  });
  return known == all.end() ? nullptr : &*known;
}

}  // namespace

std::size_t StepClasses::of(const FusedGemm& step) {
  FusedGemm plain = without_names(step);
  const std::size_t hash = hash_of(plain);
  const auto [begin, end] = by_hash_.equal_range(hash);
  for (auto each = begin; each != end; ++each) {
    if (classes_[each->second] == plain) return each->second;
  }
  by_hash_.emplace(hash, classes_.size());
  classes_.push_back(std::move(plain));
  return classes_.size() - 1;
}

TimeMemo::Best TimeMemo::best(const codegen::KernelFamily& family, const FusedGemm& step,
                              std::span<const GemmConfig> configs, const codegen::GemmSizes& sizes,
                              const targets::DeviceProfile& device) {
  constexpr std::size_t kMost = 1 << 14;  // numbers of rows that a server may see
  const std::lock_guard lock(mutex_);
  if (best_.size() >= kMost) best_.clear();
  std::vector<Known<Best>>& known =
      best_[{&family, classes_.of(step), sizes.batch, sizes.m, sizes.n, sizes.k, sizes.groups,
             sizes.row_bytes_a, sizes.row_bytes_b, device}];
  if (const Known<Best>* found = find(known, configs)) return found->answer;
  ++num_weighed_;
  const std::size_t index = codegen::choose(family, step, configs, sizes, device);
  const Best best{index, family.expected_us(step, configs[index], sizes, device)};
  known.push_back({{configs.begin(), configs.end()}, best});
  return best;
}

std::vector<std::size_t> TimeMemo::shortlist(const codegen::KernelFamily& family,
                                             const FusedGemm& step,
                                             std::span<const GemmConfig> configs,
                                             std::span<const codegen::GemmSizes> sizes,
                                             const targets::DeviceProfile& device,
                                             std::size_t most) {
  const std::lock_guard lock(mutex_);
  auto& known = shortlists_[{&family, classes_.of(step), device, most}];
  if (const auto* found = find(known, configs)) return found->answer;
  ++num_weighed_;
  std::vector<std::size_t> picked = tune::shortlist(family, step, configs, sizes, device, most);
  known.push_back({{configs.begin(), configs.end()}, picked});
  return picked;
}

std::size_t TimeMemo::step_class(const FusedGemm& step) {
  const std::lock_guard lock(mutex_);
  return classes_.of(step);
}

std::size_t TimeMemo::num_weighed() const {
  const std::lock_guard lock(mutex_);
  return num_weighed_;
}

}  // namespace epifuse::cuda
