#include "results.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <vector>

#include "base/printable.h"
#include "epifuse/error.h"
#include "files.h"

namespace epifuse::cli {
namespace {

// What makes two rows the same point and contender.
constexpr std::array<const char*, 10> kKeys{
    "suite", "workload", "m", "n", "k", "groups", "dtype", "epilogue", "numerics", "contender"};

bool same_point(const nlohmann::json& a, const nlohmann::json& b) {
  for (const char* key : kKeys) {
    if (a.value(key, nlohmann::json()) != b.value(key, nlohmann::json())) return false;
  }
  return true;
}

nlohmann::json number_or_null(double x) { return x > 0 ? nlohmann::json(x) : nlohmann::json(); }

// Copies and prints of a document call themselves for each level of it.
bool refuse_depth(int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
  constexpr int kMostDepth = 64;
  if (depth <= kMostDepth) return true;
  throw ArgumentError(fmt::format("JSON of more than {} levels", kMostDepth));
}

nlohmann::json existing_rows(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored) ? read_rows(path) : nlohmann::json::array();
}

}  // namespace

nlohmann::json read_rows(const std::filesystem::path& path) {
  const auto fail = [&](const std::string& came) {
    throw ArgumentError(
        fmt::format("{}: expected a list of result rows, got {}", printable(path.native()), came));
  };
  const std::string text = read_input(path, kMaxDocumentBytes);
  nlohmann::json rows;
  try {
    rows = nlohmann::json::parse(text, refuse_depth, false);
  } catch (const ArgumentError& error) {
    fail(error.what());
  }
  if (rows.is_discarded()) fail("no JSON");
  if (!rows.is_array()) fail(printable(rows.dump()));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].is_object()) fail(fmt::format("{} as row {}", printable(rows[i].dump()), i + 1));
  }
  return rows;
}

void check_results(const std::filesystem::path& path) { existing_rows(path); }

nlohmann::json to_json(const ResultRow& row, const ResultContext& context) {
  nlohmann::json out = {{"suite", row.suite},
                        {"workload", row.workload},
                        {"m", row.m},
                        {"n", row.n},
                        {"k", row.k},
                        {"groups", row.groups},
                        {"dtype", row.dtype},
                        {"epilogue", row.epilogue},
                        {"numerics", row.numerics},
                        {"contender", row.contender},
                        {"us", row.us},
                        {"baseline", row.baseline},
                        {"ratio", number_or_null(row.ratio)},
                        {"ratio_sustained", number_or_null(row.ratio_sustained)},
                        {"rel_error", number_or_null(row.rel_error)},
                        {"device", context.device},
                        {"driver", context.driver},
                        {"commit", context.commit},
                        {"command", context.command},
                        {"date", context.date}};
  if (!row.config.empty()) out["config"] = row.config;
  if (row.expected_us > 0) out["expected_us"] = row.expected_us;
  if (row.chosen) out["chosen"] = true;
  return out;
}

void merge_results(const std::filesystem::path& path, const nlohmann::json& rows) {
  const nlohmann::json all = existing_rows(path);
  nlohmann::json merged = nlohmann::json::array();
  std::vector<bool> placed(rows.size());
  const auto place_like = [&](const nlohmann::json& old) {
    bool found = false;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (!same_point(old, rows[i])) continue;
      if (!placed[i]) merged.push_back(rows[i]);
      placed[i] = found = true;
    }
    return found;
  };
  for (const nlohmann::json& old : all) {
    if (!place_like(old)) merged.push_back(old);
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!placed[i]) merged.push_back(rows[i]);
  }
  // One row a line, so that differences can be read.
  std::string text = "[\n";
  for (std::size_t i = 0; i < merged.size(); ++i) {
    text += "  " + merged[i].dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) +
            (i + 1 < merged.size() ? ",\n" : "\n");
  }
  write_output(path, text + "]\n");
}

std::string file_stem(const std::string& device) {
  std::string stem;
  for (const char c : device) {
    if (std::isalnum(static_cast<unsigned char>(c))) {
      stem += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!stem.empty() && stem.back() != '_') {
      stem += '_';
    }
  }
  constexpr std::string_view kVendor = "nvidia_";
  if (stem.starts_with(kVendor)) stem.erase(0, kVendor.size());
  return stem;
}

}  // namespace epifuse::cli
