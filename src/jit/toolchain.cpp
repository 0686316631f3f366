// Which NVRTC a cache folder's kernels came from, known without opening NVRTC.
#include "jit/toolchain.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "base/file.h"
#include "base/private_files.h"
#include "base/settings.h"
#include "epifuse/error.h"
#include "jit/nvrtc_places.h"

namespace epifuse::jit {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFileName = "toolchains.tsv";
constexpr std::size_t kMaxRecords = 16;
constexpr std::uintmax_t kMaxFileBytes = 1 << 20;

// A line of the file: fields between tabs, the most recently used NVRTC first.
struct Record {
  std::string place, path, stamp, toolchain;
};

// Size and time of last change; empty when there is no such file.
std::string stamp_of(const fs::path& path) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  if (error) return "";
  const fs::file_time_type time = fs::last_write_time(path, error);
  if (error) return "";
  return fmt::format("{}@{}", size, time.time_since_epoch().count());
}

std::vector<Record> read_records(const fs::path& folder) {
  std::vector<Record> records;
  std::istringstream lines(read_private_file(folder / kFileName, kMaxFileBytes).value_or(""));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    Record record;
    for (std::string* field : {&record.place, &record.path, &record.stamp, &record.toolchain}) {
      std::getline(fields, *field, '\t');
    }
    if (!record.toolchain.empty()) records.push_back(std::move(record));
  }
  return records;
}

void remove_left_overs(const fs::path& folder) {
  std::error_code ignored;
  for (const fs::path& file : files_with(folder, kTemporarySuffix)) {
    const bool is_ours = target_of_temporary(file.filename().string()) == kFileName;
    if (is_ours && is_left_over(file)) fs::remove(file, ignored);
  }
}

}  // namespace

std::optional<std::string> recorded_toolchain(const fs::path& cache_folder) {
  if (cache_folder.empty() || why_not_private(cache_folder)) return std::nullopt;
  const std::vector<Record> records = read_records(cache_folder);
  for (const std::string& place : nvrtc_places(Settings::read())) {
    const auto record = std::find_if(records.begin(), records.end(),
                                     [&](const Record& r) { return r.place == place; });
    const bool known = record != records.end() && !record->stamp.empty();
    if (known && record->stamp == stamp_of(record->path)) return record->toolchain;
    // A file that is there but not known would be opened. A bare name that no run has opened yet
    // counts as absent: asking the loader would already open it.
    const bool is_file = place.find('/') != std::string::npos;
    if (is_file && !stamp_of(place).empty()) return std::nullopt;
  }
  if (records.empty()) return std::nullopt;
  return records.front().toolchain;
}

void record_toolchain(const fs::path& cache_folder, const Nvrtc& nvrtc) {
  if (cache_folder.empty() || why_not_private(cache_folder)) return;
  std::vector<Record> records = read_records(cache_folder);
  std::erase_if(records, [&](const Record& record) { return record.place == nvrtc.place(); });
  records.insert(records.begin(),
                 {nvrtc.place(), nvrtc.path(), stamp_of(nvrtc.path()), nvrtc.toolchain()});
  if (records.size() > kMaxRecords) records.resize(kMaxRecords);
  std::string text;
  for (const Record& record : records) {
    text +=
        fmt::format("{}\t{}\t{}\t{}\n", record.place, record.path, record.stamp, record.toolchain);
  }
  try {
    make_private_folder(cache_folder);
    remove_left_overs(cache_folder);
    write_file_atomically(cache_folder / kFileName, text);
  } catch (const Error&) {
    // Without a record the next process opens NVRTC to know its keys.
  }
}

}  // namespace epifuse::jit
