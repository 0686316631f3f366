"""What code that Inductor generates calls: one kernel, on addresses."""

import ctypes
import struct
import weakref
from collections.abc import Callable

from torch._C._profiler import _RecordFunctionFast
from torch.autograd import profiler

from epifuse import _native
from epifuse.torch import ahead


def launcher(name: str, graph: str, options: str) -> Callable[..., None]:
    """A function of a stream (0 on CPUs) and of numbers, that queues the kernel of a graph.

    `name` is what PyTorch's profiler calls it. The numbers are, of every input and then of every
    output: its address, its sizes, its strides (epifuse_run_numbers in epifuse/c.h). It keeps a
    call site, so that calls of the same sizes, strides and alignment look nothing up. It raises
    what the core does; sizes and strides are not checked against any tensor. What the pass has
    started to compile and measure for the kernel is done when this returns.
    """
    ahead.wait(graph, options)
    described = _native.describe(graph)
    tensors = [*described["inputs"], *described["outputs"]]
    count = sum(1 + 2 * len(tensor["shape"]) for tensor in tensors)
    site = _call_site(_native.kernel(graph, options))
    pack = struct.Struct(f"{count}q").pack
    run = _native.library().epifuse_run_at

    def launch(stream: int, *numbers: int) -> None:
        if profiler._is_profiler_enabled:
            with _RecordFunctionFast(name):
                status = run(site, pack(*numbers), count, stream)
        else:
            status = run(site, pack(*numbers), count, stream)
        if status:
            _native.check(status)

    weakref.finalize(launch, _native.library().epifuse_free_call_site, site)
    return launch


def _call_site(kernel: ctypes.c_void_p) -> int | None:
    site = ctypes.c_void_p()
    _native.check(_native.library().epifuse_call_site(kernel, ctypes.byref(site)))
    return site.value
