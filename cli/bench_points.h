// The points that `epifuse bench` measures.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "epifuse/graph.h"
#include "results.h"

namespace epifuse::cli {

// A row of bench_grid.def, or a random one (random_points.h).
struct Point {
  std::string suite, workload;
  std::int64_t m = 0, n = 0, k = 0;
  // Words in order, joined by `+`: identity, alpha (times a constant), bias and scale (plus and
  // times a row), residual (plus a full tensor), preact (a second result: what the first activation
  // is applied to), e4m3 (rounds to it), the name of an activation, or a gate: swiglu, geglu_erf,
  // geglu_tanh, reglu, glu, swiglu_oai. With a gate n is the width of its result, a bias has two
  // halves as the product has, and preact is the product with its bias, as a whole.
  std::string epilogue;
  // Words: of a gate's weights "halves", "interleaved" or "separate"; "nn" where weights are [k,
  // n]; "xm" where x is [k, m]; of fp8 "blocks" where blocks of K have scales.
  std::string layout = "";
  DType dtype = DType::bf16;
  std::int64_t batch = 1;  // products, each with weights of its own
};

const std::vector<Point>& all_points();
// Throws ArgumentError where no suite is called that; it names all.
void check_suite(std::string_view suite);
// Those whose text has one of `filters`; all of them without filters. Throws ArgumentError when
// there are none, and for a filter that no point has. Of the grid: the points of a suite.
std::vector<Point> filtered(const std::vector<Point>& points,
                            const std::vector<std::string>& filters);
std::vector<Point> find_points(const std::string& suite, const std::vector<std::string>& filters);

// "llama3_8b_down 4096x4096x14336 residual"
std::string text(const Point& point);
std::vector<std::string> epilogue_words(const Point& point);
bool is_gated(const Point& point);
bool has_layout(const Point& point, std::string_view word);
// Columns of the product that the point is measured against: n, or 2 n with a gate.
std::int64_t product_columns(const Point& point);
// What ops behind the product compute with: the dtype of the point, or bf16 where that is fp8.
DType epilogue_dtype(const Point& point);
constexpr double kAlpha = 0.125;  // the constant of the word `alpha`
// y[M, n], and z with preact, of x[M, k], w[n, k] and the operands that the epilogue names. With a
// gate w is [2 n, k], or there are w and v. All but rows have the batch in front.
Graph graph_of(const Point& point);
// {"suite": "random", "workload": .., "m": .., "n": .., "k": .., "groups": its batch, "dtype": ..,
// "epilogue": .., "layout": ..}: the fields of its rows, and how its operands lie.
nlohmann::json to_json(const Point& point);
// A row with the point's fields, divided by `cublas`.
ResultRow row_of(const Point& point, std::string contender, std::string numerics);

}  // namespace epifuse::cli
