// Measured choices on disk: their keys, and entries that are whole and unchanged or do not count.
#include "tune/store.h"

#include <fmt/format.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/sealed.h"
#include "epifuse/error.h"
#include "jit/compile_inputs.h"

namespace epifuse::tune {
namespace {

namespace fs = std::filesystem;

// First line of every entry; a new layout gets a new number and thereby new keys.
constexpr std::string_view kFormat = "epifuse tuned 1\n";
constexpr std::string_view kSuffix = ".tuned";

std::string operand_text(const plan::Operand& operand) {
  return fmt::format("{} {} {} {}", name(operand.dtype), operand.transposed ? "^T" : "-",
                     static_cast<int>(operand.major), operand.batched ? "batched" : "-");
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
  return fmt::format("a {}\nb {}\nresult {}\n{}", operand_text(step.gemm.a),
                     operand_text(step.gemm.b), name(step.gemm.result), plan::print(epilogue));
}

struct Stored {
  std::string description;
  Tuned tuned;
};

std::string encode(const std::string& key, const Tuned& tuned, std::string_view description) {
  std::string fields;
  for (std::string_view field : {std::string_view(key), description, std::string_view(tuned.choice),
                                 std::string_view(tuned.measured)}) {
    append_field(fields, field);
  }
  return seal(kFormat, fields);
}

std::optional<Stored> decode(const std::string& key, std::string_view bytes) {
  const std::optional<std::string_view> whole = unseal(kFormat, bytes);
  if (!whole) return std::nullopt;
  FieldReader fields(*whole);
  if (fields.string() != key) return std::nullopt;  // a file under another name
  Stored stored;
  stored.description = fields.string();
  stored.tuned.choice = fields.string();
  stored.tuned.measured = fields.string();
  if (!fields.ok() || !fields.at_end()) return std::nullopt;
  return stored;
}

fs::path file_of_key(const fs::path& folder, const std::string& key) {
  return folder / (key + std::string(kSuffix));
}

}  // namespace

std::string tune_key(const plan::Plan& plan, const plan::FusedGemm& step,
                     const codegen::GemmSizes& sizes, const codegen::GemmVariant& variant,
                     const Machine& machine) {
  std::string all;
  append_field(all, kFormat);
  append_field(all, jit::epifuse_version());
  append_field(all, jit::embedded_headers_digest());  // the kernels themselves
  append_field(all, machine.device);
  append_field(all, machine.driver_version);
  append_field(all, name(plan.numerics));
  append_field(all, plan.allow_tf32 ? "tf32" : "");
  append_field(all, nameless_text(step));
  append_field(all, fmt::format("{} {} {} {}", sizes.batch, sizes.m, sizes.n, sizes.k));
  append_field(all, codegen::print(variant));
  append_field(all, static_cast<int>(variant.plain_loads));
  append_field(all, static_cast<int>(variant.plain_stores));
  return sha256_hex(all);
}

TuneStore::TuneStore(const fs::path& cache)
    : folder_(cache.empty() ? fs::path() : cache / "tuned") {}

std::optional<Tuned> TuneStore::load(const std::string& key) const {
  if (folder_.empty()) return std::nullopt;
  const std::optional<std::string> bytes = read_file(file_of_key(folder_, key));
  if (!bytes) return std::nullopt;
  std::optional<Stored> stored = decode(key, *bytes);
  if (!stored) return std::nullopt;
  return std::move(stored->tuned);
}

void TuneStore::store(const std::string& key, const Tuned& tuned,
                      std::string_view description) const {
  if (folder_.empty()) return;
  try {
    make_private_folder(folder_);
    write_file_atomically(file_of_key(folder_, key), encode(key, tuned, description));
  } catch (const Error&) {
    // A folder that cannot be written only costs the next process its own measurement.
  }
}

std::vector<TuneStore::Entry> TuneStore::list() const {
  std::vector<Entry> entries;
  for (const fs::path& file : files_with(folder_, kSuffix)) {
    const std::optional<std::string> bytes = read_file(file);
    if (!bytes) continue;  // removed since it was listed
    const std::string key = file.stem().string();
    const std::optional<Stored> stored = decode(key, *bytes);
    entries.push_back({key, stored ? stored->description : "", stored ? stored->tuned : Tuned{},
                       bytes->size(), stored.has_value()});
  }
  return entries;
}

std::size_t TuneStore::clear() const {
  std::size_t num_removed = 0;
  std::error_code ignored;
  for (const fs::path& file : files_with(folder_, kSuffix)) {
    if (fs::remove(file, ignored)) ++num_removed;
  }
  for (const fs::path& file : files_with(folder_, kTemporarySuffix)) fs::remove(file, ignored);
  if (!folder_.empty()) fs::remove(folder_, ignored);  // only if nothing is in it
  return num_removed;
}

bool TuneStore::empty() const { return files_with(folder_, kSuffix).empty(); }

}  // namespace epifuse::tune
