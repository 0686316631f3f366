// A family's configs and variants, as all others see them.
#pragma once

#include <optional>
#include <string>

#include "codegen/opaque.h"

namespace epifuse::codegen {

struct ConfigFunctions;
struct VariantFunctions;

// One point of a family's search space; nothing where no kernel of a family runs.
using GemmConfig = Opaque<ConfigFunctions>;
// "ping-pong 128x192, 4 stages". Names a config in results: those of a family print differently,
// but for what `leaner` makes of them.
std::string print(const GemmConfig& config);
// One whose kernel takes fewer registers and is otherwise the same; none of the leanest.
std::optional<GemmConfig> leaner(const GemmConfig& config);

// What bound tensors ask of a kernel beyond its config. Nothing for the usual one; another is
// compiled when such tensors come.
using GemmVariant = Opaque<VariantFunctions>;
std::string print(const GemmVariant& variant);  // "" for the usual one
std::string key(const GemmVariant& variant);    // differs wherever variants of a family do

// What a family's own types of the two have: ==, and what is called here.
struct ConfigFunctions {
  bool (*equal)(const GemmConfig&, const GemmConfig&);
  std::string (*print)(const GemmConfig&);
  std::optional<GemmConfig> (*leaner)(const GemmConfig&);
};
template <class T>
struct FunctionsOf<ConfigFunctions, T> {
  static constexpr ConfigFunctions kTable{
      [](const GemmConfig& x, const GemmConfig& y) { return x.as<T>() == y.as<T>(); },
      [](const GemmConfig& config) { return print(config.as<T>()); },
      [](const GemmConfig& config) -> std::optional<GemmConfig> {
        const std::optional<T> less = leaner(config.as<T>());
        if (!less) return std::nullopt;
        return GemmConfig(*less);
      }};
};
struct VariantFunctions {
  bool (*equal)(const GemmVariant&, const GemmVariant&);
  std::string (*print)(const GemmVariant&);
  std::string (*key)(const GemmVariant&);
};
template <class T>
struct FunctionsOf<VariantFunctions, T> {
  static constexpr VariantFunctions kTable{
      [](const GemmVariant& x, const GemmVariant& y) { return x.as<T>() == y.as<T>(); },
      [](const GemmVariant& variant) { return print(variant.as<T>()); },
      [](const GemmVariant& variant) { return key(variant.as<T>()); }};
};

// To and from a family's own type, whose default value is the usual variant.
template <class T>
GemmVariant make_variant(const T& value) {
  return value == T{} ? GemmVariant() : GemmVariant(value);
}
template <class T>
T variant_as(const GemmVariant& variant) {
  return variant.is_empty() ? T{} : variant.as<T>();
}

}  // namespace epifuse::codegen
