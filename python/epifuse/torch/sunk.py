"""Work on permuted values, as the permutation of work on the values as they lie.

    f(permute(y), c)  ->  permute(f(y, permute'(c)))        permute' undoes permute

so that what a product with permuted results stores is what is computed behind it. Views that join
the dims behind the second one and slices go before the permutation, too, and one permutation may
undo another.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch.fx import Graph, Node

from epifuse.torch.emitter import tensor_of
from epifuse.torch.layout import RESHAPES, channels_first
from epifuse.torch.nodes import call_like
from epifuse.torch.rows import same_size, same_sizes

_aten = torch.ops.aten


def _inverse(order: list[int]) -> list[int]:
    return sorted(range(len(order)), key=order.__getitem__)


def _is_work(node: Node) -> bool:
    tags = getattr(node.target, "tags", ())
    is_pointwise = torch.Tag.pointwise in tags and torch.Tag.nondeterministic_seeded not in tags
    return is_pointwise or "convert_element_type" in str(node.target)


class _Sinking:
    def __init__(self, graph: Graph, permuted: Iterable[Node]) -> None:
        self.graph = graph
        self.sources = {node: (node.args[0], list(node.args[1])) for node in permuted}

    def run(self) -> None:
        """All nodes behind those, in place."""
        for node in list(self.graph.nodes):
            read = [each for each in node.all_input_nodes if each in self.sources]
            if node.op != "call_function" or node in self.sources or not read:
                continue
            with self.graph.inserting_before(node):
                found = self._moved(node, read[0])
            if found is not None:
                node.replace_all_uses_with(found)
                if found in self.sources:  # not what was there before
                    found.meta = {**node.meta, "val": found.meta["val"]}
                self.graph.erase_node(node)

    def _moved(self, node: Node, read: Node) -> Node | None:
        source, order = self.sources[read]
        target = str(node.target)
        if _is_work(node):
            return self._work(node, order)
        if target in RESHAPES:
            return self._joined(node, source, order)
        if target == "aten.slice.Tensor":
            dim = (node.args[1] if len(node.args) > 1 else 0) % len(order)
            args = (source, order[dim], *node.args[2:])
            return self._permuted(call_like(self.graph, node, node.target, args), order)
        if target == "aten.permute.default":
            own = [order[dim] for dim in node.args[1]]
            return source if own == sorted(own) else self._permuted(source, own)
        return None

    def _permuted(self, source: Node, order: list[int]) -> Node:
        node = call_like(self.graph, source, _aten.permute.default, (source, order))
        self.sources[node] = source, order
        return node

    def _work(self, node: Node, order: list[int]) -> Node | None:
        shape = tensor_of(node).shape if tensor_of(node) is not None else ()
        if len(shape) != len(order):
            return None
        operands = [each for each in node.all_input_nodes if tensor_of(each) is not None]
        is_whole = all(self.sources[each][1] == order and same_sizes(tensor_of(each).shape, shape)
                       for each in operands if each in self.sources)  # fmt: skip
        if not is_whole:
            return None
        moved = {each: self._operand(each, order) for each in operands}
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: moved.get(n, n))
        return self._permuted(call_like(self.graph, node, node.target, args, kwargs), order)

    def _operand(self, operand: Node, order: list[int]) -> Node:
        """An operand beside values as they lie."""
        if operand in self.sources:
            return self.sources[operand][0]
        shape = list(tensor_of(operand).shape)
        if not shape:
            return operand
        missing = len(order) - len(shape)
        vector = [dim for dim, size in enumerate(shape) if not same_size(size, 1)]
        if len(vector) == 1 and order[vector[0] + missing] == len(order) - 1:  # of the last dim
            return call_like(self.graph, operand, _aten.reshape.default, (operand, [-1]))
        for _ in range(missing):
            operand = call_like(self.graph, operand, _aten.unsqueeze.default, (operand, 0))
        return call_like(self.graph, operand, _aten.permute.default, (operand, _inverse(order)))

    def _joined(self, node: Node, source: Node, order: list[int]) -> Node | None:
        """[B, C, ..] as [B, C, n] where it lies as [B, .., C]."""
        rank, shape = len(order), list(tensor_of(node).shape)
        sizes = list(tensor_of(source).shape)
        behind = sizes[1:-1]
        if order != channels_first(rank) or len(shape) != 3:
            return None
        numbers = (*behind, sizes[-1], *shape[1:])
        if not all(isinstance(size, int) for size in numbers):
            return None
        if shape[1:] != [sizes[-1], math.prod(behind)]:
            return None
        inner = source.args[0] if str(source.target) in RESHAPES else None
        if isinstance(inner, Node) and len(tensor_of(inner).shape) == 2:
            source = inner  # of a matrix one reshape, as importers know it
        joined = call_like(self.graph, node, _aten.reshape.default,
                       (source, [-1, shape[2], shape[1]]))  # fmt: skip
        return self._permuted(joined, [0, 2, 1])


def sink(graph: Graph, permuted: Iterable[Node]) -> None:
    """Moves these permutations, and those that come of it, behind the work on them, in place."""
    _Sinking(graph, permuted).run()
