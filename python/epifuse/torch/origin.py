"""Where in the program a product of an FX graph comes from: its module and its line."""

import pathlib
import re
from typing import Any

import torch
from torch.fx import Graph, Node

from epifuse.torch.aten import PRODUCTS
from epifuse.torch.products import FOREIGN
from epifuse.torch.entries import Product

_TORCH = str(pathlib.Path(torch.__file__).parent)
_FRAME = re.compile(r'^ *File "(.+)", line (\d+)', re.MULTILINE)
# "L['self'].layers.0" and "G['model'].layers.0": locals and globals, as Dynamo calls modules.
_ROOT = re.compile(r"^[LG]\['(\w+)'\]\.?")
_MODEL = ("self", "fn")  # the model itself, in its own code and in that of torch.compile


def is_product(node: Node) -> bool:
    """Whether a node is a matrix product, of those too that no kernel computes."""
    target = str(node.target)
    return target in PRODUCTS or ".".join(target.split(".")[:2]) in FOREIGN


def _module(node: Node) -> str:
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack")
    if not stack:
        return ""
    path, _ = list(stack.values())[-1]
    root = _ROOT.match(path)
    if root is None:
        return str(path)
    inside = path[root.end():]
    return inside if root[1] in _MODEL else ".".join(filter(None, (root[1], inside)))


def _frame(node: Node) -> tuple[str, int]:
    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    for file, line in reversed(frames):
        if not file.startswith(_TORCH):
            return file, int(line)
    return "", 0


def _value(argument: Any) -> Any:
    return argument.meta.get("val") if isinstance(argument, Node) else None


def _sizes(node: Node) -> str:
    adds = "addmm" in str(node.target)  # what is added comes first
    operands = [_value(argument) for argument in node.args[adds:]]
    result, first = _value(node), operands[0] if operands else None
    if not isinstance(result, torch.Tensor) or not isinstance(first, torch.Tensor):
        return ""
    return "x".join(str(size) for size in (*result.shape, *first.shape[-1:]))


def product(node: Node) -> Product:
    """What is known of a node that is a product."""
    value = _value(node)
    is_tensor = isinstance(value, torch.Tensor)
    file, line = _frame(node)
    return Product(
        node=node.name, module=_module(node), file=file, line=line, sizes=_sizes(node),
        dtype=str(value.dtype).removeprefix("torch.") if is_tensor else "",
        device=value.device.type if is_tensor else "",
        backward=node.meta.get("partitioner_tag") == "is_backward")  # fmt: skip


def products(graph: Graph) -> dict[str, Product]:
    """All products of a graph by the names of their nodes."""
    return {node.name: product(node) for node in graph.nodes if is_product(node)}
