"""Sums into rows that a permutation tells apart, as rows that are looked up.

    p = sort(..)[1];  inverse[p] = 0, 1, 2, ..

    zeros.index_put([p], x, accumulate)        ->  x[inverse]
    zeros.index_put([inverse], x, accumulate)  ->  x[p]
    zeros.index_put([p // k], x, accumulate)   ->  x[inverse].view(-1, k, ..).sum(1)

Backward passes have the first forms where a mixture of experts brings rows into the order of its
experts and back. They fill a tensor with zeros and add to it by atomics, or sort the indices once
more. The others read each row once, and a kernel may put its rows there itself.
"""

from typing import Any

import torch
from torch.fx import Graph, Node

from epifuse.torch.nodes import call
from epifuse.torch.rows import (
    argument_of, index_of_rows, inverted, result_of, same_size, same_sizes)  # fmt: skip

_PUTS = ("aten.index_put.default", "aten._unsafe_index_put.default")
_DIVISIONS = ("aten.div.Tensor_mode", "aten.floor_divide.default")


def _is_permutation(node: Any) -> bool:
    sort = result_of(node, "aten.sort.default", 1) or result_of(node, "aten.sort.stable", 1)
    return sort is not None and node.meta["val"].ndim == 1


def _rows_each(index: Node) -> tuple[Node, int]:
    """What an index has k-th parts of, rounded down, and k."""
    if str(index.target) in _DIVISIONS and index.kwargs.get("rounding_mode", "floor") is not None:
        numbers, k = index.args[:2]
        if isinstance(numbers, Node) and type(k) is int and k > 0:
            return numbers, k
    return index, 1


def _is_sum(put: Node) -> bool:
    return bool(argument_of(put, 3, "accumulate", False))


def _is_zeros(node: Any) -> bool:
    return isinstance(node, Node) and str(node.target) == "aten.full.default" and node.args[1] == 0


def _rows_of(node: Node, inverse: Node | None, k: int) -> bool:
    """Whether a sum into zeros has each row of what it adds, and k of them in each of its own."""
    added, inverted_shape = node.args[2], inverse and inverse.meta["val"].shape
    if inverted_shape is None or not isinstance(added, Node):
        return False
    rows, shape = added.meta["val"].shape, node.meta["val"].shape
    if not same_sizes(rows, (shape[0] * k, *shape[1:])):
        return False
    if not same_size(inverted_shape[0], rows[0]):
        return False
    # A view to one symbolic size needs no node for it.
    return k == 1 or all(isinstance(size, int) for size in shape[1:])


def _looked_up(graph: Graph, node: Node, inverses: dict[Node, Node]) -> Node | None:
    """What a sum into zeros is, in front of it."""
    index = index_of_rows(node.args[1])
    if index is None or not _is_zeros(node.args[0]) or not _is_sum(node):
        return None
    numbers, k = _rows_each(index)
    inverse = inverses.get(numbers)
    if not node.meta["val"].is_floating_point() or not _rows_of(node, inverse, k):
        return None
    if k > 1 and not _is_permutation(numbers):
        return None
    with graph.inserting_before(node):
        rows = call(graph, torch.ops.aten.index.Tensor, (node.args[2], [inverse]))
        if k == 1:
            return rows
        parts = call(graph, torch.ops.aten.view.default,
                     (rows, [-1, k, *node.meta["val"].shape[1:]]))
        return call(graph, torch.ops.aten.sum.dim_IntList, (parts, [1]))


def _note_inverse(put: Node, inverses: dict[Node, Node]) -> None:
    permutation = inverted([put])
    if permutation is not None and _is_permutation(permutation) and not _is_sum(put):
        inverses.setdefault(permutation, put)
        inverses[put] = permutation


def without_sums_into_permuted_rows(graph: Graph) -> None:
    """Looks such rows up instead, in place."""
    inverses: dict[Node, Node] = {}  # of each permutation, and the other way round
    for node in list(graph.nodes):
        if str(node.target) not in _PUTS:
            continue
        _note_inverse(node, inverses)
        rows = _looked_up(graph, node, inverses)
        if rows is not None:
            node.replace_all_uses_with(rows)
            graph.erase_node(node)
