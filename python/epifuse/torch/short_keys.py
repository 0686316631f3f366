"""Sorts of a router's choice by keys of 8 or 16 bits.

    sort(topk(scores, k)[1].view(-1))  ->  sort of the same numbers as uint8, widened behind it

A GPU sorts by eight bits at a time, and numbers of experts come as int64: eight passes over them
and their places, of which one decides.
"""

import operator
from typing import Any

import torch
from torch.fx import Graph, Node

from epifuse.torch.emitter import bind, tensor_of
from epifuse.torch.layout import known
from epifuse.torch.nodes import call
from epifuse.torch.rows import SAME_NUMBERS, result_of

_SORTS = ("aten.sort.default", "aten.sort.stable")
_FEWEST = 4097  # numbers: fewer are sorted within one block


def _num_choices(numbers: Any) -> int | None:
    """How many numbers from 0 on a top-k chose from, if it gave these."""
    while isinstance(numbers, Node) and str(numbers.target) in SAME_NUMBERS:
        if tensor_of(numbers) is None or tensor_of(numbers).dtype not in (torch.int32, torch.int64):
            return None
        numbers = numbers.args[0]
    chosen = result_of(numbers, "aten.topk.default", 1)
    if chosen is None:
        return None
    arguments = bind(chosen)
    sizes = known(tensor_of(arguments["self"]).shape)
    return sizes[arguments["dim"]] if sizes else None


def _key(num_choices: int) -> torch.dtype | None:
    if num_choices <= 1 << 8:
        return torch.uint8
    return torch.int16 if num_choices <= 1 << 15 else None


def sort_by_short_keys(graph: Graph, device: str = "cuda") -> None:
    """Sorts by them on GPUs, in place."""
    convert = torch.ops.prims.convert_element_type.default
    for node in list(graph.nodes):
        numbers = node.args[0] if str(node.target) in _SORTS else None
        value = tensor_of(numbers)
        sizes = known(value.shape) if value is not None else None
        if not sizes or len(sizes) != 1 or sizes[0] < _FEWEST or value.device.type != device:
            continue
        num_choices = _num_choices(numbers)
        dtype = _key(num_choices) if num_choices else None
        parts = list(node.users)
        if dtype is None or not all(part.target is operator.getitem for part in parts):
            continue
        with graph.inserting_before(node):
            node.replace_input_with(numbers, call(graph, convert, (numbers, dtype)))
        keys, places = node.meta["val"]
        node.meta["val"] = (keys.to(dtype), places)
        for part in parts:
            if part.args[1] == 0:
                _widen(graph, part, dtype, value.dtype)


def _widen(graph: Graph, part: Node, narrow: torch.dtype, wide: torch.dtype) -> None:
    part.meta["val"] = part.meta["val"].to(narrow)
    with graph.inserting_after(part):
        wider = call(graph, torch.ops.prims.convert_element_type.default, (part, wide))
    part.replace_all_uses_with(wider, delete_user_cb=lambda user: user is not wider)
