"""Each row of the aten table computes what eager PyTorch does."""

import math

import pytest
import torch
from fx_capture import capture, compare
from torch.nn import functional as F

from epifuse.torch.aten import ELEMENTWISE, FOREIGN, PRODUCTS
from epifuse.torch.importer import import_graph
from epifuse.torch.views import SPLITS, VIEWS

aten = torch.ops.aten
SPECIAL = torch.tensor([0.0, -0.0, 1e-4, -1e-4, 1.0, -1.0, 3.0, -3.0, 6.0, 25.0, -25.0, 90.0, -90.0,
                        math.inf, -math.inf, math.nan])  # fmt: skip


def rows(dtype=torch.float32):
    """A product with an identity matrix gives these values, special ones included, exactly."""
    torch.manual_seed(0)
    x = torch.randn(32, 16) * 3
    x[0] = SPECIAL.nan_to_num(2.5, 4e4, -4e4)
    x[1] = torch.arange(16) / 4
    return x.to(dtype)


def of_product(function):
    """A function of a product x I, which is x where x is finite."""

    def whole(x, eye, *rest):
        return function(x @ eye, *rest)

    return whole


def check(function, *rest, dtype=torch.float32, **how):
    eye = torch.eye(16, dtype=dtype)
    wide = dtype == torch.float32  # else numbers are rounded to the dtype first
    return compare(of_product(function), rows(dtype), eye, *rest, wide=wide, **how)


# Functions that one op of the language computes, or several that round as eager does. Scalars of
# add and sub are bf16 numbers here: eager rounds them first on the CPU, and does not on CUDA.
EXACT = {
    "add": lambda x, y: x + y,
    "add scalar": lambda x, y: x + 1.125,
    "add int": lambda x, y: x + 2,
    "sub": lambda x, y: y - x,
    "rsub": lambda x, y: 1.375 - x,
    "rsub alpha": lambda x, y: aten.rsub.Scalar(x, 1.5, 0.5),
    "mul": lambda x, y: x * y,
    "mul scalar": lambda x, y: x * 0.1,
    "div": lambda x, y: x / y,
    "reciprocal": lambda x, y: x.reciprocal(),
    "neg": lambda x, y: -x,
    "abs": lambda x, y: x.abs(),
    "sqrt": lambda x, y: x.sqrt(),
    "square": lambda x, y: x.square(),
    "pow 2": lambda x, y: x**2,
    "pow 1": lambda x, y: aten.pow.Tensor_Scalar(x, 1) + 1,
    "pow -1": lambda x, y: x**-1.0,
    "relu": lambda x, y: x.relu(),
    "relu6": lambda x, y: F.relu6(x),
    "hardtanh": lambda x, y: F.hardtanh(x, -0.3, 0.7),
    "leaky_relu": lambda x, y: F.leaky_relu(x, 0.01),
    "clamp": lambda x, y: x.clamp(-0.3, 1.7),
    "clamp crossed": lambda x, y: x.clamp(2.0, -1.0),
    "clamp low": lambda x, y: x.clamp(min=0.1),
    "clamp high": lambda x, y: x.clamp(max=0.1),
    "clamp_min": lambda x, y: aten.clamp_min.default(x, 0.1),
    "clamp_max": lambda x, y: aten.clamp_max.default(x, 0.1),
    "clamp tensors": lambda x, y: torch.clamp(x, y, -y),
    "minimum": lambda x, y: torch.minimum(x, y),
    "maximum": lambda x, y: torch.maximum(x, y),
    "threshold": lambda x, y: F.threshold(x, 0.1, -0.7),
    "threshold_backward": lambda x, y: aten.threshold_backward.default(x, y, 0.1),
    "where": lambda x, y: torch.where(x > y, x, y),
    "where scalar": lambda x, y: torch.where(x > 0.1, x, 0.7),
    "where left": lambda x, y: torch.where(y > 0.1, 0.3, x),
    "where full": lambda x, y: torch.where(y > 0, x, torch.full((), 0.3, dtype=x.dtype)),
    "where all full": lambda x, y: torch.where(x > 0, torch.full((), 0.3, dtype=x.dtype),
                                               torch.full((), -math.inf, dtype=x.dtype)),
    "masked_fill": lambda x, y: x.masked_fill(y > 0, -math.inf),
    "masked_fill tensor": lambda x, y: x.masked_fill(x > 0, y[0, 0]),
    "isnan": lambda x, y: torch.where(x.isnan(), 0.0, x),
    **{f"compare {name}": (lambda x, y, op=op: getattr(x, op)(y) | getattr(x, op)(0.1))
       for name, op in [("lt", "lt"), ("le", "le"), ("gt", "gt"), ("ge", "ge"), ("eq", "eq"),
                        ("ne", "ne")]},
    "lerp": lambda x, y: torch.lerp(x, y, 0.25),
    "to bf16": lambda x, y: x.to(torch.bfloat16) * 2,
    "to f16": lambda x, y: x.to(torch.float16) * 2,
    "to f32": lambda x, y: (x.to(torch.float32) * 1.1).to(x.dtype),
    "to bool": lambda x, y: torch.where(x.to(torch.bool), x, y),
    "mask times": lambda x, y: x * (x > 0),
    "mask alone": lambda x, y: (x > 0) * 2.5,
    "zero dim": lambda x, y: x * y[0, 0],
    "zero dim f32": lambda x, y: x * y[0, 0].float(),
    "zero dim full": lambda x, y: x * torch.full((), 0.125, dtype=torch.float32),
    "zero dim double": lambda x, y: x * torch.full((), 0.125, dtype=torch.float64),
    "wide operand": lambda x, y: x * y.float(),
    "reversed wide": lambda x, y: y.float() - x,
    "full": lambda x, y: x + torch.full((32, 16), 0.1, dtype=x.dtype),
    "full of vector": lambda x, y: x * torch.full((1, 1), 0.25, dtype=x.dtype),
}  # fmt: skip

