"""Masks of rows of no group, where nobody reads these rows.

    ids = sort(top-k's choice);  ends = running sum of how often each number below n was chosen
    where(ids >= n, c, x)  ->  x      for grouped products, which end at `ends`

Where a router also chooses experts that are elsewhere, transformers masks their rows before and
after each product. They lie behind the last group, so no product of groups reads or writes them,
and elementwise work keeps them apart. Only rows that are put back in the order of their tokens must
have what the mask says; there it is applied behind that, as

    where(m, c, x)[place]  ->  where(m[place], c, x[place])

so that a kernel puts its rows itself.
"""

from typing import Any, NamedTuple

import torch
from torch.fx import Graph, Node

from epifuse.torch.layout import CONVERTS, RESHAPES, swaps
from epifuse.torch.nodes import call
from epifuse.torch.rows import are_groups, inverted, same_size

_GROUPED = "aten._grouped_mm.default"
_WHERE = "aten.where.self"
_INDEX = "aten.index.Tensor"
_VIEWS = (*RESHAPES, "aten.unsqueeze.default", "aten.expand.default")
# What keeps rows apart, beside elementwise work.
_COLUMNS = ("aten.split.Tensor", "aten.split_with_sizes.default", "aten.slice.Tensor",
            "aten.cat.default", "aten.clone.default")  # fmt: skip
_ELEMENTWISE = (CONVERTS, "prims.fma.default")
_MOST_OPS = 64  # between a mask and a product


class _Mask(NamedTuple):
    """Rows whose number in `ids` is `number` or more."""

    ids: Node
    number: int


def _value(node: Any) -> torch.Tensor | None:
    value = node.meta.get("val") if isinstance(node, Node) else None
    return value if isinstance(value, torch.Tensor) else None


def _mask(node: Any) -> _Mask | None:
    while isinstance(node, Node) and str(node.target) in _VIEWS:
        node = node.args[0]
    if not isinstance(node, Node) or str(node.target) != "aten.ge.Scalar":
        return None
    ids, number = node.args
    return _Mask(ids, number) if isinstance(number, int) else None


def _groups_of(mask: _Mask, product: Node) -> bool:
    """Whether the rows of no group of a product are those of the mask."""
    ends = product.args[2] if len(product.args) > 2 else product.kwargs.get("offs")
    value = _value(ends)
    if value is None or value.ndim != 1 or value.shape[0] != mask.number:
        return False
    return are_groups(mask.ids, ends)


def _is_elementwise(node: Node) -> bool:
    is_pointwise = torch.Tag.pointwise in getattr(node.target, "tags", ())
    return node.op == "call_function" and (is_pointwise or str(node.target) in _ELEMENTWISE)


def _takes_columns(node: Node) -> bool:
    """Whether a node has the same rows as its operands, of two dims."""
    if getattr(node.target, "__name__", "") == "getitem":
        return str(node.args[0].target) in _COLUMNS
    if str(node.target) not in _COLUMNS:
        return False
    place = 1 if str(node.target) in ("aten.slice.Tensor", "aten.cat.default") else 2
    dim = node.args[place] if len(node.args) > place else node.kwargs.get("dim", 0)
    return str(node.target) == "aten.clone.default" or dim in (1, -1)


def _has_rows_of(node: Node, value: torch.Tensor) -> bool:
    """Or is several tensors, each of which is asked then."""
    mine = _value(node)
    if mine is None:
        return isinstance(node.meta.get("val"), (list, tuple))
    return mine.ndim == 2 and same_size(mine.shape[0], value.shape[0])


def _product_ignores(product: Node, operand: Node, mask: _Mask) -> bool:
    first, second = _value(product.args[0]), _value(product.args[1])
    if first is None or second is None or first.ndim != 2 or not _groups_of(mask, product):
        return False
    # Rows of A, or (of a weight's gradient) rows of B that are summed; A's are its columns then.
    return operand is product.args[0] if second.ndim == 3 else operand is product.args[1]


def _ignores(reader: Node, operand: Node, mask: _Mask, value: torch.Tensor, depth: int = 0) -> bool:
    """Whether nothing that comes of a reader depends on the operand's rows of the mask."""
    target = str(reader.target)
    if depth > _MOST_OPS or reader.op != "call_function":
        return False
    if target == _GROUPED:
        return _product_ignores(reader, operand, mask)
    if swaps(reader):
        return bool(reader.users) and all(
            str(user.target) == _GROUPED and user.args[0] is reader
            and (second := _value(user.args[1])) is not None and second.ndim == 2
            and _groups_of(mask, user) for user in reader.users)
    if target == _WHERE and operand not in reader.args[:2] and _mask(reader.args[0]) == mask:
        return True
    if not (_is_elementwise(reader) or _takes_columns(reader)) or not _has_rows_of(reader, value):
        return False
    return bool(reader.users) and all(_ignores(user, reader, mask, value, depth + 1)
                                      for user in reader.users)  # fmt: skip


def _way_to_tokens(reader: Node, operand: Node) -> list[Node] | None:
    """The nodes from a reader to the index that puts rows back; by columns and numbers only."""
    way = [reader]
    while str(way[-1].target) != _INDEX:
        others = [each for each in way[-1].all_input_nodes if each is not operand]
        are_columns = all((value := _value(each)) is not None and value.ndim == 2
                          and value.shape[1] == 1 for each in others)  # fmt: skip
        if not _is_elementwise(way[-1]) or not are_columns or len(way[-1].users) != 1:
            return None
        operand = way[-1]
        way.append(next(iter(operand.users)))
    index = way[-1]
    return way if index.args[0] is operand and inverted(index.args[1]) is not None else None


def _apply_behind(graph: Graph, node: Node, way: list[Node]) -> None:
    mask, number, value = node.args
    index = way[-1]
    known: dict[Node, Any] = {node: number}
    with graph.inserting_before(index):
        for each in way[:-1]:
            arguments = torch.fx.node.map_arg(each.args, lambda n: known.get(n, n))
            known[each] = call(graph, each.target, arguments)
    way[0].replace_input_with(node, value)
    following = index.next
    with graph.inserting_before(following):
        place = index.args[1]
        other = known[way[-2]] if len(way) > 1 else number
        if (column := _value(other)) is not None and column.ndim == 2:
            other = call(graph, index.target, (other, place))
        readers = list(index.users)
        mask = call(graph, index.target, (mask, place))
        masked = call(graph, node.target, (mask, other, index))
        for reader in readers:
            reader.replace_input_with(index, masked)


def without_masks_nobody_reads(graph: Graph) -> None:
    """Takes masks of rows of no group from where nothing depends on them, in place."""
    for node in list(graph.nodes):
        if str(node.target) != _WHERE or not isinstance(node.args[2], Node):
            continue
        mask, value, masked = _mask(node.args[0]), _value(node), _value(node.args[2])
        if mask is None or value is None or masked is None or value.ndim != 2:
            continue
        if masked.shape != value.shape or masked.dtype != value.dtype:
            continue
        test = _value(node.args[0])
        for reader in list(node.users):
            if _ignores(reader, node, mask, value):
                reader.replace_input_with(node, node.args[2])
            elif test is not None and test.shape[-1:] == (1,) and test.ndim == 2:
                way = _way_to_tokens(reader, node)
                if way is not None and not any(n is node for n in way[-1].args):
                    _apply_behind(graph, node, way)
        if not node.users:
            graph.erase_node(node)
