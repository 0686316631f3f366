"""A fault of ours costs a program its kernels, not its run."""

import copy
import logging
from collections.abc import Callable

from torch.fx import Graph

from epifuse.torch import origin
from epifuse.torch.entries import LeftOut
from epifuse.torch.report import Report

log = logging.getLogger("epifuse.torch")
FAULTS: tuple[type[Exception], ...] = (Exception,)  # tests of kernels have none: they are raised
_WHY = "A fault of epifuse, which is worth a report: {}: {}"


def _copied(graph: Graph) -> Graph:
    same = Graph()
    result, output = same.graph_copy(graph, {}, return_output_node=True)
    same.output(result).meta = copy.copy(output.meta)
    return same


def _put_back(graph: Graph, before: Graph) -> None:
    for node in reversed(list(graph.nodes)):
        graph.erase_node(node)
    result, output = graph.graph_copy(before, {}, return_output_node=True)
    graph.output(result).meta = copy.copy(output.meta)


def unharmed(graph: Graph, work: Callable[[Graph], Report]) -> Report:
    """What `work` reports of a graph that it changes. Where it raises, the graph is as before, and
    the report says of all products that they were left out."""
    before, products = _copied(graph), origin.products(graph)
    try:
        return work(graph)
    except FAULTS as error:
        _put_back(graph, before)
        log.warning("nothing is fused, by a fault of epifuse", exc_info=error)
        why = _WHY.format(type(error).__name__, error)
        return Report(left_out=[LeftOut(name, "failed", why, product)
                                for name, product in products.items()])
