// Calls of kernels whose form came before: found by their numbers.
#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"
#include "capi/layout_programs.h"
#include "epifuse/error.h"

namespace epifuse {

void LayoutPrograms::run(CallNumbers numbers, Stream stream, CallSite* site) const {
  if (numbers.size() != num_numbers_) {
    throw ArgumentError(fmt::format("graph '{}': expected {} numbers for a call, got {}",
                                    graph_.name, num_numbers_, numbers.size()));
  }
  std::shared_ptr<const Form> form;
  if (site != nullptr) form = site->last_.load();
  if (form == nullptr || !is_of_form(numbers, *form)) {
    form = find_or_bind(numbers);
    if (site != nullptr) site->last_.store(form);
  }
  run_form(*form, numbers, stream);
}

std::shared_ptr<const LayoutPrograms::Form> LayoutPrograms::find_or_bind(
    CallNumbers numbers) const {
  auto form =
      recent_.find(hash_of(numbers), [&](const Form& known) { return is_of_form(numbers, known); });
  if (form != nullptr) return form;
  CallNumbers rest = numbers;
  const std::vector<EpifuseTensor> inputs = take_tensors(inputs_, rest);
  const std::vector<EpifuseTensor> outputs = take_tensors(outputs_, rest);
  return bind(numbers, inputs, outputs);
}

std::uint64_t LayoutPrograms::hash_of(CallNumbers numbers) const {
  std::uint64_t hash = 0;
  std::size_t at = 0;
  for (const std::size_t rank : ranks_) {
    hash = hash_next(hash, backends::remainder_of(reinterpret_cast<void*>(numbers[at++])));
    for (std::size_t i = 0; i < 2 * rank; ++i) {
      hash = hash_next(hash, static_cast<std::uint64_t>(numbers[at++]));
    }
  }
  return hash;
}

bool LayoutPrograms::is_of_form(CallNumbers numbers, const Form& form) const {
  std::size_t at = 0;
  for (const std::size_t rank : ranks_) {
    const auto remainder = [at](CallNumbers of) {
      return backends::remainder_of(reinterpret_cast<void*>(of[at]));
    };
    if (remainder(numbers) != remainder(form.numbers)) return false;
    ++at;
    if (!std::ranges::equal(numbers.subspan(at, 2 * rank),
                            CallNumbers(form.numbers).subspan(at, 2 * rank))) {
      return false;
    }
    at += 2 * rank;
  }
  return true;
}

void LayoutPrograms::run_form(const Form& form, CallNumbers numbers, Stream stream) {
  if (form.call == nullptr) return;
  std::vector<std::uintptr_t> bases;
  bases.reserve(form.address_places.size());
  for (const std::size_t place : form.address_places) {
    bases.push_back(backends::base_of(reinterpret_cast<void*>(numbers[place])));
  }
  form.call->run({bases, {}}, stream);
}

// By the names that a program's graph has for the tensors.
std::vector<std::size_t> LayoutPrograms::address_places(const ir::Graph& graph) const {
  std::vector<std::size_t> places;
  for (const std::string_view name : CallNames(graph).tensors) {
    std::size_t at = 0;
    for (const std::vector<Declared>* tensors : {&inputs_, &outputs_}) {
      for (const Declared& tensor : *tensors) {
        if (tensor.name == name) places.push_back(at);
        at += 1 + 2 * tensor.sizes.size();
      }
    }
  }
  return places;
}

}  // namespace epifuse
