"""torch.ops.epifuse.fused: runs one kernel. Registered in C++; its meta function is here."""

import contextlib
import ctypes
import functools
from typing import Any

import torch

from epifuse import _native
from epifuse.torch import op_by_ctypes
from epifuse.torch.results import output_sizes


def _fake(inputs: list[torch.Tensor], graph: str, options: str) -> list[torch.Tensor]:
    return [inputs[0].new_empty(sizes, dtype=dtype) for sizes, dtype in output_sizes(inputs, graph)]


def _has_stable_lists() -> bool:
    major, minor = (int(part) for part in torch.__version__.split(".")[:2])
    return (major, minor) >= (2, 10)


@functools.cache
def load() -> Any:
    """Registers the op once and returns it. Raises UnavailableError without the library."""
    _native.version()  # loads the core, which the op's library needs
    if _has_stable_lists():
        path = _native.library_path(_native.OP_LIBRARY)
        try:
            ctypes.CDLL(str(path))
        except OSError as error:
            raise _native.UnavailableError(f"{path} cannot be loaded: {error}") from error
    else:
        op_by_ctypes.register()
    torch.library.register_fake("epifuse::fused", _fake)
    return torch.ops.epifuse.fused.default


def load_if_there() -> None:
    """Registers the op, but for a package without its libraries: who needs it hears of that."""
    with contextlib.suppress(_native.UnavailableError):
        load()
