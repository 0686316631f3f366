// What a step takes as product and tail: measured products keep their times, unknown ones have
// none.
#include "tune/unfused.h"

#include <gtest/gtest.h>

#include "ir/text.h"
#include "passes/pipeline.h"
#include "tests/unit/targets/reference_device.h"

namespace epifuse::tune {
namespace {

using codegen::GemmSizes;
using targets::Rows;

plan::FusedGemm step_of(DType dtype = DType::bf16) {
  plan::FusedGemm step;
  step.gemm.matmul = 2;
  step.gemm.a.dtype = step.gemm.b.dtype = step.gemm.result = dtype;
  step.epilogue.num_accumulators = 1;
  step.epilogue.computes.push_back({ir::Op::relu, {0, -1, -1}});
  step.epilogue.stores.push_back({"y", 3, DType::bf16, plan::StoreKind::tile, 1});
  return step;
}

const targets::DeviceProfile kDevice = targets::reference_gpu();
const targets::Measurements& measured() { return *kDevice.known->measured; }
GemmSizes sizes_of(const targets::MeasuredProduct& row) { return {1, row.m, row.n, row.k}; }

std::optional<double> vendor_gemm_us(const plan::GemmDesc& gemm, const GemmSizes& sizes) {
  return tune::vendor_gemm_us(gemm, sizes, kDevice);
}
double vendor_us(const GemmSizes& sizes) {
  return vendor_gemm_us(step_of().gemm, sizes).value_or(-1);
}
std::optional<double> bare_ratio(const plan::GemmDesc& gemm, const GemmSizes& sizes) {
  return tune::bare_ratio(gemm, sizes, kDevice);
}
double tail_us(const plan::FusedGemm& step, const GemmSizes& sizes) {
  return tune::tail_us(step, sizes, measured().rates);
}
double slowed_down(double us, double slowdown) {
  return targets::slowed_down(us, slowdown, measured().rates);
}
bool wants_rows_first(const plan::FusedGemm& step, const GemmSizes& sizes) {
  return tune::wants_rows_first(step, sizes, kDevice);
}

TEST(VendorGemm, MeasuredSizesKeepTheirTimes) {
  EXPECT_FALSE(measured().vendor_us.empty());
  for (const targets::MeasuredProduct& row : measured().vendor_us) {
    EXPECT_NEAR(vendor_us(sizes_of(row)), row.value, 0.01 * row.value)
        << row.m << " " << row.n << " " << row.k;
  }
}

TEST(FrameworkPart, OfATailIsWhatAFrameworkReadsAndWritesBehindItsOwnProduct) {
  const GemmSizes sizes{1, 512, 512, 512};
  plan::FusedGemm step = step_of();
  EXPECT_EQ(framework_part_of_tail(step, sizes), 1.0);
  step.gemm.result = DType::f32;  // 4 bytes read and 2 written, where a framework reads 2
  EXPECT_NEAR(framework_part_of_tail(step, sizes), 4.0 / 6.0, 1e-12);
}

TEST(FrameworkPart, ByItsBytesIsAPassAtTheDevicesRate) {
  const GemmSizes sizes{1, 4096, 4096, 512};
  plan::FusedGemm step = step_of();
  step.gemm.result = DType::f32;
  step.epilogue.loads.push_back({"r", 4, DType::bf16, plan::Access::tile});
  step.epilogue.computes = {{ir::Op::add, {0, 1, -1}}};
  step.epilogue.stores.front().source = 2;
  const targets::DeviceRates& rates = measured().rates;
  const double bytes = 3.0 * 2 * 4096 * 4096;  // the product in bf16 and the residual, the result
  EXPECT_NEAR(*framework_tail_us(step, sizes, kDevice),
              1.1 * bytes / rates.bytes_per_us + rates.launch_us, 1e-6);
  targets::DeviceProfile unknown = kDevice;
  unknown.known = nullptr;
  EXPECT_FALSE(framework_tail_us(step, sizes, unknown));
}

TEST(FrameworkPart, OfEightBitsAProductIsInSixteen) {
  const GemmSizes sizes{1, 4096, 4096, 512};
  plan::FusedGemm step = step_of();
  step.gemm.a.dtype = step.gemm.b.dtype = DType::e4m3;
  step.gemm.result = DType::f32;
  step.epilogue.stores.front().dtype = DType::e4m3;
  EXPECT_EQ(framework_dtype(step.gemm), DType::bf16);
  EXPECT_NEAR(*framework_tail_us(step, sizes, kDevice),
              targets::pass_us(1.1 * 3 * 4096 * 4096, measured().rates), 1e-6);
  EXPECT_NEAR(framework_part_of_tail(step, sizes), 3.0 / 5.0, 1e-12);
}

TEST(FrameworkPart, APassThatScalesRowsByTheirMaximumDoesTheRest) {
  const GemmSizes sizes{1, 4096, 4096, 512};
  plan::FusedGemm step = step_of();
  step.epilogue.stores.push_back({"m", 4, DType::f32, plan::StoreKind::row_max, 1});
  EXPECT_EQ(*framework_tail_us(step, sizes, kDevice), 0);
  EXPECT_EQ(framework_part_of_tail(step, sizes), 0);
  step.epilogue.loads.push_back({"r", 5, DType::bf16, plan::Access::tile});
  EXPECT_NEAR(*framework_tail_us(step, sizes, kDevice),
              1.1 * 2 * 4096 * 4096 / measured().rates.bytes_per_us, 1e-6);
  EXPECT_NEAR(framework_part_of_tail(step, sizes), 1.0 / 3.0, 1e-12);
}

TEST(FrameworkPart, SumsOfColumnsOfWhatIsStoredAreAPassMore) {
  const GemmSizes sizes{1, 4096, 4096, 512};
  plan::FusedGemm step = step_of();
  step.epilogue.stores.push_back({"s", 4, DType::f32, plan::StoreKind::row_sum, 1});
  const targets::DeviceRates& rates = measured().rates;
  const double full = 1.1 * 2 * 4096 * 4096 / rates.bytes_per_us;
  EXPECT_NEAR(*framework_tail_us(step, sizes, kDevice), 2 * full + rates.launch_us, 1e-6)
      << "those of rows are in the same pass";
  EXPECT_EQ(framework_part_of_tail(step, sizes), 1.0);
  step.epilogue.stores.back().kind = plan::StoreKind::col_sum;
  EXPECT_NEAR(*framework_tail_us(step, sizes, kDevice), 3 * full + 2 * rates.launch_us, 1e-6);
  EXPECT_EQ(framework_part_of_tail(step, sizes), 1.5);
  step.epilogue.stores.back().source = 0;
  EXPECT_EQ(framework_part_of_tail(step, sizes), 1.0)
      << "another value is computed as it is summed";
}

TEST(FrameworkPart, SumsOfColumnsOfWhatIsReadAreAPassOfTheirOwn) {
  const GemmSizes sizes{1, 4096, 4096, 512};
  plan::FusedGemm step = step_of();
  step.epilogue.loads = {{"r", 4, DType::bf16, plan::Access::tile},
                         {"x", 5, DType::bf16, plan::Access::tile}};
  step.epilogue.computes = {{ir::Op::add, {0, 1, -1}}};
  step.epilogue.stores.front().source = 3;
  step.epilogue.stores.push_back({"s", 6, DType::f32, plan::StoreKind::col_sum, 1});
  step.epilogue.stores.push_back({"t", 7, DType::f32, plan::StoreKind::col_sum, 2});
  const targets::DeviceRates& rates = measured().rates;
  const double full = 1.1 * 2 * 4096 * 4096 / rates.bytes_per_us;
  EXPECT_NEAR(*framework_tail_us(step, sizes, kDevice), (3 + 2) * full + 2 * rates.launch_us, 1e-6)
      << "the product, r and the result, then r and x";
  EXPECT_EQ(framework_part_of_tail(step, sizes), 1.25);
  step.epilogue.stores.erase(step.epilogue.stores.begin());
  step.epilogue.computes.clear();
  step.epilogue.stores.push_back({"h", step.gemm.matmul, DType::bf16, plan::StoreKind::tile, 0});
  EXPECT_NEAR(*framework_tail_us(step, sizes, kDevice), 2 * full + rates.launch_us, 1e-6)
      << "nothing is read of the product";
}

TEST(FrameworkPart, ToAddARowIsTheLibrarysWork) {
  plan::FusedGemm step = step_of();
  step.epilogue.loads.push_back({"b", 4, DType::bf16, plan::Access::row});
  step.epilogue.computes = {{ir::Op::add, {0, 1, -1}}};
  step.epilogue.stores.front().source = 2;
  EXPECT_EQ(framework_part_of_tail(step, {1, 512, 512, 512}), 0.0);
  EXPECT_EQ(framework_part_of_tail(step, {2, 512, 512, 512}), 1.0) << "not of a batch";
  EXPECT_TRUE(adds_one_row(step, {1, 512, 512, 512}));
  EXPECT_FALSE(adds_one_row(step, {2, 512, 512, 512}));
  EXPECT_FALSE(adds_one_row(step_of(), {1, 512, 512, 512}));
}

TEST(VendorGemm, BetweenMeasuredSizesTimesLieBetween) {
  const double low = vendor_us({1, 4096, 4096, 4096}), high = vendor_us({1, 4096, 4096, 14336});
  const double between = vendor_us({1, 4096, 4096, 8192});
  EXPECT_GT(between, 1.3 * low);
  EXPECT_LT(between, high / 1.3);
}

TEST(VendorGemm, FarFromAllMeasuredSizesNothingIsKnown) {
  EXPECT_FALSE(vendor_gemm_us(step_of().gemm, {1, 16, 16, 16}));
  EXPECT_FALSE(vendor_gemm_us(step_of().gemm, {1, 1 << 20, 64, 64}));
  EXPECT_FALSE(vendor_gemm_us(step_of().gemm, {8, 4096, 4096, 4096}));
  EXPECT_FALSE(vendor_gemm_us(step_of().gemm, {1, 4096, 4096, 0}));
  EXPECT_FALSE(vendor_gemm_us(step_of(DType::f32).gemm, {1, 4096, 4096, 4096}));
  EXPECT_TRUE(vendor_gemm_us(step_of(DType::f16).gemm, {1, 4096, 4096, 4096}));
}

TEST(BareProduct, MeasuredSizesKeepTheirRatiosAndDecideByThem) {
  EXPECT_FALSE(measured().bare_ratios.empty());
  for (const targets::MeasuredProduct& row : measured().bare_ratios) {
    const auto ratio = bare_ratio(step_of().gemm, sizes_of(row));
    ASSERT_TRUE(ratio);
    EXPECT_NEAR(*ratio, row.value, 1e-6);
    EXPECT_EQ(beats_vendor(ratio), row.value < 0.99);
  }
}

TEST(BareProduct, OfFewRowsOursIsTakenOnBothCards) {
  targets::DeviceProfile h100 = targets::reference_gpu();
  h100.known = targets::find_device("NVIDIA H100 80GB HBM3");
  const plan::GemmDesc gemm = step_of().gemm;
  for (const std::int64_t rows : {1, 2, 4, 8}) {
    EXPECT_TRUE(beats_vendor(tune::bare_ratio(gemm, {1, rows, 6144, 4096}, h100)));
    EXPECT_TRUE(beats_vendor(tune::bare_ratio(gemm, {1, rows, 5120, 2048}, h100)));
    EXPECT_TRUE(beats_vendor(bare_ratio(gemm, {1, rows, 5120, 2048})));
    EXPECT_TRUE(beats_vendor(bare_ratio(gemm, {1, rows, 6144, 4096})));
  }
  EXPECT_TRUE(beats_vendor(tune::bare_ratio(gemm, {1, 8192, 8192, 8192}, h100)))
      << "as on the H200";
}

TEST(BareProduct, WhereNothingLikeItWasMeasuredTheVendorIsLeftAlone) {
  EXPECT_FALSE(bare_ratio(step_of().gemm, {1, 100, 4096, 4096}));
  EXPECT_FALSE(bare_ratio(step_of().gemm, {8, 4096, 4096, 4096}));
  EXPECT_FALSE(bare_ratio(step_of(DType::f32).gemm, {1, 4096, 4096, 4096}));
  EXPECT_FALSE(beats_vendor(bare_ratio(step_of().gemm, {1, 100, 4096, 4096})));
  EXPECT_TRUE(beats_vendor(bare_ratio(step_of().gemm, {1, 8000, 8000, 8000})));
}

TEST(TailTime, IsWhatItMovesAtTheRateOfMemoryAndALaunch) {
  const GemmSizes sizes{1, 1000, 2000, 64};
  plan::FusedGemm step = step_of();
  const double two = tail_us(step, sizes);  // h in, y out: 8 MB at 4 MB/us
  EXPECT_NEAR(two, 2 + 2, 1e-9);
  step.epilogue.loads.push_back({"b", 0, DType::bf16, plan::Access::row});
  EXPECT_NEAR(tail_us(step, sizes), two + 0.001, 1e-9);
  step.epilogue.loads.push_back({"r", 1, DType::f32, plan::Access::tile});
  EXPECT_NEAR(tail_us(step, sizes), two + 0.001 + 2, 1e-9);
}

TEST(TailTime, AStepThatOnlyStoresTheProductHasNoTail) {
  plan::FusedGemm step = step_of();
  step.epilogue.stores.front().value = step.gemm.matmul;
  EXPECT_EQ(tail_us(step, {1, 1000, 2000, 64}), 0);
}

TEST(Unaligned, TheVendorMindsOddRowsMoreThanEvenOnes) {
  const auto even = slowdown(Rows::k_major, Rows::k_major, 8, kDevice);
  const auto odd = slowdown(Rows::k_major, Rows::k_major, 2, kDevice);
  ASSERT_TRUE(even && odd);
  const auto* const row = targets::find_misaligned(measured(), Rows::k_major, Rows::k_major);
  ASSERT_NE(row, nullptr);
  EXPECT_TRUE(is_clearly_slower(slowed_down(190, row->fused), slowed_down(200, even->vendor)));
  EXPECT_FALSE(is_clearly_slower(slowed_down(190, row->fused), slowed_down(200, odd->vendor)));
  EXPECT_FALSE(slowdown(Rows::mn_major, Rows::mn_major, 2, kDevice));
}

TEST(Unaligned, OnlyTheProductTakesLonger) {
  const GemmSizes sizes{1, 4096, 4096, 4096};
  const auto us = [&](std::size_t stores, double slowdown) {
    plan::FusedGemm step = step_of();
    while (step.epilogue.stores.size() < stores) {
      step.epilogue.stores.push_back({"z", 4, DType::bf16, plan::StoreKind::tile, 1});
    }
    return *unfused_us(step, sizes, kDevice, slowdown);
  };
  EXPECT_GT(us(2, 1), us(1, 1));
  EXPECT_NEAR(us(2, 2) - us(1, 2), us(2, 1) - us(1, 1), 1e-9) << "of a larger tail";
  EXPECT_EQ(slowed_down(3, 2), 3);
}

TEST(Margin, WithinTheErrorsOfBothEstimatesTheStepStaysFused) {
  EXPECT_FALSE(is_clearly_slower(100, 120));
  EXPECT_FALSE(is_clearly_slower(110, 100));
  EXPECT_TRUE(is_clearly_slower(120, 100));
}

TEST(RowsFirst, LargeProductsWantTheirRowsInOrder) {
  plan::FusedGemm step = step_of();
  step.gemm.a.lookup = 1;
  step.gemm.gating = plan::Gating::interleaved;
  EXPECT_TRUE(wants_rows_first(step, {1, 8192, 2048, 2048, 8}));
  EXPECT_FALSE(wants_rows_first(step, {1, 4608, 768, 2048, 128})) << "few rows a group";
  EXPECT_FALSE(wants_rows_first(step, {1, 1024, 256, 2048, 2})) << "the copy takes longer";
  EXPECT_FALSE(wants_rows_first(step, {1, 1024, 2048, 0, 2})) << "there are no products";
  step.gemm.a.lookup = -1;
  EXPECT_FALSE(wants_rows_first(step, {1, 8192, 2048, 2048, 8})) << "nothing is looked up";
}

TEST(UnknownDevice, NothingFollowsFromTheTimesOfAnotherOne) {
  targets::DeviceProfile unknown = kDevice;
  unknown.known = nullptr;
  plan::FusedGemm step = step_of();
  const GemmSizes sizes{1, 8192, 2048, 2048, 8};
  EXPECT_FALSE(tune::vendor_gemm_us(step.gemm, {1, 4096, 4096, 4096}, unknown));
  EXPECT_FALSE(unfused_us(step, {1, 4096, 4096, 4096}, unknown));
  EXPECT_FALSE(tune::bare_ratio(step.gemm, {1, 8192, 8192, 8192}, unknown));
  EXPECT_FALSE(slowdown(Rows::k_major, Rows::k_major, 8, unknown));
  step.gemm.a.lookup = 1;
  step.gemm.gating = plan::Gating::interleaved;
  EXPECT_TRUE(wants_rows_first(step, sizes));
  EXPECT_FALSE(tune::wants_rows_first(step, sizes, unknown));
}

// What docs/adding-a-device.md adds: a row and its measurements.
TEST(AddedDevice, ItsOwnMeasurementsDecide) {
  constexpr targets::MeasuredProduct kVendor[] = {{4096, 4096, 4096, 1000}};
  constexpr targets::MeasuredProduct kBare[] = {{4096, 4096, 4096, 0.5}};
  constexpr targets::MisalignedProducts kOdd[] = {
      {Rows::k_major, Rows::k_major, 2, 3, 4, 1.5, 2.5, 5}};
  const targets::Measurements numbers{.device = "Added",
                                      .limits = {.num_sms = 10},
                                      .rates = {1e6, 1e6, 1, 2},
                                      .vendor_us = kVendor,
                                      .bare_ratios = kBare,
                                      .misaligned = kOdd,
                                      .rows_first = {}};
  const targets::KnownDevice row{"Added", &numbers};
  const targets::DeviceProfile added{numbers.limits, {}, &row};
  const plan::FusedGemm step = step_of();
  const GemmSizes sizes{1, 4096, 4096, 4096};
  EXPECT_NEAR(*tune::vendor_gemm_us(step.gemm, sizes, added), 1000, 1e-6);
  const double tail = 2 * 2 * 4096.0 * 4096.0 / 1e6 + 2;
  EXPECT_NEAR(*unfused_us(step, sizes, added), 1000 + tail, 1e-6);
  const double multiply = 2 * 4096.0 * 4096.0 * 4096.0 / 1e6;
  EXPECT_GT(*unfused_us(step, sizes, added, 2), 1000 + 2 * multiply + tail);
  EXPECT_LT(*unfused_us(step, sizes, added, 2), 2000 + 2 * multiply + tail);
  EXPECT_NEAR(*tune::bare_ratio(step.gemm, sizes, added), 0.5, 1e-9);
  EXPECT_EQ(slowdown(Rows::k_major, Rows::k_major, 2, added)->vendor, 4);
  EXPECT_EQ(slowdown(Rows::k_major, Rows::k_major, 2, added)->another, 5);
  EXPECT_EQ(slowdown(Rows::k_major, Rows::k_major, 4, added)->another, 2.5);
  EXPECT_EQ(slowdown(Rows::k_major, Rows::k_major, 4, added)->vendor, 3);
  EXPECT_EQ(slowdown(Rows::k_major, Rows::k_major, 8, added)->another, 1.5);
  EXPECT_EQ(slowdown(Rows::k_major, Rows::k_major, 1, added)->another, 5);
  EXPECT_FALSE(tune::wants_rows_first(step, sizes, added));
}

// 8761x583x4800 took an H100 598 us where rows of 584 columns would take 75.
TEST(Unfused, NothingIsKnownOfResultsWhoseRowsAreOffBoundaries) {
  EXPECT_TRUE(tune::unfused_us(step_of(), {1, 4096, 1024, 4096}, kDevice));
  EXPECT_FALSE(tune::unfused_us(step_of(), {1, 4096, 1023, 4096}, kDevice));
  EXPECT_FALSE(tune::unfused_us(step_of(), {1, 4096, 1020, 4096}, kDevice));
  EXPECT_TRUE(tune::unfused_us(step_of(), {1, 4096, 1020, 4096}, kDevice, 2.5)) << "measured so";
}

// 2572x304x13020 took an H200 134 us where aligned rows would take 49, as much as at 4 bytes.
TEST(Unfused, RowsAtMultiplesOf8BytesSlowTheVendorAsThoseOf4) {
  const auto at = [](int bytes) {
    return tune::slowdown(Rows::k_major, Rows::k_major, bytes, kDevice)->vendor;
  };
  EXPECT_GT(at(8), 1);
  EXPECT_EQ(at(8), at(4));
  EXPECT_LT(at(4), at(2));
}

// What cuBLASLt took on an H100 (2026-11-26, `epifuse bench --grid random`, seeds 611 to 614): what
// multiplies, what waits for its operands, and what is small.
TEST(Unfused, TheVendorsTimesOffBoundariesAreAboutWhatTheyWere) {
  constexpr double kEven = 2.75, kOdd = 5.2, kWithin = 0.3;
  const struct {
    GemmSizes sizes;
    double slowdown, us;
  } kRows[] = {{{1, 647, 8896, 7658}, kEven, 472.1}, {{1, 980, 3968, 15707}, kOdd, 1001},
               {{1, 170, 2944, 3983}, kOdd, 69.7},   {{1, 5258, 256, 4441}, kOdd, 120.4},
               {{1, 40, 15033, 2752}, kOdd, 101.2},  {{1, 58, 1702, 7788}, kEven, 30.9},
               {{1, 2683, 80, 1605}, kOdd, 24.1},    {{1, 9, 64, 3762}, kEven, 11.7},
               {{1, 110, 7791, 104}, kOdd, 12.3}};
  const targets::KnownDevice* const h100 = targets::find_device("NVIDIA H100 80GB HBM3");
  ASSERT_NE(h100, nullptr);
  const targets::DeviceProfile device{h100->measured->limits, {}, h100};
  for (const auto& row : kRows) {
    const double us = *tune::unfused_us(step_of(), row.sizes, device, row.slowdown) -
                      tune::tail_us(step_of(), row.sizes, h100->measured->rates);
    EXPECT_NEAR(us, row.us, kWithin * row.us)
        << row.sizes.m << "x" << row.sizes.n << "x" << row.sizes.k;
  }
}

// addmm, whatever comes behind it.
TEST(Unfused, TheFirstRowThatIsAddedIsTheProductsOfAFramework) {
  plan::FusedGemm step = step_of();
  step.epilogue.loads.push_back({"b", 4, DType::bf16, plan::Access::row, false, true});
  step.epilogue.computes = {{ir::Op::add, {1, 0, -1}}, {ir::Op::silu, {2, -1, -1}}};
  step.epilogue.stores.front().source = 3;
  const plan::Load* row = &step.epilogue.loads.front();
  EXPECT_EQ(row_of_product(step), row);
  std::swap(step.epilogue.computes[0].args[0], step.epilogue.computes[0].args[1]);
  EXPECT_EQ(row_of_product(step), row) << "from either side";

  const auto without = [&](auto change) {
    plan::FusedGemm other = step;
    change(other);
    return row_of_product(other) == nullptr;
  };
  EXPECT_TRUE(without([](auto& s) { s.epilogue.computes[0].op = ir::Op::mul; }));
  EXPECT_TRUE(without([](auto& s) { s.epilogue.loads[0].access = plan::Access::col; }));
  EXPECT_TRUE(without([](auto& s) { s.epilogue.loads[0].dtype = DType::f32; }));
  EXPECT_TRUE(without([](auto& s) { s.epilogue.loads[0].unit_stride = false; }));
  EXPECT_TRUE(without([](auto& s) { s.gemm.batch = {Dim(2)}; }));
  EXPECT_TRUE(without([](auto& s) {
    s.epilogue.computes[1] = {ir::Op::mul, {2, 0, -1}};
  })) << "which also reads the product without it";
  EXPECT_TRUE(without([](auto& s) {
    s.epilogue.stores.push_back({"h", 5, DType::bf16, plan::StoreKind::tile, 0});
  }));
}

// As PyTorch's kernels are written: sums in float32, and a cast of what the product adds.
TEST(Unfused, TheRowOfAProductIsFoundInAGraphOfPyTorchs) {
  const plan::Plan plan = plan::make_plan(
      passes::run_all(ir::parse("graph kernel(x0: bf16[M, 64], x1: bf16[64, 72], x2: bf16[72]) {\n"
                                "  t0 = matmul x0, x1 -> f32\n  t1 = cast x2 -> f32\n"
                                "  t2 = add t0, t1\n  t3 = cast t2 -> bf16\n"
                                "  t4 = cast t3 -> f32\n  t5 = silu t4\n"
                                "  t6 = cast t5 -> bf16\n  return t6 as y0\n}\n"),
                      Numerics::fast),
      {});
  ASSERT_EQ(plan.steps.size(), 1u);
  const auto& step = std::get<plan::FusedGemm>(plan.steps.front());
  const plan::Load* row = row_of_product(step);
  ASSERT_NE(row, nullptr) << plan::print(step.epilogue);
  EXPECT_EQ(plan.graph[row->value].name, "x2");
}

}  // namespace
}  // namespace epifuse::tune
