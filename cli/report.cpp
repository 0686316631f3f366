#include "report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "epifuse/error.h"
#include "files.h"
#include "report_sections.h"
#include "report_summary.h"
#include "results.h"

namespace epifuse::cli {
namespace {

using nlohmann::json;

struct SuiteText {
  const char *suite, *heading, *about;
};

constexpr SuiteText kSuites[] = {
    {"dense", "Layers of transformers",
     "Linear layers of Llama 3, Qwen2, BERT-large, ViT-L/16 and Mixtral 8x22B, `w` as [N, K], with "
     "what\nfollows them fused. An epilogue is its ops in order; `identity` is the bare product; "
     "`scale`\nis a row that multiplies; `preact` stores a second result, what the activation is "
     "applied to."},
    {"square", "Square products", "Square and nearly square products with a bias and one more op."},
    {"small", "Few rows or few columns", "Products with too few tiles for all SMs."},
    {"gated", "Gated activations",
     "Two products and a gate in one kernel, beside the bare product of both, n being the width of "
     "the\nresult. The weights are halves of one matrix, every other column of one or two "
     "matrices; "
     "`nn` are\n[K, N]. `preact` stores the products with their biases as well."},
};

std::string cell(double ratio) { return ratio > 0 ? fmt::format("{:.3f}", ratio) : "-"; }

std::string cell(const Ratios& ratios) {
  if (ratios.interleaved <= 0) return "";
  return fmt::format("{} / {}", cell(ratios.interleaved), cell(ratios.sustained));
}

std::string rule(std::size_t columns) {
  std::string out = "|";
  for (std::size_t i = 0; i < columns; ++i) out += "---|";
  return out + "\n";
}

// Every contender over bare cuBLAS.
std::string baseline_table(const ReportTable& table) {
  std::string out =
      "| time / bare cuBLAS | points | geometric mean | worst | at | sustained: mean | worst |\n" +
      rule(7);
  for (const std::string& contender : table.contenders) {
    const Comparison once = compare(table, &Ratios::interleaved, contender);
    const Comparison sustained = compare(table, &Ratios::sustained, contender);
    out +=
        fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", contender, once.num_points,
                    cell(once.mean), cell(once.largest), once.largest_at,
                    sustained.num_points > 0 ? cell(sustained.mean) : "-", cell(sustained.largest));
  }
  return out;
}

// Us over every other contender, at the points that have both.
std::string contender_table(const ReportTable& table) {
  std::string rows;
  for (const std::string& other : table.contenders) {
    if (other.starts_with("epifuse")) continue;
    const Comparison once = compare(table, &Ratios::interleaved, "epifuse", other);
    const Comparison sustained = compare(table, &Ratios::sustained, "epifuse", other);
    if (once.num_points == 0) continue;
    rows += fmt::format("| {} | {} | {:.2f}x | {:.2f}x | {} | {} |\n", other, once.num_points,
                        1 / once.mean, 1 / once.largest, once.num_above_one,
                        sustained.num_points > 0
                            ? fmt::format("{:.2f}x, {:.2f}x, {}", 1 / sustained.mean,
                                          1 / sustained.largest, sustained.num_above_one)
                            : "-");
  }
  if (rows.empty()) return "";
  return "\n| epifuse against | points | speed-up, geometric mean | least | points slower | "
         "sustained |\n" +
         rule(6) + rows;
}

std::string point_table(const ReportTable& table) {
  std::string out = fmt::format("\n| workload | M x N x K | epilogue | {} | config of epifuse |\n",
                                fmt::join(table.contenders, " | ")) +
                    rule(table.contenders.size() + 4);
  for (const ReportPoint& point : table.points) {
    out += fmt::format("| {} | {} | {} |", point.workload, point.size(), point.epilogue);
    for (const std::string& contender : table.contenders) {
      out += fmt::format(" {} |", cell(point.of(contender)));
    }
    out += fmt::format(" {} |\n", point.config);
  }
  return out;
}

std::string suite_section(const ReportTable& table, const std::string& plot_link) {
  std::string heading = table.suite, about;
  for (const SuiteText& text : kSuites) {
    if (table.suite != text.suite) continue;
    heading = text.heading;
    about = std::string(text.about) + "\n\n";
  }
  std::string out = fmt::format("\n## {} (`{}`)\n\n{}", heading, table.suite, about);
  if (table.suite == kPlottedSuite && !plot_link.empty()) {
    out += fmt::format("![Speed-ups over the bare cuBLAS product]({})\n\n", plot_link);
  }
  return out + baseline_table(table) + contender_table(table) + point_table(table);
}

// What a reader wants first, and how to read the rest.
std::string summary_section(const json& rows) {
  const std::string summary = report_summary(rows);
  std::string out;
  if (!summary.empty()) {
    out =
        "## Summary\n\nThe time that epifuse takes over that of what a user would run otherwise, "
        "as\n"
        "geometric means. Below 1 epifuse is faster.\n\n" +
        summary + "\n";
  }
  return out +
         "## How to read the tables\n\n"
         "Operands and results are bf16, data is random, and results are checked against float64. "
         "A\nnumber is a time over that of the bare cuBLAS product of the same shape, without any\n"
         "epilogue. Below 1, product and epilogue together take less time than the product alone.\n"
         "In `a / b`, `a` is of launches that alternate one by one, with the L2 flushed before "
         "each;\n`b` is of blocks back to back, with the card at its power limit. PyTorch is "
         "divided by its\nown bare product, `torch.mm`, in its own run.\n";
}

// Whole models in PyTorch, over Inductor in the same run, and what one call costs from Python.
std::string models_section(const json& rows) {
  std::string lines;
  for (const json& row : rows) {
    if (row.at("suite") != "torch") continue;
    const double us = row.at("us").get<double>(), ratio = row.at("ratio").get<double>();
    const std::string time =
        us < 1e3 ? fmt::format("{:.1f} us", us) : fmt::format("{:.2f} ms", us / 1e3);
    lines += fmt::format("| {} | {} | {} | {} |\n", row.at("workload").get<std::string>(),
                         row.at("contender").get<std::string>(), time,
                         cell({ratio, row.at("ratio_sustained").get<double>()}));
  }
  if (lines.empty()) return "";
  return "\n## Models in PyTorch (`torch`)\n\nForward passes with random weights. `call` is the "
         "host's time for one call of the op,\n`layer` for a layer in compiled code, outside of "
         "CUDA "
         "graphs: a fused kernel, or what Inductor makes of it.\nRatios are to `inductor`, "
         "torch.compile as it "
         "is, in the same run; those of `decoding`,\nsteps for one token behind 512, to "
         "`inductor-cudagraphs`.\n\n| model | by | time | time / inductor |\n" +
         rule(4) + lines;
}

// Groups of rows, over PyTorch's bare products of the same groups.
std::string grouped_section(const json& rows) {
  std::string lines;
  for (const json& row : rows) {
    if (row.at("suite") != "grouped") continue;
    const auto number = [&](const char* key) { return row.at(key).get<std::int64_t>(); };
    const auto word = [&](const char* key) { return row.at(key).get<std::string>(); };
    lines +=
        fmt::format("| {} | {} of {}x{}x{} | {} | {:.1f} us | {} | {} |\n", word("workload"),
                    number("groups"), number("m"), number("n"), number("k"), word("epilogue"),
                    row.at("us").get<double>(), word("baseline"),
                    cell({row.at("ratio").get<double>(), row.at("ratio_sustained").get<double>()}));
  }
  if (lines.empty()) return "";
  return "\n## Groups of rows (`grouped`)\n\nMixtures of experts: rows of all groups x columns of "
         "the result x K. `gather` reads rows of A by an index, `put`\nwrites rows where an index "
         "says, `nn` has weights as [groups, K, N]. Over `torch.bmm`, `torch._grouped_mm`, both "
         "bare, and a\ncopy of the weights on the device, which reads and writes what the kernel "
         "has to read.\n\n| workload | groups of m x n x k | epilogue | epifuse | over | time / "
         "that |\n" +
         rule(6) + lines;
}

// What stands alone: times of the host.
std::string host_section(const json& rows) {
  std::string lines;
  for (const json& row : rows) {
    if (row.at("suite") != "host") continue;
    const double us = row.at("us").get<double>();
    lines +=
        fmt::format("| {} | {} | {} |\n", row.at("workload").get<std::string>(),
                    row.at("contender").get<std::string>(),
                    us < 1e3 ? fmt::format("{:.1f} us", us) : fmt::format("{:.1f} ms", us / 1e3));
  }
  if (lines.empty()) return "";
  return "\n## What the host pays (`host`)\n\n`compile`: a new kernel alone. `first_launch`: a "
         "fresh "
         "process with a warm cache up to its first\nlaunch. `launch`: one more. `torch_layers`: "
         "one "
         "layer of `silu(linear)` in compiled code of PyTorch,\nof 16 or 48; `moved`: with tensors "
         "that move at every call.\n\n| | by | time |\n" +
         rule(3) + lines;
}

// Where the rows come from, each command once.
std::string sources(const json& rows) {
  std::set<std::string> lines;
  for (const json& row : rows) {
    const auto text = [&](const char* key) { return row.at(key).get<std::string>(); };
    const std::string torch = text("numerics").starts_with("torch") ? ", " + text("numerics") : "";
    lines.insert(fmt::format(
        "| `{}` | {}, driver {}{} | {} | {} |\n", text("command"), text("device"), text("driver"),
        torch, torch.empty() || text("suite") == "torch" ? text("commit") : "", text("date")));
  }
  if (lines.empty()) return "";
  std::string out = "\n## Commands\n\n| command | on | commit | date |\n" + rule(4);
  for (const std::string& line : lines) out += line;
  return out;
}

}  // namespace

