"""Small tables of sines and the like: stored once, not computed for each element that reads them.

A table is computed of no tensor larger than itself, and read by one that is many times as large,
as the angles of rotary embeddings are by all heads of all sequences. Inductor computes what it
takes to be cheap where it is read, `cos` of `pow` among it.
"""

import collections
from typing import Any

import torch
from torch.fx import Graph, Node

from epifuse.torch.call import lowered
from epifuse.torch.emitter import tensor_of
from epifuse.torch.memory import is_fused_by_inductor, is_reduction, is_view

_HEAVY = {f"aten.{op}.{overload}"
          for op in ("sin", "cos", "tan", "exp", "exp2", "log", "pow", "tanh", "erf", "sigmoid")
          for overload in ("default", "Scalar", "Tensor_Scalar", "Tensor_Tensor")}  # fmt: skip
_TIMES, _FEWEST = 8, 2**20  # of the reader's elements: for each of the table's, and in all
_MANY = 4  # readers of any size, where CUDA graphs make a launch cheap
_DEEPEST = 64  # ops one behind the other


@lowered
def stored(table: Any) -> Any:
    """The same, in memory."""
    if not isinstance(table, torch.Tensor):
        table.realize()
    return table


def _num_elements(node: Any) -> int | None:
    value = tensor_of(node)
    if value is None or not all(isinstance(size, int) for size in value.shape):
        return None
    return value.numel()


def _base(node: Node) -> Node:
    while is_view(node) and isinstance(node.args[0], Node):
        node = node.args[0]
    return node


class _Tables:
    def __init__(self) -> None:
        self.known: dict[Node, tuple[bool, int]] = {}  # whether all is small, heavy work

    def work(self, node: Node, most: int, depth: int = 0) -> tuple[bool, int]:
        """Whether a value is computed of nothing larger than `most` elements, of no reduction and
        by few ops, and how many heavy ones that takes."""
        if node in self.known:
            return self.known[node]
        size = _num_elements(node)
        if size is None or size > most or is_reduction(node) or depth > _DEEPEST:
            found = False, 0
        elif not is_fused_by_inductor(node) and not is_view(node):
            found = True, 0  # in memory
        else:
            self.known[node] = True, 0
            parts = [self.work(operand, most, depth + 1) for operand in node.all_input_nodes]
            found = all(small for small, _ in parts), sum(heavy for _, heavy in parts)
            found = found[0], min(found[1] + (str(node.target) in _HEAVY), 99)
        self.known[node] = found
        return found


def _tables(graph: Graph, is_replayed: bool) -> list[Node]:
    is_table: dict[Node, bool] = {}
    found: dict[Node, None] = {}
    readers: collections.Counter[Node] = collections.Counter()
    for reader in graph.nodes:
        size = _num_elements(reader)
        if size is None or not is_fused_by_inductor(reader):
            continue
        if size < _FEWEST and not is_replayed:
            continue
        for operand in map(_base, reader.all_input_nodes):
            own = _num_elements(operand)
            if own is None or not own or own * _TIMES > size or not is_fused_by_inductor(operand):
                continue
            if operand not in is_table:
                is_table[operand] = all(_Tables().work(operand, own))
            if not is_table[operand]:
                continue
            readers[operand] += 1
            if size >= _FEWEST or readers[operand] == _MANY:
                found[operand] = None
    return list(found)


def store_tables(graph: Graph, device: str = "cuda", is_replayed: bool = False) -> None:
    """Makes Inductor store them on GPUs, in place; `is_replayed`: by CUDA graphs."""
    for table in _tables(graph, is_replayed):
        if tensor_of(table).device.type != device:
            continue
        with graph.inserting_after(table):
            node = graph.call_function(stored, (table,))
        node.meta["val"] = table.meta["val"]
        table.replace_all_uses_with(node, delete_user_cb=lambda user, own=node: user is not own)
