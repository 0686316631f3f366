"""Rows of the aten table for views of computed values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import fx

from . import sizes
from .emitter import Args, Emitter, bind
from .layout import can_view, keeps_order
from .sizes import Size
from .values import Refusal, Value

Row = Callable[[Emitter, Args], Value]

# Ops that give several views at once; their `getitem` is the view.
SPLITS = (
    "aten.split.Tensor",
    "aten.split.sizes",
    "aten.split_with_sizes.default",
    "aten.unsafe_split.Tensor",
    "aten.unsafe_split_with_sizes.default",
    "aten.chunk.default",
    "aten.unsafe_chunk.default",
    "aten.tensor_split.sections",
    "aten.unbind.int",
)


def source(node: fx.Node) -> fx.Node | None:
    """The node that a view or a split is taken of."""
    viewed = node.args[0] if node.args else None
    if is_getitem(node) and isinstance(viewed, fx.Node):
        return source(viewed) if is_split(viewed) else None
    return viewed if isinstance(viewed, fx.Node) else None


def is_split(node: fx.Node) -> bool:
    """Whether a node gives several views."""
    return str(node.target) in SPLITS


def is_getitem(node: fx.Node) -> bool:
    """Whether a node takes one result of several."""
    return getattr(node.target, "__name__", "") == "getitem"


def _viewed(emit: Emitter) -> tuple[fx.Node, Value]:
    node = source(emit.node)
    assert node is not None
    return node, emit.value(node)


def alias(emit: Emitter, args: Args) -> Value:
    """The same elements; a copy only if it leaves them in order."""
    node, value = _viewed(emit)
    if not keeps_order(emit.tensor(node), emit.tensor(emit.node)):
        raise Refusal("layout", f"{emit.what} moves its elements in memory.")
    return value


def same(emit: Emitter, args: Args) -> Value:
    """The same tensor, however it lies in memory."""
    return _viewed(emit)[1]


def reshape(emit: Emitter, args: Args) -> Value:
    """Any view that keeps the elements in row-major order."""
    node, value = _viewed(emit)
    if not can_view(emit.tensor(node), emit.tensor(emit.node).shape):
        raise Refusal("layout", f"{emit.what} moves its elements in memory.")
    return _reshaped(emit, value)


def _reshaped(emit: Emitter, value: Value) -> Value:
    if sizes.same_shape(value.shape, emit.shape):
        return value
    if not sizes.same(sizes.num_elements(value.shape), sizes.num_elements(emit.shape)):
        raise Refusal("shape", f"{emit.what} does not provably keep the number of elements.")
    return emit.view("reshape", value, emit.shape)


def expand(emit: Emitter, args: Args) -> Value:
    """Repeats dims of size 1."""
    _, value = _viewed(emit)
    if sizes.same_shape(value.shape, emit.shape):
        return value
    shape = sizes.broadcast([value.shape, emit.shape])
    if shape is None or not sizes.same_shape(shape, emit.shape):
        raise Refusal("shape", f"{emit.what} does not provably repeat dims of size 1.")
    return emit.view("broadcast", value, emit.shape)


def _transposed(emit: Emitter, order: Sequence[int]) -> Value:
    _, value = _viewed(emit)
    if list(order) == sorted(order):
        return value
    shape = [value.shape[dim] for dim in order]
    moved = [dim for dim in order if not sizes.same(value.shape[dim], 1)]
    if moved == sorted(moved):  # elements stay where they are, as einsum's do
        return emit.view("reshape", value, shape)
    return emit.view("transpose", value, shape, "[" + ", ".join(map(str, order)) + "]")


def _rank(emit: Emitter) -> int:
    return len(_viewed(emit)[1].shape)


def permute(emit: Emitter, args: Args) -> Value:
    """Dims in another order."""
    rank = _rank(emit)
    return _transposed(emit, [dim % rank for dim in args["dims"]])


def transpose(emit: Emitter, args: Args) -> Value:
    """Two dims exchanged."""
    order = list(range(_rank(emit)))
    if order:
        first, second = (dim % len(order) for dim in list(args.values())[1:3])
        order[first], order[second] = order[second], order[first]
    return _transposed(emit, order)


def transpose_last(emit: Emitter, args: Args) -> Value:
    """The last two dims exchanged."""
    order = list(range(_rank(emit)))
    return _transposed(emit, order[:-2] + order[:-3:-1])


def sliced(
    emit: Emitter, value: Value, dim: int, start: Size, length: Size, step: int = 1
) -> Value:
    """`length` elements of one dim, from `start` on."""
    size = value.shape[dim]
    if sizes.same(length, size) and step == 1:
        return value
    stop = sizes.simplify(start + length * step)
    if step > 1 and isinstance(length, int) and isinstance(size, int) and length:
        stop = start + (length - 1) * step + 1
    elif step > 1 and not sizes.same(stop, size):
        raise Refusal("shape", f"{emit.what} takes a step that does not provably divide its size.")
    ranges = [":"] * len(value.shape)
    ranges[dim] = f"{sizes.text(start)}:{sizes.text(stop)}" + (f":{step}" if step > 1 else "")
    shape = [length if place == dim else size for place, size in enumerate(value.shape)]
    return emit.view("slice", value, shape, "[" + ", ".join(ranges) + "]", (start, stop))


def _index(emit: Emitter, index: Any, size: Size) -> Size:
    """A position in a dim, counted from its start."""
    if isinstance(index, fx.Node):
        index = index.meta.get("val")
    if isinstance(index, int):
        return index if index >= 0 else sizes.simplify(size + index)
    if not hasattr(index, "node"):
        raise Refusal("shape", f"{emit.what} starts where only a run tells.")
    if not _is_natural(index):
        raise Refusal("shape", f"{emit.what} may count from the end.")
    return emit.scope.sizes.of(index)


def _is_natural(size: Any) -> bool:
    known = size.node.shape_env.bound_sympy(size.node.expr)
    return bool(known.lower >= 0)


def slice_dim(emit: Emitter, args: Args) -> Value:
    """A range of one dim."""
    _, value = _viewed(emit)
    dim = args["dim"] % len(value.shape)
    step = args["step"]
    if not isinstance(step, int) or step < 1:
        raise Refusal("layout", f"{emit.what} takes a step that only a run tells.")
    length = emit.shape[dim]
    start = _index(emit, 0 if args["start"] is None else args["start"], value.shape[dim])
    if sizes.same(length, value.shape[dim]):
        start = 0
    return sliced(emit, value, dim, start, length, step)


def select(emit: Emitter, args: Args) -> Value:
    """One position of a dim, which goes away."""
    _, value = _viewed(emit)
    dim = args["dim"] % len(value.shape)
    start = _index(emit, args["index"], value.shape[dim])
    return _reshaped(emit, sliced(emit, value, dim, start, 1))


def part(emit: Emitter, args: Args) -> Value:
    """One result of a split."""
    split, index = emit.node.args[:2]
    _, value = _viewed(emit)
    parts = split.meta["val"]
    if str(split.target) == "aten.unbind.int":
        dim = bind(split)["dim"] % len(value.shape)
        return _reshaped(emit, sliced(emit, value, dim, index % len(parts), 1))
    dim = bind(split)["dim"] % len(value.shape)
    lengths = [emit.scope.sizes.of(each.shape[dim]) for each in parts]
    index = index % len(parts)
    start = sizes.simplify(sum(lengths[:index], 0))
    return sliced(emit, value, dim, start, lengths[index])


def _rows(row: Row, *names: str) -> dict[str, Row]:
    return {name: row for name in names}


VIEWS: dict[str, Row] = {
    **_rows(same, "aten.alias.default", "aten.detach.default", "prims.view_of.default",
            "aten.lift_fresh.default"),
    **_rows(alias, "aten.clone.default", "aten.contiguous.default", "aten.alias_copy.default",
            "aten.lift_fresh_copy.default", "aten.detach_copy.default"),
    **_rows(reshape, "aten.reshape.default", "aten.view.default", "aten._unsafe_view.default",
            "aten.view_copy.default", "aten._reshape_alias.default", "aten.flatten.using_ints",
            "aten.unflatten.int", "aten.squeeze.default", "aten.squeeze.dim", "aten.squeeze.dims",
            "aten.unsqueeze.default", "aten.view_as.default", "aten.reshape_as.default"),
    **_rows(expand, "aten.expand.default", "aten.expand_as.default", "aten.expand_copy.default",
            "aten.broadcast_to.default"),
    **_rows(permute, "aten.permute.default", "aten.permute_copy.default"),
    **_rows(transpose, "aten.transpose.int", "aten.transpose_copy.int", "aten.swapaxes.default",
            "aten.swapdims.default"),
    **_rows(transpose_last, "aten.t.default", "aten.t_copy.default", "aten.mT.default",
            "aten.numpy_T.default"),
    **_rows(slice_dim, "aten.slice.Tensor", "aten.slice_copy.Tensor"),
    **_rows(select, "aten.select.int", "aten.select_copy.int"),
}  # fmt: skip
