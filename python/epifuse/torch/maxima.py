"""The largest element of a tensor, by its rows.

    amax(x) = amax(amax(x, -1, keepdim=True))

A kernel gives the maxima of rows beside its result; what is left to Inductor then reads as many
values as there are rows. Those that no kernel takes become one reduction again.

    max(x, dim)[0] = amax(x, dim)

where nobody reads the indices.
"""

import contextlib
import operator
from dataclasses import dataclass

import torch
from torch.fx import Graph, Node

from epifuse.torch import compared, nodes
from epifuse.torch.entries import LeftOut

_AMAX = torch.ops.aten.amax.default
_WHY = "{} is the largest of the maxima of rows, which are known when the kernel has finished."


@dataclass
class ByRows:
    """A maximum of all elements, of which `rows` are the maxima of rows, and what it was before,
    but for the tensor: `rows` reads what has come into its place."""

    whole: Node
    rows: Node
    target: object
    dims: tuple[object, ...]
    options: dict[str, object]


def _dims(node: Node, rank: int) -> tuple[list[int], bool] | None:
    """The dims that a maximum is taken over, and whether they are kept; None: it is none."""
    if str(node.target) == "aten.max.default":
        return list(range(rank)), False
    if node.target is not _AMAX:
        return None
    _, dims, keeps = (*node.args, *[[], False][len(node.args) - 1 :])
    dims, keeps = node.kwargs.get("dim", dims), node.kwargs.get("keepdim", keeps)
    return sorted(dim % rank for dim in dims) or list(range(rank)), keeps


def _by_rows(graph: Graph, node: Node) -> ByRows | None:
    source = node.all_input_nodes[0] if node.all_input_nodes else None
    value = source.meta.get("val") if source is not None else None
    if not isinstance(value, torch.Tensor) or value.ndim < 2 or not value.is_floating_point():
        return None
    found = _dims(node, value.ndim)
    if found is None or found[0] != list(range(value.ndim)):
        return None
    with graph.inserting_before(node):
        rows = graph.call_function(_AMAX, (source, [-1], True))
    with getattr(value, "fake_mode", None) or contextlib.nullcontext():
        rows.meta = {**node.meta, "val": _AMAX(value, [-1], True)}
    before = ByRows(node, rows, node.target, node.args[1:], dict(node.kwargs))
    node.target, node.args, node.kwargs = _AMAX, (rows, *found), {}
    return before


def without_indices(graph: Graph) -> None:
    """Makes maxima of which only the values are read reductions that have no more."""
    for node in list(graph.nodes):
        users = list(node.users)
        reads = {user.args[1] if user.target is operator.getitem else None for user in users}
        if str(node.target) != "aten.max.dim" or reads != {0}:
            continue
        x, dim, *keeps = node.args
        if not x.meta["val"].is_floating_point():
            continue
        with graph.inserting_before(node):
            values = nodes.call(graph, _AMAX, (x, [dim], *keeps))
        for user in users:
            values.meta = {**user.meta, "val": values.meta["val"]}
            user.replace_all_uses_with(values)
            graph.erase_node(user)
        graph.erase_node(node)


def by_rows(graph: Graph) -> list[ByRows]:
    """Takes maxima of all elements by rows first."""
    calls = [node for node in graph.nodes if node.op == "call_function"]
    found = [_by_rows(graph, node) for node in calls
             if "max" in str(node.target) and not compared.is_left(node)]
    return [each for each in found if each is not None]


def put_back(found: list[ByRows], left_out: list[LeftOut]) -> list[LeftOut]:
    """Makes those whose rows no kernel has taken what they were, and says so in `left_out`."""
    for each in found:
        name = each.whole.name
        if each.rows._erased or each.whole.args[0] is not each.rows:
            left_out = [LeftOut(name, "depends_on_later_step", _WHY.format(name), left.product)
                        if left.node == name else left for left in left_out]  # fmt: skip
            continue
        each.whole.target, each.whole.args = each.target, (each.rows.args[0], *each.dims)
        each.whole.kwargs = each.options
        if each.rows.users:  # which read equal ones before
            continue
        left_out = [left for left in left_out if left.node != each.rows.name]
        each.rows.graph.erase_node(each.rows)
    return left_out
