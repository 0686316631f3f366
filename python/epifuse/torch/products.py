"""Rows of the aten table for matrix products and the sums that kernels take of rows and columns."""

from __future__ import annotations

from typing import Any

from torch import fx

from . import sizes
from .rows import inverted
from .elementwise import Row
from .emitter import Args, Emitter, tensor_of
from .narrow_weights import product_of_narrow_weights
from .sizes import Size
from .values import ARITHMETIC, FP8, INT8, Literal, Operand, Refusal, Value
from .views import sliced

_MAX_OPERAND_RANK = 5
# torch.nn.functional.ScalingType: TensorWise and RowWise, BlockWise1x128, BlockWise128x128.
_SCALES_OF_VECTORS = (0, 1)
_BY_ROW, _BY_BLOCK = 4, 5
_BLOCK = 128

_GROUPED = ("grouped_mm", "multiplies groups of rows with scales")
_PACKED = ("int_mm", "multiplies by packed integers")
_SPARSE = ("sparse_mm", "multiplies by a sparse matrix")

# Products that epifuse has no kernel for, and why. They are reported wherever they occur.
FOREIGN: dict[str, tuple[str, str]] = {
    "aten._scaled_grouped_mm_v2": _GROUPED,
    "aten._int_mm": ("int_mm", "gives integers that are not read as floats alone"),
    "aten._weight_int8pack_mm": _PACKED,
    "aten._weight_int4pack_mm": _PACKED,
    "aten._mixed_dtypes_linear": _PACKED,
    "aten._sparse_mm": _SPARSE,
    "aten._cslt_sparse_mm": _SPARSE,
    "aten._sparse_semi_structured_mm": _SPARSE,
    "aten._sparse_semi_structured_addmm": _SPARSE,
    "aten._sparse_semi_structured_linear": _SPARSE,
}


def product(
    emit: Emitter,
    first: Any,
    second: Any,
    dtype: str,
    transpose_second: bool = False,
    promoted: bool = False,
) -> Value:
    """`matmul first, second` with the result in the operands' dtype or f32. Of 8-bit operands it is
    f32; sums of 8-bit floats may be `promoted`."""
    if emit.node in emit.scope.narrow:
        return product_of_narrow_weights(emit, first, dtype)
    a, b = emit.rows(first), emit.value(second)
    is_narrow = a.dtype in FP8 and b.dtype in FP8 or a.dtype == b.dtype == INT8
    if not is_narrow and (a.dtype != b.dtype or a.dtype not in ARITHMETIC):
        raise Refusal("dtype", f"{emit.what} multiplies {a.dtype} by {b.dtype}.")
    if dtype not in (("f32",) if is_narrow else (a.dtype, "f32")):
        raise Refusal("dtype", f"{emit.what} multiplies {a.dtype} and gives {dtype}.")
    if not all(2 <= len(value.shape) <= _MAX_OPERAND_RANK for value in (a, b)):
        raise Refusal("shape", f"{emit.what} multiplies tensors of {len(a.shape)} and "
                               f"{len(b.shape)} dims; epifuse those of 2 to 5.")  # fmt: skip
    *batch_a, rows, inner_a = a.shape
    *batch_b, inner_b, columns = b.shape
    if transpose_second:
        inner_b, columns = columns, inner_b
    batch = sizes.broadcast([batch_a, batch_b])
    if batch is None or not sizes.same(inner_a, inner_b):
        raise Refusal("shape", f"The shapes of {emit.what} do not provably fit.")
    form = "matmul {0}, {1}" + ("^T" if transpose_second else "")
    form += "" if dtype == a.dtype or is_narrow else f" -> {dtype}"
    form += " promoted" if promoted else ""
    return emit.add("product", [a, b], dtype, (*batch, rows, columns), form)


def mm(emit: Emitter, args: Args) -> Operand:
    """The plain products, also of batches, also with a result of another dtype."""
    first, second, *_ = args.values()
    return product(emit, first, second, emit.dtype)


