"""A call of the op, as the pass puts it into graphs."""

from collections.abc import Callable
from typing import Any

import torch

from epifuse.torch import op, origin
from epifuse.torch.layout import empty_in_order


class OneLine(str):
    """A kernel's text, which prints in one line where nodes are printed: Inductor writes those that
    a kernel of its own comes from into a comment of its code, where a second line would be code.
    `order`: of the dims of its only result in memory; None: row-major."""

    order: list[int] | None

    def __new__(cls, text: str, order: list[int] | None = None) -> "OneLine":
        line = super().__new__(cls, text)
        line.order = order
        return line

    def _custom_fx_repr_fn(self) -> str:
        return repr(str(self))


def lowered(function: Callable[..., Any]) -> Callable[..., Any]:
    """Calls of the function are in a graph what it gives for tensors, with memory or without. What
    stands for tensors in Inductor it lowers."""
    function._inductor_lowering_function = True  # type: ignore[attr-defined]
    function._inductor_lowering_output_metadata_fn = function  # type: ignore[attr-defined]
    return function


@lowered
def fused(inputs: list[Any], graph: str, options: str) -> list[Any]:
    """Tensors run the op, what stands for them in Inductor is lowered.

    A graph of ops would make Inductor infer anew, in Python, all tensors behind the first kernel:
    3.5 s for 24 layers of BERT (2026-11-22). PyTorch 2.14 does so anyway.
    """
    if isinstance(inputs[0], torch.Tensor):
        results = op.load()(inputs, graph, options)
        order = getattr(graph, "order", None)  # what is exported has plain texts
        if order is None or len(order) != results[0].dim():
            return results
        return [empty_in_order(results[0], order).copy_(results[0])]
    from epifuse.torch import lowering  # Inductor's IR is slow to import

    return lowering.lower(inputs, str(graph), options)


@lowered
@torch.fx.node.has_side_effect
def fused_in_place(inputs: list[Any], graph: str, options: str, place: int) -> list[Any]:
    """The same of a kernel whose only result is written over the input at `place`."""
    if isinstance(inputs[0], torch.Tensor):
        return [inputs[place].copy_(op.load()(inputs, graph, options)[0])]
    from epifuse.torch import lowering

    return lowering.lower_in_place(inputs, str(graph), options, place)


@torch.fx.node.has_side_effect
def _report(text: str, reasons: dict[str, int], device: str) -> None:
    """Runs nothing. Inductor writes the report into its code."""
    from torch._inductor.virtualized import NullHandler, V

    if isinstance(V.graph, NullHandler):
        return  # a branch that is run on fake tensors, not lowered
    from epifuse.torch import lowering

    lowering.lower_report((text, dict(reasons)), torch.device(device))


_report._inductor_lowering_function = True  # type: ignore[attr-defined]


def store_what_kernels_read() -> None:
    """Makes Inductor store what a kernel reads as it is made, as for its own products: whoever
    reads it transposed before the kernel does gets a view, rather than a result of its own."""
    from torch._inductor.lowering import add_needs_realized_inputs

    add_needs_realized_inputs([fused, fused_in_place])


def keep_report(graph: torch.fx.Graph, report: tuple[str, dict[str, int]]) -> bool:
    """Makes the code that Inductor writes for a graph tell the report; whether it will.

    The first kernel does. In a graph of products alone a node does that has no result.
    """
    calls = [node for node in graph.nodes if node.target in (fused, fused_in_place)]
    for call in calls:  # Inductor may write the code of some other than the first one first
        call.meta["epifuse_report"] = report
    products = [node.meta.get("val") for node in graph.nodes if origin.is_product(node)]
    tensors = [value for value in products if isinstance(value, torch.Tensor)]
    if not calls and tensors:
        with graph.inserting_before(graph.output_node()):
            node = graph.call_function(_report, (*report, str(tensors[0].device)))
        node.meta["val"] = None
    return bool(calls or tensors)