# Functions where eager may take another order or function, within a few units in the last place.
NEAR = {
    "pow 3": lambda x, y: x**3,
    "glu": lambda x, y: F.glu(x, 0),
    "add alpha": lambda x, y: torch.add(x, y, alpha=0.25),
    "sub alpha": lambda x, y: torch.sub(y, x, alpha=0.25),
    "div scalar": lambda x, y: x / 3,
    "rsqrt": lambda x, y: x.rsqrt(),
    "pow 0.5": lambda x, y: x**0.5,
    "pow -0.5": lambda x, y: x**-0.5,
    "pow 2.5": lambda x, y: x**2.5,
    "pow tensor": lambda x, y: (x.abs() + 0.125) ** y.clamp(-3, 3),
    "pow scalar": lambda x, y: 1.7 ** x.clamp(-9, 9),
    "exp": lambda x, y: x.exp(),
    "exp2": lambda x, y: aten.exp2.default(x),
    "log2": lambda x, y: torch.log2(x.abs() + 1),
    "ceil": lambda x, y: torch.ceil(x),
    "floor": lambda x, y: torch.floor(x),
    "log": lambda x, y: x.log(),
    "tanh": lambda x, y: x.tanh(),
    "erf": lambda x, y: x.erf(),
    "sigmoid": lambda x, y: x.sigmoid(),
    "silu": lambda x, y: F.silu(x),
    "gelu": lambda x, y: F.gelu(x),
    "gelu tanh": lambda x, y: F.gelu(x, approximate="tanh"),
    "softplus": lambda x, y: F.softplus(x),
    "softplus beta": lambda x, y: F.softplus(x, 2.0, 15.0),
    "log1p of exp": lambda x, y: torch.log1p(torch.exp(x)),
    "logsigmoid": lambda x, y: F.logsigmoid(x),
    "softplus high": lambda x, y: F.softplus(x, 0.5, 40.0),
    "hardswish": lambda x, y: F.hardswish(x),
    "hardsigmoid": lambda x, y: F.hardsigmoid(x),
    "mish": lambda x, y: F.mish(x),
    "expm1": lambda x, y: torch.expm1(x),
    "elu": lambda x, y: F.elu(x, 0.7),
    "selu": lambda x, y: F.selu(x),
    "celu": lambda x, y: F.celu(x, 1.3),
    "addcmul": lambda x, y: torch.addcmul(x, y, x, value=0.3),
    "addcdiv": lambda x, y: torch.addcdiv(x, y, x.abs() + 1, value=0.3),
    "lerp far": lambda x, y: torch.lerp(x, y, 0.75),
    "sum rows": lambda x, y: x.sum(-1, keepdim=True),
    "sum columns": lambda x, y: x.sum(0, keepdim=True),
    "sum rows, drop": lambda x, y: x.sum(-1),
    "sum columns of sequences, drop": lambda x, y: x.view(4, 8, 16).sum(1),
    "max of rows, drop": lambda x, y: x.amax(1),
    "sum all rows": lambda x, y: x.sum(0),
    "sum sequences": lambda x, y: x.view(4, 8, 16).sum((0, 1)),
    "sum sequences, keep": lambda x, y: x.view(4, 8, 16).sum((1, 0), keepdim=True),
    "cat": lambda x, y: torch.cat((x, y.relu()), -1) * 2,
    "mean of rows": lambda x, y: x.mean(0),
    "mean of sequences, keep": lambda x, y: x.view(4, 8, 16).mean((1, 0), keepdim=True),
    "amax": lambda x, y: x.amax(-1, keepdim=True) + x.amax(-2, keepdim=True),
}
DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def named(table):
    return pytest.mark.parametrize("function", table.values(), ids=table.keys())


