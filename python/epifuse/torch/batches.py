"""Products of all rows of a batch, where work on their result reads an operand by batches.

    y = reshape(x @ w, [B, S, N]);  z = y * g     with g[B, 1, N], or g[S, N], which a batch repeats

aten multiplies [B * S, K], and no operand of such a matrix lies as `g`. As a product of batches,
[B, S, K] by [K, N], it is one kernel with what follows: the shifts, scales and gates of diffusion
transformers, embeddings of time and of position, masks of whole samples."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

import torch
from torch import fx

from .emitter import bind
from .layout import RESHAPES, can_view, known
from .rows import same_size, same_sizes

_PRODUCTS = ("aten.mm.default", "aten.addmm.default", "aten._scaled_mm.default")
_MOST_NODES = 64  # behind a product
# A batch has tiles of its own. What rows do not fill of them is at most what a pass is worth.
_ROWS_OF_TILE, _MOST_WASTED = 128, 1 / 20
_FEWEST_ROWS = 65  # of a batch

Shape = tuple[Any, ...]  # of integers and symbols


class Batches(NamedTuple):
    """What a product of matrices is computed as."""

    sizes: Shape  # how many batches, and the rows of each
    rows: fx.Node | None  # the tensor of three dims that it multiplies, if there is one


def _shape(node: fx.Node) -> Shape:
    value = node.meta.get("val")
    return tuple(value.shape) if isinstance(value, torch.Tensor) else ()


def _by_batches(operand: fx.Node, whole: Shape) -> bool:
    """Whether an operand repeats over the rows of each batch or over all batches, not both, or lies
    so that its rows are no matrix but one of each sample, as parts of samples do."""
    value, shape = operand.meta.get("val"), _shape(operand)
    if same_sizes(shape, whole) and 0 not in value.stride():
        return not can_view(value, (whole[0] * whole[1], whole[2]))
    if str(operand.target) == "aten.expand.default":
        shape = _shape(operand.args[0])
    if len(shape) not in (2, 3):
        return False
    batch, rows = (1, *shape)[-3:-1]
    return same_size(batch, 1) != same_size(rows, 1)


def _reads_by_batches(view: fx.Node, elementwise: Collection[str]) -> bool:
    """Whether elementwise work on a view of a product has such an operand."""
    behind, waiting, whole = {view}, [view], _shape(view)
    while waiting and len(behind) < _MOST_NODES:
        for user in waiting.pop().users:
            if user in behind or str(user.target) not in elementwise:
                continue
            if not same_sizes(_shape(user), whole):
                continue
            if any(_by_batches(each, whole) for each in user.all_input_nodes if each not in behind):
                return True
            behind.add(user)
            waiting.append(user)
    return False


def _fills_tiles(batches: Shape) -> bool:
    sizes = known(batches)
    if sizes is None or sizes[0] < 2 or sizes[1] < _FEWEST_ROWS:
        return False
    wasted = -sizes[1] % _ROWS_OF_TILE
    return wasted <= sizes[1] * _MOST_WASTED


def _adds_a_row(operands: dict[str, Any]) -> bool:
    added = operands["self"] if "mat1" in operands else operands.get("bias")
    return added is None or len(_shape(added)) == 1


def _has_scales_of_vectors(operands: dict[str, Any], shape: Shape) -> bool:
    """Whether scales, if there are any, are one of a tensor or one of each row and column."""
    scales = [_shape(operands[name]) for name in ("scale_a", "scale_b") if name in operands]
    wanted = ((shape[0], 1), (1, shape[1]))
    return all(same_sizes(scale, (1,) * len(scale)) or same_sizes(scale, each)
               for scale, each in zip(scales, wanted))  # fmt: skip


def _batches(product: fx.Node, elementwise: Collection[str]) -> Batches | None:
    users, shape = [user for user in product.users if user.op != "output"], _shape(product)
    if not users or not shape or any(str(user.target) not in RESHAPES for user in users):
        return None
    whole = _shape(users[0])
    if len(whole) != 3 or not same_size(whole[-1], shape[-1]):
        return None
    batches = whole[:2]
    if not all(same_sizes(_shape(user), whole) for user in users) or not _fills_tiles(batches):
        return None
    operands = bind(product)
    if not _adds_a_row(operands) or not _has_scales_of_vectors(operands, shape):
        return None
    is_symbolic = [not isinstance(size, int) for size in batches]
    rows = _rows_by_batches(operands["mat1" if "mat1" in operands else "self"], batches)
    if all(is_symbolic) and (rows is None or "scale_a" in operands):
        return None  # nothing tells a reshape two sizes
    reads = any(_reads_by_batches(user, elementwise) for user in users)
    return Batches(batches, rows) if reads else None


def _rows_by_batches(rows: fx.Node, batches: Shape) -> fx.Node | None:
    """The tensor of three dims that rows of a matrix are another look at, if its first two are
    these."""
    if str(rows.target) not in RESHAPES:
        return None
    source, matrix = rows.args[0], _shape(rows)
    if not matrix or not same_sizes(_shape(source), (*batches, matrix[-1])):
        return None
    return source if can_view(source.meta["val"], matrix) else None


def products_of_batches(
    nodes: Iterable[fx.Node], elementwise: Collection[str]
) -> dict[fx.Node, Batches]:
    """The products that are to be such."""
    found = {}
    for node in nodes:
        batches = _batches(node, elementwise) if str(node.target) in _PRODUCTS else None
        if batches is not None:
            found[node] = batches
    return found
