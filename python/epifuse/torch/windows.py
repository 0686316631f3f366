"""Convolutions as products of matrices: rows are windows, columns are channels of the result.

    conv(x, w)  ->  windows(x) @ reshape(w)^T        x[B, C, ..], w[N, C, ..]

Windows that lie side by side, as the patches of an image and points do, are a matrix by a reshape.
Of those that overlap along one dim, row t of x[B, T, C] begins stride * C elements behind the one
before it, and each row is kernel * C elements: a view of memory without a copy. Groups of channels
are a product each, of all samples behind one another; what is computed of two samples is cut off.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Graph, Node

from epifuse.torch.emitter import bind, tensor_of
from epifuse.torch.layout import channels_first
from epifuse.torch.nodes import call_like

_DTYPES = (torch.bfloat16, torch.float16)
ALIGNED = 8  # elements: 16 bytes, at whose multiples rows of kernels begin
_aten = torch.ops.aten


@dataclass(frozen=True)
class Convolution:
    """Of 16-bit floats, not dilated, with known sizes but for the batch's."""

    node: Node
    x: Node
    weight: Node
    bias: Node | None
    stride: list[int]
    padding: list[int]
    groups: int
    channels: int
    sizes: list[int]  # of x, behind its channels
    num_results: int  # channels of the result
    kernel: list[int]

    @property
    def places(self) -> list[int]:
        """Windows along each dim."""
        return [(size + 2 * padding - kernel) // stride + 1 for size, padding, kernel, stride
                in zip(self.sizes, self.padding, self.kernel, self.stride)]  # fmt: skip

    @property
    def depth(self) -> int:
        """Elements of a window."""
        return self.channels // self.groups * math.prod(self.kernel)

    @property
    def batch(self) -> Any:
        """How many samples: an integer or a symbol."""
        return self.x.meta["val"].shape[0]

    @property
    def is_whole(self) -> bool:
        """Whether there is one window."""
        return math.prod(self.places) == 1

    @property
    def is_of_points(self) -> bool:
        """Whether each window is one element of all channels, and there are several."""
        return set(self.kernel) == {1} and not self.is_whole

    @property
    def lies_side_by_side(self) -> bool:
        """Whether windows are patches, points or all there is."""
        return self.groups == 1 and not any(self.padding) and all(
            kernel in (1, stride) or place == 1
            for kernel, stride, place in zip(self.kernel, self.stride, self.places))  # fmt: skip

    @property
    def overlaps(self) -> bool:
        """Whether windows overlap along the only dim, and their rows begin where kernels want
        them."""
        if len(self.sizes) != 1 or not isinstance(self.batch, int):
            return False
        is_aligned = self.channels // self.groups % ALIGNED == 0
        return is_aligned and (self.groups == 1 or self.stride == [1])


@dataclass
class AsProduct:
    """A convolution, and what stands for it."""

    convolution: Convolution
    product: Node
    rows: Node  # the result, its channels last where there are several places
    result: Node
    nodes: list[Node] = field(default_factory=list)  # all that were written; of patches, points
    # and all there is the first one reads the image


def read(node: Node) -> Convolution | None:
    """What a node of aten.convolution or of its backward says; None for what is no such
    convolution."""
    given = bind(node)
    x, weight = tensor_of(given["input"]), tensor_of(given["weight"])
    if x is None or weight is None or x.dtype not in _DTYPES or weight.dtype != x.dtype:
        return None
    if x.ndim != weight.ndim or given["transposed"] or any(d != 1 for d in given["dilation"]):
        return None
    sizes, steps = [*x.shape[1:], *weight.shape], [*given["stride"], *given["padding"]]
    if not all(isinstance(number, int) for number in (*sizes, *steps)) or 0 in sizes:
        return None
    rank = x.ndim - 2
    stride, padding = (list(given[name]) * (rank if len(given[name]) == 1 else 1)
                       for name in ("stride", "padding"))  # fmt: skip
    found = Convolution(node, given["input"], given["weight"], given.get("bias"), stride, padding,
                        given["groups"], x.shape[1], list(x.shape[2:]), weight.shape[0],
                        list(weight.shape[2:]))  # fmt: skip
    return found if all(place > 0 for place in found.places) else None


class Writer:
    """Writes the nodes of one convolution."""

    def __init__(self, graph: Graph, of: Convolution) -> None:
        self.graph, self.of = graph, of
        self.written: list[Node] = []

    def call(self, target: Any, *arguments: Any, **named: Any) -> Node:
        """A node with its meta value."""
        self.written.append(call_like(self.graph, self.of.node, target, arguments, named))
        return self.written[-1]

    def reshape(self, x: Node, shape: list[int]) -> Node:
        """One size may be -1."""
        return self.call(_aten.reshape.default, x, shape)

    def permute(self, x: Node, order: list[int]) -> Node:
        """Dims in that order."""
        return self.call(_aten.permute.default, x, order)

    def padded(self, x: Node, before: int, behind: int) -> Node:
        """Zeros along the last dim."""
        if before == behind == 0:
            return x
        return self.call(_aten.constant_pad_nd.default, x, [before, behind])

    def in_memory(self, x: Node) -> Node:
        """Row-major."""
        return self.call(_aten.clone.default, x, memory_format=torch.contiguous_format)

    def multiply(self, rows: Node, columns: Node, bias: Node | None) -> Node:
        """rows @ columns + bias, of matrices or batches of them."""
        is_matrix = len(tensor_of(rows).shape) == 2
        if bias is None:
            return self.call(_aten.mm.default if is_matrix else _aten.bmm.default, rows, columns)
        adds = _aten.addmm.default if is_matrix else _aten.baddbmm.default
        return self.call(adds, bias, rows, columns)

    def done(self, product: Node, rows: Node) -> AsProduct:
        """The result as convolutions have it, of what has its channels last."""
        result = self.permute(rows, channels_first(2 + len(self.of.sizes)))
        return AsProduct(self.of, product, rows, result, self.written)