def dtypes():
    return pytest.mark.parametrize("dtype", DTYPES, ids=["f32", "bf16", "f16"])


@dtypes()
@named(EXACT)
def test_rounds_as_eager(function, dtype):
    y = rows(dtype).flip(0).flip(1) * 0.5
    imported = check(function, y, dtype=dtype)
    ours = {node.target for name, node in imported.names.items()}
    assert ours - {aten.mm.default}


@dtypes()
@named(NEAR)
def test_near_eager(function, dtype):
    y = rows(dtype).flip(0).flip(1) * 0.5
    check(function, y, dtype=dtype, tolerance=32 if dtype == torch.float32 else 1.01)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
@named({**EXACT, **NEAR})
def test_after_inductors_decompositions(function, dtype):
    y = rows(dtype).flip(0).flip(1) * 0.5
    check(function, y, dtype=dtype, inductor=True,
          tolerance=1e3 if dtype == torch.float32 else 2.01)


@named({**EXACT, **NEAR})
def test_nan_and_infinities(function):
    """In float64, on the special values themselves, which reach the op through select."""

    def chosen(x, eye, special):
        return function(torch.where(x @ eye > math.inf, 0.0, special), special.flip(-1))

    special = SPECIAL.expand(32, 16).contiguous()
    compare(chosen, rows(), torch.eye(16), special, exact=False)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])
@pytest.mark.parametrize("function", [
    lambda x, y: x * y, lambda x, y: y * x, lambda x, y: x / y, lambda x, y: y / (x.abs() + 1),
    lambda x, y: x + y, lambda x, y: x * torch.scalar_tensor(0.3137),
])  # fmt: skip
def test_scalars_in_tensors_are_rounded_where_eager_rounds_them(function, dtype):
    check(function, torch.tensor(0.3137), dtype=dtype)


def refused(function, *args):
    module = capture(function, *args)
    imported = import_graph(module.graph)
    return imported, {str(each.node.target): each.code for each in imported.refused}


