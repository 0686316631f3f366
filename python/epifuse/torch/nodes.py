"""New nodes of a graph."""

import contextlib
from typing import Any

import torch
from torch.fx import Graph, Node


def call(graph: Graph, target: Any, arguments: tuple[Any, ...], name: str | None = None,
         named: dict[str, Any] | None = None) -> Node:
    """A node with its meta value, at the insertion point. `named`: arguments by their names."""
    given = arguments, named or {}
    node = graph.create_node("call_function", target, *given, name=name)
    values, named_values = torch.fx.node.map_arg(given, lambda n: n.meta["val"])
    modes = [value.fake_mode for value in torch.utils._pytree.tree_leaves((values, named_values))
             if hasattr(value, "fake_mode")]  # fmt: skip
    with modes[0] if modes else contextlib.nullcontext():
        node.meta["val"] = target(*values, **named_values)
    return node


def call_like(graph: Graph, like: Node, target: Any, arguments: tuple[Any, ...],
              named: dict[str, Any] | None = None) -> Node:
    """The same, with all else that is known of another node."""
    node = call(graph, target, arguments, named=named)
    node.meta = {**like.meta, **node.meta}
    return node
