"""Results that are copied transposed: the kernel writes them so, and nothing is copied.

    z = clone(y^T)   ->   y lies so that y^T is z

Only where it is one product of matrices, and nothing else that a kernel reads or writes is as large
as its result: then it multiplies the operands in the other order, and writes rows as ever.
"""

import contextlib
import operator
import re

from torch.fx import Graph, Node

from epifuse.torch.call import OneLine, fused
from epifuse.torch.layout import empty_in_order, swaps

_CLONE = "aten.clone.default"


def is_swapped_copy(node: Node) -> bool:
    """Whether all that becomes of a matrix is that this node copies it transposed."""
    if str(node.target) != _CLONE or not node.meta["val"].is_contiguous():
        return False
    swap = node.args[0]
    if not swaps(swap) or swap.meta["val"].ndim != 2:
        return False
    return set(swap.users) == {node} and set(swap.args[0].users) == {swap}


def _is_one_product(text: str) -> bool:
    """Whether a kernel's graph is a product of two matrices and elementwise work: no gate, groups,
    scales of blocks, reductions or rows that are looked up, which keep their operands' order."""
    ops = re.findall(r"^  \w+ = (\w+)", text, re.MULTILINE)
    products = [op for op in ops if "matmul" in op]
    keep_order = re.compile("slice|concat|interleave|block_.*|.*_(sum|max|min|rows)")
    return products == ["matmul"] and not any(map(keep_order.fullmatch, ops))


def _result(clone: Node) -> Node | None:
    """The kernel's result that a node copies."""
    result = clone.args[0].args[0]
    if result.target is not operator.getitem or result.args[0].target is not fused:
        return None
    call = result.args[0]
    inputs, text, _ = call.args
    if set(call.users) != {result} or len(call.meta["val"]) != 1 or not _is_one_product(text):
        return None
    others = [node.meta["val"].shape for node in inputs]
    return None if result.meta["val"].shape in others else result


def write_transposed(graph: Graph) -> set[str]:
    """Makes kernels write results where they are copied to. Returns the names of the copies."""
    gone = set()
    for clone in [node for node in graph.nodes if is_swapped_copy(node)]:
        result = _result(clone)
        if result is None:
            continue
        swap, call = clone.args[0], result.args[0]
        inputs, text, options = call.args
        call.args = inputs, OneLine(text, [1, 0]), options
        with getattr(result.meta["val"], "fake_mode", None) or contextlib.nullcontext():
            lies = empty_in_order(result.meta["val"], [1, 0])
            swap.meta["val"] = lies.t()
        call.meta["val"], result.meta["val"] = [lies], lies
        clone.replace_all_uses_with(swap)
        graph.erase_node(clone)
        gone.add(clone.name)
    return gone
