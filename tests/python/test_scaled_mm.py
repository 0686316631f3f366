"""8-bit floats with scales: each form computes what eager PyTorch does, in one kernel."""

import pytest
import torch
from fx_capture import capture, compare
from torch.nn import functional as F

import epifuse.torch
from epifuse import _native
from epifuse.torch.importer import import_graph

M, N, K = 65, 48, 64
E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


def operands(first=E4M3, second=E4M3):
    torch.manual_seed(0)
    return torch.randn(M, K).to(first), torch.randn(N, K).to(second)


def scales(rows):
    torch.manual_seed(1)
    return (torch.rand(M, 1), torch.rand(1, N)) if rows else (torch.rand(()), torch.rand(1))


def product(x, w, sx, sw, bias=None, **how):
    how = {"out_dtype": torch.bfloat16, **how}
    return torch._scaled_mm(x, w.t(), sx, sw, bias=bias, **how)


def by_recipe(x, w, sx, sw, recipe):
    return F.scaled_mm(x, w.t(), sx, recipe, sw, recipe, output_dtype=torch.bfloat16)


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("rows", [True, False])
@pytest.mark.parametrize("formats", [(E4M3, E4M3), (E4M3, E5M2)])
def test_scales_are_multiplied_on_the_sum(formats, rows, fast):
    def whole(x, w, sx, sw):
        return F.silu(product(x, w, sx, sw, use_fast_accum=fast))

    imported = compare(whole, *operands(*formats), *scales(rows), wide=False, tolerance=4)
    assert (" promoted" in imported.text) is not fast
    assert imported.text.count(" = mul ") == 2


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_bias_is_added_before_the_result_is_rounded(dtype):
    def whole(x, w, sx, sw, bias):
        return product(x, w, sx, sw, bias, out_dtype=dtype).relu()

    compare(whole, *operands(), *scales(False), torch.randn(N).bfloat16(), wide=False, tolerance=4)


@pytest.mark.skipif(not hasattr(F, "scaled_mm"), reason="this PyTorch has no scaled_mm")
@pytest.mark.parametrize("rows", [True, False])
def test_scaled_mm_by_recipes(rows):
    recipe = F.ScalingType.RowWise if rows else F.ScalingType.TensorWise

    def whole(x, w, sx, sw):
        return by_recipe(x, w, sx, sw, recipe).relu()

    compare(whole, *operands(), *scales(rows), wide=False, tolerance=4)


def test_sizes_may_be_symbols():
    def whole(x, w, sx, sw):
        return F.silu(product(x, w, sx, sw))

    x, w = operands()
    sx, sw = scales(True)
    fewer = (x[:17], w, sx[:17], sw)
    compare(whole, x, w, sx, sw, dynamic=True, wide=False, tolerance=4, runs=[fewer])


@pytest.mark.parametrize(("code", "how"), [
    ("option", lambda sx: {"scale_result": sx}),
    ("dtype", lambda sx: {"out_dtype": E4M3}),
])  # fmt: skip
def test_what_the_language_does_not_say_is_refused(code, how):
    def whole(x, w, sx, sw):
        return product(x, w, sx, sw, **how(sx)).float()

    imported = import_graph(capture(whole, *operands(), *scales(False)).graph)
    assert [refused.code for refused in imported.refused] == [code]


def swiglu(x, w, v, sx, sw, sv):
    """A gate whose result is quantised by a static scale."""
    hidden = F.silu(product(x, w, sx, sw)) * product(x, v, sx, sv)
    return (hidden.float() * 0.5).clamp(-448, 448).to(E4M3)


def test_a_gate_and_its_quantisation_are_one_kernel():
    x, w = operands()
    sx, sw = scales(True)
    v, sv = w.flip(0).contiguous(), sw.flip(1).contiguous()
    given = (x, w, v, sx, sw, sv)
    report = epifuse.torch.explain(swiglu, *given)
    assert len(report.kernels) == 1 and not report.left_out
    torch._dynamo.reset()
    got = torch.compile(swiglu, backend=epifuse.torch.backend)(*given)
    expected = swiglu(*given)
    assert got.dtype == E4M3
    # The kernel keeps float32 where eager rounds to bf16: results may be a step of e4m3 apart.
    difference = (got.float() - expected.float()).abs()
    assert (difference <= expected.float().abs() / 8 + 2**-9).all()
    assert (difference == 0).float().mean() > 0.9


def test_what_hopper_leaves_is_named_by_a_part_of_it(monkeypatch):
    fusions = _native.fusions

    def none_on_gpus(text, request):
        if request["target"] == "cpu":
            return fusions(text, request)
        left = {"value": "_scaled_mm_product", "code": "shared_memory", "why": "It does not fit."}
        return {"kernels": [], "left_out": [left]}

    monkeypatch.setattr(_native, "fusions", none_on_gpus)
    given = *operands(), *scales(True)
    report = epifuse.torch.explain(lambda *given: product(*given).relu(), *given)
    assert report.on_hopper.products_left == {"shared_memory": 1}


@pytest.mark.parametrize("fast", [True, False])
def test_groups_of_rows_have_scales_of_their_own(fast):
    def whole(x, w, sx, sw, ends):
        y = torch._scaled_grouped_mm(x, w.transpose(-2, -1), sx, sw, offs=ends,
                                     out_dtype=torch.bfloat16, use_fast_accum=fast)  # fmt: skip
        return F.silu(y)

    torch.manual_seed(0)
    x, w = torch.randn(M, K).to(E4M3), torch.randn(3, N, K).to(E4M3)
    sx, sw, ends = torch.rand(M), torch.rand(3, N), torch.tensor([16, 16, M], dtype=torch.int32)
    torch._dynamo.reset()  # no CPU has such a product: only the kernel can run
    y = torch.compile(whole, backend=epifuse.torch.backend)(x, w, sx, sw, ends)
    groups = torch.tensor([0] * 16 + [2] * (M - 16))
    sums = torch.einsum("mk,mnk->mn", x.double(), w[groups].double())
    expected = F.silu((sums * sx[:, None] * sw[groups]).bfloat16().double())
    torch.testing.assert_close(y.double(), expected, rtol=2**-7, atol=1e-6)
