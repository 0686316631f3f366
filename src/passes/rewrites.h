// The rewrites of `canonicalise`: each turns one node into another of the same value, bit for bit.
//
// Bit for bit means: after the rounding of every value to its dtype, as `exact` demands. NaN stays
// NaN, infinities and the sign of zero stay. Two freedoms are used. min and max may return either
// of two zeros (ops.def lets them commute), and pow(x, 2) and pow(x, -1) are computed as x * x and
// 1 / x, which is the correctly rounded result where a pow function may be off in the last place.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <variant>

#include "passes/rewriter.h"

namespace epifuse::passes {

// What a node becomes: a value that is there already, or another node.
using Replacement = std::variant<ir::ValueId, ir::Node>;

// One rewrite, for a node whose operands are canonical already. Empty: it does not apply.
using Rewrite = std::optional<Replacement> (*)(Rewriter&, const ir::Node&);

// Takes a node of the source into the graph, rewritten until `rewrite` gives nothing any more.
void settle(Rewriter& rewriter, ir::Node node,
            const std::function<std::optional<Replacement>(const ir::Node&)>& rewrite);

std::span<const Rewrite> view_rewrites();
std::span<const Rewrite> constant_rewrites();
std::span<const Rewrite> arithmetic_rewrites();
std::span<const Rewrite> bound_rewrites();  // min, max, relu, clamp and select

// Of the rewrites of views, those that sink_reshapes needs as well.
std::optional<Replacement> drop_identity_shape(Rewriter& rewriter, const ir::Node& node);
std::optional<Replacement> compose_shapes(Rewriter& rewriter, const ir::Node& node);

// The value of a constant as the float32 number it is; empty for other nodes.
std::optional<float> constant_value(const ir::Graph& graph, ir::ValueId id);
// The constant that an arithmetic op yields on constants; empty when an operand is none.
std::optional<float> fold_constant(const ir::Graph& graph, ir::Op op,
                                   std::span<const ir::ValueId> args);

// The only operand of `id` when that is a node of this op, else -1.
ir::ValueId operand_of(const ir::Graph& graph, ir::ValueId id, ir::Op op);

}  // namespace epifuse::passes
