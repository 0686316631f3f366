"""What kernels will read and store, told before any of them is in the graph, so that all are
compiled at once. The graph's nodes will say the same, unless a kernel is left out. Then its readers
are compiled when their turn comes."""

from __future__ import annotations

import contextlib
import re
from typing import Any

import torch
from torch.fx import Node

from epifuse.torch.call import OneLine, fused
from epifuse.torch.importer import Imported
from epifuse.torch.layout import order_before_last


def _is_alike(shape: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Whether no size that is known differs."""
    return len(shape) == len(other) and all(
        a == b for a, b in zip(shape, other) if isinstance(a, int) and isinstance(b, int))


def shape_to_read(tensor: dict[str, Any], lies: tuple[Any, ...] | None,
                  value: torch.Tensor) -> list[int] | None:
    """What a kernel reshapes an input to; a size that has no value yet is -1. None: it reads the
    input as it is. `lies`: the shape in which another kernel stores the input. Where that kernel
    was not made the input is the program's tensor, in a shape of its own."""
    asked = tensor["shape"]
    if asked is None:
        if lies is None or _is_alike(lies, tuple(value.shape)):
            return None
        asked = lies
    return [int(size) if str(size).isdigit() else -1 for size in asked]


def text_of(kernel: dict[str, Any], asked: torch.Tensor) -> OneLine:
    """A kernel's graph. The only result of one that joins halves of heads lies as the program's own
    does, `asked`: what reads heads next to each other, as products behind attention, need not copy
    it."""
    order = None
    if len(kernel["outputs"]) == 1 and re.search(r" = (concat|interleave) ", kernel["graph"]):
        order = kernel["outputs"][0].get("order") or order_before_last(asked)
    return OneLine(kernel["graph"], order)


def _has_sizes(tensor: torch.Tensor) -> bool:
    return all(isinstance(size, int) for size in (*tensor.shape, *tensor.stride()))


class Expected:
    """Tensors without memory, in the order in which kernels are put into the graph."""

    def __init__(self, imported: Imported) -> None:
        self._names = dict(imported.names)
        self._lies = imported.shapes
        self._of_nodes: dict[Node, torch.Tensor] = {}
        self._stored: dict[str, torch.Tensor] = {}

    def inputs(self, kernel: dict[str, Any]) -> list[torch.Tensor] | None:
        """None where a reshape would need sizes that have no value yet."""
        values = []
        for tensor in kernel["inputs"]:
            name = tensor["value"]
            value = self._value(name)
            shape = shape_to_read(tensor, self._lies.get(name), value)
            if shape is not None:
                if not _has_sizes(value) or shape.count(-1) > 1:
                    return None
                with _mode(value):
                    value = value.reshape(shape)
            values.append(value)
        return values

    def add(self, kernel: dict[str, Any], options: str, inputs: list[torch.Tensor]) -> None:
        """What this kernel will have stored."""
        if not all(map(_has_sizes, inputs)):
            return
        with _mode(inputs[0]):
            first = self._names[kernel["outputs"][0]["value"]]
            results = fused(inputs, text_of(kernel, first.meta["val"]), options)
            for stored, output in zip(results, kernel["outputs"]):
                node = self._names[output["value"]]
                order = output.get("order")
                result = stored if order is None else stored.permute(order)
                self._of_nodes[node] = result.reshape(node.meta["val"].shape)
                if output["value"] in self._lies:
                    self._stored[output["value"]] = stored

    def _value(self, name: str) -> torch.Tensor:
        node = self._names[name]
        stored = self._stored.get(name)
        value = self._of_nodes.get(node, node.meta["val"]) if stored is None else stored
        assert isinstance(value, torch.Tensor)
        return value


def _mode(tensor: torch.Tensor) -> contextlib.AbstractContextManager[Any]:
    return getattr(tensor, "fake_mode", None) or contextlib.nullcontext()
