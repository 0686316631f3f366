"""Work that a graph has twice: so two products of one input are seen to share it, also where each
has quantised it for itself."""

from typing import Any

from torch.fx import Graph, Node

from epifuse.torch.aten import ELEMENTWISE
from epifuse.torch.memory import is_view

_MERGED = frozenset({"aten.clone.default", *ELEMENTWISE})


def _key(argument: Any) -> Any:
    """Equal for arguments that mean the same: 1, 1.0 and True differ, and so do 0.0 and -0.0."""
    if isinstance(argument, (list, tuple)):
        return tuple(_key(each) for each in argument)
    if isinstance(argument, float):
        return float, argument.hex()
    return argument if isinstance(argument, Node) else (type(argument), argument)


def _is_returned(node: Node) -> bool:
    """Whether a result of the graph is this memory: each result has its own."""
    return any(user.op == "output" or is_view(user) and _is_returned(user) for user in node.users)


def merge_equal_work(graph: Graph) -> None:
    """Makes views, copies and elementwise work that are computed twice one node."""
    known: dict[Any, Node] = {}
    for node in list(graph.nodes):
        is_work = is_view(node) or str(node.target) in _MERGED
        if node.op != "call_function" or not is_work or _is_returned(node):
            continue
        key = (node.target, _key(node.args), _key(sorted(node.kwargs.items())))
        first = known.setdefault(key, node)
        if first is not node:
            node.replace_all_uses_with(first)
            graph.erase_node(node)
