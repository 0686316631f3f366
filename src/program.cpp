// Running a compiled graph and asking what it became.
#include <algorithm>
#include <bit>

#include "explain.h"
#include "program_state.h"

namespace epifuse {
namespace {

constexpr std::size_t kMostRecent = 16;

bool same(const Binding& a, const Binding& b) {
  return a.view.data == b.view.data && a.view.shape == b.view.shape &&
         a.view.strides == b.view.strides && a.view.dtype == b.view.dtype &&
         a.view.device == b.view.device &&
         std::bit_cast<std::uint64_t>(a.scalar) == std::bit_cast<std::uint64_t>(b.scalar) &&
         a.name == b.name;
}

}  // namespace

std::shared_ptr<const codegen::Bound> RecentBindings::find_or_bind(const plan::Plan& plan,
                                                                   std::span<const Binding> tensors,
                                                                   DeviceKind device) {
  {
    const std::scoped_lock lock(mutex_);
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
      if (!std::equal(entry->tensors.begin(), entry->tensors.end(), tensors.begin(), tensors.end(),
                      same)) {
        continue;
      }
      entries_.splice(entries_.begin(), entries_, entry);
      return entries_.front().bound;
    }
  }
  auto bound = std::make_shared<const codegen::Bound>(backends::bind(plan, tensors, device));
  const std::scoped_lock lock(mutex_);
  entries_.push_front({{tensors.begin(), tensors.end()}, bound});
  if (entries_.size() > kMostRecent) entries_.pop_back();
  return bound;
}

void Program::run(std::span<const Binding> tensors, Stream stream) const {
  const auto bound =
      state_->recent.find_or_bind(state_->executable->plan(), tensors, state_->target.kind);
  state_->executable->run(bound, stream);
}

std::string Program::explain(const Sizes& sizes, std::string_view machine) const {
  return explain_text(state_->executable->plan(), state_->executable->report(), state_->target,
                      sizes, machine);
}

std::string Program::explain_json(const Sizes& sizes, std::string_view machine) const {
  return epifuse::explain_json(state_->executable->plan(), state_->executable->report(),
                               state_->target, sizes, machine);
}

std::vector<std::pair<std::string, std::string>> Program::sources() const {
  return state_->executable->sources();
}

int Program::num_kernels() const {
  return static_cast<int>(state_->executable->plan().steps.size());
}

const Target& Program::target() const { return state_->target; }

}  // namespace epifuse
