#include "report_sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/measure.h"

namespace epifuse::cli {

std::string model_section(const nlohmann::json& rows) {
  std::map<std::string, std::map<std::string, double>> found;  // by what, then which of all points
  std::int64_t num_points = 0;
  for (const nlohmann::json& row : rows) {
    if (row.at("suite") != "model") continue;
    found[row.at("workload").get<std::string>()][row.at("epilogue").get<std::string>()] =
        100 * (row.at("ratio").get<double>() - 1);
    num_points = row.at("m").get<std::int64_t>();
  }
  std::string lines;
  for (const auto& [what, text] : {std::pair("time", "its times are off by"),
                                   std::pair("choice", "its choice takes more than the best by")}) {
    if (!found.contains(what)) continue;
    lines += fmt::format("| {} | {:.1f} % | {:.1f} % | {:.1f} % |\n", text, found[what]["mean"],
                         found[what]["p95"], found[what]["worst"]);
  }
  if (lines.empty()) return "";
  return fmt::format(
             "\n## The model of time (`model`)\n\nFitted by `epifuse calibrate` to half of its "
             "products, and judged at {} points of the others: sizes of\nknown models and random "
             "ones, of all layouts. The best is the fastest of all candidates at a point.\n\n"
             "| what | mean | 95th percentile | worst |\n",
             num_points) +
         "|---|---|---|---|\n" + lines;
}

std::string random_section(const nlohmann::json& rows) {
  struct Row {
    double ratio, us;
    std::string text;
  };
  std::vector<Row> all;
  for (const nlohmann::json& row : rows) {
    if (row.at("suite") != "random" || row.at("baseline") != "inductor") continue;
    const auto number = [&](const char* key) { return row.at(key).get<std::int64_t>(); };
    const auto word = [&](const char* key) { return row.at(key).get<std::string>(); };
    const std::string batch = number("groups") > 1 ? fmt::format("{}x", number("groups")) : "";
    all.push_back({row.at("ratio").get<double>(), row.at("us").get<double>(),
                   fmt::format("{} | {}{}x{}x{} {} | {}", word("workload"), batch, number("m"),
                               number("n"), number("k"), word("dtype"), word("epilogue"))});
  }
  if (all.empty()) return "";
  constexpr double kSlower = 1.03, kSlowerUs = 2;
  constexpr std::size_t kShown = 10;
  std::ranges::stable_sort(all, {}, [](const Row& row) { return -row.ratio; });
  std::vector<double> ratios;
  std::size_t slower = 0;
  for (const Row& row : all) {
    ratios.push_back(row.ratio);
    slower += row.ratio > kSlower && row.us - row.us / row.ratio > kSlowerUs ? 1 : 0;
  }
  const auto at =
      all.size() - static_cast<std::size_t>(std::ceil(0.95 * static_cast<double>(all.size())));
  std::string out = fmt::format(
      "\n## Random products in PyTorch (`random`)\n\nProducts that nobody chose (`epifuse bench "
      "--grid random --list`) by `torch.compile`, beside Inductor as it\nis in the same process. "
      "{} points: geometric mean {:.3f}, 95th percentile {:.3f}, worst {:.3f}; {} take more than "
      "1.03 of\nInductor's time and 2 us more. Those of the largest ratios:\n\n"
      "| point | M x N x K | epilogue | time | time / inductor |\n",
      all.size(), geometric_mean(ratios), all[at].ratio, all.front().ratio, slower);
  out += "|---|---|---|---|---|\n";
  for (std::size_t i = 0; i < std::min(kShown, all.size()); ++i) {
    out += fmt::format("| {} | {:.1f} us | {:.3f} |\n", all[i].text, all[i].us, all[i].ratio);
  }
  return out;
}

std::string scaled_section(const nlohmann::json& rows) {
  std::string lines;
  for (const nlohmann::json& row : rows) {
    if (row.at("suite") != "scaled" || row.at("contender") == row.at("baseline")) continue;
    const auto number = [&](const char* key) { return row.at(key).get<std::int64_t>(); };
    const auto word = [&](const char* key) { return row.at(key).get<std::string>(); };
    lines += fmt::format("| {} | {}x{}x{} | {} | {} | {:.1f} us | {:.3f} / {:.3f} |\n",
                         word("workload"), number("m"), number("n"), number("k"), word("epilogue"),
                         word("contender"), row.at("us").get<double>(),
                         row.at("ratio").get<double>(), row.at("ratio_sustained").get<double>());
  }
  if (lines.empty()) return "";
  return "\n## fp8 in PyTorch (`scaled`)\n\nProducts of e4m3 with scales by `torch.compile`, under "
         "CUDA graphs, over `torch._scaled_mm` bare. `rows`: a scale\nfor each row of both "
         "operands; "
         "`few rows` are over its product with one scale a tensor. `blocks`: one for 1x128\nof the "
         "first operand and 128x128 of the second. `promoted`: sums in float32, PyTorch's without "
         "fast accumulation.\n`llama3_8b_mlp` is gate and up, SwiGLU and the last product, with "
         "what quantises their operands, over both bare\nproducts.\n\n"
         "| program | M x N x K | epilogue | by | time | time / bare "
         "|\n|---|---|---|---|---|---|\n" +
         lines;
}

}  // namespace epifuse::cli
