"""Compiles kernels beside Inductor, so that they are there when the first batch comes."""

import functools
import logging
from concurrent.futures import ThreadPoolExecutor

import torch

from epifuse import _native
from epifuse.torch.op import ir_dtype

log = logging.getLogger("epifuse.torch")
_NUM_THREADS = 4  # each compiles its candidates in threads of its own


@functools.cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_NUM_THREADS, thread_name_prefix="epifuse")


def _number(size: int | torch.SymInt) -> int:
    """A size, or what it was when the program was traced."""
    return size if isinstance(size, int) else int(size.node.hint)


def _form(tensor: torch.Tensor) -> _native.Tensor:
    name = ir_dtype(tensor.dtype)
    assert name is not None  # a kernel has no other inputs
    sizes = [_number(size) for size in tensor.shape]
    return _native.Tensor.of(0, name, sizes, [_number(stride) for stride in tensor.stride()])


def _prepare(graph: str, options: str, forms: list[_native.Tensor]) -> None:
    try:
        _native.prepare(graph, options, forms)
    except _native.Error as error:  # the first run says it again, to who can hear it
        log.warning("not compiled ahead: %s", error)


def compile_ahead(graph: str, options: str, inputs: list[torch.Tensor]) -> None:
    """Starts to compile a GPU kernel for inputs of these sizes and strides; returns at once."""
    if inputs[0].device.type != "cuda":
        return
    try:
        forms = [_form(tensor) for tensor in inputs]
    except TypeError:  # a size without a hint
        return
    _threads().submit(_prepare, graph, options, forms)
