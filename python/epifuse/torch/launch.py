"""What code that Inductor generates calls: one kernel, on addresses."""

import struct
from collections.abc import Callable

from torch._C._profiler import _RecordFunctionFast
from torch.autograd import profiler

from epifuse import _native


def launcher(name: str, graph: str, options: str) -> Callable[..., None]:
    """A function of a stream (0 on CPUs) and of numbers, that queues the kernel of a graph.

    `name` is what PyTorch's profiler calls it. The numbers are, of every input and then of every
    output: its address, its sizes, its strides (epifuse_run_numbers in epifuse/c.h). It raises what
    the core does; sizes and strides are not checked against any tensor.
    """
    described = _native.describe(graph)
    tensors = [*described["inputs"], *described["outputs"]]
    count = sum(1 + 2 * len(tensor["shape"]) for tensor in tensors)
    kernel = _native.kernel(graph, options).value
    pack = struct.Struct(f"{count}q").pack
    run = _native.library().epifuse_run_numbers

    def launch(stream: int, *numbers: int) -> None:
        if profiler._is_profiler_enabled:
            with _RecordFunctionFast(name):
                status = run(kernel, pack(*numbers), count, stream)
        else:
            status = run(kernel, pack(*numbers), count, stream)
        if status:
            _native.check(status)

    return launch
