"""The table of aten ops that a kernel of epifuse computes: overload -> row that writes it.

To add an op, add a row. Views are in `views.VIEWS`."""

from __future__ import annotations

from torch import fx

from . import activations, elementwise, products
from .elementwise import Row, by_scalar, comparison, plain, scaled
from .products import FOREIGN, reduction

# Products of groups of rows, whose ends are in `offs`.
GROUPED = frozenset({"aten._grouped_mm.default", "aten._scaled_grouped_mm.default"})

PRODUCTS: dict[str, Row] = {
    "aten.mm.default": products.mm,
    "aten.mm.dtype": products.mm,
    "aten.bmm.default": products.mm,
    "aten.bmm.dtype": products.mm,
    "aten.matmul.default": products.mm,
    "aten.linear.default": products.linear,
    "aten.addmm.default": products.addmm,
    "aten.addmm.dtype": products.addmm,
    "aten.baddbmm.default": products.addmm,
    "aten.baddbmm.dtype": products.addmm,
    "aten._scaled_mm.default": products.scaled_mm,
    "aten._scaled_mm_v2.default": products.scaled_mm_v2,
    "aten._grouped_mm.default": products.grouped_mm,
    "aten._scaled_grouped_mm.default": products.scaled_grouped_mm,
}

_ARITHMETIC: dict[str, Row] = {
    "aten.add.Tensor": scaled("add"),
    "aten.add.Scalar": scaled("add"),
    "aten.sub.Tensor": scaled("sub"),
    "aten.sub.Scalar": scaled("sub"),
    "aten.rsub.Tensor": elementwise.rsub,
    "aten.rsub.Scalar": elementwise.rsub,
    "aten.mul.Tensor": by_scalar("mul"),
    "aten.mul.Scalar": plain("mul", 2),
    "aten.div.Tensor": elementwise.divide,
    "aten.div.Scalar": elementwise.divide,
    "aten.div.Tensor_mode": elementwise.divide,
    "aten.div.Scalar_mode": elementwise.divide,
    "aten.true_divide.Tensor": elementwise.divide,
    "aten.reciprocal.default": elementwise.reciprocal,
    "aten.pow.Tensor_Scalar": elementwise.power,
    "aten.pow.Tensor_Tensor": plain("pow", 2),
    "aten.pow.Scalar": elementwise.power_of_number,
    "aten.addcmul.default": elementwise.addcmul,
    "aten.addcdiv.default": elementwise.addcdiv,
    "aten.lerp.Scalar": elementwise.lerp,
    "prims.fma.default": elementwise.fma,
}

_FUNCTIONS: dict[str, Row] = {
    "aten.neg.default": plain("neg", 1),
    "aten.abs.default": plain("abs", 1),
    "aten.sqrt.default": plain("sqrt", 1),
    "aten.rsqrt.default": plain("rsqrt", 1),
    "aten.square.default": plain("square", 1),
    "aten.exp.default": plain("exp", 1),
    "aten.exp2.default": plain("exp2", 1),
    "aten.log2.default": plain("log2", 1),
    "aten.ceil.default": plain("ceil", 1),
    "aten.floor.default": plain("floor", 1),
    "aten.expm1.default": activations.expm1,
    "aten.log.default": plain("log", 1),
    "aten.log1p.default": activations.log1p,
    "aten.tanh.default": plain("tanh", 1),
    "aten.erf.default": plain("erf", 1),
}

_ACTIVATIONS: dict[str, Row] = {
    "aten.sigmoid.default": plain("sigmoid", 1),
    "aten.silu.default": plain("silu", 1),
    "aten.gelu.default": activations.gelu,
    "aten.glu.default": activations.glu,
    "aten.relu.default": plain("relu", 1),
    "aten.relu6.default": activations.relu6,
    "aten.leaky_relu.default": activations.leaky_relu,
    "aten.softplus.default": activations.softplus,
    "aten.hardswish.default": plain("hardswish", 1),
    "aten.hardsigmoid.default": activations.hardsigmoid,
    "aten.hardtanh.default": elementwise.clamp,
    "aten.mish.default": activations.mish,
    "aten.elu.default": activations.elu,
    "aten.threshold.default": elementwise.threshold,
    "aten.threshold_backward.default": elementwise.threshold_backward,
}

_CHOICES: dict[str, Row] = {
    "aten.clamp.default": elementwise.clamp,
    "aten.clamp.Tensor": elementwise.clamp,
    "aten.clamp_min.default": plain("max", 2, round_numbers=True),
    "aten.clamp_min.Tensor": plain("max", 2),
    "aten.clamp_max.default": plain("min", 2, round_numbers=True),
    "aten.clamp_max.Tensor": plain("min", 2),
    "aten.minimum.default": plain("min", 2),
    "aten.maximum.default": plain("max", 2),
    "aten.where.self": elementwise.where,
    "aten.where.ScalarSelf": elementwise.where,
    "aten.where.ScalarOther": elementwise.where,
    "aten.where.Scalar": elementwise.where,
    "aten.masked_fill.Scalar": elementwise.masked_fill,
    "aten.masked_fill.Tensor": elementwise.masked_fill,
    "aten.isnan.default": elementwise.isnan,
    **{
        f"aten.{op}.{overload}": comparison(op)
        for op in ("lt", "le", "gt", "ge", "eq", "ne")
        for overload in ("Tensor", "Scalar")
    },
}

_CONVERSIONS: dict[str, Row] = {
    "prims.convert_element_type.default": elementwise.convert,
    "aten._to_copy.default": elementwise.convert,
    "aten.to.dtype": elementwise.convert,
    "aten.to.dtype_layout": elementwise.convert,
    "aten.to.device": elementwise.convert,
    "aten.to.other": elementwise.convert,
    "aten.type_as.default": elementwise.convert,
}

_REDUCTIONS: dict[str, Row] = {
    "aten.sum.dim_IntList": reduction("row_sum", "col_sum"),
    "aten.mean.dim": products.mean,
    "aten.amax.default": reduction("row_max", "col_max"),
}

_ROWS: dict[str, Row] = {
    "aten.index.Tensor": products.put_rows,
    "aten.cat.default": products.concat,
}

ELEMENTWISE: dict[str, Row] = {
    **_ARITHMETIC,
    **_FUNCTIONS,
    **_ACTIVATIONS,
    **_CHOICES,
    **_CONVERSIONS,
    **_REDUCTIONS,
    **_ROWS,
}


# What kernels compute of tensors that need no product, beside what reads it.
OF_OPERANDS = frozenset(ELEMENTWISE) - frozenset(_REDUCTIONS) - frozenset(_ROWS)


def foreign(node: fx.Node) -> tuple[str, str] | None:
    """Code and sentence for a product that epifuse has no kernel for."""
    packet = ".".join(str(node.target).split(".")[:2])
    if packet not in FOREIGN:
        return None
    code, does = FOREIGN[packet]
    return code, f"{node.target} {does}, which no kernel of epifuse does."
