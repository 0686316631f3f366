"""Compiles kernels beside Inductor, so that they are there when the first batch comes."""

import functools
import logging
from concurrent.futures import ThreadPoolExecutor
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


def _prepare(graph: str, options: str, forms: tuple[Any, ...]) -> None:
    try:
        _native.prepare(graph, options, [_native.Tensor.of(0, *form) for form in forms])
    except _native.Error as error:  # the first run says it again, to who can hear it
        log.warning("not compiled ahead: %s", error)


@functools.lru_cache(maxsize=4096)
def _start(graph: str, options: str, forms: tuple[Any, ...]) -> None:
    """Once for all layers that are alike: threads that wait in turn for Python slow it down."""
    _threads().submit(_prepare, graph, options, forms)


def compile_ahead(graph: str, options: str, inputs: list[torch.Tensor]) -> None:
    """Starts to compile a GPU kernel for inputs of these sizes and strides; returns at once."""
    if inputs[0].device.type != "cuda":
        return
    forms = tuple(_form(tensor) for tensor in inputs)
    if None not in forms:
        _start(graph, options, forms)