std::string report_markdown(const json& rows, const std::string& rows_link,
                            const std::string& plot_link) {
  std::string out = fmt::format(
      "# Performance\n\nMade by `epifuse bench --report` from [{0}]({0}).\n\n", rows_link);
  try {
    out += summary_section(rows);
    for (const ReportTable& table : report_tables(rows)) out += suite_section(table, plot_link);
    return out + grouped_section(rows) + random_section(rows) + scaled_section(rows) +
           models_section(rows) + model_section(rows) + host_section(rows) + sources(rows);
  } catch (const json::exception& error) {
    throw ArgumentError(fmt::format("expected a list of result rows: {}", error.what()));
  }
}

void write_report(const std::filesystem::path& rows_path, const std::filesystem::path& page) {
  if (page.extension() != ".md") {
    throw ArgumentError(
        fmt::format("expected the page to write, PAGE.md, got '{}'", page.string()));
  }
  const json rows = read_rows(rows_path);
  std::filesystem::path plot_path = page;
  plot_path.replace_extension(".svg");
  std::string plot;
  for (const ReportTable& table : report_tables(rows)) {
    if (table.suite != kPlottedSuite) continue;
    plot = report_plot(table, "Speed-up over the bare cuBLAS product, " +
                                  rows.front().at("device").get<std::string>());
  }
  const auto folder = std::filesystem::absolute(page).lexically_normal().parent_path();
  const auto link = std::filesystem::absolute(rows_path).lexically_normal();
  if (!plot.empty()) write_output(plot_path, plot);
  write_output(page, report_markdown(rows, link.lexically_relative(folder).generic_string(),
                                     plot.empty() ? "" : plot_path.filename().string()));
}

}  // namespace epifuse::cli
