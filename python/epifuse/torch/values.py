"""Values of an `.epi` graph that is being written, and the text of the graph."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Union

from . import sizes
from .sizes import Size
from .words import Words

ARITHMETIC = ("f32", "bf16", "f16")
FP8 = ("e4m3", "e5m2")  # that products read, and casts; nothing else computes with them
INT8 = "i8"  # the same
MAX_FLOAT32 = 3.4028234663852886e38


class Refusal(Exception):
    """An FX node that stays with PyTorch: a stable code and one plain sentence."""

    def __init__(self, code: str, why: str) -> None:
        super().__init__(why)
        self.code = code
        self.why = why


@dataclass(frozen=True)
class Literal:
    """A number that stands in the text. One that PyTorch has in a tensor `rounds` to the dtype that
    the op computes in, as that tensor would."""

    value: float
    rounds: bool = False

    def __str__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True, eq=False)
class Value:
    """One statement of the text, or an input where `op` is empty."""

    name: str
    dtype: str
    shape: tuple[Size, ...]
    op: str = ""
    operands: tuple[Operand, ...] = ()
    form: str = ""  # the call, with {0} and so on for the operands
    sizes: tuple[Size, ...] = ()  # those that the form writes

    def __str__(self) -> str:
        return self.name

    def statement(self) -> str:
        """`y = add h, b`"""
        return f"{self.name} = {self.form.format(*self.operands)}"

    def declaration(self) -> str:
        """`x: bf16[s0, 64]`"""
        return f"{self.name}: {self.dtype}{sizes.shape_text(self.shape)}"


Operand = Union[Value, Literal]


def round_to(value: float, dtype: str) -> float:
    """A number rounded to a dtype by way of float32, as PyTorch rounds a scalar."""
    if value in (float("inf"), float("-inf")):
        return value
    try:
        single = struct.unpack("<f", struct.pack("<f", value))[0]
        if dtype == "f16":
            return struct.unpack("<e", struct.pack("<e", single))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    if dtype != "bf16":
        return single
    bits = struct.unpack("<I", struct.pack("<f", single))[0]
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def reachable(outputs: Iterable[Value]) -> set[Value]:
    """The values that outputs are computed from, themselves included."""
    seen: set[Value] = set()
    waiting = list(outputs)
    while waiting:
        value = waiting.pop()
        if value not in seen:
            seen.add(value)
            waiting += [operand for operand in value.operands if isinstance(operand, Value)]
    return seen


def symbols(values: Iterable[Value]) -> set[str]:
    """The symbols of the sizes of values."""
    return {symbol for value in values for size in (*value.shape, *value.sizes)
            for symbol in sizes.symbols(size)}


def _declaration(value: Value, strides: Sequence[int | None] | None, words: Words) -> str:
    """An input's; strides that may be any become symbols of their own."""
    if strides is None:
        return value.declaration()
    texts = [words.take(f"stride_{value.name}_{dim}") if stride is None else str(stride)
             for dim, stride in enumerate(strides)]
    return f"{value.declaration()} strides [{', '.join(texts)}]"


def graph_text(
    inputs: Mapping[Value, Sequence[int | None] | None],
    computed: Sequence[Value],
    outputs: Sequence[Value],
    words: Words,
) -> str:
    """The text of a graph, whose inputs come with the strides to declare where they are not
    row-major. Symbols that no input holds alone get an input that does."""
    used, bound = symbols([*inputs, *computed]), set[str]()
    for value in inputs:
        bound |= {text for text in map(sizes.text, value.shape) if text in used}
    declarations = [_declaration(value, strides, words) for value, strides in inputs.items()]
    for symbol in sorted(used - bound):
        declarations.append(f"{words.take('size_' + symbol)}: f32[{symbol}]")
    lines = ["graph fx(" + ",\n         ".join(declarations) + ") {"]
    lines += ["  " + value.statement() for value in computed]
    lines += ["  return " + ",\n         ".join(value.name for value in outputs), "}"]
    return "\n".join(lines) + "\n"