@pytest.mark.parametrize(("function", "target", "code"), [
    (lambda x: x.softmax(-1), "aten._softmax.default", "op_not_known"),
    (lambda x: x.mean(-1), "aten.mean.dim", "option"),
    (lambda x: x[:24].bfloat16().mean(0), "aten.mean.dim", "option"),
    (lambda x: x.abs().log1p(), "aten.log1p.default", "op_not_known"),
    (lambda x: x.to(torch.float64), "aten._to_copy.default", "dtype"),
    (lambda x: x.to(torch.int64), "aten._to_copy.default", "dtype"),
    (lambda x: x.to(torch.float8_e4m3fn), "aten._to_copy.default", "dtype"),
    (lambda x: (x > 0) & (x < 1), "aten.bitwise_and.Tensor", "op_not_known"),
    (lambda x: torch.div(x, 2, rounding_mode="floor"), "aten.div.Tensor_mode", "option"),
    (lambda x: x * torch.arange(16), "aten.mul.Tensor", "dtype"),
    (lambda x: x * math.nan, "aten.mul.Tensor", "scalar_operand"),
    (lambda x: x * 1e39, "aten.mul.Tensor", "scalar_operand"),
    (lambda x: x.view(4, 8, 16).sum((1, 2)), "aten.sum.dim_IntList", "option"),
    (lambda x: torch.ops.aten.sum.dim_IntList(x, None), "aten.sum.dim_IntList", "option"),
    (lambda x: torch.cat((x, x), 0), "aten.cat.default", "option"),
    (lambda x: torch.cat((x, x, x), 1), "aten.cat.default", "option"),
    (lambda x: x.view(4, 8, 16).sum(0), "aten.sum.dim_IntList", "option"),
    (lambda x: F.softplus(x, 1.0, 100.0), "aten.softplus.default", "option"),
    (lambda x: x.as_strided([4, 4], [1, 1]), "aten.as_strided.default", "op_not_known"),
    (lambda x: x.t().clone(memory_format=torch.contiguous_format), "aten.clone.default", "layout"),
])  # fmt: skip
def test_refused(function, target, code):
    imported, codes = refused(of_product(function), rows(), torch.eye(16))
    assert codes[target] == code
    assert imported.text is not None
    assert all(each.why.endswith(".") for each in imported.refused)


def test_float8_of_bounded_values():
    limit = torch.finfo(torch.float8_e4m3fn).max

    def quantise(x):
        return (x * 100).clamp(-limit, limit).to(torch.float8_e4m3fn)

    def coarse(x):
        return (x * 100).to(torch.float8_e5m2)

    for function in (quantise, coarse):
        imported = import_graph(capture(of_product(function), rows(), torch.eye(16)).graph)
        assert not imported.refused
        assert " -> e" in imported.text


@pytest.mark.skipif(torch.__version__ < "2.13", reason="the tables name ops of newer versions too")
def test_the_tables_name_ops_that_exist():
    import torch._inductor.inductor_prims  # noqa: F401 (registers prims.fma)

    for name in [*ELEMENTWISE, *PRODUCTS, *VIEWS, *SPLITS]:
        namespace, packet, overload = name.split(".")
        assert hasattr(getattr(getattr(torch.ops, namespace), packet), overload), name
    for name in FOREIGN:
        assert hasattr(aten, name.removeprefix("aten.")), name


@pytest.mark.parametrize(("function", "dtype", "expected"), [
    (lambda x: x * 0.1, torch.bfloat16, "mul mm, 0.1\n"),
    (lambda x: x > 0.1, torch.bfloat16, "gt mm, 0.10009765625\n"),
    (lambda x: x > 0.1, torch.float32, "gt mm, 0.1\n"),
    (lambda x: x * torch.full((), 0.1), torch.bfloat16, "mul mm, 0.1\n"),
    (lambda x: torch.full((), 0.1) * x, torch.bfloat16, "mul 0.10009765625, mm\n"),
    (lambda x: x * torch.full((), 0.1), torch.float32, "mul mm, 0.1\n"),
])  # fmt: skip
def test_how_numbers_are_rounded(function, dtype, expected):
    module = capture(of_product(function), rows(dtype), torch.eye(16, dtype=dtype))
    assert expected in import_graph(module.graph).text


@pytest.mark.parametrize("same", [
    lambda b: torch.pow(b, 1.0),
    lambda b: torch.ops.prims.convert_element_type.default(b, b.dtype),
])  # fmt: skip
def test_work_that_gives_its_operand_back_is_read_as_that(same):
    """A reshape of it is one of memory."""

    def function(x, w, b):
        return torch.relu(x @ w + same(b).view(1, -1))

    given = torch.randn(8, 16), torch.eye(16), torch.randn(16)
    imported = compare(function, *given, tolerance=4)
    assert "view = reshape b_1 [1, 16]\n" in imported.text and not imported.refused
