"""Convolutions that kernels compute as products of matrices (windows.py).

cuDNN multiplies channels that are no multiple of 8, and groups of several, without tensor cores
(docs/gotchas-pytorch.md). Where it uses them, a convolution that no kernel takes is put back.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable

import torch
from torch.fx import Graph, Node

from epifuse.torch import nodes
from epifuse.torch.call import fused
from epifuse.torch.convolution_gradients import BACKWARD, write_gradients
from epifuse.torch.emitter import tensor_of
from epifuse.torch.entries import LeftOut
from epifuse.torch.layout import channels_last, empty_in_order, known
from epifuse.torch.origin import is_product
from epifuse.torch.sunk import sink
from epifuse.torch.windows import (
    ALIGNED, AsProduct, Convolution, of_groups, of_patches, of_samples, read)  # fmt: skip

_CONVOLUTION = "aten.convolution.default"
_TILE, _MOST_OF_ROWS = 64, 1.25  # rows that tiles of samples may have for each one there is
_LONG = 32  # elements of a window, from which on groups of channels are slow in cuDNN
_MOST_BYTES = 1 << 30  # of windows, which the vendor's product has in memory
_aten = torch.ops.aten


def _writer(of: Convolution) -> Callable[[Graph, Convolution], AsProduct] | None:
    if of.lies_side_by_side:
        return of_patches
    if of.overlaps:
        return of_samples if of.groups == 1 else of_groups
    return None


def _runs_channels_last(graph: Graph) -> bool:
    """Whether Inductor has all images with their channels last, whatever the program says."""
    from torch._inductor.graph import GraphLowering

    module = types.SimpleNamespace(graph=graph)
    return all(GraphLowering.decide_layout_opt(module, is_inference=each) for each in (True, False))


def _has_channels_last(x: torch.Tensor) -> bool:
    strides = known(x.stride())
    return strides is not None and strides[1] == 1 and strides[-1] != 1


def _fills_tiles(of: Convolution) -> bool:
    """Whether a product for each sample wastes few rows of tiles."""
    (places,) = of.places
    return of.batch == 1 or -(-places // _TILE) * _TILE <= _MOST_OF_ROWS * places


def _is_on_gpu(of: Convolution) -> bool:
    return tensor_of(of.x).device.type == "cuda"


def _may_be_faster(of: Convolution, runs_channels_last: Callable[[], bool]) -> bool:
    """Whether a kernel may be faster than cuDNN. Points whose channels do not lie last are copied,
    and so are patches, of which cuDNN reads each element once where it has tensor cores for
    them."""
    if not _is_on_gpu(of):
        return False
    if of.is_of_points:
        x = tensor_of(of.x)
        lies_last = _has_channels_last(x) or x.ndim == 4 and runs_channels_last()
        return of.channels % ALIGNED == 0 and lies_last
    if of.lies_side_by_side:
        return _vendor_is_faster(of)
    return of.groups > 1 or _fills_tiles(of)


def _vendor_is_faster(of: Convolution) -> bool:
    """Whether the vendor's product is faster than cuDNN, too."""
    if of.lies_side_by_side:
        return not of.is_of_points and (of.is_whole or of.channels % ALIGNED != 0)
    if of.groups == 1 or not of.overlaps or of.kernel[0] < _LONG:
        return False
    return 2 * of.groups * of.depth * of.batch * of.places[0] <= _MOST_BYTES


def _nodes(graph: Graph, target: str) -> list[Node]:
    return [node for node in graph.nodes if str(node.target) == target]


def as_products(graph: Graph, only_faster: bool) -> list[AsProduct]:
    """Makes products of convolutions and of their gradients, in place; with `only_faster` of those
    that may be faster. What was made of convolutions."""
    for of in filter(None, map(read, _nodes(graph, BACKWARD))):
        if not only_faster or _is_on_gpu(of) and _vendor_is_faster(of):
            write_gradients(graph, of)
    found = []
    runs_channels_last = functools.cache(lambda: _runs_channels_last(graph))
    for of in filter(None, map(read, _nodes(graph, _CONVOLUTION))):
        write = _writer(of)
        if write is None or only_faster and not _may_be_faster(of, runs_channels_last):
            continue
        with graph.inserting_before(of.node):
            done = write(graph, of)
        of.node.replace_all_uses_with(done.result)
        done.result.meta = {**of.node.meta, "val": done.result.meta["val"]}
        found.append(done)
    sink(graph, [each.result for each in found if each.result is not each.rows])
    for each in found:
        _erase_unread([each.rows, each.result])
    _lay_last([each for each in found if each.convolution.is_of_points], runs_channels_last)
    return found


def _lay_last(of_points: list[AsProduct], runs_channels_last: Callable[[], bool]) -> None:
    """Says in the graph what Inductor does before cuDNN alone: it has the channels of images last,
    also of those whose strides in the graph do not tell, and then views of them are no copies."""
    from torch._inductor.inductor_prims import force_stride_order

    laid: dict[Node, Node] = {}
    for each in of_points:
        reader = each.nodes[0]
        image = None if reader._erased else reader.args[0]
        x = tensor_of(image)
        if x is None or x.ndim != 4 or _has_channels_last(x) or not runs_channels_last():
            continue
        if image not in laid:
            value = empty_in_order(x, channels_last(4))
            with reader.graph.inserting_before(reader):
                laid[image] = reader.graph.call_function(force_stride_order,
                                                         (image, list(value.stride())))
            laid[image].meta["val"] = value
        reader.replace_input_with(image, laid[image])
        each.nodes.insert(0, laid[image])


def _erase_unread(those: list[Node]) -> None:
    for node in reversed(those):
        if not node._erased and not node.users:
            node.graph.erase_node(node)


def put_back(found: list[AsProduct], left_out: list[LeftOut]) -> list[LeftOut]:
    """Takes the convolutions that no kernel has taken and that are not slower than the vendor's
    product. What is left out, but for what is behind those alone."""
    back = [each for each in found
            if not each.product._erased and not _vendor_is_faster(each.convolution)]
    for each in back:
        _put_back(each)
    for each in reversed(found):
        _erase_unread([*each.nodes, each.convolution.node])
    if not back:
        return left_out
    apart = _names_behind_no_product(back[0].convolution.node.graph)
    own = {each.product.name for each in back}
    return [left for left in left_out if left.node not in own and left.node not in apart]


def _names_behind_no_product(graph: Graph) -> set[str]:
    behind: set[Node] = set()
    for node in graph.nodes:
        is_first = is_product(node) or node.target is fused
        if is_first or any(each in behind for each in node.all_input_nodes):
            behind.add(node)
    return {node.name for node in graph.nodes if node not in behind}


def _put_back(each: AsProduct) -> None:
    node, own = each.convolution.node, set(each.nodes)
    if not each.result._erased:
        each.result.replace_all_uses_with(node)
    for stood in dict.fromkeys([each.rows, each.product]):
        readers = [user for user in stood.users if user not in own]
        if readers:
            view = _channels_last(node, is_matrix=stood is not each.rows)
            view.meta = {**stood.meta, "val": view.meta["val"]}
            for user in readers:
                user.replace_input_with(stood, view)


def _channels_last(node: Node, is_matrix: bool) -> Node:
    graph, rank = node.graph, len(tensor_of(node).shape)
    with graph.inserting_after(node):
        view = nodes.call(graph, _aten.permute.default, (node, channels_last(rank)))
    if not is_matrix:
        return view
    with graph.inserting_after(view):
        return nodes.call(graph, _aten.reshape.default, (view, [-1, tensor_of(node).shape[1]]))
