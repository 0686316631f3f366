"""Gradients of convolutions as products of matrices: those of weights are windows^T @ gradients.

Of patches, and of groups of channels along one dim, whose gradient by the input is a convolution
itself, by the same weights in reverse. Others are cuDNN's, as in convolutions.py.
"""

from __future__ import annotations

import operator

import torch
from torch.fx import Graph, Node

from epifuse.torch.emitter import bind, tensor_of
from epifuse.torch.layout import channels_last
from epifuse.torch.windows import (
    Convolution, Writer, in_groups, patches, windows_of_groups)  # fmt: skip

BACKWARD = "aten.convolution_backward.default"
_aten = torch.ops.aten


class _Gradients:
    """Of one convolution: by the input, the weights and the bias."""

    def __init__(self, graph: Graph, of: Convolution) -> None:
        self.of, self.write = of, Writer(graph, of)
        self.gradient = bind(of.node)["grad_output"]
        self.order = channels_last(2 + len(of.sizes))

    def by_place(self, place: int) -> Node:
        """That of the 0, input, 1, weight, or 2, bias."""
        if place == 2:
            return self.write.call(_aten.sum.dim_IntList, self.gradient, self.order[:-1])
        if self.of.groups == 1:
            return self._input_of_patches() if place == 0 else self._weight_of_patches()
        return self._input_of_groups() if place == 0 else self._weight_of_groups()

    def _rows(self) -> Node:
        rows = self.write.permute(self.gradient, self.order)
        return self.write.reshape(rows, [-1, self.of.num_results])

    def _weight_of_patches(self) -> Node:
        write = self.write
        rows = write.permute(self._rows(), [1, 0])
        product = write.multiply(rows, patches(write, self.of.x), None)
        return write.reshape(product, list(tensor_of(self.of.weight).shape))

    def _input_of_patches(self) -> Node:
        of, write, rank = self.of, self.write, len(self.of.sizes)
        weight = write.reshape(of.weight, [of.num_results, of.depth])
        x = write.multiply(self._rows(), weight, None)
        x = write.reshape(x, [-1, *of.places, of.channels, *of.kernel])
        # Between windows of one element that are several apart, nothing has read the input.
        steps = [kernel if place == 1 else stride
                 for kernel, place, stride in zip(of.kernel, of.places, of.stride)]  # fmt: skip
        x = self._to_sizes(x, of.kernel, steps)
        pairs = [dim for place in range(rank) for dim in (1 + place, 2 + rank + place)]
        covered = [step * place for step, place in zip(steps, of.places)]
        x = write.reshape(write.permute(x, [0, 1 + rank, *pairs]), [-1, of.channels, *covered])
        return self._to_sizes(x, covered, of.sizes)

    def _to_sizes(self, x: Node, sizes: list[int], wanted: list[int]) -> Node:
        """Zeros behind the elements of the last dims, or fewer elements."""
        behind = [number for size, end in zip(reversed(wanted), reversed(sizes))
                  for number in (0, size - end)]  # fmt: skip
        return self.write.call(_aten.constant_pad_nd.default, x, behind) if any(behind) else x

    def _weight_of_groups(self) -> Node:
        of, write, (kernel,) = self.of, self.write, self.of.kernel
        groups, columns = of.groups, of.num_results // of.groups
        zeros = of.sizes[0] + 2 * of.padding[0] - of.places[0]
        rows = in_groups(write, write.padded(self.gradient, 0, zeros))
        product = write.multiply(rows, windows_of_groups(write, of.x), None)
        product = write.reshape(product, [groups, columns, kernel, of.channels // groups])
        return write.reshape(write.permute(product, [0, 1, 3, 2]),
                             list(tensor_of(of.weight).shape))  # fmt: skip

    def _input_of_groups(self) -> Node:
        of, write, (kernel,) = self.of, self.write, self.of.kernel
        width, columns = of.channels // of.groups, of.num_results // of.groups
        weight = write.reshape(of.weight, [of.groups, columns, width, kernel])
        weight = write.reshape(write.permute(weight, [0, 2, 1, 3]), [of.channels, columns, kernel])
        weight = write.call(torch.ops.prims.rev.default, weight, [2])
        return write.call(_aten.convolution.default, self.gradient, weight, None, [1],
                          [kernel - 1 - of.padding[0]], [1], False, [0], of.groups)  # fmt: skip


def _has_products(of: Convolution) -> bool:
    """Whether gradients are written as products."""
    if of.groups == 1:
        return of.lies_side_by_side and not of.is_of_points
    return of.overlaps and of.padding[0] < of.kernel[0]


def write_gradients(graph: Graph, of: Convolution) -> None:
    """Writes those that are read as products, in place, where it can."""
    users = list(of.node.users)
    if not _has_products(of) or any(user.target is not operator.getitem for user in users):
        return
    with graph.inserting_before(of.node):
        gradients = _Gradients(graph, of)
        for user in users:
            found = gradients.by_place(user.args[1])
            found.meta = {**user.meta, "val": found.meta["val"]}
            user.replace_all_uses_with(found)
            graph.erase_node(user)
    graph.erase_node(of.node)
