"""Rows of the aten table for elementwise ops.

A row builds what eager PyTorch computes on CUDA: operands are cast to the dtype of the result,
arithmetic is float32, and the result is rounded once. What takes several ops is therefore computed
in f32 throughout and cast at the end (by `Emitter.finish`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from . import dtypes
from .bounds import fits_e4m3
from .emitter import Args, Emitter, tensor_of
from .layout import keeps_order
from .values import ARITHMETIC, Literal, Operand, Refusal, Value

Row = Callable[[Emitter, Args], Operand]

ONE = Literal(1.0)


def _arguments(args: Args) -> list[Any]:
    return list(args.values())


def computed_dtype(emit: Emitter) -> str:
    """The dtype of the result, which arithmetic must be done on."""
    if emit.dtype not in ARITHMETIC:
        raise Refusal("dtype", f"{emit.what} gives {emit.dtype}, which arithmetic is not done on.")
    return emit.dtype


def inside(emit: Emitter, argument: Any) -> Operand:
    """An operand of a computation of several ops: rounded as the one op would, then in f32."""
    operand = emit.to(emit.operand(argument), computed_dtype(emit))
    return emit.to(operand, "f32")


def plain(op: str, count: int, round_numbers: bool = False) -> Row:
    """The first `count` arguments, in the dtype of the result, to one op."""

    def build(emit: Emitter, args: Args) -> Operand:
        dtype = computed_dtype(emit)
        operands = [emit.operand(argument) for argument in _arguments(args)[:count]]
        return emit.op(op, *(emit.to(operand, dtype, round_numbers) for operand in operands))

    return build


def by_scalar(op: str) -> Row:
    """mul and div: `plain`, but on CPUs PyTorch takes a second operand without dims in float32."""

    def build(emit: Emitter, args: Args) -> Operand:
        x, y = _arguments(args)[:2]
        tensor = tensor_of(y)
        if tensor is None or tensor.ndim or tensor.device.type != "cpu":
            return plain(op, 2)(emit, args)
        scalar = emit.operand(y)
        scalar = Literal(scalar.value) if isinstance(scalar, Literal) else emit.cast(scalar, "f32")
        return emit.op(op, emit.to(emit.operand(x), computed_dtype(emit)), scalar)

    return build


def scaled(op: str) -> Row:
    """add and sub: `self op alpha * other`."""

    def build(emit: Emitter, args: Args) -> Operand:
        alpha = emit.number(args.get("alpha", 1))
        if alpha == 1:
            return plain(op, 2)(emit, args)
        x, y = (inside(emit, argument) for argument in _arguments(args)[:2])
        return emit.op(op, x, emit.op("mul", y, Literal(alpha)))

    return build


def rsub(emit: Emitter, args: Args) -> Operand:
    """`other - alpha * self`."""
    x, y = _arguments(args)[:2]
    return scaled("sub")(emit, {"self": y, "other": x, "alpha": args.get("alpha", 1)})


def divide(emit: Emitter, args: Args) -> Operand:
    """True division only."""
    if args.get("rounding_mode") is not None:
        raise Refusal("option", f"{emit.what} rounds its quotient to an integer.")
    return by_scalar("div")(emit, args)


def comparison(op: str) -> Row:
    """Operands in their common dtype, scalars rounded to it."""

    def build(emit: Emitter, args: Args) -> Operand:
        x, y = _arguments(args)[:2]
        dtype = common_dtype(emit, x, y)
        return emit.op(op, *(emit.to(emit.operand(argument), dtype, True) for argument in (x, y)))

    return build


def common_dtype(emit: Emitter, *arguments: Any) -> str:
    """The dtype in which PyTorch compares: of tensors with dims, then of those without, then of
    numbers, where a later one counts only if it is of a higher kind."""
    levels: list[torch.dtype | None] = [None, None, None]
    for argument in arguments:
        tensor = tensor_of(argument)
        if tensor is not None:
            level, dtype = (0 if tensor.ndim else 1), tensor.dtype
        else:
            level, dtype = 2, _number_dtype(argument)
        known = levels[level]
        levels[level] = dtype if known is None else torch.promote_types(known, dtype)
    common = torch.bool
    for dtype in levels:
        if dtype is not None and _kind(dtype) > _kind(common):
            common = dtype
    if dtypes.NAMES.get(common) not in ARITHMETIC:
        name = str(common).removeprefix("torch.")
        raise Refusal("dtype", f"{emit.what} computes with {name}, which epifuse does not.")
    return dtypes.NAMES[common]


def _number_dtype(number: Any) -> torch.dtype:
    if isinstance(number, bool):
        return torch.bool
    return torch.int64 if isinstance(number, int) else torch.get_default_dtype()


def _kind(dtype: torch.dtype) -> int:
    return 0 if dtype == torch.bool else 2 if dtype.is_floating_point else 1


# --- bounds and choices ---------------------------------------------------------------------------


def clamp(emit: Emitter, args: Args) -> Operand:
    """`min(max(x, low), high)`: with low above high the result is high, and NaN stays."""
    x, low, high = _arguments(args)[:3]
    dtype = computed_dtype(emit)
    bounds = [None if bound is None else emit.to(emit.operand(bound), dtype, True)
              for bound in (low, high)]  # fmt: skip
    value = emit.to(emit.operand(x), dtype)
    if all(isinstance(bound, Literal) for bound in bounds) and bounds[0].value <= bounds[1].value:
        return emit.op("clamp", value, *bounds)
    for op, bound in zip(("max", "min"), bounds):
        value = value if bound is None else emit.op(op, value, bound)
    return value


def condition(emit: Emitter, argument: Any) -> Value:
    """A bool tensor."""
    value = emit.repeated(argument)
    if value.dtype != "bool":
        raise Refusal("dtype", f"The condition of {emit.what} is {value.dtype}, not bool.")
    return value


def where(emit: Emitter, args: Args) -> Operand:
    """`select`, both branches in the dtype of the result."""
    test, x, y = _arguments(args)[:3]
    dtype = computed_dtype(emit)
    mask = condition(emit, test)
    if emit.node in emit.scope.grouped and mask.shape[-1:] == (1,):
        raise Refusal("rows_of_no_group", f"{emit.what} may give values to rows behind the last "
                                          "group, which no kernel of groups writes.")  # fmt: skip
    return emit.op(
        "select",
        mask,
        emit.to(emit.operand(x), dtype, True),
        emit.to(emit.operand(y), dtype, True),
    )


def masked_fill(emit: Emitter, args: Args) -> Operand:
    """`value` where the mask is set."""
    x, mask, value = _arguments(args)[:3]
    return where(emit, {"condition": mask, "self": value, "other": x})


def threshold(emit: Emitter, args: Args) -> Operand:
    """x above the threshold, else the value; NaN stays."""
    x = emit.to(emit.operand(args["self"]), computed_dtype(emit))
    limit, value = (emit.to(Literal(emit.number(args[key])), emit.dtype, True)
                    for key in ("threshold", "value"))  # fmt: skip
    return emit.op("select", emit.op("le", x, limit), value, x)


def threshold_backward(emit: Emitter, args: Args) -> Operand:
    """The gradient where x is above the threshold, else 0."""
    dtype = computed_dtype(emit)
    gradient, x = (emit.to(emit.operand(args[key]), dtype) for key in ("grad_output", "self"))
    limit = emit.to(Literal(emit.number(args["threshold"])), dtype, True)
    return emit.op("select", emit.op("le", x, limit), Literal(0.0), gradient)


# --- several ops, in f32 --------------------------------------------------------------------------


def addcmul(emit: Emitter, args: Args) -> Operand:
    """`self + value * tensor1 * tensor2`."""
    x, y, z = (inside(emit, args[key]) for key in ("self", "tensor1", "tensor2"))
    value = emit.number(args["value"])
    scaled_y = y if value == 1 else emit.op("mul", y, Literal(value))
    return emit.op("add", x, emit.op("mul", scaled_y, z))


def addcdiv(emit: Emitter, args: Args) -> Operand:
    """`self + value * (tensor1 / tensor2)`."""
    x, y, z = (inside(emit, args[key]) for key in ("self", "tensor1", "tensor2"))
    value = emit.number(args["value"])
    quotient = emit.op("div", y, z)
    return emit.op("add", x, quotient if value == 1 else emit.op("mul", quotient, Literal(value)))


def fma(emit: Emitter, args: Args) -> Operand:
    """`a * b + c`."""
    x, y, z = (inside(emit, argument) for argument in _arguments(args)[:3])
    return emit.op("add", emit.op("mul", x, y), z)


def lerp(emit: Emitter, args: Args) -> Operand:
    """From `self` to `end`, from the nearer of the two as PyTorch does."""
    x, end = (inside(emit, args[key]) for key in ("self", "end"))
    weight = emit.number(args["weight"])
    way = emit.op("sub", end, x)
    if abs(weight) < 0.5:
        return emit.op("add", x, emit.op("mul", way, Literal(weight)))
    return emit.op("sub", end, emit.op("mul", way, Literal(1 - weight)))


def power(emit: Emitter, args: Args) -> Operand:
    """`x ** number`; small powers as PyTorch takes them, product by product."""
    exponent = emit.number(args["exponent"])
    x = emit.to(emit.operand(args["self"]), computed_dtype(emit))
    if exponent == 1:
        return x
    if exponent == 3:
        return emit.op("mul", emit.op("square", x), x)
    if exponent == -1:
        return emit.op("div", ONE, x)
    known = {2.0: "square", 0.5: "sqrt", -0.5: "rsqrt"}
    if exponent in known:
        return emit.op(known[exponent], x)
    return emit.op("pow", x, emit.to(Literal(exponent), emit.dtype, True))


def power_of_number(emit: Emitter, args: Args) -> Operand:
    """`number ** x`; of 2 an op of its own."""
    if emit.number(args["self"]) == 2:
        return emit.op("exp2", emit.to(emit.operand(args["exponent"]), computed_dtype(emit)))
    return plain("pow", 2, round_numbers=True)(emit, args)


def reciprocal(emit: Emitter, args: Args) -> Operand:
    """`1 / x`."""
    return emit.op("div", ONE, emit.to(emit.operand(args["self"]), computed_dtype(emit)))


def isnan(emit: Emitter, args: Args) -> Operand:
    """`x != x`."""
    x = emit.value(args["self"])
    return emit.op("ne", x, x)


# --- conversions ----------------------------------------------------------------------------------


def convert(emit: Emitter, args: Args) -> Operand:
    """A conversion of dtype; with no change of dtype it is a copy."""
    source, *_ = _arguments(args)
    value = emit.value(source)
    before, after = emit.tensor(source), emit.tensor(emit.node)
    if emit.dtype == value.dtype and not keeps_order(before, after):
        raise Refusal("layout", f"{emit.what} moves its elements in memory.")
    if emit.dtype == "e4m3" and value.dtype != "e4m3" and not fits_e4m3(value):
        raise Refusal("dtype", f"{emit.what} gives NaN above 448, where epifuse gives 448.")
    return value
