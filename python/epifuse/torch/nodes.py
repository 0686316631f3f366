"""New nodes of a graph."""

import contextlib
from typing import Any

import torch
from torch.fx import Graph, Node


def call(graph: Graph, target: Any, arguments: tuple[Any, ...], name: str | None = None) -> Node:
    """A node with its meta value, at the insertion point."""
    node = graph.create_node("call_function", target, arguments, name=name)
    values = torch.fx.node.map_arg(arguments, lambda n: n.meta["val"])
    modes = [value.fake_mode for value in torch.utils._pytree.tree_leaves(values)
             if hasattr(value, "fake_mode")]  # fmt: skip
    with modes[0] if modes else contextlib.nullcontext():
        node.meta["val"] = target(*values)
    return node
