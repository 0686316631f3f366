"""Results in 8 bits with scales of their own, and the MLP of a Llama whose products are in fp8."""

import pytest
import torch
from close import distance
from fx_capture import capture
from torch import nn
from torch.nn import functional as F

import epifuse.torch
from epifuse.torch import rewrite
from epifuse.torch.call import fused

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
ROWS, HIDDEN, INNER = 40, 256, 2048


def scale_of(magnitude, largest=448.0):
    return (magnitude / largest).clamp(min=1e-12)


def to_fp8(x, scale, dtype=E4M3):
    largest = torch.finfo(dtype).max
    return (x / scale).clamp(-largest, largest).to(dtype)


def by_row(x, dtype=E4M3):
    x = x.float()
    scale = scale_of(x.abs().amax(-1, keepdim=True), torch.finfo(dtype).max)
    return to_fp8(x, scale, dtype), scale


def by_tensor(x):
    x = x.float()
    scale = scale_of(x.abs().amax())
    return to_fp8(x, scale), scale


def by_block(x, dtype=E4M3):
    blocks = x.float().unflatten(-1, (-1, 128))
    scale = scale_of(blocks.abs().amax(-1, keepdim=True), torch.finfo(dtype).max)
    return to_fp8(blocks, scale, dtype).flatten(-2), scale.squeeze(-1)


def product(x, sx, w, sw):
    return torch._scaled_mm(x, w.t(), sx, sw, out_dtype=torch.bfloat16, use_fast_accum=True)


def weights(rows, columns):
    w, scale = by_row(torch.randn(rows, columns) / columns**0.5)
    return w, scale.t().contiguous()


def compiled(model, *given):
    torch._dynamo.reset()
    return torch.compile(model, backend=epifuse.torch.backend)(*given)


def assert_scaled(got, expected, columns_of_scale):
    """Elements times scales agree to a step of 8 bits: kernels keep float32 where eager rounds."""
    (q, s), (eq, es) = got, expected
    assert q.dtype == eq.dtype and q.shape == eq.shape and s.shape == es.shape
    assert torch.allclose(s, es, rtol=2**-7, atol=1e-9)
    whole = [a.float() * b.repeat_interleave(columns_of_scale, -1)
             for a, b in ((q, s), (eq, es))]  # fmt: skip
    step = 2.0 ** -(2 if q.dtype == E5M2 else 3)
    error = (whole[0] - whole[1]).abs()
    assert (error <= whole[1].abs() * step * 1.125 + es.max() * 2**-6).all()
    assert (error <= whole[1].abs() * step / 4 + es.max() * 2**-9).float().mean() > 0.9


@pytest.mark.parametrize("dtype", [E4M3, E5M2])
@pytest.mark.parametrize("bias", [True, False])
def test_blocks_of_a_linear_layer_are_one_kernel(dtype, bias):
    torch.manual_seed(0)
    layer = nn.Linear(HIDDEN, 384, bias=bias).bfloat16()
    x = torch.randn(3, ROWS, HIDDEN).bfloat16()

    def whole(x):
        return by_block(F.silu(layer(x)), dtype)

    with torch.no_grad():
        report = epifuse.torch.explain(whole, x, only_faster=False)
        assert len(report.kernels) == 1 and not report.left_out
        assert "block_max" in report.kernels[0].epilogue
        assert_scaled(compiled(whole, x), whole(x), 128)


def swiglu(q, s, gate, s_gate, up, s_up):
    return F.silu(product(q, s, gate, s_gate)) * product(q, s, up, s_up)


def test_blocks_of_a_gate_are_one_kernel():
    torch.manual_seed(0)
    given = (*by_row(torch.randn(ROWS, HIDDEN)), *weights(INNER, HIDDEN), *weights(INNER, HIDDEN))

    def whole(*given):
        return by_block(swiglu(*given))

    report = epifuse.torch.explain(whole, *given)
    assert len(report.kernels) == 1 and not report.left_out
    assert report.kernels[0].outputs == ("clamp_min", "convert_element_type_3")
    assert_scaled(compiled(whole, *given), whole(*given), 128)


def power_of_two(scale):
    """The next one above, as DeepGEMM and torchao have it."""
    return torch.exp2(torch.ceil(torch.log2(scale)))


def by_power_of_two(x):
    blocks = x.float().unflatten(-1, (-1, 128))
    scale = power_of_two(scale_of(blocks.abs().amax(-1, keepdim=True)))
    return to_fp8(blocks, scale).flatten(-2), scale.squeeze(-1)


