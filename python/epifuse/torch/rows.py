"""Rows that are looked up: what an index of one dim takes, and what puts it back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from .layout import CONVERTS, RESHAPES

_TAKES = "aten.index.Tensor"
_PUTS = ("aten.index_put.default", "aten._unsafe_index_put.default")
_COUNTS = ("prims.iota.default", "aten.arange.default", "aten.arange.start",
           "aten.arange.start_step")  # fmt: skip


def same_size(size: Any, other: Any) -> bool:
    """Whether two sizes are provably equal; asks for no guard."""
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    return bool(statically_known_true(size == other))


def same_sizes(sizes: Sequence[Any], others: Sequence[Any]) -> bool:
    """The same of as many sizes."""
    return len(sizes) == len(others) and all(map(same_size, sizes, others))


def index_of_rows(indices: Any) -> fx.Node | None:
    """The one integer tensor that numbers rows, of one dim."""
    if not isinstance(indices, (list, tuple)) or len(indices) != 1:
        return None
    index = indices[0]
    value = index.meta.get("val") if isinstance(index, fx.Node) else None
    if not isinstance(value, torch.Tensor) or value.ndim != 1:
        return None
    return index if value.dtype in (torch.int32, torch.int64) else None


def taken(node: Any) -> tuple[fx.Node, fx.Node] | None:
    """What a node takes rows of, and their index."""
    if not isinstance(node, fx.Node) or str(node.target) != _TAKES:
        return None
    index = index_of_rows(node.args[1])
    return None if index is None else (node.args[0], index)


def _counts_up(node: Any, size: Any) -> bool:
    """Whether a node gives 0, 1, 2, .. up to `size`."""
    if not isinstance(node, fx.Node) or str(node.target) not in _COUNTS:
        return False
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.ndim != 1:
        return False
    if not same_size(value.shape[0], size):
        return False
    start, step = node.kwargs.get("start", 0), node.kwargs.get("step", 1)
    if str(node.target).startswith("aten.arange.start"):
        start, step = node.args[0], (node.args[2] if len(node.args) > 2 else 1)
    return start == 0 and step == 1


def inverted(indices: Any) -> fx.Node | None:
    """The permutation whose inverse `indices` is: `inverse[permutation] = 0, 1, 2, ..`."""
    inverse = index_of_rows(indices)
    if inverse is None or str(inverse.target) not in _PUTS:
        return None
    permutation = index_of_rows(inverse.args[1])
    size = inverse.meta["val"].shape[0]
    if permutation is None or not same_size(permutation.meta["val"].shape[0], size):
        return None
    return permutation if _counts_up(inverse.args[2], size) else None


CASTS = (CONVERTS, "aten._to_copy.default", "aten.to.dtype")
SAME_NUMBERS = (*CASTS, *RESHAPES, "aten.clone.default", "aten.squeeze.dim",
                "aten.unsqueeze.default")  # fmt: skip


def _behind(node: Any) -> Any:
    """What a node has the numbers of, in the same order."""
    while isinstance(node, fx.Node) and str(node.target) in SAME_NUMBERS:
        node = node.args[0]
    return node


def result_of(node: Any, op: str, place: int) -> fx.Node | None:
    """The call of `op` that a node is the result number `place` of."""
    if not isinstance(node, fx.Node) or getattr(node.target, "__name__", "") != "getitem":
        return None
    call, index = node.args
    return call if index == place and str(call.target) == op else None


def argument_of(call: fx.Node, place: int, name: str, default: Any) -> Any:
    return call.args[place] if len(call.args) > place else call.kwargs.get(name, default)


def are_groups(ids: fx.Node, ends: Any) -> bool:
    """Whether `ids` has the number of the group of each row of groups that end at `ends`: what a
    top-k chose in rising order, and the running sum of how often each number was chosen. Numbers of
    no group may have been brought down to the last group's."""
    if isinstance(ids, fx.Node) and str(ids.target) == "aten.clamp_max.default":
        most = ids.args[1]
        if not isinstance(most, int) or not same_size(ends.meta["val"].numel(), most + 1):
            return False
        ids = ids.args[0]
    sort = result_of(_behind(ids), "aten.sort.default", 0)
    total = _behind(ends)
    if sort is None or argument_of(sort, 2, "descending", False) is not False:
        return False
    if result_of(_behind(sort.args[0]), "aten.topk.default", 1) is None:
        return False
    if not isinstance(total, fx.Node) or str(total.target) != "aten.cumsum.default":
        return False
    counts = _behind(total.args[0])
    if not isinstance(counts, fx.Node) or str(counts.target) != "aten.histc.default":
        return False
    num_bins = argument_of(counts, 1, "bins", 100)
    low, high = argument_of(counts, 2, "min", 0), argument_of(counts, 3, "max", 0)
    if low != 0 or high != num_bins - 1 or not same_size(ends.meta["val"].numel(), num_bins):
        return False
    return _behind(counts.args[0]) is _behind(ids)
