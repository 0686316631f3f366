"""What a kernel's results are for given inputs."""

import ast
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
