"""Maxima that are compared with what they are taken of.

    y = amax(h)   ->   dh = dy * (h == y) / sum(h == y)

The backward pass takes y from the forward pass and computes h anew of what is saved. Where a kernel
has computed one of the two and Inductor the other, their last bits differ: no element is equal, and
0 / 0 makes every gradient NaN. So whoever computes h once computes it each time.
"""

from collections.abc import Callable, Iterator

import torch
from torch.fx import Graph, Node

from epifuse.torch import memory, views

CODE = "compared_in_backward"
WHY = ("The backward pass computes this anew for a comparison with a maximum that was saved: both "
       "are left to Inductor, whose results are equal to the last bit.")  # fmt: skip
_COMPARISONS = {f"aten.{op}.Tensor" for op in ("eq", "ne", "lt", "le", "gt", "ge")}
_EXTREMA = {f"aten.{op}" for op in ("amax", "amin", "max", "min", "topk", "kthvalue", "sort",
                                    "median")}  # fmt: skip
_SAME_VALUES = {"prims.convert_element_type.default", "aten._to_copy.default", "aten.clone.default"}
# Names, which Inductor's cache knows graphs by: one forward graph may belong to several backwards.
_MAXIMUM, _COMPARISON = "compared_", "comparison_of_"
_MARK = "epifuse_compared"
_WITHIN, _ACROSS = "within", "across"  # this graph; it and the other one of a training step


def _is_extremum(node: Node) -> bool:
    return node.op == "call_function" and str(node.target).rpartition(".")[0] in _EXTREMA


def _is_view(node: Node) -> bool:
    if views.is_split(node) or views.is_getitem(node) and views.source(node) is not None:
        return True
    return views.VIEWS.get(str(node.target), views.alias) is not views.alias


def _is_form(node: Node) -> bool:
    """Whether a node only gives what it reads: as a view, or in another dtype."""
    is_values = views.is_getitem(node) and node.args[1] == 0  # not the places
    return is_values or _is_view(node) or str(node.target) in _SAME_VALUES


def _source(node: Node, is_form: Callable[[Node], bool]) -> Node:
    while is_form(node):
        node = node.all_input_nodes[0]
    return node


def _forms(node: Node) -> Iterator[Node]:
    """A node, and all that gives its values again."""
    yield node
    for user in node.users:
        if _is_form(user):
            yield from _forms(user)


def mark(graph: Graph) -> None:
    """Gives maxima that a joint graph compares, and the comparisons, names that tell."""
    for node in list(graph.nodes):
        if not _is_extremum(node):
            continue
        comparisons = {user for form in _forms(node) for user in form.users
                       if str(user.target) in _COMPARISONS}  # fmt: skip
        if comparisons:
            _rename(node, _MAXIMUM)
        for each in comparisons:
            _rename(each, _COMPARISON)


def _rename(node: Node, prefix: str) -> None:
    if not node.name.startswith(prefix):
        node._rename(prefix + node.name)


def _saved(graph: Graph) -> set[Node]:
    """What the forward graph of a training step saves for its backward pass."""
    context = torch._guards.TracingContext.try_get()
    outputs = graph.output_node().args[0]
    if context is None or context.fw_metadata is None or not isinstance(outputs, (list, tuple)):
        return set()
    saved = outputs[context.fw_metadata.num_forward_returns :]
    return {each for each in saved if isinstance(each, Node)}


def _mark_sources(nodes: list[Node], word: str, ends: Callable[[Node], bool]) -> None:
    """Marks what nodes are computed of, themselves included, up to where that `ends`."""
    waiting, seen = list(nodes), set()
    while waiting:
        node = waiting.pop()
        if node in seen or node.op != "call_function" or ends(node):
            continue
        seen.add(node)
        if node.meta.get(_MARK) != _ACROSS:
            node.meta[_MARK] = word
        waiting += node.all_input_nodes


def _find_of_maximum(node: Node, saved: set[Node], stored: set[Node]) -> None:
    """In a forward graph. What a maximum is taken of may be saved: the backward pass reads that."""
    operand = node.all_input_nodes[0]
    if saved.isdisjoint(_forms(node)) or _source(operand, _is_view) in stored:
        return
    node.meta[_MARK] = _ACROSS
    _mark_sources([operand], _ACROSS, lambda source: _source(source, _is_view) in stored)


def _is_equality(node: Node) -> bool:
    """Of floats: compiled autograd sees such a comparison without the maximum, and renames it."""
    values = [each.meta.get("val") for each in node.all_input_nodes]
    return str(node.target) in ("aten.eq.Tensor", "aten.ne.Tensor") and all(
        isinstance(value, torch.Tensor) and value.is_floating_point() for value in values)


def _find_of_comparison(node: Node, is_of_maximum: bool) -> None:
    operands = node.all_input_nodes
    sources = [_source(operand, _is_form) for operand in operands]
    # Beside a maximum that this graph takes, an input of it is no saved one.
    is_saved = any(each.op == "placeholder" for each in sources)
    if is_of_maximum and is_saved and not any(map(_is_extremum, sources)):
        _mark_sources(operands, _ACROSS, lambda source: False)
    else:  # the values of products are stored anyway
        _mark_sources(operands, _WITHIN, lambda source: not (
            _is_view(source) or memory.is_fused_by_inductor(source)))  # fmt: skip


def find(graph: Graph) -> None:
    """Marks what must not be computed in different ways."""
    saved = _saved(graph)
    stored = {_source(each, _is_view) for each in saved}
    for node in graph.nodes:
        if _is_extremum(node) and node.name.startswith(_MAXIMUM):
            _find_of_maximum(node, saved, stored)
        is_of_maximum = node.name.startswith(_COMPARISON) and str(node.target) in _COMPARISONS
        if is_of_maximum or _is_equality(node):
            _find_of_comparison(node, is_of_maximum)


def is_left(node: Node) -> bool:
    """Whether Inductor is to compute a node, as it does in the other graph."""
    return node.meta.get(_MARK) == _ACROSS


def is_computed_once(node: Node) -> bool:
    """Whether kernels are to read a node from memory, and not to compute it anew."""
    return _MARK in node.meta
