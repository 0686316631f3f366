"""Results that are copied transposed: the kernel writes them so, and nothing is copied.

    z = clone(y^T)   ->   y lies so that y^T is z

Only where nothing else that a kernel reads or writes is as large as its result: then it multiplies
the operands in the other order, and writes rows as ever.
"""

import contextlib
import operator

from torch.fx import Graph, Node

from epifuse.torch.call import fused

_CLONE, _PERMUTE = "aten.clone.default", "aten.permute.default"


def _is_swap(node: Node) -> bool:
    """Whether a view exchanges the two dims of a matrix."""
    return str(node.target) == _PERMUTE and [dim % 2 for dim in node.args[1]] == [1, 0]


def is_swapped_copy(node: Node) -> bool:
    """Whether all that becomes of a matrix is that this node copies it transposed."""
    if str(node.target) != _CLONE or not node.meta["val"].is_contiguous():
        return False
    swap = node.args[0]
    return _is_swap(swap) and set(swap.users) == {node} and set(swap.args[0].users) == {swap}


def _result(clone: Node) -> Node | None:
    """The kernel's result that a node copies."""
    result = clone.args[0].args[0]
    is_kernels = result.target is operator.getitem and result.args[0].target is fused
    if not is_kernels or set(result.args[0].users) != {result}:
        return None
    shape = result.meta["val"].shape
    others = [node.meta["val"].shape for node in result.args[0].args[0]]
    return None if shape in others else result


def write_transposed(graph: Graph) -> set[str]:
    """Makes kernels write results where they are copied to. Returns the names of the copies."""
    gone = set()
    for clone in [node for node in graph.nodes if is_swapped_copy(node)]:
        result = _result(clone)
        if result is None:
            continue
        swap, (rows, columns) = clone.args[0], result.meta["val"].shape
        with getattr(result.meta["val"], "fake_mode", None) or contextlib.nullcontext():
            lies = result.meta["val"].new_empty((columns, rows)).t()
            swap.meta["val"] = lies.t()
        result.meta["val"] = lies
        result.args[0].meta["val"] = [lies]
        clone.replace_all_uses_with(swap)
        graph.erase_node(clone)
        gone.add(clone.name)
    return gone
