"""Operands of kernels that are conversions, or views, within one node's work: they become nodes.

    y = mul(x, t)   of x in float32 and t in bf16   ->   y = mul(x, cast(t)), in the language

A kernel that turns halves of heads may compute the product, but read the cast of a small table, as
it would be done again for each head. No node of the graph has it. Scales of weights may be turned
with these (narrow_weights.py), and what is reshaped behind a cast is reshaped before it here."""

from typing import Any

import torch
from torch.fx import Graph, Node

from epifuse.torch import nodes
from epifuse.torch.dtypes import BY_NAME
from epifuse.torch.importer import Imported

Kernel = dict[str, Any]  # as epifuse_fusions describes it

_WHY = "An operand is a part of one op's work, which nothing has in memory."


def _last_before_work(graph: Graph, node: Node) -> Node:
    """The node, or the last of the graph's inputs where it is one."""
    if node.op != "placeholder":
        return node
    return [each for each in graph.nodes if each.op == "placeholder"][-1]


def _add(graph: Graph, name: str, imported: Imported) -> None:
    """A node for a part of another's work."""
    if name in imported.casts:
        source, dtype = imported.casts[name]
        target, how = torch.ops.prims.convert_element_type.default, BY_NAME[dtype]
    else:
        source, op, shape = imported.views[name]
        is_turned = op == "transpose"
        target = torch.ops.aten.permute.default if is_turned else torch.ops.aten.reshape.default
        how = [1, 0] if is_turned else list(shape)
    node = imported.names[source]
    with graph.inserting_after(_last_before_work(graph, node)):
        imported.names[name] = nodes.call(graph, target, (node, how))


def with_operands(graph: Graph, kernels: list[Kernel], imported: Imported) -> list[Kernel]:
    """The kernels whose operands nodes have, or have now."""
    found = []
    for kernel in kernels:
        names = [tensor["value"] for tensor in kernel["inputs"]]
        for name in names:
            if name not in imported.names and (name in imported.casts or name in imported.views):
                _add(graph, name, imported)
        if all(name in imported.names for name in names):
            found.append(kernel)
    return found


def left_out(kernels: list[Kernel], kept: list[Kernel]) -> list[tuple[str, str, str]]:
    """Results of the others, and why."""
    return [(tensor["value"], "needs_copy", _WHY)
            for kernel in kernels if kernel not in kept for tensor in kernel["outputs"]]
