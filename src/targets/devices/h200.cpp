// What was measured on an NVIDIA H200, with cuBLASLt 13.
#include "targets/devices/hopper.h"

namespace epifuse::targets::devices {
namespace {

// The median microseconds of cuBLASLt's first algorithm, launches interleaved with others and the
// L2 flushed (2026-11-21, `epifuse bench`, and `--sweep` of the grids). Estimates for other sizes
// are interpolated between these; more rows are more knowledge.
constexpr MeasuredProduct kVendorUs[] = {
    // m, n, k, us
    {1, 2048, 2048, 10.1},       {1, 4096, 4096, 19.7},        {1, 4096, 14336, 43.2},
    {16, 768, 768, 7.4},         {16, 768, 3072, 11.3},        {16, 2048, 2048, 10.1},
    {16, 3072, 768, 8.8},        {16, 4096, 4096, 19.5},       {16, 4096, 14336, 43.4},
    {16, 8192, 1024, 11.8},      {16, 14336, 4096, 42.0},      {32, 4608, 3584, 17.5},
    {64, 768, 768, 7.6},         {64, 768, 3072, 10.8},        {64, 2048, 2048, 10.2},
    {64, 3072, 768, 8.5},        {64, 4096, 4096, 18.4},       {64, 4096, 14336, 46.2},
    {64, 8192, 1024, 11.9},      {64, 14336, 4096, 43.7},      {128, 768, 768, 7.4},
    {128, 768, 3072, 11.9},      {128, 2048, 2048, 10.6},      {128, 3072, 768, 8.6},
    {128, 4096, 4096, 19.6},     {128, 4096, 14336, 45.9},     {128, 4608, 3584, 18.7},
    {128, 8192, 1024, 12.7},     {256, 768, 768, 8.0},         {256, 768, 3072, 11.4},
    {256, 2048, 2048, 11.0},     {256, 3072, 768, 9.4},        {256, 8192, 1024, 13.6},
    {256, 8192, 28672, 186.5},   {512, 3072, 768, 10.3},       {512, 4096, 1024, 12.7},
    {512, 4096, 4096, 29.8},     {512, 4096, 14336, 88.6},     {512, 14336, 4096, 95.8},
    {1000, 768, 3072, 13.6},     {1024, 3584, 18944, 193.8},   {1024, 4096, 14336, 168.2},
    {1024, 8192, 8192, 186.6},   {1576, 768, 3072, 16.7},      {1576, 4096, 1024, 24.9},
    {2048, 4096, 4096, 95.2},    {2048, 4608, 3584, 92.2},     {2048, 6144, 6144, 212.1},
    {2048, 18944, 3584, 349.2},  {2048, 28672, 8192, 1329.4},  {4096, 1024, 4096, 48.4},
    {4096, 3072, 768, 34.2},     {4096, 3072, 1024, 41.1},     {4096, 3584, 3584, 152.1},
    {4096, 4096, 1024, 52.4},    {4096, 4096, 4096, 183.1},    {4096, 4096, 14336, 669.4},
    {4096, 8192, 28672, 2804.7}, {4096, 10240, 8192, 946.8},   {4096, 14336, 4096, 638.8},
    {6304, 768, 3072, 43.9},     {6304, 1024, 1024, 24.8},     {6304, 1024, 4096, 72.1},
    {6304, 3072, 1024, 58.4},    {6304, 4096, 1024, 77.8},     {8192, 4096, 14336, 1378.4},
    {8192, 4608, 3584, 351.1},   {8192, 6144, 6144, 836.9},    {8192, 8192, 512, 109.7},
    {8192, 8192, 1024, 193.5},   {8192, 8192, 8192, 1618.9},   {8192, 14336, 4096, 1277.1},
    {16384, 1024, 1024, 52.3},   {16384, 1024, 4096, 185.9},   {16384, 4096, 1024, 192.9},
    {16384, 4096, 4096, 741.4},  {16384, 4096, 14336, 2850.7},
};

// What our kernels take where nothing is fused into the product, over what the vendor's GEMM takes:
// the worse of two ratios of the kernel that the model chooses, launches interleaved with the L2
// flushed and blocks back to back (2026-11-22, `epifuse bench --grid bare --sweep --sustained
// 0.1`).
constexpr MeasuredProduct kBareRatios[] = {
    // m, n, k, ratio
    {512, 4096, 4096, 1.017},   {1024, 4096, 4096, 1.026},  {1024, 4096, 14336, 1.004},
    {1024, 8192, 8192, 1.134},  {2048, 4096, 4096, 0.995},  {2048, 6144, 4096, 0.975},
    {2048, 6144, 6144, 0.984},  {2048, 28672, 8192, 0.974}, {4096, 3072, 1024, 0.916},
    {4096, 4096, 1024, 0.915},  {4096, 4096, 4096, 0.985},  {4096, 4096, 14336, 0.996},
    {4096, 8192, 6144, 1.000},  {4096, 10240, 8192, 1.036}, {4096, 14336, 4096, 0.978},
    {8192, 4096, 14336, 0.974}, {8192, 6144, 6144, 0.974},  {8192, 8192, 1024, 0.897},
    {8192, 8192, 8192, 0.954},  {8192, 14336, 4096, 0.981}, {16384, 1024, 4096, 1.031},
    {16384, 4096, 1024, 0.914}, {16384, 4096, 4096, 0.985}, {16384, 4096, 14336, 0.954},
};

// 4096 x 4096 x 4095, 4096, 4098 and 4100 bf16 (2026-11-21, `epifuse run` of bias and silu; the
// tail's 22 us taken off). Pairs that are not here were not measured.
constexpr MisalignedProducts kMisaligned[] = {
    // a, b, ours, the vendor's even and odd
    {Rows::k_major, Rows::k_major, 3.3, 2.75, 5.2},
    {Rows::k_major, Rows::aligned, 2.2, 2.7, 4.9},
    {Rows::mn_major, Rows::aligned, 2.25, 2.6, 5.3},
    {Rows::aligned, Rows::mn_major, 3.9, 2.8, 5.2},
};

}  // namespace

extern const Measurements h200;  // for devices.def
constexpr Measurements h200{
    .device = "NVIDIA H200",
    .limits = kLimitsOfHopper,
    // Reached by large products and by elementwise kernels (2026-11-21).
    .rates = {.flops_per_us = 700e6, .bytes_per_us = 4.0e6, .start_us = 4.2, .launch_us = 2.0},
    .vendor_us = kVendorUs,
    .bare_ratios = kBareRatios,
    .misaligned = kMisaligned,
    .rows_first = kRowsFirstOfH200,
};

}  // namespace epifuse::targets::devices