def test_scales_of_blocks_may_be_powers_of_two():
    torch.manual_seed(0)
    x, w = torch.randn(ROWS, HIDDEN).bfloat16(), torch.randn(384, HIDDEN).bfloat16()
    w[:128] = 0

    def whole(x, w):
        return by_power_of_two(F.silu(x @ w.t()))

    report = epifuse.torch.explain(whole, x, w, only_faster=False)
    assert len(report.kernels) == 1 and not report.left_out
    assert report.on_hopper.kernels == 1
    (q, scale), (expected, expected_scale) = compiled(whole, x, w), whole(x, w)
    assert torch.equal(scale, torch.exp2(torch.log2(scale).round()))
    # A magnitude that eager rounds to the other side of a power has another scale.
    same = scale == expected_scale
    assert same.float().mean() > 0.98 and same[:, 0].all()
    assert torch.isfinite(scale).all() and not q[:, :128].float().any()
    pairs = [(a.float().view(ROWS, 3, 128)[same], b[same].unsqueeze(-1))
             for a, b in ((q, scale), (expected, expected_scale))]  # fmt: skip
    got, wanted = (a * b for a, b in pairs)
    assert ((got - wanted).abs() <= wanted.abs() / 8 + pairs[1][1] * 2**-9).all()


def by_block_dropped(x):
    """As DeepGEMM's `per_token_cast_to_fp8` has it, but for a clamp and the rounding of scales."""
    blocks = x.view(x.shape[0], -1, 128)
    magnitude = blocks.abs().float().amax(dim=2).view(x.shape[0], -1).clamp(1e-4)
    scale = magnitude / 448.0
    q = (blocks * (1.0 / scale.unsqueeze(2))).clamp(-448, 448).to(E4M3)
    return q.view_as(x).contiguous(), scale


@pytest.mark.parametrize("columns", [384, 128 * 128])
def test_maxima_of_blocks_may_drop_their_dim(columns):
    torch._dynamo.reset()  # else sizes are symbols
    torch.manual_seed(0)
    x, w = torch.randn(ROWS, HIDDEN).bfloat16(), torch.randn(columns, HIDDEN).bfloat16()

    def whole(x, w):
        return by_block_dropped(F.silu(x @ w.t()))

    report = epifuse.torch.explain(whole, x, w, only_faster=False)
    assert len(report.kernels) == 1 and not report.left_out
    assert "block_max" in report.kernels[0].epilogue
    assert_scaled(compiled(whole, x, w), whole(x, w), 128)


def test_maxima_of_rows_may_drop_their_dim():
    torch.manual_seed(0)
    given = (*by_row(torch.randn(ROWS, HIDDEN)), *weights(INNER, HIDDEN), *weights(INNER, HIDDEN))

    def whole(*given):
        y = swiglu(*given)
        scale = scale_of(y.float().abs().amax(1)).unsqueeze(1)
        return to_fp8(y.float(), scale), scale

    report = epifuse.torch.explain(whole, *given)
    assert len(report.kernels) == 1
    assert report.kernels[0].epilogue.endswith("abs+row_max")
    assert_scaled(compiled(whole, *given), whole(*given), INNER)


def test_a_maximum_of_all_elements_beside_those_of_rows():
    torch.manual_seed(0)
    x, w = torch.randn(ROWS, HIDDEN).bfloat16(), torch.randn(INNER, HIDDEN).bfloat16()

    def whole(x, w):
        y = x @ w.t()
        return y / y.abs().amax(), y / y.abs().amax(-1, keepdim=True)

    for ours, eager in zip(compiled(whole, x, w), whole(x, w), strict=True):
        assert distance(ours, eager) < 0.01


def test_a_maximum_of_what_is_computed_twice():
    """The second magnitude becomes the first one after its maximum is taken by rows."""
    x, w = torch.randn(ROWS, HIDDEN).bfloat16(), torch.randn(INNER, HIDDEN).bfloat16()

    def whole(x, w):
        return x.abs() @ w.t() + 1, x / x.abs().amax()

    module = capture(whole, x, w, inductor=True)
    options = {"numerics": "fast", "tf32": False, "tune": "off"}
    assert rewrite.fuse(module.graph, options, only_faster=False).kernels
    module.graph.lint()
    module.recompile()
    for ours, eager in zip(module(x, w), whole(x, w), strict=True):
        assert distance(ours, eager) < 0.01


