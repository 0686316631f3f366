"""Rows of the aten table for activations, and what they take from `elementwise`."""

from __future__ import annotations

import math

from torch import fx

from . import views
from .elementwise import ONE, Operand, computed_dtype, inside
from .emitter import Args, Emitter
from .values import Literal, Refusal
from . import views

_SOFTPLUS_BOUND = 80  # above it PyTorch's exp may overflow where epifuse's softplus does not


def _in_result(emit: Emitter, args: Args) -> Operand:
    return emit.to(emit.operand(args["self"]), computed_dtype(emit))


def gelu(emit: Emitter, args: Args) -> Operand:
    """Both forms."""
    forms = {"none": "gelu_erf", "tanh": "gelu_tanh"}
    if args["approximate"] not in forms:
        raise Refusal("option", f"{emit.what} has an unknown form.")
    return emit.op(forms[args["approximate"]], _in_result(emit, args))


def glu(emit: Emitter, args: Args) -> Operand:
    """The first half along a dim times the sigmoid of the second."""
    value = inside(emit, args["self"])
    if isinstance(value, Literal) or not value.shape:
        raise Refusal("shape", f"{emit.what} has no dim to be halved.")
    dim = args["dim"] % len(value.shape)
    half = emit.shape[dim]
    first, second = (views.sliced(emit, value, dim, start, half) for start in (0, half))
    return emit.op("mul", first, emit.op("sigmoid", second))


def relu6(emit: Emitter, args: Args) -> Operand:
    """x from 0 to 6."""
    return emit.op("clamp", _in_result(emit, args), Literal(0.0), Literal(6.0))


def leaky_relu(emit: Emitter, args: Args) -> Operand:
    """x, or a multiple of it below 0."""
    slope = emit.number(args["negative_slope"])
    if math.isinf(slope):
        raise Refusal("scalar_operand", f"The slope of {emit.what} is infinite.")
    return emit.op("leaky_relu", _in_result(emit, args), Literal(slope))


def softplus(emit: Emitter, args: Args) -> Operand:
    """`log(1 + exp(beta x)) / beta`, and x where `beta x` is above the threshold."""
    beta, threshold = emit.number(args["beta"]), emit.number(args["threshold"])
    if beta == 1 and threshold == 20:
        return emit.op("softplus", _in_result(emit, args))
    if beta <= 0 or threshold > _SOFTPLUS_BOUND or math.isinf(beta):
        raise Refusal("option", f"{emit.what} has beta {beta} and threshold {threshold}.")
    x = inside(emit, args["self"])
    z = x if beta == 1 else emit.op("mul", x, Literal(beta))
    y = emit.op("softplus", z)
    y = y if beta == 1 else emit.op("div", y, Literal(beta))
    return emit.op("select", emit.op("gt", z, Literal(threshold)), x, y)


def _is_negated_magnitude(node: fx.Node) -> bool:
    is_neg = str(node.target) == "aten.neg.default"
    return is_neg and str(node.args[0].target) == "aten.abs.default"


def log1p(emit: Emitter, args: Args) -> Operand:
    """`log(1 + exp(x))`, as Inductor spells softplus; of others `log` would lose digits."""
    power = args["self"]
    is_exp = isinstance(power, fx.Node) and str(power.target) == "aten.exp.default"
    if not is_exp or computed_dtype(emit) != "f32":
        raise Refusal("op_not_known", f"{emit.what} is known of exp in float32 only.")
    exp, x = (inside(emit, argument) for argument in (power, power.args[0]))
    if _is_negated_magnitude(power.args[0]):
        return emit.op("softplus", x)
    # The op softplus is x itself from 20 on, which this is not quite; the compiler folds it all.
    low = emit.op("softplus", emit.op("neg", emit.op("abs", x)))
    y = emit.op("add", emit.op("relu", x), low)
    return emit.op("select", emit.op("eq", exp, Literal(math.inf)), exp, y)


def hardsigmoid(emit: Emitter, args: Args) -> Operand:
    """`min(max(x + 3, 0), 6) / 6`."""
    shifted = emit.op("add", inside(emit, args["self"]), Literal(3.0))
    return emit.op("div", emit.op("clamp", shifted, Literal(0.0), Literal(6.0)), Literal(6.0))


def mish(emit: Emitter, args: Args) -> Operand:
    """`x * tanh(softplus(x))`."""
    x = inside(emit, args["self"])
    return emit.op("mul", x, emit.op("tanh", emit.op("softplus", x)))


def _exp_minus_one(emit: Emitter, x: Operand) -> Operand:
    """`tanh(x / 2) * (exp(x) + 1)`: unlike `exp(x) - 1` it loses no digits near 0."""
    half = emit.op("tanh", emit.op("mul", x, Literal(0.5)))
    return emit.op("mul", half, emit.op("add", emit.op("exp", x), ONE))


def expm1(emit: Emitter, args: Args) -> Operand:
    """`exp(x) - 1`."""
    return _exp_minus_one(emit, inside(emit, args["self"]))


def elu(emit: Emitter, args: Args) -> Operand:
    """`scale * x`, and `scale * alpha * (exp(input_scale * x) - 1)` up to 0."""
    x = inside(emit, args["self"])
    alpha, scale, input_scale = (
        emit.number(args[key]) for key in ("alpha", "scale", "input_scale")
    )
    z = x if input_scale == 1 else emit.op("mul", x, Literal(input_scale))
    low, high = _exp_minus_one(emit, z), x
    if alpha * scale != 1:
        low = emit.op("mul", low, Literal(emit.number(alpha * scale)))
    if scale != 1:
        high = emit.op("mul", x, Literal(scale))
    return emit.op("select", emit.op("le", x, Literal(0.0)), low, high)
