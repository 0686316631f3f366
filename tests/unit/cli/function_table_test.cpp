// The tables of functions, from made-up rows.
#include "cli/function_table.h"

#include <gtest/gtest.h>

#include "epifuse/error.h"

namespace epifuse::cli {
namespace {

const ResultContext kContext{"NVIDIA H200", "13.0", "abc1234", "epifuse functions", "2026-11-21"};

nlohmann::json row_of(ir::Op op, Numerics numerics, double ulps, std::optional<double> clocks) {
  OpAccuracy found;
  found.op = op;
  found.numerics = numerics;
  found.num_samples = 1000;
  found.max_ulps = ulps;
  found.at = {-3.5, 0, 0};
  found.max_bf16_ulps = 0.50123;
  found.bf16_differ = 0.00125;
  found.max_small_error = 1.5e-13;
  found.max_scaled_error = 2.25e-4;
  found.max_share_of_bound = 0.625;
  return function_row(found, clocks, kContext);
}

TEST(FunctionTable, HasFastApproxAndRoundedOps) {
  const nlohmann::json rows = {row_of(ir::Op::add, Numerics::fast, 0.5, 1.0),
                               row_of(ir::Op::neg, Numerics::fast, 0, 0.0),
                               row_of(ir::Op::silu, Numerics::fast, 2.125, 18.5),
                               row_of(ir::Op::silu, Numerics::approx, 1234567, 10.25)};
  EXPECT_EQ(function_markdown(rows),
            R"(Measured on NVIDIA H200 at commit abc1234, 2026-11-21.

| op | float32 ulps | at | bf16 ulps | bf16 results that differ )"
            R"(| error where \|y\| < 2^-20 | of the bound | clocks | results a clock |
|---|---|---|---|---|---|---|---|---|
| silu | 2.12 | -3.5 | 0.501 | 0.12 % | 1.5e-13 | 62 % | 18.50 | 6.9 |

Correctly rounded, at most half an ulp (clocks): `add` (1.00), `neg` (0.00).

Under `approx`:

| op | error / (1 + \|x\|) | its bound | bf16 results that differ | clocks | clocks in `fast` |
|---|---|---|---|---|---|
| silu | 2.2e-04 | 2.6e-04 | 0.12 % | 10.25 | 18.50 |
)");
}

TEST(FunctionTable, RowsOfSomethingElseAreRefused) {
  EXPECT_THROW(function_markdown(nlohmann::json::array()), ArgumentError);
  for (const char* key : {"device", "numerics", "workload", "at", "max_bf16_ulps"}) {
    nlohmann::json row = row_of(ir::Op::silu, Numerics::fast, 2.125, 18.5);
    row.erase(key);
    EXPECT_THROW(function_markdown({row}), ArgumentError) << key;
  }
}

TEST(FunctionTable, LinesStandUnderTheirHead) {
  EXPECT_EQ(function_line_head(false) +
                function_line(row_of(ir::Op::silu, Numerics::approx, 1234567, std::nullopt)),
            "OP           NUMERICS  F32 ULPS  BF16 ULPS  BF16 OFF  ERR/(1+|X|)  BOUND USED  CHECK  "
            "WORST AT\n"
            "silu         approx       1e+06      0.501    0.12 %      2.2e-04        62 %  right  "
            "-3.5\n");
  EXPECT_EQ(
      function_line_head(true) + function_line(row_of(ir::Op::silu, Numerics::fast, 2.125, 18.5)),
      "OP           NUMERICS  F32 ULPS  BF16 ULPS  BF16 OFF  ERR/(1+|X|)  BOUND USED  CHECK  "
      " CLOCKS  PER CLOCK  WORST AT\n"
      "silu         fast          2.12      0.501    0.12 %      2.2e-04        62 %  right  "
      "  18.50        6.9  -3.5\n");
}

TEST(FunctionTable, ReplacesWhatIsBetweenItsMarks) {
  EXPECT_EQ(replace_functions("a\n<!-- functions -->\nold\n<!-- /functions -->\nb\n", "new\n"),
            "a\n<!-- functions -->\nnew\n<!-- /functions -->\nb\n");
  EXPECT_THROW(replace_functions("a\n<!-- functions -->\n", "new\n"), ArgumentError);
}

}  // namespace
}  // namespace epifuse::cli