@pytest.mark.parametrize("also", ["nothing", "result", "product"])
def test_blocks_of_what_a_full_tensor_multiplies(also):
    """On Hopper and here; planning for it needs no GPU."""
    torch.manual_seed(0)
    state = {"w": torch.randn(384, HIDDEN).bfloat16(), "r": torch.randn(ROWS, 384).bfloat16()}
    x = torch.randn(ROWS, HIDDEN).bfloat16()

    def whole(state, x):
        product = x @ state["w"].t()
        y = F.silu(product) * state["r"]
        return {"nothing": (), "result": (y,), "product": (product,)}[also] + by_block(y)

    module = capture(whole, state, x, inductor=True)
    options = {"numerics": "fast", "tf32": False, "target": "cuda"}
    report = rewrite.fuse(module.graph, options, only_faster=False)
    assert len(report.kernels) == 1 and not report.left_out
    assert "block_max" in report.kernels[0].epilogue
    got, expected = compiled(whole, state, x), whole(state, x)
    assert_scaled(got[-2:], expected[-2:], 128)
    for mine, eager in zip(got[:-2], expected[:-2], strict=True):
        torch.testing.assert_close(mine, eager, rtol=2**-6, atol=2**-6)


def test_blocks_of_zeros_and_of_nan():
    def whole(x, w):
        return by_block(F.relu(x @ w.t()))

    x = torch.ones(4, 64)
    w = torch.zeros(384, 64)
    w[128:256] = -1
    w[300] = torch.nan
    q, s = compiled(whole, x, w)
    eq, es = whole(x, w)
    assert torch.equal(s.isnan(), es.isnan()) and torch.equal(q.isnan(), eq.isnan())
    assert torch.isfinite(s[:, :2]).all() and not q[:, :256].float().any()


@pytest.mark.parametrize(("inner", "joins"), [(2048, True), (1024, False)])
def test_the_largest_magnitude_of_long_rows_joins_the_kernel(inner, joins):
    torch.manual_seed(0)
    given = (*by_row(torch.randn(ROWS, HIDDEN)), *weights(inner, HIDDEN), *weights(inner, HIDDEN))

    def whole(*given):
        return by_row(swiglu(*given))

    report = epifuse.torch.explain(whole, *given)
    assert len(report.kernels) == 1
    assert report.kernels[0].epilogue.endswith("abs+row_max") is joins
    codes = {left.code for left in report.left_out}
    assert "depends_on_later_step" in codes and ("stores_more" in codes) is not joins
    assert_scaled(compiled(whole, *given), whole(*given), inner)


LARGEST = {
    "amax": lambda y: y.float().abs().amax(),
    "max": lambda y: y.abs().max().float(),
    "dims": lambda y: y.float().abs().amax((0, -1), keepdim=True),
}


@pytest.mark.parametrize("nan", [False, True])
@pytest.mark.parametrize("spelled", LARGEST)
def test_the_largest_magnitude_of_a_tensor_joins_the_kernel_by_rows(spelled, nan):
    torch.manual_seed(0)
    given = (*by_row(torch.randn(ROWS, HIDDEN)), *weights(INNER, HIDDEN), *weights(INNER, HIDDEN))
    if nan:
        given[1][3] = torch.nan

    def whole(*given):
        y = swiglu(*given)
        scale = scale_of(LARGEST[spelled](y))
        return to_fp8(y.float(), scale), scale

    report = epifuse.torch.explain(whole, *given)
    assert len(report.kernels) == 1
    assert report.kernels[0].epilogue.endswith("abs+row_max")
    (got, scale), (expected, expected_scale) = compiled(whole, *given), whole(*given)
    assert got.shape == expected.shape and scale.shape == expected_scale.shape
    if nan:
        assert scale.isnan().all() and got.isnan().all() and expected.isnan().all()
    else:
        assert_scaled((got, scale.view(1, 1)), (expected, expected_scale.view(1, 1)), INNER)


@pytest.mark.parametrize("spelled", LARGEST)
def test_the_largest_magnitude_of_what_no_kernel_makes_stays_one_reduction(spelled):
    module = capture(LARGEST[spelled], torch.randn(ROWS, INNER).bfloat16())
    before = str(module.graph)
    rewrite.fuse(module.graph, {"numerics": "fast", "tf32": False}, only_faster=False)
    assert str(module.graph) == before


