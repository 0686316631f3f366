#include "report_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "report_table.h"

namespace epifuse::cli {
namespace {

using nlohmann::json;

struct Rival {
  const char *contender, *name;
};
constexpr Rival kRivals[] = {
    {"inductor-max-autotune", "`torch.compile`, max-autotune"},
    {"eager", "eager PyTorch"},
    {"cublaslt-epilogue", "cuBLASLt's own epilogues"},
    {"", "the bare cuBLAS product, no epilogue"},
};

struct Suite {
  const char *suite, *what;
};
constexpr Suite kSuites[] = {
    {"dense", "linear layers of Llama 3, Qwen2, BERT, ViT, Mixtral"},
    {"gated", "gated layers (SwiGLU and others)"},
};

constexpr std::array kModelsOf = {"epifuse", "epifuse-cudagraphs"};

// A row of the table; a ratio of 0 was not measured.
std::string line(const std::string& what, const char* rival, double once, double blocks,
                 const std::string& slower) {
  return fmt::format("| {} | {} | {:.2f} | {} | {} |\n", what, rival, once,
                     blocks > 0 ? fmt::format("{:.2f}", blocks) : "-", slower);
}

std::string suite_lines(const ReportTable& table, const Suite& suite) {
  std::string out;
  for (const Rival& rival : kRivals) {
    const Comparison all = compare(table, &Ratios::interleaved, "epifuse", rival.contender);
    const Comparison blocks = compare(table, &Ratios::sustained, "epifuse", rival.contender);
    if (all.num_points == 0) continue;
    out += line(fmt::format("{} {}", all.num_points, suite.what), rival.name, all.mean,
                blocks.num_points > 0 ? blocks.mean : 0,
                fmt::format("{} of {}", all.num_above_one, all.num_points));
  }
  return out;
}

// Our rows of whole models, each over what Inductor took in the same run.
std::string model_lines(const json& rows) {
  std::string out;
  for (const json& row : rows) {
    const auto contender = row.at("contender").get<std::string>();
    const double ratio = row.at("suite") == "torch" ? row.at("ratio").get<double>() : 0;
    if (ratio <= 0 || std::ranges::find(kModelsOf, contender) == kModelsOf.end()) continue;
    const bool graphs = contender != kModelsOf.front();
    const bool over_graphs = row.at("baseline") == "inductor-cudagraphs";
    out += line(fmt::format("model `{}`{}", row.at("workload").get<std::string>(),
                            graphs ? ", CUDA graphs" : ""),
                over_graphs ? "`torch.compile` with CUDA graphs" : "`torch.compile`", ratio,
                row.at("ratio_sustained").get<double>(), "");
  }
  return out;
}

}  // namespace

std::string report_summary(const json& rows) {
  std::string lines;
  for (const ReportTable& table : report_tables(rows)) {
    for (const Suite& suite : kSuites) {
      if (table.suite == suite.suite) lines += suite_lines(table, suite);
    }
  }
  lines += model_lines(rows);
  if (lines.empty()) return "";
  return "| what | instead of | time | back to back | points slower |\n|---|---|---|---|---|\n" +
         lines;
}

}  // namespace epifuse::cli
