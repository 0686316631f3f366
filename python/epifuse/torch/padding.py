"""Products of padded operands, as Inductor makes them (torch/_inductor/fx_passes/pad_mm.py).

    (pad(a) @ pad(b))[:m, :n] = a @ b, where the pads are zeros behind the last rows and columns

Inductor pads where that was faster when it tried both. What follows such a product reads a part of
it, which no kernel of ours writes, and our kernels take sizes as they are. So products are seen
without their padding, and those that no kernel takes get it back.
"""

import contextlib
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, Node

_PRODUCTS = {"aten.mm.default", "aten.bmm.default", "aten.addmm.default", "aten.baddbmm.default"}
PADDED = "epifuse_padded"  # in the meta of a product that Inductor has padded


@dataclass
class Unpadded:
    """A product that stands for the last node of a padded one, `cut`, which nobody reads now."""

    product: Node
    padded: Node
    cut: Node


def _shape(node: Node) -> tuple[Any, ...]:
    return tuple(node.meta["val"].shape)


def _before_pad(operand: Node) -> Node:
    """What was padded by zeros behind its last rows and columns; an operand without is itself."""
    if str(operand.target) != "aten.constant_pad_nd.default":
        return operand
    inner, pads, *value = operand.args
    value = value[0] if value else operand.kwargs.get("value", 0)
    before, behind = pads[::2], pads[1::2]
    is_behind = not any(before) and not any(behind[2:])
    is_static = all(isinstance(pad, int) and pad >= 0 for pad in pads)
    return inner if is_static and is_behind and value == 0 else operand


def _before_cat(bias: Node, shape: tuple[Any, ...]) -> Node | None:
    """What of a bias is added to a result of that shape: it may be longer by what is cut off."""
    while True:
        own = _shape(bias)
        if all(size in (1, full) for size, full in zip(own[::-1], shape[::-1])):
            return bias
        if str(bias.target) != "aten.cat.default":
            return None
        parts, dim = bias.args[0], (*bias.args[1:2], 0)[0] % len(own) - len(own)
        if _shape(parts[0])[dim] != shape[dim]:
            return None  # what is added goes on in the next part
        bias = parts[0]


def _cut(padded: Node, shape: tuple[Any, ...]) -> Node | None:
    """The node where slices have cut the product back to its first rows and columns."""
    node = padded
    while _shape(node) != shape:
        if len(node.users) != 1:
            return None
        (node,) = node.users
        if str(node.target) != "aten.slice.Tensor":
            return None
        start, step = (*node.args[2:3], 0)[0], (*node.args[4:5], 1)[0]
        if start not in (0, None) or step != 1:
            return None
    return node


def _without_padding(graph: Graph, node: Node) -> Unpadded | None:
    *bias, a, b = node.args
    operands = [_before_pad(a), _before_pad(b)]
    if operands == [a, b] or not all("val" in each.meta for each in (*bias, *operands)):
        return None
    shape = (*_shape(operands[0])[:-1], _shape(operands[1])[-1])
    is_static = all(isinstance(size, int) for size in shape)
    if not is_static or _shape(operands[0])[-1] != _shape(operands[1])[-2]:
        return None
    bias = [_before_cat(each, shape) for each in bias]
    cut = _cut(node, shape)
    if cut is None or None in bias:
        return None
    with graph.inserting_before(node):
        product = graph.call_function(node.target, (*bias, *operands), dict(node.kwargs))
    values = [each.meta["val"] for each in (*bias, *operands)]
    with getattr(values[-1], "fake_mode", None) or contextlib.nullcontext():
        product.meta = {**cut.meta, "val": node.target(*values, **node.kwargs), PADDED: True}
    cut.replace_all_uses_with(product)
    return Unpadded(product, node, cut)


def without_padding(graph: Graph) -> list[Unpadded]:
    """Makes all that reads padded products read products of the same operands without padding."""
    found = []
    for node in list(graph.nodes):
        if str(node.target) in _PRODUCTS and isinstance(node.meta.get("val"), torch.Tensor):
            unpadded = _without_padding(graph, node)
            found += [unpadded] if unpadded is not None else []
    return found


def _erase(graph: Graph, node: Node) -> None:
    """Erases a node that nobody reads, and what it alone has read."""
    if node._erased or node.users or node.op != "call_function":
        return
    inputs = node.all_input_nodes
    graph.erase_node(node)
    for each in inputs:
        _erase(graph, each)


def put_back(graph: Graph, unpadded: list[Unpadded]) -> dict[str, str]:
    """Pads the products again that are still there. Returns what their names stand for."""
    names = {}
    for each in unpadded:
        if not each.product._erased:
            names[each.product.name] = each.padded.name
            each.product.replace_all_uses_with(each.cut)
            graph.erase_node(each.product)
        _erase(graph, each.cut)
    return names
