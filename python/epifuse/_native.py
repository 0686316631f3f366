"""The C++ core, reached through its C interface (include/epifuse/c.h)."""

import ctypes
import functools
import json
import pathlib
from collections.abc import Sequence
from typing import Any

from epifuse import settings

LIBRARY = "libepifuse_c.so"
OP_LIBRARY = "libepifuse_torch_op.so"
# EpifuseDType, in its order.
DTYPES = ("f32", "bf16", "f16", "e4m3", "e5m2", "bool", "i32", "i64", "i8")


class Error(RuntimeError):
    """Base of what epifuse raises; says what was expected and what came."""


class BadInputError(Error, ValueError):
    """A graph, options or tensors that do not fit."""


class UnavailableError(Error):
    """This machine lacks a GPU, a driver or a library; says where it was looked for."""


class FailedError(Error):
    """The run-time compiler or the device failed."""


class BugError(Error):
    """A broken invariant of epifuse itself."""


_ERRORS = {2: BadInputError, 3: UnavailableError, 4: FailedError, 70: BugError}


def library_path(name: str) -> pathlib.Path:
    """Where a shared library of epifuse is: beside this package, or in $EPIFUSE_LIBRARY_PATH."""
    folders = [pathlib.Path(__file__).parent / "lib"]
    named = settings.library_folder()
    if named is not None:
        folders.insert(0, named)
    for folder in folders:
        if (folder / name).is_file():
            return folder / name
    places = ", ".join(str(folder) for folder in folders)
    raise UnavailableError(f"expected {name} in one of: {places}; "
                           f"install the wheel, or name a folder in EPIFUSE_LIBRARY_PATH")


@functools.cache
def library() -> ctypes.CDLL:
    """The core, loaded when first asked for. Raises UnavailableError without it."""
    path = library_path(LIBRARY)
    try:
        return _open(path)
    except OSError as error:
        raise UnavailableError(f"{path} cannot be loaded: {error}") from error
    except AttributeError as error:
        raise UnavailableError(f"expected the library of this package, got another version: "
                               f"{error}") from error


def _open(path: pathlib.Path) -> ctypes.CDLL:
    loaded = ctypes.CDLL(str(path), mode=ctypes.RTLD_LOCAL)
    text, answer = ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p)
    size = ctypes.c_size_t
    loaded.epifuse_version.restype = text
    loaded.epifuse_last_error.restype = text
    loaded.epifuse_reserved_words.argtypes = [answer]
    loaded.epifuse_free.argtypes = [ctypes.c_void_p]
    loaded.epifuse_fusions.argtypes = [text, text, answer]
    loaded.epifuse_describe.argtypes = [text, answer]
    loaded.epifuse_kernel.argtypes = [text, size, text, size, answer]
    loaded.epifuse_run.argtypes = [ctypes.c_void_p] * 4
    loaded.epifuse_run_numbers.argtypes = [ctypes.c_void_p, ctypes.c_char_p, size, ctypes.c_void_p]
    loaded.epifuse_call_site.argtypes = [ctypes.c_void_p, answer]
    loaded.epifuse_free_call_site.argtypes = [ctypes.c_void_p]
    loaded.epifuse_free_call_site.restype = None
    loaded.epifuse_run_at.argtypes = [ctypes.c_void_p, ctypes.c_char_p, size, ctypes.c_void_p]
    loaded.epifuse_choice.argtypes = [ctypes.c_void_p, ctypes.c_void_p, answer]
    loaded.epifuse_counts.restype = Counts
    loaded.epifuse_stats.argtypes = [answer]
    return loaded


class Counts(ctypes.Structure):
    """What kernels of this process took: see EpifuseCounts in epifuse/c.h."""

    _fields_ = [("programs", ctypes.c_int64), ("binaries", ctypes.c_int64),
                ("plans", ctypes.c_int64)]


class Tensor(ctypes.Structure):
    """Memory seen as a tensor (EpifuseTensor)."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_int),
        ("rank", ctypes.c_int32),
        ("sizes", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
    ]

    @classmethod
    def of(cls, data: int, dtype: str, sizes: Sequence[int], strides: Sequence[int]) -> "Tensor":
        """A tensor at an address; its dtype as in `.epi` text, strides in elements."""
        numbers = ctypes.c_int64 * max(len(sizes), 1)
        return cls(data, DTYPES.index(dtype), len(sizes), numbers(*sizes), numbers(*strides))


def check(status: int) -> None:
    """Raises what a status of the C interface stands for."""
    if status != 0:
        message = library().epifuse_last_error().decode("utf-8", "replace")
        raise _ERRORS.get(status, BugError)(message)


def _ask(function: str, *arguments: Any) -> Any:
    answer = ctypes.c_void_p()
    encoded = [each.encode() if isinstance(each, str) else each for each in arguments]
    check(getattr(library(), function)(*encoded, ctypes.byref(answer)))
    try:
        return json.loads(ctypes.string_at(answer.value))
    finally:
        library().epifuse_free(answer)


def version() -> str:
    """Version of the C++ core."""
    return library().epifuse_version().decode()


def counts() -> Counts:
    """What this process compiled so far."""
    return library().epifuse_counts()


def stats() -> list[dict[str, Any]]:
    """What each kernel of this process did: see epifuse_stats in epifuse/c.h."""
    return _ask("epifuse_stats")["kernels"]


def fusions(text: str, options: dict[str, Any]) -> dict[str, Any]:
    """The kernels of a graph, and what was left out: see epifuse_fusions in epifuse/c.h."""
    return _ask("epifuse_fusions", text, json.dumps(options))


@functools.cache
def reserved_words() -> frozenset[str]:
    """The words of `.epi` text that are no names: see epifuse_reserved_words in epifuse/c.h."""
    return frozenset(_ask("epifuse_reserved_words"))


@functools.lru_cache(maxsize=4096)
def describe(text: str) -> dict[str, Any]:
    """Name, inputs and outputs of a graph: see epifuse_describe in epifuse/c.h."""
    return _ask("epifuse_describe", text)


def kernel(text: str, options: str) -> ctypes.c_void_p:
    """The kernel of a graph text; lives as long as the process."""
    found = ctypes.c_void_p()
    graph, keys = text.encode(), options.encode()
    check(library().epifuse_kernel(graph, len(graph), keys, len(keys), ctypes.byref(found)))
    return found


def _array(tensors: Sequence[Tensor]) -> Any:
    return (Tensor * max(len(tensors), 1))(*tensors)


def run(text: str, options: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor],
        stream: int | None) -> None:
    """Runs a kernel: see epifuse_run in epifuse/c.h."""
    check(library().epifuse_run(kernel(text, options), _array(inputs), _array(outputs), stream))


def choice(text: str, options: str, inputs: Sequence[Tensor]) -> dict[str, Any]:
    """Compiles what a run on such inputs needs: see epifuse_choice in epifuse/c.h."""
    return _ask("epifuse_choice", kernel(text, options), _array(inputs))
