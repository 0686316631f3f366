"""Products in float32 whose results are kept in bf16, as two products of bf16.

    bmm(p, v.float()).to(bf16)  ->  (bmm(p1, v) + bmm(p2, v)).to(bf16)      p1 + p2 = p

In float32, in which p is, GPUs multiply without tensor cores. Its first 8 bits are one operand in
bf16, and what they leave, rounded to 8 bits, is another: both take as much memory as p, if nothing
else reads it. They leave less than 2^-15 of p, and a result in bf16 is rounded by 2^-9. Attention
without a fused kernel multiplies so (upcast_products.py): values by weights where nothing trains,
and queries and keys by gradients of scores.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Graph, Node

from epifuse.torch.emitter import tensor_of
from epifuse.torch.layout import CONVERTS
from epifuse.torch.nodes import call_like
from epifuse.torch.upcast_products import (
    MOVES, MULTIPLIES, WITH_DTYPE, Scaled, moved, operands_in_float32)  # fmt: skip

_aten = torch.ops.aten
_WITH_DTYPE = {name: target for name, target in WITH_DTYPE.items() if "add" not in name}
_FIRST_BITS = -(1 << 16)  # of 32
_LEAST = 2.0**-24  # of the first part, which the second has at least
_FEWEST = 1 << 28  # multiplications: some 15 us of an H200 in float32
_FEWEST_OF_EACH = 32  # element in float32: with fewer its memory is what takes the time


def _is_large(product: Node, operands: list[Scaled]) -> bool:
    *batch, rows, columns = tensor_of(product).shape
    of_each = columns if operands[1].is_narrow else rows
    count = rows * columns * tensor_of(product.args[0]).shape[-1]
    for size in batch:
        count *= size
    return isinstance(count, int) and count >= _FEWEST and of_each >= _FEWEST_OF_EACH


def _is_kept_in_bf16(node: Node) -> bool:
    """Whether all that reads a value rounds it to bf16, elsewhere and scaled maybe."""
    for user in node.users:
        target = str(user.target)
        is_scaled = target in MULTIPLIES and not isinstance(user.args[1], Node)
        if target == CONVERTS and user.args[1] == torch.bfloat16:
            continue
        if not (target in MOVES or is_scaled) or not _is_kept_in_bf16(user):
            return False
    return bool(node.users)


def _write_parts(graph: Graph, product: Node, of: Node) -> tuple[Node, ...]:
    """The second one is 0 only of 0 and below 2^-109: times an infinity of the other operand, 0 is
    NaN."""

    def write(target: Any, *arguments: Any) -> Node:
        return call_like(graph, product, target, arguments)

    bits = write(_aten.bitwise_and.Scalar, write(_aten.view.dtype, of, torch.int32), _FIRST_BITS)
    first = write(_aten.view.dtype, bits, torch.float32)
    is_infinite = write(_aten.eq.Scalar, write(_aten.abs.default, of), torch.inf)
    left = write(_aten.sub.Tensor, of, first)
    left = call_like(graph, product, _aten.add.Tensor, (left, first), named={"alpha": _LEAST})
    second = write(_aten.where.self, is_infinite, first, left)  # infinity - infinity is NaN
    return tuple(write(torch.ops.prims.convert_element_type.default, each, torch.bfloat16)
                 for each in (first, second))  # fmt: skip


def _wide(operands: list[Scaled]) -> Node:
    return next(each.tensor for each in operands if not each.is_narrow)


def _suits(operands: list[Scaled] | None) -> bool:
    """One is converted from bf16, and a kernel of the graph writes the other."""
    if operands is None or [each.is_narrow for each in operands].count(True) != 1:
        return False
    return _wide(operands).op == "call_function" and all(
        tensor_of(each.tensor).dtype in (torch.bfloat16, torch.float32) for each in operands)


def _write(graph: Graph, product: Node, operands: list[Scaled],
           parts: dict[Node, tuple[Node, ...]]) -> Node:
    products = []
    for place in range(2):
        made = [moved(graph, each.tensor if each.is_narrow else parts[each.tensor][place],
                      each.moves) for each in operands]  # fmt: skip
        products.append(call_like(graph, product, _WITH_DTYPE[str(product.target)],
                                  (*made, torch.float32)))  # fmt: skip
    node = call_like(graph, product, _aten.add.Tensor, tuple(products))
    factor = operands[0].factor * operands[1].factor
    return node if factor == 1 else call_like(graph, product, _aten.mul.Tensor, (node, factor))


def _products(graph: Graph, device: str) -> dict[Node, list[Scaled]]:
    """Those that may be two, each with its operands."""
    found = {}
    for node in graph.nodes:
        if str(node.target) not in _WITH_DTYPE:
            continue
        operands = operands_in_float32(node, device)
        if _suits(operands) and _is_large(node, operands) and _is_kept_in_bf16(node):
            found[node] = operands
    return found


def _is_read_by(node: Node, products: dict[Node, list[Scaled]]) -> bool:
    """Whether they alone read a value, elsewhere and scaled maybe."""
    for user in node.users:
        is_same = str(user.target) in MOVES | MULTIPLIES and user.args[0] is node
        if user not in products and not (is_same and _is_read_by(user, products)):
            return False
    return True


def multiply_in_two_parts(graph: Graph, device: str = "cuda") -> None:
    """Writes large ones so on GPUs, in place, where that takes no more memory."""
    products = _products(graph, device)
    parts: dict[Node, tuple[Node, ...]] = {}
    alone = {wide for wide in map(_wide, products.values()) if _is_read_by(wide, products)}
    for node, operands in products.items():
        wide = _wide(operands)
        if wide not in alone:
            continue
        with graph.inserting_before(node):
            if wide not in parts:
                parts[wide] = _write_parts(graph, node, wide)
            node.replace_all_uses_with(_write(graph, node, operands, parts))
        graph.erase_node(node)
