// `epifuse cache`: the folder of compiled kernels and tuned choices.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/printable.h"
#include "command.h"
#include "epifuse/error.h"
#include "files.h"
#include "jit/jit.h"
#include "output.h"
#include "text_table.h"
#include "tune/store.h"

namespace epifuse::cli {
namespace {

struct Options {
  std::string action;
  bool json = false;
};

struct Cache {
  jit::KernelCache kernels{jit::KernelCache::default_folder()};
  tune::TuneStore choices{kernels.folder()};
};

struct Summary {
  std::size_t kernels = 0, choices = 0, corrupt = 0, other_version = 0;
  std::uintmax_t bytes = 0;

  template <class Entry>
  std::size_t add(const std::vector<Entry>& entries) {
    for (const Entry& entry : entries) {
      other_version += entry.of_other_version ? 1 : 0;
      corrupt += entry.valid || entry.of_other_version ? 0 : 1;
      bytes += entry.bytes;
    }
    return entries.size();
  }
};

// "TARGET NAME: what it is for" of a description, in three cells; what has no such parts is the
// last.
std::array<std::string, 3> description_cells(const std::string& description) {
  const std::size_t space = description.find(' ');
  const std::size_t colon = description.find(": ");
  if (space == std::string::npos || colon == std::string::npos || colon < space) {
    return {"", "", printable(description)};
  }
  return {printable(description.substr(0, space)),
          printable(description.substr(space + 1, colon - space - 1)),
          printable(description.substr(colon + 2))};
}

std::string state_text(bool valid, bool of_other_version) {
  return valid ? "good" : of_other_version ? "other version" : "CORRUPT";
}

std::string key_text(const std::string& key) { return printable(key.substr(0, 16)); }

void print_lists(const std::vector<jit::KernelCache::Entry>& kernels,
                 const std::vector<tune::TuneStore::Entry>& choices) {
  std::vector<std::vector<std::string>> rows{{"KEY", "SIZE>", "STATE", "TARGET", "KERNEL", "OF"}};
  for (const auto& entry : kernels) {
    const auto [target, name, what] = description_cells(entry.description);
    rows.push_back({key_text(entry.key), size_text(entry.bytes),
                    state_text(entry.valid, entry.of_other_version), target, name, what});
  }
  if (rows.size() > 1) fmt::print("Compiled kernels\n{}\n", text_table(rows));
  rows = {{"KEY", "SIZE>", "STATE", "CHOICE", "FOR"}};
  for (const auto& entry : choices) {
    rows.push_back({key_text(entry.key), size_text(entry.bytes),
                    state_text(entry.valid, entry.of_other_version), printable(entry.tuned.choice),
                    printable(entry.description)});
  }
  if (rows.size() > 1) fmt::print("Tuned choices\n{}\n", text_table(rows));
}

nlohmann::json to_json(const jit::KernelCache::Entry& entry) {
  return {{"key", entry.key},
          {"bytes", entry.bytes},
          {"description", entry.description},
          {"valid", entry.valid},
          {"other_version", entry.of_other_version}};
}

nlohmann::json to_json(const tune::TuneStore::Entry& entry) {
  return {{"key", entry.key},
          {"bytes", entry.bytes},
          {"description", entry.description},
          {"choice", entry.tuned.choice},
          {"measured", entry.tuned.measured},
          {"valid", entry.valid},
          {"other_version", entry.of_other_version}};
}

template <class Entry>
nlohmann::json list(const std::vector<Entry>& entries) {
  nlohmann::json out = nlohmann::json::array();
  for (const Entry& entry : entries) out.push_back(to_json(entry));
  return out;
}

// Of the entries of a folder those that are ours: others under such names stay.
template <class Entries>
std::size_t num_left(const Entries& entries) {
  return static_cast<std::size_t>(std::ranges::count_if(
      entries, [](const auto& entry) { return entry.valid || entry.of_other_version; }));
}

// Throws ArgumentError where entries are left since one of the folders cannot be written.
void check_cleared(const Cache& cache, std::size_t kernels, std::size_t choices) {
  int error = 0;
  const auto left_in = [&](const std::filesystem::path& folder, std::size_t num_left) {
    if (num_left == 0 || ::access(folder.c_str(), W_OK | X_OK) == 0) return std::size_t{0};
    error = errno;
    return num_left;
  };
  const std::size_t left_kernels = left_in(cache.kernels.folder(), num_left(cache.kernels.list()));
  const std::size_t left_choices = left_in(cache.choices.folder(), num_left(cache.choices.list()));
  if (left_kernels + left_choices == 0) return;
  throw ArgumentError(fmt::format(
      "{} kernels and {} tuned choices could not be removed from {}: {}; removed {} kernels and {} "
      "tuned choices",
      left_kernels, left_choices, printable(cache.kernels.folder().native()),
      std::generic_category().message(error), kernels, choices));
}

int clear(const Cache& cache, const Options& options) {
  const std::size_t kernels = cache.kernels.clear(), choices = cache.choices.clear();
  check_cleared(cache, kernels, choices);
  if (options.json) {
    print_json(nlohmann::json{{"removed", kernels}, {"removed_choices", choices}});
  } else {
    fmt::print("removed {} kernels and {} tuned choices from {}\n", kernels, choices,
               printable(cache.kernels.folder().native()));
  }
  return kOk;
}

int run(const Options& options) {
  const Cache cache;
  check_cache_readable(cache.kernels.folder());
  check_cache_readable(cache.choices.folder());
  if (options.action == "clear") return clear(cache, options);
  const auto kernels = cache.kernels.list();
  const auto choices = cache.choices.list();
  Summary sum;
  sum.kernels = sum.add(kernels);
  sum.choices = sum.add(choices);
  if (options.json) {
    const nlohmann::json out{{"folder", cache.kernels.folder().string()},
                             {"kernels", sum.kernels},
                             {"tuned", sum.choices},
                             {"bytes", sum.bytes},
                             {"corrupt", sum.corrupt},
                             {"other_version", sum.other_version},
                             {"entries", list(kernels)},
                             {"choices", list(choices)}};
    print_json(out);
  } else {
    if (options.action == "list") print_lists(kernels, choices);
    fmt::print(
        "{}: {} kernels, {} tuned choices, {}, {}{} corrupt{}\n",
        printable(cache.kernels.folder().native()), sum.kernels, sum.choices, size_text(sum.bytes),
        sum.other_version > 0 ? fmt::format("{} of another version, ", sum.other_version) : "",
        sum.corrupt, sum.corrupt > 0 ? " (ignored; replaced when they are next needed)" : "");
  }
  const bool good = sum.corrupt == 0 && cache.kernels.is_private();
  return options.action == "verify" && !good ? kCheckFailed : kOk;
}

}  // namespace

std::function<int()> define_cache(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("ACTION", options->action, "list, size, verify or clear")
      ->required()
      ->check(CLI::IsMember({"list", "size", "verify", "clear"}));
  app.add_flag("--json", options->json, "Print JSON");
  app.footer(
      "The folder is EPIFUSE_CACHE, else the user's cache folder. One to which other users can "
      "write\n"
      "is not used. `clear` removes kernels and tuned choices; device profiles and files of others "
      "stay.\n"
      "Example: epifuse cache verify && epifuse cache size");
  return [options] { return run(*options); };
}

}  // namespace epifuse::cli
