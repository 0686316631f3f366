"""What views and copies do to the order of memory, read off the strides of fake tensors.

Only whether a view is worth importing depends on this, never what it means: symbolic sizes are
taken at the values that were traced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

# The same elements in row-major order, in another shape.
RESHAPES = ("aten.view.default", "aten.reshape.default", "aten._unsafe_view.default")
CONVERTS = "prims.convert_element_type.default"
# Views that may have two dims exchanged (`swaps`).
SWAPS = ("aten.permute.default", "aten.transpose.int", "aten.t.default")


def swaps(node: Any) -> bool:
    """Whether a node is a view that has the last two dims exchanged, and all others in place."""
    value = node.meta.get("val") if isinstance(node, Node) else None
    if not isinstance(value, torch.Tensor) or value.ndim < 2 or str(node.target) not in SWAPS:
        return False
    exchanged = [*range(value.ndim - 2), value.ndim - 1, value.ndim - 2]
    if str(node.target) == "aten.permute.default":
        return [dim % value.ndim for dim in node.args[1]] == exchanged
    if str(node.target) == "aten.transpose.int":
        return sorted(dim % value.ndim for dim in node.args[1:]) == sorted(exchanged[-2:])
    return True


def channels_last(rank: int) -> list[int]:
    """The order of dims that has channels, dim 1, behind all others."""
    return [0, *range(2, rank), 1]


def channels_first(rank: int) -> list[int]:
    """The order that undoes it."""
    return [0, rank - 1, *range(1, rank - 1)]


def known(sizes: Sequence[Any]) -> list[int] | None:
    """The traced values of sizes or strides, or None where there are none (unbacked symbols)."""
    known = []
    for size in sizes:
        if not isinstance(size, int):
            if not size.node.has_hint():
                return None
            size = size.node.hint
        known.append(int(size))
    return known


def keeps_order(before: torch.Tensor, after: torch.Tensor) -> bool:
    """Whether a copy leaves the elements in their order and repeats none."""
    shape = known(before.shape)
    old, new = known(before.stride()), known(after.stride())
    if shape is None or old is None or new is None:
        return all(str(a) == str(b) for a, b in zip(before.stride(), after.stride()))
    dims = [dim for dim, size in enumerate(shape) if size != 1]
    if any(old[dim] == 0 for dim in dims):
        return False
    return sorted(dims, key=lambda dim: -old[dim]) == sorted(dims, key=lambda dim: -new[dim])


def can_view(before: torch.Tensor, after: Sequence[Any]) -> bool:
    """Whether a reshape to these sizes needs no copy."""
    shape, strides, wanted = known(before.shape), known(before.stride()), known(after)
    if shape is None or strides is None or wanted is None:
        return True
    if 0 in shape:
        return True
    blocks = _blocks(shape, strides)
    for size in reversed([size for size in wanted if size != 1]):
        if not blocks or blocks[-1] % size:
            return False
        blocks[-1] //= size
        if blocks[-1] == 1:
            blocks.pop()
    return not blocks


def _blocks(shape: list[int], strides: list[int]) -> list[int]:
    """Element counts of neighbouring dims that lie in memory like one dim, outermost first."""
    blocks: list[int] = []
    expected = None  # the stride that continues the innermost block so far
    for size, stride in reversed([pair for pair in zip(shape, strides) if pair[0] != 1]):
        if expected is not None and stride == expected:
            blocks[-1] *= size
        else:
            blocks.append(size)
        expected = size * stride
    return blocks[::-1]


def strides_to_declare(tensor: torch.Tensor) -> list[int | None] | None:
    """What programs depend on of the strides of a tensor that is not row-major: 0 where it repeats,
    1 in one dim, None where any will do. None for a row-major tensor, padded or not."""
    shape, strides = known(tensor.shape), known(tensor.stride())
    if shape is None or strides is None or not shape:
        return None
    repeats = [stride == 0 and size > 1 for size, stride in zip(shape, strides)]
    if not any(repeats) and (strides[-1] == 1 or shape[-1] <= 1):
        return None
    declared: list[int | None] = [0 if repeated else None for repeated in repeats]
    unit = [dim for dim, size in enumerate(shape) if strides[dim] == 1 and size > 1]
    if unit:
        declared[unit[0]] = 1
    return declared


def order_before_last(tensor: torch.Tensor) -> list[int] | None:
    """Dims from the outermost in memory to the innermost, where that is the last one but others
    are not in the order of the shape; else None."""
    shape, strides = known(tensor.shape), known(tensor.stride())
    if shape is None or strides is None or len(shape) < 3 or strides[-1] != 1 or 0 in strides:
        return None
    moved = [dim for dim, size in enumerate(shape[:-1]) if size != 1]
    by_stride = sorted(moved, key=lambda dim: -strides[dim])
    if by_stride == moved:
        return None
    in_order = iter(by_stride)
    return [next(in_order) if dim in moved else dim for dim in range(len(shape))]


def empty_in_order(tensor: torch.Tensor, order: Sequence[int]) -> torch.Tensor:
    """A dense tensor of the same shape whose dims lie in this order."""
    strides: list[Any] = [0] * tensor.dim()
    stride: Any = 1
    for dim in reversed(order):
        strides[dim] = stride
        stride = stride * tensor.shape[dim]
    return tensor.new_empty_strided(tensor.shape, strides)
