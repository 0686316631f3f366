"""Sizes of tensors as polynomials over symbols, the only sizes that `.epi` text can write."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Union

import sympy

from .words import Words

Size = Union[int, sympy.Expr]

_MAX_TERMS = 64
_MAX_DEGREE = 16
_MAX_COEFFICIENT = 2**63 - 1


def same(a: Size, b: Size) -> bool:
    """Whether two sizes are equal for all values of their symbols."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return sympy.expand(a - b) == 0


def same_shape(a: Sequence[Size], b: Sequence[Size]) -> bool:
    """Whether two shapes have as many dims and the same sizes."""
    return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))


def num_elements(shape: Iterable[Size]) -> Size:
    """The product of all sizes."""
    product: Size = 1
    for size in shape:
        product = product * size
    return simplify(product)


def simplify(size: Size) -> Size:
    """The size multiplied out; an int where no symbol is left."""
    if isinstance(size, int):
        return size
    expanded = sympy.expand(size)
    return int(expanded) if expanded.is_Integer else expanded


def broadcast(shapes: Sequence[Sequence[Size]]) -> tuple[Size, ...] | None:
    """The shape that tensors of these shapes repeat to, or None where that is not provable."""
    result: list[Size] = []
    for place in range(1, max((len(shape) for shape in shapes), default=0) + 1):
        size: Size = 1
        for shape in shapes:
            other = shape[-place] if place <= len(shape) else 1
            if same(other, 1):
                continue
            if not same(size, 1) and not same(size, other):
                return None
            size = other
        result.append(size)
    return tuple(reversed(result))


def symbols(size: Size) -> set[str]:
    """Names of the symbols of a size."""
    return set() if isinstance(size, int) else {symbol.name for symbol in size.free_symbols}


def text(size: Size) -> str:
    """A size as the language writes it: `2*s0*s1 + 1`."""
    if isinstance(size, int):
        return str(size)
    terms = sorted(map(_term, sympy.Add.make_args(size)), key=lambda term: (not term[1], term[1]))
    words = [("- " if sign < 0 else "+ ") + (body or "1") for sign, body in map(_signed, terms)]
    joined = " ".join(words)
    return joined[2:] if joined.startswith("+ ") else "-" + joined[2:]


def shape_text(shape: Iterable[Size]) -> str:
    """A shape as the language writes it: `[s0, 64]`."""
    return "[" + ", ".join(map(text, shape)) + "]"


def _term(term: sympy.Expr) -> tuple[int, str]:
    coefficient, rest = term.as_coeff_Mul()
    factors = []
    for factor, power in rest.as_powers_dict().items():
        if factor != 1:
            factors += [factor.name] * int(power)
    return int(coefficient), "*".join(sorted(factors))


def _signed(term: tuple[int, str]) -> tuple[int, str]:
    coefficient, factors = term
    scale = abs(coefficient)
    parts = ([] if scale == 1 and factors else [str(scale)]) + ([factors] if factors else [])
    return coefficient, "*".join(parts)


class Sizes:
    """Turns the sizes of one FX graph into polynomials; equal sizes give equal ones."""

    def __init__(self) -> None:
        self._words = Words()
        self._symbols: dict[sympy.Expr, sympy.Symbol] = {}
        self._known: dict[sympy.Expr, Size] = {}
        self.likely: dict[str, int] = {}  # what symbols are in the batch that is traced

    def of(self, size: Any) -> Size:
        """The polynomial of an int or SymInt. What is none becomes a symbol of its own."""
        if isinstance(size, int):
            return int(size)
        expression = size.node.expr
        if expression not in self._known:
            self._known[expression] = self._convert(expression)
            symbol = self._symbols.get(expression)
            if symbol is not None and size.node.has_hint():
                self.likely[symbol.name] = int(size.node.hint)
        return self._known[expression]

    def shape(self, sizes: Iterable[Any]) -> tuple[Size, ...]:
        """The polynomials of a shape."""
        return tuple(self.of(size) for size in sizes)

    def _convert(self, expression: sympy.Expr) -> Size:
        polynomial = self._polynomial(expression)
        if polynomial is not None:
            polynomial = simplify(polynomial)
            if isinstance(polynomial, int) or _fits(polynomial):
                return polynomial
        return self._symbol(expression)

    def _polynomial(self, expression: sympy.Expr) -> sympy.Expr | None:
        """None for what need not be an integer, such as a half in `s0 / 2 + 1 / 2`."""
        if expression.is_Integer:
            return expression
        if expression.is_Symbol:
            return self._symbol(expression)
        if expression.is_Add or expression.is_Mul:
            parts = [self._polynomial(part) for part in expression.args]
            return None if any(part is None for part in parts) else expression.func(*parts)
        if expression.is_Pow:
            base, power = expression.args
            if not power.is_Integer or not 0 < power <= _MAX_DEGREE:
                return None
            part = self._polynomial(base)
            return None if part is None else part**power
        return self._symbol(expression) if expression.is_integer else None

    def _symbol(self, expression: sympy.Expr) -> sympy.Symbol:
        if expression not in self._symbols:
            wanted = expression.name if expression.is_Symbol else f"n{len(self._symbols)}"
            self._symbols[expression] = sympy.Symbol(self._words.take(wanted), integer=True)
        return self._symbols[expression]


def _fits(size: sympy.Expr) -> bool:
    """Whether a polynomial is within the limits of the language."""
    terms = sympy.Add.make_args(size)
    if len(terms) > _MAX_TERMS:
        return False
    for term in terms:
        coefficient, rest = term.as_coeff_Mul()
        degree = sum(int(power) for power in rest.as_powers_dict().values())
        if abs(coefficient) > _MAX_COEFFICIENT or degree > _MAX_DEGREE:
            return False
    return True
