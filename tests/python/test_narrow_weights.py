"""Products whose weights are of 8 bits, converted to 16: kernels read them as they are stored."""

import pytest
import torch
from close import distance
from torch.nn import functional as F

import epifuse.torch
from epifuse.torch import narrow_weights
from epifuse.torch.narrow_weights import MOST_ROWS

INT8, E4M3, E5M2 = torch.int8, torch.float8_e4m3fn, torch.float8_e5m2
NAMES = {INT8: "i8", E4M3: "e4m3", E5M2: "e5m2"}
BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32
WIDTH, INNER = 64, 96


@pytest.fixture(autouse=True)
def for_gpus(monkeypatch):
    """As on a GPU: on CPUs such products stay."""
    monkeypatch.setattr(narrow_weights, "DEVICES", ("cpu",))


def weights(rows, columns, dtype, seed=0):
    """Of 8 bits, and a scale of each row."""
    w = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed)) / columns**0.5
    most = 127 if dtype == INT8 else torch.finfo(dtype).max
    scale = w.abs().amax(1, keepdim=True) / most
    q = w / scale
    return (q.round() if dtype == INT8 else q).to(dtype), scale


def behind(x, w, scale):
    """As torchao's Int8WeightOnlyConfig."""
    return torch.mm(x, w.t().to(x.dtype)) * scale.to(x.dtype).view(-1)


def before(x, w, scale):
    """As its Float8WeightOnlyConfig."""
    return torch.mm(x, (w.t().to(F32) * scale.t()).to(x.dtype))


def turned_last(x, w, scale):
    return F.linear(x, (scale * w.float()).to(x.dtype))


def of_narrower(x, w, scale):
    return F.linear(x, w.to(x.dtype) * scale.to(x.dtype))


def scaled_as_a_whole(x, w, scale):
    return F.linear(x, (w.float() * scale.amax().reshape(1, 1)).to(x.dtype))


def added_to(x, w, scale):
    bias = torch.arange(w.shape[0], device=x.device, dtype=x.dtype) / 64
    return torch.addmm(bias, x, (w.t().float() * scale.t()).to(x.dtype), beta=0.5)


FORMS = [behind, before, turned_last, of_narrower, scaled_as_a_whole, added_to]


def assert_right(got, function, *given):
    """No further from float64 than eager PyTorch, up to rounding luck."""
    exact = function(*(each if each.dtype in NAMES else each.double() for each in given))
    eager = function(*given)
    assert got.dtype == eager.dtype and got.shape == eager.shape
    assert distance(got, exact, 1e-3) <= 1.5 * distance(eager, exact, 1e-3) + 1e-3


def run(function, *given):
    return torch.compile(function, backend=epifuse.torch.backend)(*given)


def declared(kernel, dtype):
    """How many operands of a kernel are of that dtype."""
    return kernel.graph.partition("{")[0].count(f": {NAMES[dtype]}[")


@pytest.mark.parametrize("dtype", NAMES)
@pytest.mark.parametrize("form", FORMS)
def test_kernels_read_weights_as_they_are(form, dtype, fresh, reports):
    x, (w, scale) = torch.randn(5, WIDTH).to(BF16), weights(INNER, WIDTH, dtype)

    def layer(x, w, scale):
        return F.silu(form(x, w, scale))

    assert_right(run(layer, x, w, scale), layer, x, w, scale)
    (kernel,) = reports[0].kernels
    assert declared(kernel, dtype) == 1 and "silu" in kernel.name
    assert not reports[0].products_left


def test_scales_are_read_as_they_are_kept(fresh, reports):
    """Without a kernel that converts or reshapes them before."""
    x, (w, scale) = torch.randn(5, WIDTH).to(BF16), weights(INNER, WIDTH, INT8)

    def layer(x, w, scale):
        return F.silu(behind(x, w, scale))

    assert_right(run(layer, x, w, scale), layer, x, w, scale)
    (kernel,) = reports[0].kernels
    assert f"f32[{INNER}]" in kernel.graph.partition("{")[0]


def test_a_product_alone_is_a_kernel_too(fresh, reports):
    x, (w, _) = torch.randn(5, WIDTH).to(F16), weights(INNER, WIDTH, INT8)

    def layer(x, w):
        return F.linear(x, w.to(x.dtype))

    assert_right(run(layer, x, w), layer, x, w)
    (kernel,) = reports[0].kernels
    assert kernel.name.startswith("matmul") and declared(kernel, INT8) == 1


