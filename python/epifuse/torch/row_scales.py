"""Scales of a grouped product's rows, before the product where that saves a pass over its rows.

    y = (h @ w) * s        ->  y = (h * s) @ w
    ds = sum(dy * (h @ w)) ->  ds = sum((dy @ w^T) * h)

A mixture of experts scales each row of its last product by the router's weight. The weight's
gradient needs the product before the scale, so a training step stores all of it beside the scaled
one, and reads it again. Behind the move it is computed of the gradient of `h`, which is narrower
and which the step computes anyway.
"""

from typing import Any, NamedTuple

import torch
from torch.fx import Graph, Node

from epifuse.torch.emitter import bind, tensor_of
from epifuse.torch.layout import swaps
from epifuse.torch.nodes import call
from epifuse.torch.rows import same_size, same_sizes

_GROUPED = "aten._grouped_mm.default"
_MUL = "aten.mul.Tensor"
_SUM = "aten.sum.dim_IntList"
_ORIGIN = ("stack_trace", "nn_module_stack", "fwd_nn_module_stack", "partitioner_tag")


class _Scaled(NamedTuple):
    """The nodes of a product whose rows are scaled, and of its backward pass."""

    product: Node  # of `rows` and the groups' matrices
    scaled: Node  # product * scale
    total: Node  # sum(gradient * product), the scale's gradient
    back: Node  # gradient * scale
    gradient: Node  # of `scaled`
    scale: Node


def _users(node: Node, target: str) -> list[Node]:
    return [user for user in node.users if str(user.target) == target]


def _other(product: Node, operand: Node) -> Any:
    """What a product of two multiplies an operand by."""
    first, second = product.args
    return second if first is operand else first


def _have_one_shape(node: Any, other: Node) -> bool:
    mine, its = tensor_of(node), tensor_of(other)
    return mine is not None and same_sizes(mine.shape, its.shape)


def _is_of_rows(node: Any, rows: torch.Tensor) -> bool:
    """Whether a node has one number for each row, in the rows' dtype."""
    value = tensor_of(node)
    return value is not None and value.ndim == 2 and value.dtype == rows.dtype and (
        same_size(value.shape[0], rows.shape[0]) and same_size(value.shape[1], 1))


def _sum_of_rows(node: Node) -> Node | None:
    """The only reader, where that sums the rows."""
    (reader, *others) = node.users or [None]
    if reader is None or others or str(reader.target) != _SUM:
        return None
    arguments = bind(reader)
    dims = arguments["dim"]
    is_last = isinstance(dims, (list, tuple)) and [dim % 2 for dim in dims] == [1]
    return reader if is_last and arguments["keepdim"] and arguments["dtype"] is None else None


def _is_swapped(node: Any, of: Any) -> bool:
    """Whether two nodes are each other with the last two dims swapped."""
    return any(swaps(one) and one.args[0] is other for one, other in ((node, of), (of, node)))


def _ends(product: Node) -> Any:
    """Where the groups of a product end, if that is all that it is told."""
    arguments = bind(product)
    is_plain = arguments["bias"] is None and arguments["out_dtype"] is None
    return arguments["offs"] if is_plain else None


def _of_scaled(product: Node) -> _Scaled | None:
    """A product of rows with two readers: its scale, and the scale's gradient."""
    rows, value = tensor_of(product.args[0]), tensor_of(product)
    muls = _users(product, _MUL)
    if rows is None or value is None or len(muls) != 2 or len(product.users) != 2:
        return None
    if _ends(product) is None or tensor_of(product.args[1]).ndim != 3:
        return None
    for scaled, summed in (muls, muls[::-1]):
        scale, gradient, total = _other(scaled, product), _other(summed, product), None
        if _is_of_rows(scale, value) and isinstance(gradient, Node):
            total = _sum_of_rows(summed)
        if total is None or tensor_of(gradient).dtype != value.dtype:
            continue
        backs = [each for each in _users(gradient, _MUL) if _other(each, gradient) is scale]
        if len(backs) == 1 and _have_one_shape(gradient, product):
            return _Scaled(product, scaled, total, backs[0], gradient, scale)
    return None


