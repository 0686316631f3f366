"""What values of a text surely lie within, as conversions to e4m3 ask: eager gives NaN above 448,
where kernels give 448."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from . import sizes
from .values import Literal, Operand, Value

_LARGEST = 448.0
_ROUNDS_TO_LARGEST = 463.0  # and what lies between
_ROUNDING = 2.0**-7  # more than bf16 and log2 are wrong by, together
_LEAST_SCALE = 2.0**-100  # below, quotients may be wrong by more, or infinite
_VIEWS = ("reshape", "transpose", "slice", "broadcast")


def fits_e4m3(operand: Operand) -> bool:
    """Whether a value surely lies within what e4m3 holds, or is NaN."""
    if isinstance(operand, Literal):
        return abs(operand.value) <= _LARGEST
    if operand.op in ("cast", "neg", *_VIEWS):
        return fits_e4m3(operand.operands[0])
    if operand.op == "clamp":
        return all(fits_e4m3(bound) for bound in operand.operands[1:])
    if operand.op in ("min", "max"):
        lows, highs = _bounds(operand)
        return lows >= -_LARGEST and highs <= _LARGEST
    return operand.op in ("tanh", "sigmoid", "erf") or _is_scaled(operand)


def _bounds(operand: Operand) -> tuple[float, float]:
    """What `min` and `max` with numbers bound a value to."""
    if isinstance(operand, Literal):
        return operand.value, operand.value
    if operand.op not in ("min", "max"):
        return -math.inf, math.inf
    (low, high), (other_low, other_high) = map(_bounds, operand.operands)
    choose = min if operand.op == "min" else max
    return choose(low, other_low), choose(high, other_high)


@dataclass(frozen=True)
class _Scale:
    """At least `factor` times the largest magnitude of a row of `of`, and at least `least`; of all
    the rows that are its last dim but two, where it is `of_squares`."""

    of: Operand
    factor: float = 1.0
    least: float = 0.0
    of_squares: bool = False

    def times(self, number: float) -> _Scale | None:
        if not 0 < number < math.inf:
            return None
        return replace(self, factor=self.factor * number, least=self.least * number)


def _is_scaled(value: Value) -> bool:
    """Whether each row is divided by its own largest magnitude, which becomes 448 or less."""
    if value.op == "div":
        return _divides(value.operands[0], value.operands[1], 1.0)
    if value.op != "mul":
        return False
    first, second = value.operands
    return any(_divides(x, divisor, number) for x, by in ((first, second), (second, first))
               for number, divisor in _inverse(by))  # fmt: skip


def _divides(x: Operand, divisor: Operand, number: float) -> bool:
    """Whether `number * x / divisor` is such a quotient."""
    scale = _scale(divisor)
    if scale is None or isinstance(x, Literal) or isinstance(divisor, Literal):
        return False
    shape = [*x.shape[:-1], 1]
    if scale.of_squares:
        shape[-3] = 1
    is_of_rows = sizes.same_shape(divisor.shape, shape)
    is_small = abs(number) <= _ROUNDS_TO_LARGEST * scale.factor * (1 - _ROUNDING)
    return is_of_rows and is_small and scale.least >= _LEAST_SCALE and scale.of is _unrounded(x)


def _inverse(operand: Operand) -> list[tuple[float, Operand]]:
    """The number and the divisor of a quotient of them, if it is one."""
    if isinstance(operand, Literal):
        return []
    if operand.op == "div" and isinstance(operand.operands[0], Literal):
        return [(operand.operands[0].value, operand.operands[1])]
    if operand.op == "mul" and isinstance(operand.operands[1], Literal):
        by = operand.operands[1].value
        return [(number * by, divisor) for number, divisor in _inverse(operand.operands[0])]
    return []


def _unrounded(operand: Operand) -> Operand:
    """What is cast, where that keeps the range of float32."""
    while isinstance(operand, Value) and operand.op == "cast" and operand.dtype in ("f32", "bf16"):
        operand = operand.operands[0]
    return operand


def _scale(operand: Operand) -> _Scale | None:
    operand = _unrounded(operand)
    if isinstance(operand, Literal) or not operand.operands:
        return None
    first, *others = operand.operands
    if operand.op == "row_max":
        magnitude = _unrounded(first)
        is_magnitude = isinstance(magnitude, Value) and magnitude.op == "abs"
        return _Scale(_unrounded(magnitude.operands[0])) if is_magnitude else None
    if operand.op in ("reshape", "abs"):
        return _scale(first)
    if operand.op == "col_max":
        return _of_squares(first)
    if (power := _power_of_two(operand)) is not None:
        return _scale(power)
    number = others[0] if others else None
    found = _scale(first) if isinstance(number, Literal) else None
    if found is None:
        return None
    if operand.op == "max":
        return replace(found, least=max(found.least, number.value))
    if operand.op == "div" and number.value != 0:
        return found.times(1 / number.value)
    return found.times(number.value) if operand.op == "mul" else None


def _of_squares(maxima: Operand) -> _Scale | None:
    """Of the maxima of rows, of which those of the last dim but one are taken."""
    found = _scale(maxima)
    fits = found is not None and isinstance(maxima, Value) and sizes.same_shape(
        maxima.shape, found.of.shape[:-1])
    return replace(found, of_squares=True) if fits and not found.of_squares else None


def _power_of_two(value: Value) -> Operand | None:
    """x of 2 to the power ceil(log2(x))."""
    for op in ("exp2", "ceil", "log2"):
        if value.op != op or isinstance(value.operands[0], Literal):
            return None
        value = value.operands[0]
    return value