def scaled_mm(emit: Emitter, args: Args) -> Operand:
    """8-bit floats times a scale of each tensor, of each row and column, or of blocks of 128 along
    K, plus a bias; rounded once. Without `use_fast_accum`, and between blocks, sums are float32."""
    if args["scale_result"] is not None:
        raise Refusal("option", f"{emit.what} scales its result.")
    scale_a, scale_b = emit.value(args["scale_a"]), emit.value(args["scale_b"])
    rows, columns = emit.shape
    of_rows = _are_of_vectors(scale_a, (rows, 1)) and _are_of_vectors(scale_b, (1, columns))
    if of_rows or len(scale_b.shape) != 2:
        return _scaled(emit, args, scale_a, scale_b)
    return _scaled_by_blocks(emit, args, scale_a, _transposed(emit, scale_b))


def scaled_mm_v2(emit: Emitter, args: Args) -> Operand:
    """The same by lists of scales, each with a recipe."""
    recipes = [*args["recipe_a"], *args["recipe_b"]]
    if len(recipes) != 2 or args["contraction_dim"] or any(args["swizzle_a"] + args["swizzle_b"]):
        raise _foreign_scales(emit)
    scale_a, scale_b = emit.value(args["scale_a"][0]), emit.value(args["scale_b"][0])
    if set(recipes) <= set(_SCALES_OF_VECTORS):
        return _scaled(emit, args, scale_a, scale_b)
    if recipes == [_BY_ROW, _BY_ROW]:
        return _scaled_by_blocks(emit, args, scale_a, scale_b)
    if recipes != [_BY_ROW, _BY_BLOCK] or len(scale_b.shape) != 2:
        raise _foreign_scales(emit)
    # A column for 128 of the result, padded to 4 blocks of K.
    blocks = _num_blocks(emit.value(args["self"]).shape[1])
    if not isinstance(scale_b.shape[0], int) or scale_b.shape[0] < blocks:
        raise _foreign_scales(emit)
    scale_b = sliced(emit, scale_b, 0, 0, blocks)
    return _scaled_by_blocks(emit, args, scale_a, _transposed(emit, scale_b))


def _foreign_scales(emit: Emitter) -> Refusal:
    return Refusal("scaled_mm", f"{emit.what} has scales that no kernel of epifuse multiplies by.")