@pytest.mark.parametrize("form", [behind, before])
def test_gates_are_one_kernel(form, fresh, reports):
    x, first, second = torch.randn(3, WIDTH).to(BF16), *(weights(INNER, WIDTH, INT8, i)
                                                         for i in range(2))  # fmt: skip

    def mlp(x, v, by_v, w, by_w):
        return F.silu(form(x, v, by_v)) * form(x, w, by_w)

    given = x, *first, *second
    assert_right(run(mlp, *given), mlp, *given)
    (kernel,) = reports[0].kernels
    assert declared(kernel, INT8) == 2 and kernel.epilogue.endswith("mul")


def test_products_of_one_input_run_side_by_side(fresh, reports):
    x = torch.randn(3, WIDTH).to(BF16)
    given = [each for i in range(3) for each in weights(INNER + 16 * i, WIDTH, E4M3, i)]

    def heads(x, *given):
        return [before(x, *given[i : i + 2]) for i in (0, 2, 4)]

    for got, i in zip(run(heads, x, *given), (0, 2, 4), strict=True):
        assert_right(got, before, x, *given[i : i + 2])
    (kernel,) = reports[0].kernels
    assert "side_by_side" in kernel.name and declared(kernel, E4M3) == 3


@pytest.mark.parametrize("rows", [MOST_ROWS, MOST_ROWS + 1])
def test_many_rows_take_weights_in_16_bits(rows, fresh, reports):
    x, (w, scale) = torch.randn(rows, WIDTH).to(BF16), weights(INNER, WIDTH, INT8)

    def layer(x, w, scale):
        return behind(x, w, scale) + 1

    assert_right(run(layer, x, w, scale), layer, x, w, scale)
    (kernel,) = reports[0].kernels
    assert declared(kernel, INT8) == (rows <= MOST_ROWS)


def test_any_number_of_rows(fresh, reports):
    w, scale = weights(INNER, WIDTH, E4M3)

    def layer(x, w, scale):
        return F.relu(before(x, w, scale))

    model = torch.compile(layer, backend=epifuse.torch.backend, dynamic=True)
    for rows in (4, 9, 300):
        x = torch.randn(rows, WIDTH).to(BF16)
        assert_right(model(x, w, scale), layer, x, w, scale)
    (kernel,) = reports[0].kernels
    assert declared(kernel, E4M3) == 1


@pytest.mark.parametrize(("form", "reads"), [(behind, 1), (before, 0)])
def test_each_rounding_is_kept_where_that_is_asked_for(form, reads, fresh, reports):
    x, (w, scale) = torch.randn(5, WIDTH).to(BF16), weights(INNER, WIDTH, INT8)

    def layer(x, w, scale):
        return F.relu(form(x, w, scale))

    model = torch.compile(layer, backend=epifuse.torch.backend,
                          options={"epifuse.numerics": "exact"})  # fmt: skip
    assert_right(model(x, w, scale), layer, x, w, scale)
    assert sum(declared(kernel, INT8) for kernel in reports[0].kernels) == reads


def scale_of_k(x, w, scale):
    return F.linear(x, (w.float() * torch.arange(WIDTH)).to(x.dtype))


def shifted(x, w, scale):
    return F.linear(x, ((w.float() - 3) * scale).to(x.dtype))


def by_groups_of_k(x, w, scale):
    parts = w.float().view(INNER, 4, -1) * torch.arange(1, 5).view(1, 4, 1)
    return F.linear(x, parts.view(INNER, WIDTH).to(x.dtype))


def in_float32(x, w, scale):
    return F.linear(x.to(scale.dtype), w.to(scale.dtype) * scale)


@pytest.mark.parametrize("form", [scale_of_k, shifted, by_groups_of_k, in_float32])
def test_others_stay(form, fresh, reports):
    x, (w, scale) = torch.randn(5, WIDTH).to(BF16), weights(INNER, WIDTH, INT8)

    def layer(x, w, scale):
        return F.relu(form(x, w, scale))

    assert_right(run(layer, x, w, scale), layer, x, w, scale)
    assert not any(declared(kernel, INT8) for kernel in reports[0].kernels)


def test_on_cpus_they_stay(fresh, own_reports, monkeypatch):
    monkeypatch.undo()
    x, (w, scale) = torch.randn(5, WIDTH).to(BF16), weights(INNER, WIDTH, INT8)

    def layer(x, w, scale):
        return F.relu(behind(x, w, scale))

    assert_right(run(layer, x, w, scale), layer, x, w, scale)
    assert not any(declared(kernel, INT8) for each in own_reports for kernel in each.kernels)
