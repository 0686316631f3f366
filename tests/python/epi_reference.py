"""Evaluates `.epi` text with torch: in float64, or as numerics level `exact` computes."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import torch

Tensors = dict[str, torch.Tensor]

DTYPES = {
    "f32": torch.float32,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "e4m3": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
    "bool": torch.bool,
}


def gelu_slope(x, approximate):
    """The derivative of gelu."""
    return torch.ops.aten.gelu_backward(torch.ones_like(x), x, approximate=approximate)


OPS = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "min": torch.minimum,
    "max": torch.maximum,
    "pow": torch.pow,
    "neg": torch.neg,
    "abs": torch.abs,
    "sqrt": torch.sqrt,
    "rsqrt": lambda x: 1 / torch.sqrt(x),
    "square": lambda x: x * x,
    "exp": torch.exp,
    "log": torch.log,
    "exp2": torch.exp2,
    "log2": torch.log2,
    "ceil": torch.ceil,
    "floor": torch.floor,
    "tanh": torch.tanh,
    "erf": torch.erf,
    "sigmoid": torch.sigmoid,
    "silu": lambda x: x / (1 + torch.exp(-x)),
    "gelu_erf": lambda x: x * 0.5 * (1 + torch.erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "gelu_erf_slope": lambda x: gelu_slope(x, "none"),
    "gelu_tanh_slope": lambda x: gelu_slope(x.clamp(-40, 40), "tanh"),
    "relu": lambda x: torch.where(x < 0, 0.0, x),
    "leaky_relu": lambda x, slope: torch.where(x < 0, x * slope, x),
    "softplus": lambda x: torch.where(x > 20, x, torch.log1p(torch.exp(x))),
    "hardswish": lambda x: x * (torch.clamp(x + 3, 0, 6) / 6),
    "clamp": lambda x, low, high: torch.where(x < low, low, torch.where(x > high, high, x)),
    "lt": torch.lt,
    "le": torch.le,
    "gt": torch.gt,
    "ge": torch.ge,
    "eq": torch.eq,
    "ne": torch.ne,
    "select": torch.where,
}
NARROW = ("tanh", "erf", "gelu_erf", "gelu_erf_slope", "gelu_tanh_slope")
OPS |= {f"{name}_narrow": OPS[name] for name in NARROW}
REDUCTIONS = {
    "row_sum": lambda x: x.sum(-1, keepdim=True),
    "row_max": lambda x: x.amax(-1, keepdim=True),
    "col_sum": lambda x: x.sum(-2, keepdim=True),
    "col_max": lambda x: x.amax(-2, keepdim=True),
}


@dataclass(frozen=True)
class Typed:
    """A value in the type that it is computed in, and its dtype in the text."""

    data: torch.Tensor
    dtype: str


@dataclass(frozen=True)
class Text:
    """The parts of a text as the importer writes it."""

    inputs: dict[str, tuple[str, list[str]]]
    statements: list[tuple[str, str, str]]  # name, op, the rest
    outputs: list[str]


def parse(text: str) -> Text:
    """Reads one graph; anything unexpected is an error."""
    head, body = re.fullmatch(r"graph fx\((.*?)\) \{\n(.*)\}\n", text, re.S).groups()
    inputs = {}
    for name, dtype, shape in re.findall(r"(\w+): (\w+)\[([^\]]*)\]", head):
        inputs[name] = (dtype, [size for size in shape.split(", ") if size])
    statements, outputs = body.split("  return ")
    lines = [re.fullmatch(r"  (\w+) = (\w+) (.*)", line) for line in statements.splitlines()]
    return Text(inputs, [line.groups() for line in lines], re.findall(r"\w+", outputs))


class _Run:
    def __init__(self, text: Text, given: Tensors, exact: bool) -> None:
        self.exact = exact
        self.symbols: dict[str, int] = {}
        self.values: dict[str, Typed] = {}
        for name, (dtype, shape) in text.inputs.items():
            if name in given:
                self._bind(name, dtype, shape, given[name])

    def _bind(self, name: str, dtype: str, shape: list[str], tensor: torch.Tensor) -> None:
        for size, number in zip(shape, tensor.shape, strict=True):
            if size.isidentifier():
                assert self.symbols.setdefault(size, number) == number, name
        if self.exact or dtype == "bool":
            assert tensor.dtype == DTYPES[dtype], name
        data = tensor if dtype == "bool" else tensor.to(self.working())
        self.values[name] = Typed(data, dtype)

    def working(self) -> torch.dtype:
        return torch.float32 if self.exact else torch.float64

    def size(self, text: str) -> int:
        return eval(text, {"__builtins__": {}}, self.symbols)  # noqa: S307 (our own text)

    def rounded(self, data: torch.Tensor, dtype: str) -> Typed:
        """A result, rounded to its dtype at level exact."""
        if dtype == "bool":
            return Typed(data.bool(), dtype)
        if self.exact:
            data = data.to(DTYPES[dtype]).to(torch.float32)
        return Typed(data, dtype)

    def operand(self, text: str) -> Typed:
        if text.endswith("^T"):
            value = self.operand(text[:-2])
            return Typed(value.data.transpose(-1, -2), value.dtype)
        if text in self.values:
            return self.values[text]
        return Typed(torch.tensor(float(text), dtype=self.working()), "f32")

    def compute(self, op: str, rest: str) -> Typed:
        """One statement."""
        if op in ("reshape", "broadcast", "transpose", "slice"):
            return self.view(op, *re.fullmatch(r"(\w+) \[(.*)\]", rest).groups())
        rest = rest.removesuffix(" promoted")
        rest, _, dtype = rest.partition(" -> ")
        operands = [self.operand(text) for text in rest.split(", ")]
        data = [operand.data for operand in operands]
        if op == "cast":
            return self.rounded(data[0].to(self.working()), dtype)
        if op == "matmul":
            is_fp8 = all(each.dtype in ("e4m3", "e5m2") for each in operands)
            assert is_fp8 or operands[0].dtype == operands[1].dtype
            usual = "f32" if is_fp8 else operands[0].dtype
            return self.rounded(data[0] @ data[1], dtype or usual)
        if op == "concat":
            return self.rounded(torch.cat(data, -1), operands[0].dtype)
        if op in REDUCTIONS:
            return self.rounded(REDUCTIONS[op](data[0]), operands[0].dtype)
        counted = operands[1:] if op == "select" else operands
        dtypes = {each.dtype for each in counted if each.data.ndim or each.dtype != "f32"}
        assert len(dtypes) <= 1 and not dtypes & {"bool", "e4m3", "e5m2"}, (op, dtypes)
        comparison = op in ("lt", "le", "gt", "ge", "eq", "ne")
        return self.rounded(OPS[op](*data), "bool" if comparison else min(dtypes, default="f32"))

    def view(self, op: str, name: str, detail: str) -> Typed:
        value = self.values[name]
        parts = [part for part in detail.split(", ") if part]
        if op == "transpose":
            return Typed(value.data.permute([int(part) for part in parts]), value.dtype)
        if op == "slice":
            return Typed(value.data[tuple(map(self.range, parts))], value.dtype)
        shape = [self.size(part) for part in parts]
        data = value.data.reshape(shape) if op == "reshape" else value.data.expand(shape)
        return Typed(data, value.dtype)

    def range(self, text: str) -> slice:
        if text == ":":
            return slice(None)
        start, stop, step = map(self.size, (text.split(":") + ["1"])[:3])
        return slice(start, stop, step)


def run(text: str, given: Tensors, exact: bool = False) -> Tensors:
    """All values of a text for these inputs. At level exact they are in float32, each rounded to
    its dtype; else in float64 and not rounded at all."""
    parsed = parse(text)
    state = _Run(parsed, given, exact)
    for name, op, rest in parsed.statements:
        assert name not in state.values
        state.values[name] = state.compute(op, rest)
    assert all(name in state.values for name in parsed.outputs)
    return {name: value.data for name, value in state.values.items()}
