"""Compiles and measures kernels beside Inductor, before the first batch comes."""

import contextlib
import functools
import logging
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch

from epifuse import _native
from epifuse.torch.dtypes import ALL
from epifuse.torch.layout import known

log = logging.getLogger("epifuse.torch")
_NUM_THREADS = 4  # each compiles its candidates in threads of its own


@functools.cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_NUM_THREADS, thread_name_prefix="epifuse")


def _form(tensor: torch.Tensor) -> tuple[str, tuple[int, ...], tuple[int, ...]] | None:
    """Dtype, sizes and strides; None where a size has no value yet."""
    sizes, strides = known(tensor.shape), known(tensor.stride())
    if sizes is None or strides is None:
        return None
    return ALL[tensor.dtype], tuple(sizes), tuple(strides)


def _on(device: torch.device) -> Any:
    """Makes the device the current one of this thread."""
    if not torch.cuda.is_initialized():
        return contextlib.nullcontext()
    return torch.cuda.device(device)


Choice = dict[str, Any]  # what _native.choice says; empty where nothing is known


def _prepare(graph: str, options: str, device: torch.device, forms: tuple[Any, ...]) -> Choice:
    try:
        with _on(device):
            return _native.choice(graph, options, [_native.Tensor.of(0, *form) for form in forms])
    except _native.Error as error:  # the first run says it again, to who can hear it
        log.warning("not compiled ahead: %s", error)
        return {}


_started: dict[tuple[str, str], list[Future[Choice]]] = {}  # by kernel, those that may not be done


@functools.lru_cache(maxsize=4096)
def _start(graph: str, options: str, device: torch.device,
           forms: tuple[Any, ...]) -> Future[Choice]:  # fmt: skip
    """Once for all layers that are alike: threads that wait in turn for Python slow it down."""
    started = _threads().submit(_prepare, graph, options, device, forms)
    _started.setdefault((graph, options), []).append(started)
    return started


def compile_ahead(graph: str, options: str, inputs: list[torch.Tensor]) -> Future[Choice] | None:
    """Starts to compile a GPU kernel for inputs of these sizes and strides; returns at once.

    Where the options say so, the ways to run it at these sizes are measured too. The result is what
    a run will go by; None where a size is not known, and on CPUs.
    """
    if inputs[0].device.type != "cuda":
        return None
    forms = tuple(_form(tensor) for tensor in inputs)
    return None if None in forms else _start(graph, options, inputs[0].device, forms)


def wait(graph: str, options: str) -> None:
    """Returns when what was started for a kernel is done: its runs all go by one choice."""
    for started in _started.pop((graph, options), ()):
        started.result()