def _products_of(found: _Scaled) -> tuple[Node, list[Node]] | None:
    """The product of the scaled gradient that is the rows' gradient, and those that are the
    matrices', where nothing else reads it."""
    rows, matrices = found.product.args[:2]
    of_rows, of_matrices = [], []
    readers = {(user, found.back) for user in found.back.users if not swaps(user)}
    readers |= {(user, swap) for swap in found.back.users if swaps(swap) for user in swap.users}
    for reader, operand in readers:
        if str(reader.target) != _GROUPED or _ends(reader) is not _ends(found.product):
            return None
        first, second = reader.args[:2]
        if first is operand is found.back and _is_swapped(second, matrices):
            of_rows.append(reader)
        elif first is operand is not found.back and second is rows:
            of_matrices.append(reader)
        elif second is operand is found.back and swaps(first) and first.args[0] is rows:
            of_matrices.append(reader)
        else:
            return None
    return (of_rows[0], of_matrices) if len(of_rows) == 1 else None


def _move(graph: Graph, found: _Scaled, of_rows: Node, of_matrices: list[Node]) -> None:
    rows, matrices = found.product.args[:2]
    ends, dots = _ends(found.product), found.total.args[0]
    place = {node: number for number, node in enumerate(graph.nodes)}
    with graph.inserting_before(min([found.scaled, *of_matrices], key=place.__getitem__)):
        scaled_rows = call(graph, torch.ops.aten.mul.Tensor, (rows, found.scale))
    with graph.inserting_before(found.scaled):
        product = _grouped(graph, found.product, (scaled_rows, matrices, ends))
    with graph.inserting_before(min([dots, of_rows], key=place.__getitem__)):
        swapped = call(graph, torch.ops.aten.permute.default, (matrices, [0, 2, 1]))
        back = _grouped(graph, of_rows, (found.gradient, swapped, ends))
    with graph.inserting_before(dots):
        parts = _times(graph, back, rows)
        total = call(graph, found.total.target, (parts, [1], True))
    with graph.inserting_before(of_rows):
        scaled_back = call(graph, torch.ops.aten.mul.Tensor, (back, found.scale))
    new, views = {found.back: found.gradient, rows: scaled_rows}, []
    for each in of_matrices:
        views += filter(swaps, each.args[:2])
        with graph.inserting_before(each):
            operands = [_turned(graph, operand, new) for operand in each.args[:2]]
        each.args = (*operands, *each.args[2:])
    pairs = ((found.scaled, product), (found.total, total), (of_rows, scaled_back))
    for old, node in pairs:
        old.replace_all_uses_with(node)
    _erase(graph, [*views, found.back, *(old for old, _ in pairs)])


def _grouped(graph: Graph, of: Node, arguments: tuple[Node, ...]) -> Node:
    """A product that comes from the same line of the program as another."""
    product = call(graph, of.target, arguments)
    product.meta.update({key: of.meta[key] for key in _ORIGIN if key in of.meta})
    return product


def _times(graph: Graph, node: Node, rows: Node) -> Node:
    """A product of both. Rows that are a product of two, as a gate's are, come one after the
    other: a kernel that reads these for other results has no third tensor to read."""
    is_product = str(rows.target) == _MUL and all(_have_one_shape(each, rows) for each in rows.args)
    for factor in rows.args if is_product else (rows,):
        node = call(graph, torch.ops.aten.mul.Tensor, (node, factor))
    return node


def _turned(graph: Graph, operand: Node, new: dict[Any, Node]) -> Node:
    """What stands in the place of an operand, swapped as it is."""
    if operand in new:
        return new[operand]
    return call(graph, operand.target, (new[operand.args[0]], *operand.args[1:]))


def _erase(graph: Graph, nodes: list[Node]) -> None:
    """Erases what nobody reads any more, and what only that has read."""
    open_nodes = list(nodes)
    while open_nodes:
        node = open_nodes.pop()
        if node._erased or node.users or node.op != "call_function":
            continue
        operands = node.all_input_nodes
        graph.erase_node(node)
        open_nodes += [each for each in operands if not each.users]


def scale_rows_before_products(graph: Graph, device: str = "cuda") -> None:
    """Moves them on GPUs, in place, where the product is wider than what it multiplies."""
    for node in list(graph.nodes):
        if node._erased or str(node.target) != _GROUPED or tensor_of(node).device.type != device:
            continue
        found = _of_scaled(node)
        if found is None:
            continue
        inner, width = tensor_of(node.args[0]).shape[1], tensor_of(node).shape[1]
        if not isinstance(inner, int) or not isinstance(width, int) or inner >= width:
            continue
        products = _products_of(found)
        if products is not None:
            _move(graph, found, *products)
