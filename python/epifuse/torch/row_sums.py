"""Sums of the rows of a tensor that kernels read: gradients of biases of other layers than the one
that a kernel multiplies for."""

from collections.abc import Iterator, Mapping

import torch
from torch import fx

from .emitter import bind, tensor_of
from .layout import RESHAPES
from .rows import same_size

_SUM = "aten.sum.dim_IntList"


def _sums_all_rows(node: fx.Node, summed: torch.Tensor) -> bool:
    dims = bind(node)["dim"]
    rank = summed.ndim
    return rank >= 2 and bool(dims) and sorted(dim % rank for dim in dims) == list(range(rank - 1))


def _shapes_of(node: fx.Node) -> Iterator[fx.Node]:
    """The node, and what it is a reshape of that keeps rows whole; the last first."""
    known = [node]
    while str(known[-1].target) in RESHAPES:
        viewed = known[-1].args[0]
        tensor, shown = tensor_of(viewed), tensor_of(known[-1])
        if tensor is None or shown is None or not tensor.ndim or not shown.ndim:
            break
        if not same_size(tensor.shape[-1], shown.shape[-1]):
            break
        known.append(viewed)
    return reversed(known)


def summed_leaf(node: fx.Node, leaves: Mapping[fx.Node, object]) -> fx.Node | None:
    """Of the inputs of a text the one that a node sums all rows of."""
    if str(node.target) != _SUM:
        return None
    summed = bind(node)["self"]
    tensor = tensor_of(summed)
    if tensor is None or not _sums_all_rows(node, tensor):
        return None
    return next((each for each in _shapes_of(summed) if each in leaves), None)