def _num_blocks(size: Size) -> int:
    """How many blocks of 128 hold so many elements; -1 where only a run tells."""
    return -(-size // _BLOCK) if isinstance(size, int) else -1


def _are_of_vectors(scale: Value, shape: tuple[Size, Size]) -> bool:
    """Whether there is one of the tensor, or one of each row or column."""
    is_one = all(sizes.same(size, 1) for size in scale.shape)
    return scale.dtype == "f32" and (is_one or sizes.same_shape(scale.shape, shape))


def _transposed(emit: Emitter, value: Value) -> Value:
    return emit.view("transpose", value, value.shape[::-1], "[1, 0]")


def _scaled_by_blocks(emit: Emitter, args: Args, scale_a: Value, scale_b: Value) -> Operand:
    """`scale_a` and `scale_b` have a row for each of the result's rows and columns, or `scale_b`
    one for 128 columns, and a column for 128 elements of K."""
    x, w = emit.value(args["self"]), emit.value(args["mat2"])
    if x.dtype not in FP8 or w.dtype not in FP8 or emit.dtype not in ARITHMETIC:
        raise Refusal("dtype", f"{emit.what} multiplies {x.dtype} by {w.dtype} and gives "
                               f"{emit.dtype}.")  # fmt: skip
    rows, columns = emit.shape
    blocks = _num_blocks(x.shape[1])
    of_columns = [(columns, blocks), (_num_blocks(columns), blocks)]
    are_there = sizes.same_shape(scale_a.shape, (rows, blocks)) and any(
        sizes.same_shape(scale_b.shape, shape) for shape in of_columns)  # fmt: skip
    if not are_there or {scale_a.dtype, scale_b.dtype} != {"f32"}:
        raise _foreign_scales(emit)
    form = "scaled_matmul {0}, {1}, {2}, {3}"
    total = emit.add("product", [x, w, scale_a, scale_b], "f32", (rows, columns), form)
    return _with_bias(emit, args, total)


def _scaled(emit: Emitter, args: Args, scale_a: Value, scale_b: Value) -> Operand:
    if emit.dtype not in ARITHMETIC:
        raise Refusal("dtype", f"{emit.what} gives {emit.dtype}.")
    promoted = not args["use_fast_accum"]
    total = product(emit, args["self"], args["mat2"], "f32", promoted=promoted)
    rows, columns = emit.shape
    for scale, shape in ((scale_a, (rows, 1)), (scale_b, (1, columns))):
        if not _are_of_vectors(scale, shape):
            raise _foreign_scales(emit)
        total = emit.op("mul", total, emit.by_batches(scale, shape))
    return _with_bias(emit, args, total)


def _with_bias(emit: Emitter, args: Args, total: Value) -> Operand:
    if args["bias"] is None:
        return total
    return emit.op("add", total, emit.to(emit.value(args["bias"]), "f32"))


def grouped_mm(emit: Emitter, args: Args) -> Operand:
    """Rows of groups, which end where `offs` says, each group by a matrix of its own. Without
    `offs` a batch of products."""
    if args["offs"] is None and args["bias"] is None:
        return product(emit, args["self"], args["mat2"], emit.dtype)
    sums_over_groups = sums_of_groups(emit.node)
    x, w, ends = _groups_of_k(emit, args) if sums_over_groups else _groups(emit, args)
    if x.dtype != w.dtype or x.dtype not in ARITHMETIC or emit.dtype not in (x.dtype, "f32"):
        raise Refusal("dtype", f"{emit.what} multiplies {x.dtype} by {w.dtype} and gives "
                               f"{emit.dtype}.")  # fmt: skip
    result = "" if emit.dtype == x.dtype else f" -> {emit.dtype}"
    if sums_over_groups:
        form = "k_grouped_matmul {0}, {1}, {2}" + result
        shape = (ends.shape[0], x.shape[0], w.shape[1])
        return emit.add("product", [x, w, ends], emit.dtype, shape, form)
    form = "grouped_matmul {0}, {1}, {2}" + result
    return emit.add("product", [x, w, ends], emit.dtype, (x.shape[0], w.shape[2]), form)


def sums_of_groups(node: fx.Node) -> bool:
    """Whether each group of a grouped product sums over rows of its own, as gradients of grouped
    weights do: of two matrices."""
    operands = [tensor_of(operand) for operand in node.args[:2]]
    return all(operand is not None and operand.dim() == 2 for operand in operands)


def _groups_of_k(emit: Emitter, args: Args) -> tuple[Value, Value, Value]:
    """Both matrices, and where groups of what is summed end."""
    if args["bias"] is not None or args["offs"] is None:
        raise Refusal("option", f"{emit.what} has a bias, or no ends of groups.")
    x, w = emit.value(args["self"]), emit.value(args["mat2"])
    strides = (emit.tensor(args["self"]).stride(0), emit.tensor(args["mat2"]).stride(1))
    if not all(isinstance(stride, int) and stride == 1 for stride in strides):
        why = "has groups that start anywhere in rows along K, which kernels of epifuse read slowly"
        raise Refusal("sums_of_groups", f"{emit.what} {why}.")
    if not sizes.same(x.shape[1], w.shape[0]):
        raise Refusal("shape", f"The shapes of {emit.what} do not provably fit.")
    return x, w, emit.integers(args["offs"])


def _groups(emit: Emitter, args: Args) -> tuple[Value, Value, Value]:
    """Rows, the matrices of their groups, and where groups end."""
    if args["bias"] is not None or args["offs"] is None:
        raise Refusal("option", f"{emit.what} has a bias, or no ends of groups.")
    x, w = emit.value(args["self"]), emit.value(args["mat2"])
    ends = emit.integers(args["offs"])
    if len(x.shape) != 2 or len(w.shape) != 3:
        raise Refusal("shape", f"{emit.what} multiplies tensors of {len(x.shape)} and "
                               f"{len(w.shape)} dims; epifuse those of 2 and 3.")  # fmt: skip
    if not sizes.same(x.shape[1], w.shape[1]) or not sizes.same(w.shape[0], ends.shape[0]):
        raise Refusal("shape", f"The shapes of {emit.what} do not provably fit.")
    return x, w, ends


def scaled_grouped_mm(emit: Emitter, args: Args) -> Operand:
    """The same of 8-bit floats, with a scale of each row and of each column of a group's matrix."""
    x, w, ends = _groups(emit, args)
    if args["scale_result"] is not None:
        raise Refusal("option", f"{emit.what} scales its result.")
    if x.dtype not in FP8 or w.dtype not in FP8 or emit.dtype not in ARITHMETIC:
        raise Refusal("dtype", f"{emit.what} multiplies {x.dtype} by {w.dtype} and gives "
                               f"{emit.dtype}.")  # fmt: skip
    shape = (x.shape[0], w.shape[2])
    scale_a, scale_b = emit.value(args["scale_a"]), emit.value(args["scale_b"])
    fits = sizes.same_shape(scale_a.shape, shape[:1]) and sizes.same_shape(
        scale_b.shape, (w.shape[0], shape[1]))
    if not fits or {scale_a.dtype, scale_b.dtype} != {"f32"}:
        raise Refusal("scaled_mm", f"{emit.what} has scales of blocks, which no kernel of epifuse "
                                   "multiplies by.")  # fmt: skip
    form = "grouped_matmul {0}, {1}, {2}" + ("" if args["use_fast_accum"] else " promoted")
    total = emit.add("product", [x, w, ends], "f32", shape, form)
    of_rows = emit.view("reshape", scale_a, (shape[0], 1), written=(shape[0], 1))
    form = f"repeat_rows {{0}}, {{1}} {sizes.shape_text(shape)}"
    of_columns = emit.add("repeat_rows", [scale_b, ends], "f32", shape, form, shape)
    return emit.op("mul", emit.op("mul", total, of_rows), of_columns)


def put_rows(emit: Emitter, args: Args) -> Operand:
    """Rows of a grouped product, put back in the order that they were taken from: looked up by the
    inverse of a permutation."""
    permutation = inverted(args["indices"])
    value = emit.value(args["self"])
    if permutation is None or len(value.shape) < 2:
        raise Refusal("op_not_known", f"{emit.what} takes rows by an index that is not known to be "
                                      "the inverse of another.")  # fmt: skip
    index = emit.integers(permutation)
    if not sizes.same(index.shape[0], value.shape[0]):
        raise Refusal("shape", f"The shapes of {emit.what} do not provably fit.")
    form = f"put_rows {{0}}, {{1}} {sizes.shape_text(value.shape)}"
    return emit.add("put_rows", [value, index], value.dtype, value.shape, form, value.shape)


def concat(emit: Emitter, args: Args) -> Operand:
    """Two tensors of one shape side by side, as the gradients of a gate's columns are."""
    tensors = args["tensors"]
    values = [emit.value(tensor) for tensor in tensors]
    first, *others = values
    rank = len(first.shape)
    is_pair = len(values) == 2 and rank >= 2 and args["dim"] % rank == rank - 1
    if not is_pair or not sizes.same_shape(first.shape, others[0].shape):
        raise Refusal("option", f"{emit.what} joins other tensors than two of one shape along the "
                                "last dim.")  # fmt: skip
    if {value.dtype for value in values} != {emit.dtype} or emit.dtype not in ARITHMETIC:
        raise Refusal("dtype", f"{emit.what} joins tensors of other dtypes than floats of one.")
    return emit.add("concat", values, emit.dtype, emit.shape, "concat {0}, {1}")


def linear(emit: Emitter, args: Args) -> Operand:
    """`input weight^T + bias`."""
    if args["bias"] is None:
        return product(emit, args["input"], args["weight"], emit.dtype, transpose_second=True)
    total = product(emit, args["input"], args["weight"], "f32", transpose_second=True)
    return emit.op("add", total, emit.to(emit.value(args["bias"]), "f32"))


def addmm(emit: Emitter, args: Args) -> Operand:
    """`beta * self + alpha * first second`, rounded once; beta 0 does not look at self."""
    bias, first, second, *_ = args.values()
    alpha, beta = emit.number(args["alpha"]), emit.number(args["beta"])
    if alpha == 0:
        raise Refusal("scalar_operand", f"{emit.what} multiplies its product by 0.")
    if beta == 0 and alpha == 1:
        return product(emit, first, second, emit.dtype)
    total = product(emit, first, second, "f32")
    if alpha != 1:
        total = emit.op("mul", total, Literal(alpha))
    if beta == 0:
        return total
    added = emit.to(emit.value(bias), "f32")
    if beta != 1:
        added = emit.op("mul", added, Literal(beta))
    return emit.op("add", total, added)


def reduction(row: str, column: str) -> Row:
    """A reduction of the last dim or the last but one, or of all dims but the last, as bias
    gradients are; a maximum of blocks of 128 rows and columns too."""

    def build(emit: Emitter, args: Args) -> Operand:
        dims = args["dim"] if isinstance(args["dim"], (list, tuple)) else [args["dim"]]
        value = emit.value(args["self"])
        rank = len(value.shape)
        dims = [] if rank == 0 or None in dims else sorted(dim % rank for dim in dims)
        keeps = bool(args.get("keepdim"))
        takes_all_rows = rank >= 2 and dims == list(range(rank - 1))
        is_of_one_dim = rank >= 2 and len(dims) == 1
        of_squares = row == "row_max" and rank >= 4 and dims == [rank - 3, rank - 1] and (
            value.shape[-3], value.shape[-1]) == (_BLOCK, _BLOCK)
        takes = takes_all_rows or is_of_one_dim or of_squares
        if not takes or emit.dtype not in ARITHMETIC:
            raise Refusal("option", f"{emit.what} reduces other dims than the last, the last but "
                                    "one or all before the last.")  # fmt: skip
        operand = emit.cast(value, emit.dtype)
        if of_squares:
            return _maxima_of_squares(emit, operand)
        if takes_all_rows and (rank > 2 or not keeps):
            return _column_reduction(emit, column, operand)
        (dim,) = dims
        if dim < rank - 2:
            raise Refusal("option", f"{emit.what} reduces dim {dim} of {rank}.")
        op = row if dim == rank - 1 else column
        shape = [1 if place == dim else size for place, size in enumerate(value.shape)]
        reduced = emit.add(op, [operand], emit.dtype, shape, f"{op} {{0}}")
        return reduced if keeps else emit.view("reshape", reduced, emit.shape)

    return build


def sum_of_rows(leaf: fx.Node) -> Row:
    """A sum of all rows of an input of the text, of which the node sums a reshape."""

    def build(emit: Emitter, args: Args) -> Operand:
        value = emit.value(leaf)
        if len(value.shape) < 2 or value.dtype != emit.dtype or emit.dtype not in ARITHMETIC:
            raise Refusal("option", f"{emit.what} sums no rows of {emit.dtype}.")
        return _column_reduction(emit, "col_sum", value)

    return build


def mean(emit: Emitter, args: Args) -> Operand:
    """Of all rows of all dims but the last: the sum of what is divided first, where that rounds no
    more than float32 does."""
    dims = args["dim"] if isinstance(args["dim"], (list, tuple)) else [args["dim"]]
    value = emit.value(args["self"])
    rank = len(value.shape)
    count = sizes.num_elements(value.shape[:-1])
    if rank < 2 or None in dims or sorted(dim % rank for dim in dims) != list(range(rank - 1)):
        raise Refusal("option", f"{emit.what} takes the mean of other dims than all but the last.")
    if not isinstance(count, int) or count == 0 or emit.dtype not in ARITHMETIC:
        raise Refusal("option", f"{emit.what} takes the mean of a number of rows that a run tells.")
    if emit.dtype != "f32" and count & (count - 1):
        raise Refusal("option", f"{emit.what} divides {emit.dtype} by {count}, which would round.")
    divided = emit.op("mul", emit.cast(value, emit.dtype), Literal(1 / count))
    return _column_reduction(emit, "col_sum", divided)


def _column_reduction(emit: Emitter, op: str, value: Value) -> Value:
    """Of all rows of all dims but the last, in the shape of the node."""
    rows, columns = sizes.num_elements(value.shape[:-1]), value.shape[-1]
    if len(value.shape) > 2:
        value = emit.view("reshape", value, (rows, columns))
    reduced = emit.add(op, [value], emit.dtype, (1, columns), f"{op} {{0}}")
    return emit.view("reshape", reduced, emit.shape)


def _maxima_of_squares(emit: Emitter, value: Value) -> Value:
    """Of 128 rows, of each of which the maxima of blocks come first, in the shape of the node."""
    *batch, rows, blocks, _ = value.shape
    of_rows = emit.add("row_max", [value], emit.dtype, (*batch, rows, blocks, 1), "row_max {0}")
    flat = emit.view("reshape", of_rows, (*batch, rows, blocks))
    reduced = emit.add("col_max", [flat], emit.dtype, (*batch, 1, blocks), "col_max {0}")
    return emit.view("reshape", reduced, emit.shape)
