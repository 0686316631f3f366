"""Sums in place: a kernel writes over the input that it adds to, and nothing is copied behind it.

    y = acc + x^T dy;  copy_(acc, y)   ->   y = fused_in_place([x^T, dy, acc], .., 2)

Where a program writes over one of its inputs, AOTAutograd computes the new values and copies them
at the end of its graph: gradients that are summed over several backward passes, for example.
A sum that the graph also returns, or saves for its backward pass, keeps memory of its own.
"""

import operator

import torch
from torch.fx import Graph, Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from epifuse.torch.aten import ELEMENTWISE, PRODUCTS
from epifuse.torch.call import fused, fused_in_place

_COPY = "aten.copy_.default"
# Elementwise ops that may turn out to be their operand itself.
_MAY_BE_OPERAND = frozenset(
    f"aten.{name}" for name in ("clone", "_to_copy", "to", "type_as", "copy", "cat", "pow")
) | {"prims.convert_element_type"}


def _lies_as(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether both are matrices, or matrices of groups, of one size and dtype, and the first one is
    dense."""
    alike = (tensor.dim(), tensor.dtype, tensor.device) == (other.dim(), other.dtype, other.device)
    if not alike or tensor.dim() not in (2, 3):
        return False
    same_sizes = all(statically_known_true(a == b) for a, b in zip(tensor.shape, other.shape))
    return same_sizes and (tensor.is_contiguous() or tensor.mT.is_contiguous())


def _adds_to(node: Node, target: Node) -> bool:
    """Whether a node reads each element of a tensor for its own result's alone."""
    if str(node.target) == "aten.addmm.default":
        return target is node.args[0] and target not in node.args[1:]
    return torch.Tag.pointwise in getattr(node.target, "tags", ()) and target in node.args


def is_over_input(node: Node) -> bool:
    """Whether a node copies a matrix, or those of groups, over an input of the graph that only this
    is computed of, element by element."""
    if str(node.target) != _COPY:
        return False
    target, source = node.args[:2]
    if target.op != "placeholder" or set(target.users) != {node, source}:
        return False
    values = [each.meta.get("val") for each in (target, source)]
    are_tensors = all(isinstance(value, torch.Tensor) for value in values)
    return are_tensors and _adds_to(source, target) and _lies_as(*values)


def copies_over_inputs(graph: Graph) -> list[Node]:
    """Those that a kernel may make needless."""
    return [node for node in graph.nodes if is_over_input(node)]


def _is_new(node: Node, operand: Node) -> bool:
    """Whether a node certainly has no memory of an operand's."""
    if str(node.target) == _COPY:
        return node.args[0] is not operand
    target = str(node.target)
    if node.target is fused or target in PRODUCTS:
        return True
    if target not in ELEMENTWISE and torch.Tag.pointwise not in getattr(node.target, "tags", ()):
        return False
    dtypes = [getattr(each.meta.get("val"), "dtype", None) for each in (node, operand)]
    return dtypes[0] != dtypes[1] or target.rpartition(".")[0] not in _MAY_BE_OPERAND


def _is_returned(node: Node, copy: Node) -> bool:
    """Whether the graph returns this memory, other than as the input that the copy is over."""
    waiting, seen = [node], {node, copy}
    while waiting:
        operand = waiting.pop()
        for user in operand.users:
            if user.op == "output":
                return True
            if user not in seen and not _is_new(user, operand):
                seen.add(user)
                waiting.append(user)
    return False


def write_in_place(graph: Graph, copies: list[Node]) -> set[str]:
    """Makes kernels whose only result is one of these copies' source write where it is copied to.
    Returns the names of the copies that are gone."""
    gone = set()
    for copy in copies:
        target, result = copy.args[:2]
        if result.target is not operator.getitem or result.args[0].target is not fused:
            continue
        call = result.args[0]
        if set(call.users) != {result} or set(target.users) != {call, copy}:
            continue
        if _is_returned(result, copy):  # a later sum would change what the caller has
            continue
        place = call.args[0].index(target)
        call.target, call.args = fused_in_place, (*call.args, place)
        call.meta["val"] = [target.meta["val"]]
        result.meta["val"] = target.meta["val"]
        copy.replace_all_uses_with(result)
        graph.erase_node(copy)
        gone.add(copy.name)
    return gone
