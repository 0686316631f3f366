"""The op where torch's stable ABI has no lists yet (torch 2.9): the same kernel, by ctypes."""

import contextlib

import torch

from epifuse import _native
from epifuse.torch.dtypes import ALL
from epifuse.torch.results import output_sizes


def _view(tensor: torch.Tensor) -> _native.Tensor:
    name = ALL.get(tensor.dtype)
    if name is None:
        raise _native.BadInputError("expected a tensor of floats, bool, int32 or int64, "
                                    f"got {tensor.dtype}")
    return _native.Tensor.of(tensor.data_ptr(), name, tensor.shape, tensor.stride())


def _fused(inputs: list[torch.Tensor], graph: str, options: str) -> list[torch.Tensor]:
    device = inputs[0].device
    outputs = [torch.empty(sizes, dtype=dtype, device=device)
               for sizes, dtype in output_sizes(inputs, graph)]
    is_cuda = device.type == "cuda"
    stream = torch.cuda.current_stream(device).cuda_stream if is_cuda else None
    with torch.cuda.device(device) if is_cuda else contextlib.nullcontext():
        _native.run(graph, options, [_view(tensor) for tensor in inputs],
                    [_view(tensor) for tensor in outputs], stream)
    return outputs


def register() -> None:
    """Registers the op for CPU and CUDA tensors."""
    torch.library.define("epifuse::fused", "(Tensor[] inputs, str graph, str options) -> Tensor[]")
    torch.library.impl("epifuse::fused", "CPU")(_fused)
    torch.library.impl("epifuse::fused", "CUDA")(_fused)
