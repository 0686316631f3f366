"""Builds the `.epi` values of one FX node."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from . import dtypes, sizes
from .rows import are_groups, taken
from .sizes import Size, Sizes
from .values import ARITHMETIC, INT8, MAX_FLOAT32, Literal, Operand, Refusal, Value, round_to
from .words import Words

MAX_RANK = 6
_COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
_UNIFORM = ("aten.full.default", "aten.scalar_tensor.default")
_EXPAND = "aten.expand.default"

Args = dict[str, Any]


def bind(node: fx.Node) -> Args:
    """The arguments of a call by the names of its schema, defaults filled in."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return {**{str(place): value for place, value in enumerate(node.args)}, **node.kwargs}
    bound: Args = {}
    for place, argument in enumerate(schema.arguments):
        default = argument.default_value if argument.has_default_value() else None
        positional = node.args[place] if place < len(node.args) else default
        bound[argument.name] = node.kwargs.get(argument.name, positional)
    return bound


def tensor_of(node: Any) -> torch.Tensor | None:
    """The fake tensor that stands for a node's result, or None where it is no single tensor."""
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    return value if isinstance(value, torch.Tensor) else None


@dataclass
class Scope:
    """What is known of one FX graph while it is imported."""

    sizes: Sizes = field(default_factory=Sizes)
    words: Words = field(default_factory=Words)
    names: dict[fx.Node, str] = field(default_factory=dict)
    computed: dict[fx.Node, Value] = field(default_factory=dict)  # views of computed ones too
    leaves: dict[fx.Node, Value] = field(default_factory=dict)
    # The ends of groups of what is computed from grouped products.
    grouped: dict[fx.Node, fx.Node] = field(default_factory=dict)
    # Rows that are looked up and stored anyway: these lie next to each other.
    stored_rows: set[fx.Node] = field(default_factory=set)
    # Products of matrices that are to be products of batches (batches.Batches).
    batches: dict[fx.Node, Any] = field(default_factory=dict)
    # Products whose second operand is converted from 8 bits (narrow_weights.NarrowWeights).
    narrow: dict[fx.Node, Any] = field(default_factory=dict)

    def read(self, node: fx.Node, known: dict[torch.dtype, str] = dtypes.NAMES) -> Value:
        """The value of a node: a computed one, or an input of the text."""
        if node in self.computed:
            return self.computed[node]
        if node not in self.leaves:
            tensor = tensor_of(node)
            if tensor is None:
                raise Refusal("shape", f"The type of {node.name} is not known.")
            self.leaves[node] = Value(
                self.names[node], dtype_of(node, known), self.sizes.shape(tensor.shape)
            )
        return self.leaves[node]


def dtype_of(node: fx.Node, known: dict[torch.dtype, str] = dtypes.NAMES) -> str:
    """The dtype of a node in the language."""
    tensor = tensor_of(node)
    if tensor is None:
        raise Refusal("shape", f"The type of {node.name} is not known.")
    if tensor.layout != torch.strided:
        raise Refusal("layout", f"{node.name} is a sparse tensor.")
    if tensor.dtype not in known:
        name = str(tensor.dtype).removeprefix("torch.")
        raise Refusal("dtype", f"{node.name} is {name}, which no kernel of epifuse computes with.")
    return known[tensor.dtype]


