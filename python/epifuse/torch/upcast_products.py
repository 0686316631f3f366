"""Products in float32 of operands that were 16 bits wide, as products of those.

    bmm(q.float() * c, k.float() * c)  ->  bmm(q, k, out_dtype=float32) * (c * c)

PyTorch's attention multiplies in float32 where no fused kernel takes it, as of a mask that is
expanded along keys, and routers of experts do. GPUs do that without tensor cores, an H200 at some
30 TFLOP/s. Tensor cores multiply 16 bits exactly, and add up in float32 likewise. Factors come
behind the sum: that is another order of roundings in float32 (not `exact`), and a sum before its
factor must be below 2^128.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch._prims_common import is_contiguous_or_false
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Graph, Node

from epifuse.torch.emitter import tensor_of
from epifuse.torch.layout import CONVERTS, RESHAPES
from epifuse.torch.nodes import call_like

_aten = torch.ops.aten
WITH_DTYPE = {"aten.mm.default": _aten.mm.dtype, "aten.addmm.default": _aten.mm.dtype,
               "aten.bmm.default": _aten.bmm.dtype,
               "aten.baddbmm.default": _aten.bmm.dtype}  # fmt: skip
NARROW = (torch.bfloat16, torch.float16)
# Their elements are those of their first argument, in other places.
MOVES = {*RESHAPES, "aten.expand.default", "aten.clone.default", "aten.permute.default",
          "aten.transpose.int", "aten.t.default", "aten.unsqueeze.default",
          "aten.squeeze.dim", "aten.squeeze.dims", "aten.alias.default"}  # fmt: skip
_VIEWS = {"aten.view.default", "aten._unsafe_view.default"}
MULTIPLIES = {"aten.mul.Tensor", "aten.mul.Scalar"}
_FLOAT32 = torch.finfo(torch.float32)


class Scaled(NamedTuple):
    """What an operand in float32 is made of: a tensor, moved (the last node first) and scaled."""

    tensor: Node  # of 16 bits where it is converted, else in float32
    moves: list[Node]
    factor: float

    @property
    def is_narrow(self) -> bool:
        return tensor_of(self.tensor).dtype in NARROW


def made_of(operand: Node) -> Scaled:
    moves: list[Node] = []
    factor = 1.0
    while operand.op == "call_function":
        target = str(operand.target)
        if target in MOVES:
            moves.append(operand)
        elif target in MULTIPLIES and isinstance(operand.args[1], (int, float)):
            factor *= operand.args[1]
        elif target == CONVERTS and tensor_of(operand.args[0]).dtype in NARROW:
            return Scaled(operand.args[0], moves, factor)
        else:
            break
        operand = operand.args[0]
    return Scaled(operand, moves, factor)


def moved(graph: Graph, tensor: Node, moves: list[Node]) -> Node:
    """As what was converted was moved: that had strides of its own, in which it can be viewed."""
    for move in reversed(moves):
        if str(move.target) in _VIEWS and not is_contiguous_or_false(tensor_of(tensor)):
            how = {"memory_format": torch.contiguous_format}
            tensor = call_like(graph, tensor, _aten.clone.default, (tensor,), named=how)
        tensor = call_like(graph, move, move.target, (tensor, *move.args[1:]), named=move.kwargs)
    return tensor


def _has_products(device: torch.device) -> bool:
    """Of 16 bits with results in float32: on GPUs, those that have bf16."""
    if device.type != "cuda":
        return True  # in tests
    return torch.version.hip is None and torch.cuda.get_device_capability(device) >= (8, 0)


def _may_come_behind(first: float, second: float) -> bool:
    """Whether two factors may scale the sum in place of the operands: 0 would make NaN of a sum
    that is infinite, where operands of 0 have the sum 0."""
    return all(_FLOAT32.tiny <= abs(each) <= _FLOAT32.max
               for each in (first, second, first * second))  # fmt: skip


def operands_in_float32(product: Node, device: str) -> list[Scaled] | None:
    """Both, of a product of such that has no factors of its own, on that kind of device. None also
    where factors of the operands may not come behind the sum."""
    value = tensor_of(product)
    if value is None or value.device.type != device or value.dtype != torch.float32:
        return None
    if not _has_products(value.device):
        return None
    tensors = [tensor_of(each) for each in product.args[-2:]]
    if product.kwargs or any(each is None or each.dtype != torch.float32 for each in tensors):
        return None
    if not all(isinstance(each, FakeTensor) for each in tensors):
        return None  # constants of a graph
    first, second = (made_of(operand) for operand in product.args[-2:])
    return [first, second] if _may_come_behind(first.factor, second.factor) else None


def _narrow_operands(product: Node, device: str) -> list[Scaled] | None:
    operands = operands_in_float32(product, device)
    if operands is None or not all(each.is_narrow for each in operands):
        return None
    first, second = (tensor_of(each.tensor).dtype for each in operands)
    return operands if first == second else None


def _has_result(product: Node) -> bool:
    """Whether PyTorch knows the product of 16 bits. Of a batch whose sizes are symbols 2.13 has no
    shape, and 2.14 takes them for what they are at first."""
    is_batch = "bmm" in str(product.target)
    sizes = [size for each in product.args[-2:] for size in tensor_of(each).shape]
    return not is_batch or all(isinstance(size, int) for size in sizes)


def _write(graph: Graph, product: Node, operands: list[Scaled], made: dict[Node, Node]) -> Node:
    for wide, narrow in zip(product.args[-2:], operands, strict=True):
        if wide not in made:
            made[wide] = moved(graph, narrow.tensor, narrow.moves)
    *bias, first, second = product.args
    target = WITH_DTYPE[str(product.target)]
    node = call_like(graph, product, target, (made[first], made[second], torch.float32))
    factor = operands[0].factor * operands[1].factor
    if factor != 1:
        node = call_like(graph, product, _aten.mul.Tensor, (node, factor))
    return call_like(graph, product, _aten.add.Tensor, (node, *bias)) if bias else node


def multiply_before_upcasts(graph: Graph, device: str = "cuda") -> None:
    """Makes products of 16 bits of those that can be, on GPUs, in place."""
    made: dict[Node, Node] = {}  # of each operand
    for node in list(graph.nodes):
        if str(node.target) not in WITH_DTYPE:
            continue
        operands = _narrow_operands(node, device)
        if operands is None or not _has_result(node):
            continue
        with graph.inserting_before(node):
            node.replace_all_uses_with(_write(graph, node, operands, made))
        graph.erase_node(node)
