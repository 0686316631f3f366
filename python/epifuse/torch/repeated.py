"""Tables whose halves along the last dim are equal, as rotary positions have them.

    t = cos(cat([f, f], -1));  x * t   ->   a = t[..., : n / 2];  x * cat([a, a], -1)

A kernel that has both halves of a row at hand then reads one half. What no kernel takes is put
back.
"""

from dataclasses import dataclass

import torch
from torch.fx import Graph, Node

from epifuse.torch import views
from epifuse.torch.layout import RESHAPES, known
from epifuse.torch.nodes import call

REPEATS = "epifuse_repeats"  # marks a half joined to itself

_CAT, _SLICE, _MUL = (torch.ops.aten.cat.default, torch.ops.aten.slice.Tensor,
                      torch.ops.aten.mul.Tensor)  # fmt: skip
_MOST_ROWS = 64  # as many the core leaves to one launch for queries, keys and values
_KEEPING = (*RESHAPES, "aten.unsqueeze.default", "aten.expand.default", "aten.clone.default")


@dataclass(frozen=True)
class Repeated:
    """The first half of a table, and that joined to itself."""

    half: Node
    joined: Node


def _shape(node: Node) -> list[int]:
    value = node.meta.get("val")
    return (known(value.shape) or []) if isinstance(value, torch.Tensor) else []


def _repeats_once(node: Node) -> bool:
    """Whether a node is [.., n] as [.., 2, n] as [.., 2 n], which Inductor makes of a join."""
    source = node.args[0] if str(node.target) in RESHAPES else None
    while isinstance(source, Node) and str(source.target) == "aten.clone.default":
        source = source.args[0]
    if not isinstance(source, Node) or str(source.target) != "aten.expand.default":
        return False
    before, after, joined = _shape(source.args[0]), _shape(source), _shape(node)
    return (len(before) >= 2 and before == [*after[:-2], 1, after[-1]] and after[-2] == 2
            and joined == [*after[:-2], 2 * after[-1]])  # fmt: skip


def _joins_twice(node: Node) -> bool:
    if node.target is not _CAT or len(node.args[0]) != 2 or node.args[0][0] is not node.args[0][1]:
        return False
    dim = node.args[1] if len(node.args) > 1 else 0
    return dim in (-1, len(_shape(node)) - 1)


def _keeps_halves(node: Node, repeated: set[Node]) -> bool:
    """Whether each element is computed from those at its place in repeated rows, or in columns."""
    is_pointwise = torch.Tag.pointwise in getattr(node.target, "tags", ())
    if "convert_element_type" in str(node.target) or is_pointwise:
        return all(each in repeated or _shape(each)[-1:] in ([], [1])
                   for each in node.all_input_nodes)  # fmt: skip
    source = views.source(node)
    return (str(node.target) in _KEEPING and source in repeated
            and _shape(source)[-1:] == _shape(node)[-1:])  # fmt: skip


def _repeated(graph: Graph) -> set[Node]:
    found: set[Node] = set()
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        reads = any(each in found for each in node.all_input_nodes)
        if _joins_twice(node) or _repeats_once(node) or reads and _keeps_halves(node, found):
            found.add(node)
    return found


def _is_of_heads(node: Node, table: Node) -> bool:
    """Whether a product by a table is of heads with the table's rows, of which there are many."""
    if node.target is not _MUL or len(_shape(node)) < 3 or len(_shape(table)) < 2:
        return False
    rows = _shape(table)[-2]
    return rows > _MOST_ROWS and _shape(node)[-2:] == _shape(table)[-2:]


def by_halves(graph: Graph) -> list[Repeated]:
    """Joins halves of tables that heads are multiplied by."""
    tables = _repeated(graph)
    joined: dict[Node, Repeated] = {}
    for node in list(graph.nodes):
        table = next((each for each in node.all_input_nodes if each in tables), None)
        if table is None or node in tables or not _is_of_heads(node, table):
            continue
        if table not in joined:
            joined[table] = _join(graph, table)
        node.replace_input_with(table, joined[table].joined)
    return list(joined.values())


def _join(graph: Graph, table: Node) -> Repeated:
    with graph.inserting_after(table):
        half = call(graph, _SLICE, (table, -1, 0, table.meta["val"].shape[-1] // 2))
    with graph.inserting_after(half):
        joined = call(graph, _CAT, ([half, half], -1))
    half.meta = {**table.meta, **half.meta}
    joined.meta = {**table.meta, **joined.meta, REPEATS: True}
    return Repeated(half, joined)


def put_back(graph: Graph, found: list[Repeated]) -> None:
    """Takes the tables as they were where no kernel reads halves."""
    for each in found:
        if not each.joined._erased:
            half = each.joined.args[0][0]  # reads what has come into the table's place
            each.joined.replace_all_uses_with(half.args[0])
            graph.erase_node(each.joined)
        if not each.half._erased and not each.half.users:
            graph.erase_node(each.half)
