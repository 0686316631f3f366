"""The op where torch's stable ABI has no lists yet (torch 2.9): the same kernel, by ctypes."""

import ctypes
from typing import Any

import torch

from epifuse import _native
from epifuse.torch.op import ir_dtype, output_sizes

_CODES = {"f32": 0, "bf16": 1, "f16": 2, "e4m3": 3, "e5m2": 4, "bool": 5}


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_int),
        ("rank", ctypes.c_int32),
        ("sizes", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
    ]


def _view(tensor: torch.Tensor) -> _Tensor:
    name = ir_dtype(tensor.dtype)
    if name is None:
        raise _native.BadInputError(f"expected a float or bool tensor, got {tensor.dtype}")
    numbers = ctypes.c_int64 * max(tensor.dim(), 1)
    return _Tensor(tensor.data_ptr(), _CODES[name], tensor.dim(), numbers(*tensor.shape),
                   numbers(*tensor.stride()))


def _views(tensors: list[torch.Tensor]) -> Any:
    return (_Tensor * max(len(tensors), 1))(*[_view(tensor) for tensor in tensors])


def _fused(inputs: list[torch.Tensor], graph: str, options: str) -> list[torch.Tensor]:
    library = _native.library()
    kernel, text, keys = ctypes.c_void_p(), graph.encode(), options.encode()
    _native.check(library.epifuse_kernel(text, ctypes.c_size_t(len(text)), keys,
                                         ctypes.c_size_t(len(keys)), ctypes.byref(kernel)))
    device = inputs[0].device
    outputs = [torch.empty(sizes, dtype=dtype, device=device)
               for sizes, dtype in output_sizes(inputs, graph)]
    stream = None
    if device.type == "cuda":
        stream = ctypes.c_void_p(torch.cuda.current_stream(device).cuda_stream)
    with torch.device(device):
        _native.check(library.epifuse_run(kernel, _views(inputs), _views(outputs), stream))
    return outputs


def register() -> None:
    """Registers the op for CPU and CUDA tensors."""
    torch.library.define("epifuse::fused", "(Tensor[] inputs, str graph, str options) -> Tensor[]")
    torch.library.impl("epifuse::fused", "CPU")(_fused)
    torch.library.impl("epifuse::fused", "CUDA")(_fused)
