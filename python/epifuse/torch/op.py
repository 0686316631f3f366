"""torch.ops.epifuse.fused: runs one kernel. Registered in C++; its meta function is here."""

import ast
import ctypes
import functools
from typing import Any

import torch

from epifuse import _native
from epifuse.torch.dtypes import BY_NAME


def _size(text: str, sizes: dict[str, Any]) -> Any:
    """A size such as "2*M + 1" for sizes that may be symbolic."""

    def value(node: ast.expr) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return sizes[node.id]
        if isinstance(node, ast.UnaryOp):
            return -value(node.operand)
        left, right = value(node.left), value(node.right)
        if isinstance(node.op, ast.Mult):
            return left * right
        return left + right if isinstance(node.op, ast.Add) else left - right

    return value(ast.parse(text, mode="eval").body)


def output_sizes(inputs: list[torch.Tensor], graph: str) -> list[tuple[list[Any], torch.dtype]]:
    """Sizes and dtype of each result of a kernel on these inputs."""
    described = _native.describe(graph)
    if len(inputs) != len(described["inputs"]):
        raise _native.BadInputError(
            f"expected {len(described['inputs'])} tensors, got {len(inputs)}")
    sizes: dict[str, Any] = {}
    for tensor, declared in zip(inputs, described["inputs"]):
        if tensor.dim() != len(declared["shape"]):
            raise _native.BadInputError(f"{declared['name']}: expected {len(declared['shape'])} "
                                        f"dims, got {tensor.dim()}")
        for size, text in zip(tensor.shape, declared["shape"]):
            if text.isidentifier():
                sizes.setdefault(text, size)
    return [([_size(text, sizes) for text in output["shape"]], BY_NAME[output["dtype"]])
            for output in described["outputs"]]


def _fake(inputs: list[torch.Tensor], graph: str, options: str) -> list[torch.Tensor]:
    return [inputs[0].new_empty(sizes, dtype=dtype) for sizes, dtype in output_sizes(inputs, graph)]


def fused(inputs: list[Any], graph: str, options: str) -> list[Any]:
    """A call of the op as the pass puts it into graphs: tensors run it, what stands for them in
    Inductor is lowered.

    A graph of ops would make Inductor infer anew, in Python, all tensors behind the first kernel:
    3.5 s for 24 layers of BERT (2026-11-22).
    """
    if isinstance(inputs[0], torch.Tensor):
        return load()(inputs, graph, options)
    from epifuse.torch import lowering  # Inductor's IR is slow to import

    return lowering.lower(inputs, graph, options)


fused._inductor_lowering_function = True  # type: ignore[attr-defined]


def _has_stable_lists() -> bool:
    major, minor = (int(part) for part in torch.__version__.split(".")[:2])
    return (major, minor) >= (2, 10)


@functools.cache
def load() -> Any:
    """Registers the op once and returns it. Raises UnavailableError without the library."""
    _native.version()  # loads the core, which the op's library needs
    if _has_stable_lists():
        ctypes.CDLL(str(_native.library_path(_native.OP_LIBRARY)))
    else:
        from epifuse.torch import op_by_ctypes

        op_by_ctypes.register()
    torch.library.register_fake("epifuse::fused", _fake)
    return torch.ops.epifuse.fused.default
