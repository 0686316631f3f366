// The one format of measured numbers: bench/results/<device>.json.
#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>

namespace epifuse::cli {

struct ResultRow {
  std::string suite, workload;
  std::int64_t m = 0, n = 0, k = 0, groups = 1;
  std::string dtype, epilogue, numerics, contender;
  double us = 0;
  std::string baseline;  // "cublas": the bare vendor GEMM; empty: `us` stands alone
  double ratio = 0, ratio_sustained = 0;  // 0: not measured
  double rel_error = 0;
  std::string config;      // how it ran: families and configs; empty: unknown
  double expected_us = 0;  // by the family's model; 0: not asked
  bool chosen = false;     // of the candidates of a sweep, the one that the model takes
};

// What all rows of one run have in common.
struct ResultContext {
  std::string device, driver, commit, command, date;
};

nlohmann::json to_json(const ResultRow& row, const ResultContext& context);

// The rows of a results file. Throws ArgumentError: why it is no such list.
nlohmann::json read_rows(const std::filesystem::path& path);

// Throws ArgumentError where the file is there and rows cannot be put into it: before something is
// measured for it.
void check_results(const std::filesystem::path& path);

// Puts rows into a results file: rows replace those of the same point and contender; the rest stay.
// Throws ArgumentError when the file is no such list or cannot be written.
void merge_results(const std::filesystem::path& path, const nlohmann::json& rows);

// "h200" of "NVIDIA H200": the results file's name.
std::string file_stem(const std::string& device);

}  // namespace epifuse::cli