def patches(write: Writer, x: Node) -> Node:
    """[B * places, C * kernel]: a row for each window of x[B, C, ..] that lies beside others."""
    of, rank = write.of, len(write.of.sizes)
    dims = zip(of.sizes, of.kernel, of.stride, of.places)
    for dim, (size, kernel, stride, place) in enumerate(dims, 2):
        if size != kernel * place:
            step, end = (stride, size) if kernel == 1 else (1, kernel * place)
            x = write.call(_aten.slice.Tensor, x, dim, 0, end, step)
    if not of.is_whole:
        grid = [each for pair in zip(of.places, of.kernel) for each in pair]
        x = write.reshape(x, [-1, of.channels, *grid])
        x = write.permute(x, [0, *range(2, 2 + 2 * rank, 2), 1, *range(3, 3 + 2 * rank, 2)])
    return write.reshape(x, [-1, of.depth])


def of_patches(graph: Graph, of: Convolution) -> AsProduct:
    """A product of windows that lie side by side."""
    write = Writer(graph, of)
    rows = patches(write, of.x)
    weight = write.reshape(of.weight, [of.num_results, of.depth])
    product = write.multiply(rows, write.permute(weight, [1, 0]), of.bias)
    if of.is_whole:
        result = write.reshape(product, [-1, of.num_results, *of.places])
        return AsProduct(of, product, result, result, write.written)
    return write.done(product, write.reshape(product, [-1, *of.places, of.num_results]))


def of_samples(graph: Graph, of: Convolution) -> AsProduct:
    """A product of each sample's windows, which overlap, by all channels."""
    write = Writer(graph, of)
    channels, time = of.channels, of.sizes[0] + 2 * of.padding[0]
    x = write.permute(write.padded(of.x, of.padding[0], of.padding[0]), [0, 2, 1])
    rows = write.call(_aten.as_strided.default, write.in_memory(x),
                      [of.batch, of.places[0], of.depth],
                      [time * channels, of.stride[0] * channels, 1])  # fmt: skip
    weight = write.in_memory(write.permute(of.weight, [0, 2, 1]))  # once, not for each sample
    weight = write.reshape(weight, [1, of.num_results, of.depth])
    weight = write.call(_aten.expand.default, weight, [of.batch, of.num_results, of.depth])
    product = write.multiply(rows, write.permute(weight, [0, 2, 1]), of.bias)
    return write.done(product, product)


def in_groups(write: Writer, x: Node) -> Node:
    """[G, C / G, B * T]: all samples of x[B, C, T] behind one another, in groups of channels."""
    batch, groups, (channels, time) = write.of.batch, write.of.groups, tensor_of(x).shape[1:]
    x = write.reshape(x, [batch, groups, channels // groups, time])
    return write.reshape(write.permute(x, [1, 2, 0, 3]), [groups, channels // groups, batch * time])


def windows_of_groups(write: Writer, x: Node) -> Node:
    """[G, B * T, C / G * kernel]: a row for each window of x[B, C, ..], T of each sample with its
    zeros. The last ones of a sample reach into the next one."""
    of, (kernel,), groups = write.of, write.of.kernel, write.of.groups
    width, time = of.channels // groups, of.sizes[0] + 2 * of.padding[0]
    x = in_groups(write, write.padded(x, of.padding[0], of.padding[0]))
    x = write.padded(x, 0, kernel - 1)
    return write.call(_aten.as_strided.default, write.in_memory(write.permute(x, [0, 2, 1])),
                      [groups, of.batch * time, of.depth],
                      [(of.batch * time + kernel - 1) * width, width, 1])  # fmt: skip


def of_groups(graph: Graph, of: Convolution) -> AsProduct:
    """A product of all samples' windows, which overlap, by the channels of each group."""
    write, (kernel,), (places,) = Writer(graph, of), of.kernel, of.places
    groups, width, columns = of.groups, of.channels // of.groups, of.num_results // of.groups
    weight = write.permute(write.reshape(of.weight, [groups, columns, width, kernel]), [0, 1, 3, 2])
    weight = write.permute(write.reshape(weight, [groups, columns, of.depth]), [0, 2, 1])
    bias = None if of.bias is None else write.reshape(of.bias, [groups, 1, columns])
    product = write.multiply(windows_of_groups(write, of.x), weight, bias)
    result = write.reshape(product, [groups, of.batch, -1, columns])
    result = write.permute(write.call(_aten.slice.Tensor, result, 2, 0, places), [1, 2, 0, 3])
    return write.done(product, write.reshape(result, [of.batch, places, of.num_results]))
