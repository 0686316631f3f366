"""Masks that are set nowhere, as indices are known to be small.

    where(ge(i, n), y, x) = x  and  clamp_max(i, n - 1) = i,  where all indices i are below n

Mixtures of experts of transformers mask rows of experts that are elsewhere: numbers that a top-k of
as many values as there are experts never gives. A kernel then reads the rows where they are, and
so does a backward pass.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Graph, Node

from epifuse.torch.layout import RESHAPES
from epifuse.torch.rows import SAME_NUMBERS, argument_of, result_of

# By how much the least number for which a comparison holds is above the number that it names.
_ABOVE = {"aten.ge.Scalar": 0, "aten.gt.Scalar": 1}
_VIEWS = (*RESHAPES, "aten.unsqueeze.default", "aten.expand.default")


def _as_counted(node: Any) -> Any:
    """What a node has the numbers of, in any order and maybe in another dtype that holds them."""
    while isinstance(node, Node):
        sort = result_of(node, "aten.sort.default", 0)
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor) or value.dtype not in (torch.int32, torch.int64):
            return None
        if sort is None and str(node.target) not in SAME_NUMBERS:
            return node
        node = node.args[0] if sort is None else sort.args[0]
    return None


def _limit(node: Any) -> int | None:
    """A number that all indices of a node are below, which are not negative either."""
    top = result_of(_as_counted(node), "aten.topk.default", 1)
    if top is None:
        return None
    shape = top.args[0].meta["val"].shape
    size = shape[argument_of(top, 2, "dim", -1)] if len(shape) else 1
    return size if isinstance(size, int) else None


def _is_never_set(mask: Any) -> bool:
    while isinstance(mask, Node) and str(mask.target) in _VIEWS:
        mask = mask.args[0]
    if not isinstance(mask, Node) or str(mask.target) not in _ABOVE:
        return False
    index, number = mask.args
    limit = _limit(index)
    if limit is None or not isinstance(number, (int, float)):
        return False
    return number + _ABOVE[str(mask.target)] >= limit


def _where(node: Node) -> Node | None:
    mask, _, other = node.args
    return other if isinstance(other, Node) and _is_never_set(mask) else None


def _masked_fill(node: Node) -> Node | None:
    x, mask, _ = node.args
    return x if _is_never_set(mask) else None


def _clamp_max(node: Node) -> Node | None:
    x, most = node.args
    limit = _limit(x)
    return x if limit is not None and isinstance(most, int) and most >= limit - 1 else None


# For each op: what a node of it is the same as, or None.
_SAME: dict[str, Callable[[Node], Node | None]] = {
    "aten.where.self": _where,
    "aten.masked_fill.Scalar": _masked_fill,
    "aten.clamp_max.default": _clamp_max,
}


def _is_alike(node: Node, other: Node) -> bool:
    mine, its = node.meta.get("val"), other.meta.get("val")
    if not isinstance(mine, torch.Tensor) or not isinstance(its, torch.Tensor):
        return False
    return mine.shape == its.shape and mine.dtype == its.dtype and mine.device == its.device


def without_masks_set_nowhere(graph: Graph) -> None:
    """Takes them out, and bounds that indices are within, in place."""
    for node in list(graph.nodes):
        row = _SAME.get(str(node.target))
        same = row(node) if row is not None and not node.kwargs else None
        if same is not None and _is_alike(node, same):
            node.replace_all_uses_with(same)
            graph.erase_node(node)