class Fp8Linear(nn.Module):
    """What torchao makes of a linear layer by Float8DynamicActivationFloat8WeightConfig, or by a
    scale of activations that is known: its graph, written out."""

    def __init__(self, columns, rows, quantise, static=None):
        super().__init__()
        weight, scale = quantise(torch.randn(rows, columns) / columns**0.5)
        self.register_buffer("weight", weight)
        self.register_buffer("scale", scale.t().contiguous() if scale.dim() else scale)
        self.quantise, self.static = quantise, static

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        if self.static is None:
            q, s = self.quantise(flat)
        else:
            q, s = to_fp8(flat.float(), self.static), self.static
        y = torch._scaled_mm(q, self.weight.t(), s, self.scale, out_dtype=torch.bfloat16,
                             use_fast_accum=True)  # fmt: skip
        return y.reshape(*x.shape[:-1], -1)


class Mlp(nn.Module):
    """Of a Llama."""

    def __init__(self, linear):
        super().__init__()
        self.gate, self.up = linear(HIDDEN, INNER), linear(HIDDEN, INNER)
        self.down = linear(INNER, HIDDEN)

    def forward(self, x):
        return x + self.down(F.silu(self.gate(x)) * self.up(x))


# What the kernel of gate and up has behind its gate, and how many results.
WAYS = {
    "row": (by_row, None, "abs+row_max", 2),
    "tensor": (by_tensor, None, "abs+row_max", 2),
    "static": (by_tensor, torch.tensor(0.01), "clamp", 1),
}


@pytest.mark.parametrize("way", WAYS)
def test_mlp_of_a_llama_in_fp8(way):
    quantise, static, last, num_outputs = WAYS[way]
    torch.manual_seed(0)
    mlp = Mlp(lambda columns, rows: Fp8Linear(columns, rows, quantise, static))
    x = torch.randn(2, ROWS, HIDDEN).bfloat16()
    report = epifuse.torch.explain(mlp, x)
    assert len(report.kernels) == 2 and not report.products_left
    up, down = report.kernels
    assert len(up.products) == 2 and up.epilogue.split("+output")[0].endswith(last)
    assert len(up.outputs) == num_outputs
    assert len(down.products) == 1 and down.epilogue.endswith("residual")
    with torch.no_grad():
        got, expected = compiled(mlp, x), mlp(x)
    error = (got.float() - expected.float()).norm() / expected.float().norm()
    assert error < 0.02


@pytest.mark.parametrize("way", ["row", "tensor"])
def test_hopper_stores_16_bits_and_a_maximum_of_each_row(way):
    """Planning needs no GPU."""
    mlp = Mlp(lambda columns, rows: Fp8Linear(columns, rows, WAYS[way][0]))
    module = capture(lambda state, x: torch.func.functional_call(mlp, state, x),
                     dict(mlp.named_buffers()), torch.randn(2, ROWS, HIDDEN).bfloat16(),
                     inductor=True)  # fmt: skip
    options = {"numerics": "fast", "tf32": False, "target": "cuda"}
    report = rewrite.fuse(module.graph, options, only_faster=True)
    assert len(report.kernels) == 2 and not report.products_left
    up, down = [node for node in module.graph.nodes if node.target is fused]
    assert [(y.dtype, *y.shape) for y in up.meta["val"]] == [
        (torch.bfloat16, 2 * ROWS, INNER), (torch.float32, 2 * ROWS, 1)]  # fmt: skip
    assert [(y.dtype, *y.shape) for y in down.meta["val"]] == [
        (torch.bfloat16, 2 * ROWS, HIDDEN)]  # fmt: skip
    assert {left.code for left in report.left_out} >= {"depends_on_later_step"}


@pytest.mark.parametrize("per_row", [True, False])
def test_torchao_models_are_fused(per_row, monkeypatch):
    quant_api = pytest.importorskip("torchao.quantization.quant_api")
    from torchao.quantization import Float8DynamicActivationFloat8WeightConfig as Config
    from torchao.quantization import PerRow, PerTensor, quantize_

    monkeypatch.setattr(quant_api, "_check_hardware_support", lambda granularity: None)
    torch.manual_seed(0)
    mlp = Mlp(lambda columns, rows: nn.Linear(columns, rows, bias=False)).bfloat16()
    quantize_(mlp, Config(granularity=PerRow() if per_row else PerTensor()))
    x = torch.randn(2, ROWS, HIDDEN).bfloat16()
    report = epifuse.torch.explain(mlp, x)
    assert len(report.kernels) == 2 and not report.products_left
    with torch.no_grad():
        got, expected = compiled(mlp, x), mlp(x)
    error = (got.float() - expected.float()).norm() / expected.float().norm()
    assert error < 0.02
