// Element types of tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace epifuse {

/// Element type of a tensor. `e4m3` and `e5m2` are the two OCP 8-bit floats (e4m3 has no infinity);
/// `boolean` is what a comparison yields: one byte, 0 or 1. `i32` and `i64` number rows and groups;
/// nothing is computed of them. `i8` is what quantised products multiply.
enum class DType : std::uint8_t { f32, bf16, f16, e4m3, e5m2, boolean, i32, i64, i8 };

/// All of them, in the order of the enum.
std::span<const DType> all_dtypes();
/// Name as written in `.epi` text: "f32", "bf16", "f16", "e4m3", "e5m2", "bool", "i32", "i64",
/// "i8".
std::string_view name(DType dtype);
/// Inverse of name(); empty when the word names no dtype.
std::optional<DType> dtype_from_name(std::string_view word);
/// Bytes of one element: 4, 2, 2, 1, 1, 1, 4, 8, 1.
std::size_t size_bytes(DType dtype);
/// True for the first five.
bool is_float(DType dtype);
/// True for `e4m3` and `e5m2`.
bool is_fp8(DType dtype);
/// True for `e4m3`, `e5m2` and `i8`, which products and casts read and nothing else computes with.
bool is_narrow(DType dtype);
/// True for `i32` and `i64`, which number rows.
bool is_integer(DType dtype);

}  // namespace epifuse
