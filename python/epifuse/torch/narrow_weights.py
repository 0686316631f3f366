"""Products of 16 bits whose second operand is weights of 8 bits, as models that are quantised by
weights alone have them (torchao's Int8WeightOnlyConfig and Float8WeightOnlyConfig).

    mm(x, w.to(bf16).t())                       ->  matmul x, w^T
    mm(x, (w.to(f32) * scale).to(bf16).t())     ->  matmul x, w^T -> f32, times scale    scale[N, 1]

With few rows the bytes of weights are what takes the time. Inductor stores them converted, and its
product reads that: 5 bytes an element in place of 1. A kernel of epifuse converts in registers.
With many rows it multiplies slower than what takes weights in 16 bits, and the conversion counts
little: those products stay as they are. Scales come behind the sum, so weights are not rounded
after them (not `exact`).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch.fx import Graph, Node

from .emitter import Emitter, tensor_of
from .layout import CONVERTS, SWAPS, known, swaps
from .rows import same_size
from .sizes import Size
from .values import Value

# Rows up to which kernels took less time at the products tried (docs/gotchas-hopper.md).
MOST_ROWS = 1024
DEVICES = ("cuda",)

_PRODUCTS = ("aten.mm.default", "aten.addmm.default")
_MULTIPLIES = "aten.mul.Tensor"
_NARROW = (torch.int8, torch.float8_e4m3fn, torch.float8_e5m2)
_WIDE = (torch.bfloat16, torch.float16)


class NarrowWeights(NamedTuple):
    """What a product's second operand is made of. Both are matrices of the graph, or as a product
    reads them, [K, N] and [1, N] or [1, 1], their transposes."""

    weights: Node
    is_turned: bool
    scale: Node | None = None
    is_scale_turned: bool = False


def _shape(node: Node, is_turned: bool) -> tuple[Size, ...]:
    shape = tuple(tensor_of(node).shape)
    return shape[::-1] if is_turned else shape


def _is_matrix_of(node: Node, dtypes: tuple[torch.dtype, ...]) -> bool:
    value = tensor_of(node)
    return value is not None and value.dim() == 2 and value.dtype in dtypes


def _is_scale(node: object, is_turned: bool, columns: Size) -> bool:
    """Whether a factor is one number for each column, or for all."""
    if not isinstance(node, Node) or not _is_matrix_of(node, (torch.float32, *_WIDE)):
        return False
    rows, count = _shape(node, is_turned)
    return same_size(rows, 1) and (same_size(count, 1) or same_size(count, columns))


def narrow_weights(operand: Node) -> NarrowWeights | None:
    """Of a matrix [K, N] of 16 bits; None where it is not made so."""
    if not _is_matrix_of(operand, _WIDE):
        return None
    columns = tensor_of(operand).shape[-1]
    is_turned, is_converted = False, False
    scale: Node | None = None
    is_scale_turned = False
    while operand.op == "call_function" and not _is_matrix_of(operand, _NARROW):
        target = str(operand.target)
        if not _is_matrix_of(operand, (torch.float32, *_WIDE)):
            return None
        if target in SWAPS:
            is_turned ^= swaps(operand)
        elif target == CONVERTS:
            is_converted = True
        elif target == _MULTIPLIES and scale is None:
            factors = operand.args
            if _is_scale(factors[0], is_turned, columns):
                factors = factors[::-1]
            operand, scale = factors
            is_scale_turned = is_turned
            if not (isinstance(operand, Node) and _is_scale(scale, is_turned, columns)):
                return None
            continue
        else:
            return None
        operand = operand.args[0]
    if not (is_converted and _is_matrix_of(operand, _NARROW)):
        return None
    return NarrowWeights(operand, is_turned, scale, is_scale_turned)


def _has_few_rows(product: Node) -> bool:
    """A symbol counts as what it was at first."""
    rows = known(tensor_of(product).shape[:1])
    return rows is not None and rows[0] <= MOST_ROWS


def products_of_narrow_weights(graph: Graph, exact: bool) -> dict[Node, NarrowWeights]:
    """Those products of a graph that kernels may compute so, on GPUs."""
    found = {}
    for node in graph.nodes:
        value = tensor_of(node)
        if str(node.target) not in _PRODUCTS or value is None or value.dtype not in _WIDE:
            continue
        if value.device.type not in DEVICES or not _has_few_rows(node):
            continue
        weights = narrow_weights(node.args[-1])
        if weights is not None and not (exact and weights.scale is not None):
            found[node] = weights
    return found


def product_of_narrow_weights(emit: Emitter, first: Node, dtype: str) -> Value:
    """`matmul first, weights` with the result in the dtype of `first` or f32. Weights are converted
    to the dtype of `first`; their scale multiplies the sum."""
    narrow = emit.scope.narrow[emit.node]
    a, weights = emit.rows(first), emit.value(narrow.weights)
    total_dtype = dtype if narrow.scale is None else "f32"
    form = "matmul {0}, {1}" + ("^T" if narrow.is_turned else "")
    form += "" if total_dtype == a.dtype else f" -> {total_dtype}"
    shape = (*a.shape[:-1], weights.shape[0 if narrow.is_turned else 1])
    total = emit.add("product", [a, weights], total_dtype, shape, form)
    if narrow.scale is None:
        return total
    scale = emit.value(narrow.scale)
    if narrow.is_scale_turned:
        scale = emit.view("transpose", scale, scale.shape[::-1], "[1, 0]")
    return emit.cast(emit.op("mul", total, emit.cast(scale, "f32")), dtype)
