"""Products of int8, which PyTorch gives as int32, as products that give float32.

`torch._int_mm` has exact sums, of which scales make floats. Where all that reads them turns them
into floats, the product may as well give float32: a kernel rounds a sum once, as PyTorch does."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.fx import Graph, Node

_INT_MM = torch.ops.aten._int_mm.default
_CONVERT = torch.ops.prims.convert_element_type.default
# What promotes integers to the dtype of its result.
_PROMOTES = (torch.ops.aten.mul.Tensor, torch.ops.aten.div.Tensor)
_FLOATS = (torch.float32, torch.bfloat16, torch.float16)
MOST_PRODUCTS = 2**17 - 1  # kMostProductsOfI8 of src/ir/graph.h: their sums fit 32 bits


@dataclass(frozen=True)
class FloatProduct:
    """A product in float32, and what it stands for."""

    product: Node
    product_name: str
    name: str  # of the product of integers


def _dtype(node: Node) -> torch.dtype | None:
    value = node.meta.get("val")
    return value.dtype if isinstance(value, torch.Tensor) else None


def _reads_as_float(user: Node) -> bool:
    return user.target in (_CONVERT, *_PROMOTES) and _dtype(user) in _FLOATS


def _is_of_floats(node: Node) -> bool:
    """Whether a product of int8 is read as floats alone, and its sums fit 32 bits for sure."""
    if node.target is not _INT_MM or not all(_dtype(arg) == torch.int8 for arg in node.args[:2]):
        return False
    depth = node.args[0].meta["val"].shape[1]
    fits = isinstance(depth, int) and depth <= MOST_PRODUCTS
    return fits and bool(node.users) and all(map(_reads_as_float, node.users))


def _call(graph: Graph, before: Node, target: object, *arguments: object) -> Node:
    with graph.inserting_before(before):
        return graph.call_function(target, arguments)


def _converted(graph: Graph, before: Node, node: Node, dtype: torch.dtype) -> Node:
    result = _call(graph, before, _CONVERT, node, dtype)
    result.meta = {**node.meta, "val": node.meta["val"].to(dtype)}
    return result


def _in_float32(graph: Graph, node: Node) -> FloatProduct:
    with graph.inserting_before(node):
        product = graph.create_node("call_function", torch.ops.aten.mm.dtype,
                                    (*node.args[:2], torch.float32), name=f"{node.name}_f32")
    product.meta = {**node.meta, "val": node.meta["val"].to(torch.float32)}
    for user in list(node.users):
        dtype = _dtype(user)
        if user.target is _CONVERT and dtype == torch.float32:
            user.replace_all_uses_with(product)
            graph.erase_node(user)
        elif user.target is _CONVERT or dtype == torch.float32:
            user.replace_input_with(node, product)
        else:
            user.replace_input_with(node, _converted(graph, user, product, dtype))
    graph.erase_node(node)
    return FloatProduct(product, product.name, node.name)


def as_floats(graph: Graph) -> list[FloatProduct]:
    """Makes products of int8 give float32 where all that reads them takes floats."""
    return [_in_float32(graph, node) for node in list(graph.nodes) if _is_of_floats(node)]


def put_back(graph: Graph, products: list[FloatProduct]) -> None:
    """Makes those give integers again that are still there."""
    for each in products:
        product = each.product
        if product._erased:
            continue
        integers = _call(graph, product, _INT_MM, *product.args[:2])
        integers.meta = {**product.meta, "val": product.meta["val"].to(torch.int32)}
        for user in list(product.users):
            if user.target is _CONVERT:
                user.replace_input_with(product, integers)
        if product.users:
            product.replace_all_uses_with(_converted(graph, product, integers, torch.float32))
        graph.erase_node(product)
