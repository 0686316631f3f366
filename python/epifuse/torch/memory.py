"""Which values Inductor has in memory, and which it computes where they are read."""

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

from epifuse.torch import in_place, transposed, views

# What Inductor computes inside of the kernels that read it, beside what is tagged as pointwise.
_REDUCTIONS = {"mean", "sum", "amax", "amin", "var", "var_mean", "prod", "any", "all", "argmax"}
_OTHERS = {"convert_element_type", "fma", "iota", "full", "inductor_random", "inductor_randint",
           "copy_", "cat"}  # written by the kernels that compute what they are made of


def _base_name(target: Any) -> str:
    packet = getattr(target, "overloadpacket", None)
    return packet.__name__ if packet is not None else getattr(target, "__name__", str(target))


def is_view(node: Node) -> bool:
    """Whether a node is another look at the memory of its operand."""
    if node.target is operator.getitem or views.is_split(node):
        return True
    return views.VIEWS.get(str(node.target), views.alias) is not views.alias


def is_fused_by_inductor(node: Node) -> bool:
    """Whether Inductor computes a node inside of a kernel with what reads it."""
    if node.op != "call_function":
        return False
    tags = getattr(node.target, "tags", ())
    name = _base_name(node.target)
    return torch.Tag.pointwise in tags or name in _REDUCTIONS or name in _OTHERS


def is_reduction(node: Node) -> bool:
    """Whether a node sums its operand up, or the like."""
    return node.op == "call_function" and _base_name(node.target) in _REDUCTIONS


def is_needed_in_memory(node: Node, beside: Callable[[Node], bool] = lambda _: False) -> bool:
    """Whether something reads the node, maybe through views, that Inductor reads from memory, or
    copies it where a kernel may write it; `beside` those that this is true for."""
    open_nodes, seen = [user for user in node.users if not beside(user)], set()
    while open_nodes:
        user = open_nodes.pop()
        if user in seen:
            continue
        seen.add(user)
        if is_view(user):
            open_nodes += user.users
        elif not is_fused_by_inductor(user):
            return True
        elif in_place.is_over_input(user) or transposed.is_swapped_copy(user):
            return True
    return False


def is_unstored(node: Node) -> bool:
    """Whether Inductor computes the node where it is read, in memory for no one but a kernel: of
    several readers one or the other makes it store the node anyway."""
    source = node
    while is_view(source) and len(source.users) == 1:
        source = source.all_input_nodes[0]
    has_one_reader = len(source.users) == 1
    return has_one_reader and is_fused_by_inductor(source) and not is_needed_in_memory(source)


def sums_both_ways() -> bool:
    """Whether Inductor's GPU kernels sum columns of a tensor while they sum its rows."""
    from torch._inductor import config

    return bool(getattr(config.triton, "mix_order_reduction", False)) and not config.cpp_wrapper
