#include "calibrate_probes.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "random_points.h"

namespace epifuse::cli {
namespace {

using codegen::GemmSizes;

constexpr GemmSizes kProducts[] = {
    {1, 4096, 4096, 4096},  {1, 16, 4096, 4096},    {1, 512, 768, 3072},   {1, 8192, 8192, 1024},
    {1, 1024, 4096, 14336}, {1, 128, 14336, 4096},  {1, 2048, 1024, 1024}, {1, 6304, 1024, 4096},
    {1, 64, 768, 768},      {1, 4096, 14336, 4096}, {1, 256, 4096, 1024},  {1, 1576, 3072, 768},
    {1, 16, 4096, 14336},   {1, 8192, 4096, 4096},  {1, 512, 8192, 8192},  {1, 2048, 2048, 512},
    {1, 128, 2048, 2048},   {1, 16384, 1024, 1024}, {1, 1024, 1024, 8192}, {1, 4096, 8192, 512},
    {1, 64, 8192, 1024},    {1, 2048, 6144, 6144},  {1, 256, 768, 3072},   {1, 1320, 4944, 2048},
    {1, 1, 4096, 4096},     {1, 8192, 1024, 8192},  {1, 512, 3072, 768},   {1, 3072, 3072, 3072},
    {1, 128, 4096, 14336},  {1, 4096, 3072, 1024},  {1, 64, 4096, 4096},   {1, 12288, 4096, 1024},
    {1, 1024, 18944, 3584}, {1, 256, 2048, 2048},   {1, 6304, 3072, 1024}, {1, 2048, 4608, 3584}};

constexpr std::size_t kKnownFirst = 9;
constexpr std::size_t kEvery = 4;        // has 8-bit elements too
constexpr std::uint64_t kSeed = 5;       // of no suite that is measured by default
constexpr int kDrawn = 200;              // of which some are taken
constexpr double kMostFlops = 5e11;      // about a millisecond: a budget shall see many sizes
constexpr std::int64_t kFewestRows = 8;  // fewer are all alike

bool is_taken(const Point& point) {
  const auto m = static_cast<double>(point.m), n = static_cast<double>(point.n);
  const bool is_aligned = point.n % 8 == 0 && point.k % 8 == 0;
  return point.batch == 1 && is_aligned && point.m >= kFewestRows &&
         2 * m * n * static_cast<double>(point.k) <= kMostFlops;
}

// `turn`: which work a usual product is measured with beside the little.
Probe probe_of(const GemmSizes& sizes, std::size_t turn) {
  return {sizes, true, {kScaled, turn % 2 == 0 ? kGelu : kResidual}};
}

Probe random_probe(const Point& point, std::size_t turn) {
  const bool is_xm = has_layout(point, "xm"), is_nn = has_layout(point, "nn");
  GemmSizes sizes{1, point.m, point.n, point.k};
  if (is_xm) sizes.m = sizes.m / 8 * 8;
  if (!is_xm && !is_nn) return probe_of(sizes, turn);
  return {sizes, false, {is_xm ? (is_nn ? kScaledXmNn : kScaledXm) : kScaledNn}};
}

}  // namespace

std::vector<Probe> probes() {
  std::vector<Point> drawn = random_points(kSeed, kDrawn);
  std::erase_if(drawn, [](const Point& point) { return !is_taken(point); });
  std::vector<Probe> out;
  auto next = drawn.begin();
  for (std::size_t i = 0; i < std::size(kProducts); ++i) {
    out.push_back(probe_of(kProducts[i], i));
    if (i % kEvery == 0) out.back().texts.push_back(kScaledFp8);
    if (i + 1 >= kKnownFirst && next != drawn.end()) out.push_back(random_probe(*next++, i));
  }
  return out;
}

}  // namespace epifuse::cli