class Emitter:
    """Writes the statements of one FX node; `finish` gives the one that stands for the node."""

    def __init__(self, node: fx.Node, scope: Scope) -> None:
        self.node = node
        self.scope = scope
        self.what = str(node.target)
        self.dtype = dtype_of(node)
        self.shape = scope.sizes.shape(self.tensor(node).shape)
        self.created: list[Value] = []
        self._casts: dict[tuple[Value, str], Value] = {}

    # --- reading arguments ------------------------------------------------------------------------

    def tensor(self, argument: Any) -> torch.Tensor:
        """The fake tensor of an FX node."""
        tensor = tensor_of(argument)
        if tensor is None:
            raise Refusal("shape", f"{self.what} has an operand that is no tensor.")
        return tensor

    def integers(self, argument: Any) -> Value:
        """A tensor of integers, which only numbers rows."""
        self.tensor(argument)
        return self._checked(argument, self.scope.read(argument, dtypes.INTEGERS))

    def _looked_up(self, argument: Any) -> Value | None:
        """Rows of another tensor, to be read where they are; None if it is no such argument."""
        looked_up = taken(argument)
        if looked_up is None or argument in self.scope.computed or argument in self.scope.leaves:
            return None
        source, index = looked_up
        tensor = self.tensor(argument)
        if tensor.dtype not in dtypes.NAMES:
            return None
        shape = self.scope.sizes.shape(tensor.shape)
        ends = self.scope.grouped.get(self.node)
        if ends is not None and are_groups(index, ends):
            operands = [self.value(source), self.integers(ends)]
            form = f"repeat_rows {{0}}, {{1}} {sizes.shape_text(shape)}"
            return self.add("repeat_rows", operands, operands[0].dtype, shape, form, shape)
        if argument in self.scope.stored_rows:
            return None
        operands = [self.value(source), self.integers(index)]
        return self.add("take_rows", operands, operands[0].dtype, shape, "take_rows {0}, {1}")

    def value(self, argument: Any) -> Value:
        """A tensor argument. Work on groups looks up rows itself."""
        looked_up = self._looked_up(argument) if self.node in self.scope.grouped else None
        if looked_up is not None:
            return looked_up
        self.tensor(argument)
        return self._checked(argument, self.scope.read(argument))

    def rows(self, argument: Any) -> Value:
        """The rows that a product multiplies: of batches, where it is to be one of these."""
        batches = self.scope.batches.get(self.node)
        if batches is not None and batches.rows is not None:
            return self.value(batches.rows)
        value = self.value(argument)
        return self.by_batches(value, value.shape)

    def by_batches(self, value: Value, shape: Sequence[Size]) -> Value:
        """A matrix with a row for each of a product's, as such a product reads it; others stay."""
        batches = self.scope.batches.get(self.node)
        is_of_rows = sizes.same_shape(value.shape, shape) and not sizes.same(shape[0], 1)
        if batches is None or not is_of_rows:
            return value
        return self.view("reshape", value, (*self.scope.sizes.shape(batches.sizes), shape[1]))

    def _checked(self, argument: fx.Node, value: Value) -> Value:
        tensor = self.tensor(argument)
        if tensor.device != self.tensor(self.node).device:
            raise Refusal("device", f"{argument.name} is on {tensor.device}, unlike the result.")
        if len(value.shape) > MAX_RANK:
            raise Refusal("shape", f"{argument.name} has more than {MAX_RANK} dims.")
        return value

    def operand(self, argument: Any) -> Operand:
        """A tensor or a number. A tensor that holds one known number everywhere is that number."""
        if tensor_of(argument) is None:
            return Literal(self.number(argument))
        uniform = self._uniform(argument)
        return self.repeated(argument) if uniform is None else uniform

    def repeated(self, argument: Any) -> Value:
        """A tensor argument of an elementwise op. Of one that only repeats another in memory it is
        the other: a row, a column or a sample is less to read, and needs no copy."""
        is_expanded = str(argument.target) == _EXPAND and argument not in self.scope.computed
        if is_expanded and self._is_as_large_without(argument):
            return self.value(argument.args[0])
        return self.value(argument)

    def number(self, argument: Any) -> float:
        """A number that stands in the FX graph and fits float32."""
        if not isinstance(argument, (bool, int, float)):
            raise Refusal("scalar_operand", f"{self.what} has a number that only a run tells.")
        value = float(argument)
        if math.isnan(value) or MAX_FLOAT32 * (1 + 2**-25) <= abs(value) < math.inf:
            raise Refusal("scalar_operand", f"{self.what} has the number {value}, no float32.")
        return value

    def _uniform(self, argument: fx.Node) -> Literal | None:
        if str(argument.target) not in _UNIFORM or argument in self.scope.computed:
            return None
        fill = bind(argument)
        value = fill["fill_value"] if "fill_value" in fill else fill["s"]
        if not isinstance(value, (bool, int, float)) or self.tensor(argument).dtype.is_complex:
            return None
        if self.tensor(argument).dtype == torch.bool:
            return None
        if not self._is_as_large_without(argument):
            return None
        # An op of CUDA takes a number that lies on the host as it is.
        here = self.tensor(argument).device == self.tensor(self.node).device
        return Literal(self.number(value), rounds=here)

    def _is_as_large_without(self, argument: fx.Node) -> bool:
        """Whether the other operands have the shape of the result."""
        others = [tensor_of(node) for node in self.node.all_input_nodes if node is not argument]
        shapes = [self.scope.sizes.shape(other.shape) for other in others if other is not None]
        shape = sizes.broadcast(shapes)
        return shape is not None and sizes.same_shape(shape, self.shape)

    # --- writing ----------------------------------------------------------------------------------

    def add(
        self,
        op: str,
        operands: Sequence[Operand],
        dtype: str,
        shape: Sequence[Size],
        form: str,
        written: Sequence[Size] = (),
    ) -> Value:
        """Any statement."""
        if len(shape) > MAX_RANK:
            raise Refusal("shape", f"{self.what} gives more than {MAX_RANK} dims.")
        name = self.scope.words.take(f"{self.scope.names[self.node]}_{op}")
        value = Value(name, dtype, tuple(shape), op, tuple(operands), form, tuple(written))
        self.created.append(value)
        return value

    def op(self, op: str, *operands: Operand) -> Value:
        """An elementwise op."""
        values = [operand for operand in operands if isinstance(operand, Value)]
        shape = sizes.broadcast([value.shape for value in values])
        if shape is None:
            raise Refusal("shape", f"The shapes of {self.what} do not provably fit.")
        counted = values[1:] if op == "select" and isinstance(operands[0], Value) else values
        kinds = {value.dtype for value in counted if value.shape or value.dtype != "f32"}
        if len(kinds) > 1 or not kinds <= set(ARITHMETIC):
            raise Refusal("dtype", f"{self.what} computes with {' and '.join(sorted(kinds))}.")
        dtype = "bool" if op in _COMPARISONS else next(iter(kinds), "f32")
        places = ", ".join(f"{{{place}}}" for place in range(len(operands)))
        return self.add(op, operands, dtype, shape, f"{op} {places}")

    def cast(self, value: Value, dtype: str) -> Value:
        """A value in another dtype; the same value for the same question."""
        if value.dtype == dtype:
            return value
        if dtype == INT8:
            raise Refusal("dtype", f"{self.what} gives int8, which no kernel of epifuse does.")
        if (value, dtype) not in self._casts:
            if dtype == "bool":
                cast = self.op("ne", self.cast(value, "f32"), Literal(0.0))
            else:
                cast = self.add("cast", [value], dtype, value.shape, f"cast {{0}} -> {dtype}")
            self._casts[value, dtype] = cast
        return self._casts[value, dtype]

    def to(self, operand: Operand, dtype: str, round_numbers: bool = False) -> Operand:
        """An operand in a dtype. Numbers stay as exact as PyTorch keeps them: most of its ops take
        a scalar in float32, comparisons and the like round it to the tensors' dtype."""
        if isinstance(operand, Literal):
            rounds = (round_numbers or operand.rounds) and dtype != "f32"  # f32: all numbers are
            return Literal(round_to(operand.value, dtype)) if rounds else operand
        return self.cast(operand, dtype)

    def view(
        self,
        op: str,
        value: Value,
        shape: Sequence[Size],
        detail: str = "",
        written: Sequence[Size] = (),
    ) -> Value:
        """A view that writes a shape, or what `detail` says."""
        form = f"{op} {{0}} {detail or sizes.shape_text(shape)}"
        return self.add(op, [value], value.dtype, shape, form, written)

    def finish(self, operand: Operand) -> Value:
        """The statement for the node, in the dtype that PyTorch gives it."""
        if isinstance(operand, Literal):
            raise Refusal("scalar_operand", f"{self.what} gives a number that is known before.")
        value = self.cast(operand, self.dtype)
        if self.node in self.scope.batches:
            value = self.view("reshape", value, self.shape)
        if not sizes.same_shape(value.shape, self.shape):
            raise Refusal("shape", f"The shape that {self.what} gives is not provably its own.")
        return value
