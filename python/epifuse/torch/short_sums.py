"""Sums of a few tensors that lie one behind the other, as over a token's experts, as additions.

    sum(x, dim)  ->  x[.., 0, ..] + x[.., 1, ..] + ..    in float32

Inductor adds up to 7 of them element by element. It makes a reduction of 8, whose GPU kernel reads
each element of them on its own: 0.9 TB/s of an H200's 4.8 (docs/gotchas-pytorch.md).
"""

from typing import Any

import torch
from torch.fx import Graph, Node

from epifuse.torch.emitter import bind, tensor_of
from epifuse.torch.nodes import call

_SUM = "aten.sum.dim_IntList"
_FEWEST, _MOST = 8, 16
_FEWEST_COLUMNS = 64  # which lie one behind the other
_WIDER = {torch.bfloat16: torch.float32, torch.float16: torch.float32, torch.float32: None}


def _summed_dim(node: Node, x: torch.Tensor) -> int | None:
    """The one dim that is summed: of a few, not the last."""
    dims = bind(node)["dim"]
    if not isinstance(dims, (list, tuple)) or len(dims) != 1 or x.ndim < 2:
        return None
    dim = dims[0] % x.ndim
    size, columns = x.shape[dim], x.shape[-1]
    if dim == x.ndim - 1 or not isinstance(size, int) or not _FEWEST <= size <= _MOST:
        return None
    return dim if isinstance(columns, int) and columns >= _FEWEST_COLUMNS else None


def _added(graph: Graph, node: Node, dim: int) -> Node:
    arguments = bind(node)
    x = arguments["self"]
    value, dtype = tensor_of(x), tensor_of(node).dtype
    wide = _WIDER[value.dtype]
    total: Any = None
    for place in range(value.shape[dim]):
        part = call(graph, torch.ops.aten.select.int, (x, dim, place))
        if wide is not None:
            part = call(graph, torch.ops.prims.convert_element_type.default, (part, wide))
        total = part if total is None else call(graph, torch.ops.aten.add.Tensor, (total, part))
    if tensor_of(total).dtype != dtype:
        total = call(graph, torch.ops.prims.convert_element_type.default, (total, dtype))
    if not arguments["keepdim"]:
        return total
    return call(graph, torch.ops.aten.unsqueeze.default, (total, dim))


def add_short_sums(graph: Graph, device: str = "cuda") -> None:
    """Makes additions of them on GPUs, in place."""
    for node in list(graph.nodes):
        if str(node.target) != _SUM:
            continue
        x = tensor_of(bind(node)["self"])
        if x is None or x.device.type != device or x.dtype not in _WIDER:
            continue
        dim = _summed_dim(node, x)
        if dim is None:
            continue
        with graph.inserting_before(node):
            total = _added(graph, node, dim)
        node.replace_all_uses_with(total)
        graph.erase_node(node)
