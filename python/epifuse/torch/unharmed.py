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


def _copy(graph: Graph, place: Graph) -> None:
    """Writes a graph into an empty one."""
    result, output = place.graph_copy(graph, {}, return_output_node=True)
    place.output(result).meta = copy.copy(output.meta)


def unharmed(graph: Graph, work: Callable[[], Report], lost: str = "nothing is fused") -> Report:
    """What `work` reports of the graph, which it changes. Where it raises, the graph is as before,
    a warning says what is `lost`, and the report says of all products that they were left out."""
    before = Graph()
    _copy(graph, before)
    try:
        return work()
    except FAULTS as error:
        for node in reversed(list(graph.nodes)):
            graph.erase_node(node)
        _copy(before, graph)
        log.warning("%s, by a fault of epifuse", lost, exc_info=error)
        why = _WHY.format(type(error).__name__, error)
        return Report(left_out=[LeftOut(name, "failed", why, product)
                                for name, product in origin.products(before).items()])
