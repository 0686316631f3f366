// Measured choices on disk: their keys, and entries that are whole and unchanged or do not count.
#include "tune/store.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "base/hash.h"
#include "base/text.h"
#include "jit/compile_inputs.h"
#include "tune/shape_class.h"

namespace epifuse::tune {
namespace {

namespace fs = std::filesystem;

// First line of every entry; a new layout gets a new number and thereby new keys.
constexpr std::string_view kFormat = "epifuse tuned 4\n";
constexpr std::string_view kSuffix = ".tuned";
constexpr std::chrono::seconds kMostAlone{30};  // another may measure
constexpr std::chrono::milliseconds kBetweenTries{1};

std::string operand_text(const plan::Operand& operand) {
  return fmt::format("{} {} {}{} {}", name(operand.dtype), operand.transposed ? "^T" : "-",
                     static_cast<int>(operand.major), operand.k_major_copy ? " copy" : "",
                     operand.batched ? "batched" : "-");
}

std::string_view scales_text(const plan::GemmDesc& gemm) {
  if (!gemm.is_scaled()) return gemm.promoted ? " promoted" : "";
  return gemm.b_scales.are_shared ? " scaled by 1x128 and 128x128" : " scaled by 1x128";
}

// The step without the names that the graph gave to its values.
std::string nameless_text(const plan::FusedGemm& step) {
  plan::Epilogue epilogue = step.epilogue;
  for (std::size_t i = 0; i < epilogue.loads.size(); ++i) {
    epilogue.loads[i].name = fmt::format("x{}", i);
  }
  for (std::size_t i = 0; i < epilogue.stores.size(); ++i) {
    epilogue.stores[i].name = fmt::format("y{}", i);
  }
  return fmt::format("a {}\nb {}\nresult {}{}\n{}", operand_text(step.gemm.a),
                     operand_text(step.gemm.b), name(step.gemm.result), scales_text(step.gemm),
                     plan::print(epilogue));
}

// A time; none but a finite one that is not negative.
std::optional<double> us_of(std::string_view text) {
  const std::optional<double> us = parse_number(text);
  return us && std::isfinite(*us) && *us >= 0 ? us : std::nullopt;
}

std::string encode(const Tuned& tuned) {
  std::string fields;
  append_field(fields, tuned.choice);
  append_field(fields, tuned.measured);
  append_field(fields, number_text(tuned.us));
  append_field(fields, number_text(tuned.framework_us));
  append_field(fields, number_text(tuned.padded_us));
  return fields;
}

std::optional<Tuned> decode(std::string_view text) {
  FieldReader fields(text);
  Tuned tuned;
  tuned.choice = fields.string();
  tuned.measured = fields.string();
  for (double* each : {&tuned.us, &tuned.framework_us, &tuned.padded_us}) {
    const std::optional<double> us = us_of(fields.string());
    if (!us) return std::nullopt;
    *each = *us;
  }
  if (!fields.ok() || !fields.at_end()) return std::nullopt;
  return tuned;
}

}  // namespace

std::string operands_first(std::string_view kernel) {
  return fmt::format("{}, {}", kOperandsFirst, kernel);
}

std::optional<std::string_view> kernel_behind_copies(std::string_view choice) {
  if (!choice.starts_with(kOperandsFirst)) return std::nullopt;
  choice.remove_prefix(kOperandsFirst.size());
  if (choice.starts_with(", ")) choice.remove_prefix(2);
  return choice;
}

bool is_left_to_framework(const Tuned& tuned, bool gains_nothing, bool pads) {
  constexpr double kRatio = 1.03, kUs = 2, kAhead = 0.9, kCallUs = 20;
  const double framework_us = pads ? tuned.padded_us : tuned.framework_us;
  if (framework_us == 0) return false;
  const bool is_split = tuned.choice == kProductAndTail;
  if (gains_nothing && (is_split || framework_us > kCallUs)) {
    return tuned.us > kAhead * framework_us;
  }
  if (kernel_behind_copies(tuned.choice)) return tuned.us > framework_us;
  return tuned.us > kRatio * framework_us && tuned.us > framework_us + kUs;
}

std::string tune_key(const plan::Plan& plan, const plan::FusedGemm& step, const StepForm& form,
                     const Machine& machine) {
  std::string all;
  append_field(all, kFormat);
  append_field(all, jit::epifuse_version());
  append_field(all, jit::embedded_headers_digest());  // the kernels themselves
  append_field(all, machine.device);
  append_field(all, machine.driver_version);
  append_field(all, machine.toolchain);
  append_field(all, machine.family);
  append_field(all, name(plan.numerics));
  append_field(all, plan.allow_tf32 ? "tf32" : "");
  append_field(all, nameless_text(step));
  append_field(all, class_text(form.sizes));
  append_field(all, codegen::key(form.variant));
  if (form.is_copied) append_field(all, "copied");
  for (const std::int64_t columns : form.beside)
    append_field(all, fmt::format("beside {}", columns));
  return sha256_hex(all);
}

TuneStore::TuneStore(const fs::path& cache)
    : files_(cache.empty() ? fs::path() : cache / "tuned", kFormat, kSuffix,
             std::numeric_limits<std::uintmax_t>::max(), cache) {}

std::optional<Tuned> TuneStore::load(const std::string& key) const {
  const auto entry = files_.load(key);
  return entry ? decode(entry->fields) : std::nullopt;
}

bool TuneStore::store(const std::string& key, const Tuned& tuned,
                      std::string_view description) const {
  return files_.store(key, description, encode(tuned));
}

jit::KeyLock TuneStore::device_alone(std::string_view place) const {
  return {files_.folder().parent_path(), sha256_hex(fmt::format("measuring on {}", place)),
          kMostAlone, kBetweenTries};
}

Tuned TuneStore::keep(const std::string& key, const Tuned& tuned,
                      std::string_view description) const {
  if (files_.store_new(key, description, encode(tuned))) return tuned;
  return load(key).value_or(tuned);
}

std::vector<TuneStore::Entry> TuneStore::list() const {
  std::vector<Entry> entries;
  for (const SealedFolder::Entry& entry : files_.list()) {
    const auto tuned = entry.valid ? decode(entry.fields) : std::nullopt;
    entries.push_back({entry.key, tuned ? entry.description : "", tuned.value_or(Tuned{}),
                       entry.bytes, tuned.has_value(), entry.of_other_version});
  }
  return entries;
}

std::size_t TuneStore::clear() const {
  const std::size_t num_removed = files_.clear();
  std::error_code ignored;
  // Entries show that it is ours. It goes only if nothing else is in it.
  if (num_removed > 0) fs::remove(folder(), ignored);
  return num_removed;
}

}  // namespace epifuse::tune
