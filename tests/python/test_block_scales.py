"""8-bit floats with a scale for each block of 128 along K: PyTorch multiplies them on GPUs alone,
so results on the CPU are held to float64."""

import pytest
import torch
from fx_capture import capture
from torch import nn
from torch.nn import functional as F

import epifuse.torch
from epifuse.torch.importer import import_graph

M, N, K, BLOCK = 65, 256, 384, 128
E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
HAS_RECIPES = pytest.mark.skipif(not hasattr(F, "scaled_mm"), reason="this PyTorch has none")


def operands(second=E4M3):
    torch.manual_seed(0)
    x, w = torch.randn(M, K).to(E4M3), (torch.randn(N, K) / K**0.5).to(second)
    return x, w, torch.rand(K // BLOCK, M).t() + 0.5  # scales of rows lie along M


def scales_of_w(by_row):
    torch.manual_seed(1)
    if by_row:
        return torch.rand(K // BLOCK, N).t() + 0.5
    return torch.rand(N // BLOCK, K // BLOCK) + 0.5


def whole_scales(scales, rows, columns):
    """One for each element."""
    each = rows // scales.shape[0]
    return scales.repeat_interleave(each, 0).repeat_interleave(BLOCK, 1)[:, :columns].double()


def expected(x, w, sx, sw):
    return (x.double() * whole_scales(sx, M, K)) @ (w.double() * whole_scales(sw, N, K)).t()


def by_shapes(x, w, sx, sw, **how):
    return torch._scaled_mm(x, w.t(), sx, sw.t(), out_dtype=torch.bfloat16, **how)


def by_recipes(x, w, sx, sw):
    if sw.shape[0] == N:
        recipe = F.ScalingType.BlockWise1x128
    else:  # a column for 128 rows of w, whose length is a multiple of 4
        recipe, sw = F.ScalingType.BlockWise128x128, F.pad(sw, (0, -sw.shape[1] % 4)).t()
    return F.scaled_mm(x, w.t(), sx, F.ScalingType.BlockWise1x128, sw, recipe,
                       output_dtype=torch.bfloat16)  # fmt: skip


def compiled(function, *given):
    torch._dynamo.reset()
    report = epifuse.torch.explain(function, *given)
    assert len(report.kernels) == 1 and not report.left_out, report
    torch._dynamo.reset()
    return torch.compile(function, backend=epifuse.torch.backend)(*given)


def assert_near(got, wanted, ulps=1, least=1e-4):
    torch.testing.assert_close(got.double(), wanted, rtol=ulps * 2**-8, atol=least)


@pytest.mark.parametrize("by_row", [True, False])
@pytest.mark.parametrize("form", [by_shapes, pytest.param(by_recipes, marks=HAS_RECIPES)])
def test_blocks_are_multiplied_by_their_scales(form, by_row):
    x, w, sx = operands()
    sw = scales_of_w(by_row)

    def whole(x, w, sx, sw):
        return form(x, w, sx, sw).relu()

    assert_near(compiled(whole, x, w, sx, sw), expected(x, w, sx, sw).relu())


@pytest.mark.parametrize("by_row", [True, False])
def test_products_of_one_operand_are_one_kernel(reports, by_row):
    x, w, sx = operands()
    weights, sw = (w, w.flip(0)), scales_of_w(by_row)

    def whole(x, sx, weights, sw):
        return [by_shapes(x, w, sx, sw) for w in weights]

    torch._dynamo.reset()
    all_got = torch.compile(whole, backend=epifuse.torch.backend)(x, sx, weights, sw)
    for got, each in zip(all_got, weights, strict=True):
        assert_near(got, expected(x, each, sx, sw))
    name = "matmul_side_by_side" if by_row else "matmul_identity_side_by_side"  # one alone, too
    assert [kernel.name for each in reports for kernel in each.kernels] == [name]


def test_a_bias_and_an_activation_follow_in_the_kernel():
    x, w, sx = operands(E5M2)
    sw, bias = scales_of_w(False), torch.randn(N).bfloat16()

    def whole(x, w, sx, sw, bias):
        return F.silu(by_shapes(x, w, sx, sw, bias=bias))

    wanted = F.silu(expected(x, w, sx, sw) + bias.double())
    assert_near(compiled(whole, x, w, sx, sw, bias), wanted, 2, 1e-2)


def test_a_gate_of_two_halves_is_one_kernel():
    x, w, sx = operands()
    sw = scales_of_w(False)

    def whole(x, w, sx, sw):
        gate, up = by_shapes(x, w, sx, sw).chunk(2, -1)
        return F.silu(gate) * up

    gate, up = expected(x, w, sx, sw).chunk(2, -1)
    assert_near(compiled(whole, x, w, sx, sw), F.silu(gate) * up, 4, 1e-2)


def quantised(y):
    blocks = y.float().unflatten(-1, (-1, BLOCK))
    scale = (blocks.abs().amax(-1, keepdim=True) / 448).clamp(min=1e-12)
    return (blocks / scale).clamp(-448, 448).to(E4M3).flatten(-2), scale.squeeze(-1)


def test_a_result_that_is_quantised_leaves_no_product_behind():
    x, w, sx = operands()
    sw = scales_of_w(False)

    def whole(x, w, sx, sw):
        return quantised(F.silu(by_shapes(x, w, sx, sw)))

    wanted = F.silu(expected(x, w, sx, sw))
    q, scale = compiled(whole, x, w, sx, sw)
    assert_near(scale, quantised(wanted)[1].double(), 4)
    got = q.double() * scale.repeat_interleave(BLOCK, 1)
    assert (got - wanted).norm() / wanted.norm() < 0.03


def lying_along_rows(scale):
    """As PyTorch takes scales of 1 x 128."""
    return scale.t().contiguous().t()


class Fp8Linear(nn.Module):
    """What a layer of a fine-grained fp8 checkpoint computes, written out: it quantises its input
    by 1 x 128, and its weight has a scale for 128 x 128."""

    def __init__(self, columns, rows):
        super().__init__()
        blocks = torch.randn(rows // BLOCK, BLOCK, columns // BLOCK, BLOCK) / columns**0.5
        scale = blocks.abs().amax((1, 3), keepdim=True) / 448
        self.register_buffer("weight", (blocks / scale).to(E4M3).view(rows, columns))
        self.register_buffer("weight_scale_inv", scale.view(rows // BLOCK, columns // BLOCK))

    def forward(self, x):
        q, scale = quantised(x.reshape(-1, x.shape[-1]))
        y = self.multiply(q, self.weight, lying_along_rows(scale), self.weight_scale_inv)
        return y.to(x.dtype).reshape(*x.shape[:-1], -1)

    multiply = staticmethod(by_shapes)


class Mlp(nn.Module):
    def __init__(self, hidden, inner):
        super().__init__()
        self.gate, self.up = Fp8Linear(hidden, inner), Fp8Linear(hidden, inner)
        self.down = Fp8Linear(inner, hidden)

    def forward(self, x):
        return x + self.down(F.silu(self.gate(x)) * self.up(x))


def in_float64(x, w, sx, sw):
    rows, columns = x.shape[0], w.shape[0]
    return (x.double() * whole_scales(sx, rows, x.shape[1])) @ (
        w.double() * whole_scales(sw, columns, w.shape[1])).t()  # fmt: skip


def test_an_mlp_whose_layers_quantise_one_input_each_is_two_kernels(monkeypatch):
    torch.manual_seed(0)
    mlp, x = Mlp(256, 512), torch.randn(2, 20, 256).bfloat16()
    report = epifuse.torch.explain(mlp, x)
    up, down = report.kernels
    assert len(up.products) == 2 and "swiglu+abs+block_max" in up.epilogue
    assert down.epilogue == "residual" and report.on_hopper.kernels == 2
    torch._dynamo.reset()
    got = torch.compile(mlp, backend=epifuse.torch.backend)(x)
    monkeypatch.setattr(Fp8Linear, "multiply", staticmethod(in_float64))
    wanted = mlp(x)
    assert (got.double() - wanted.double()).norm() / wanted.double().norm() < 0.02


def test_copies_that_are_results_stay_two():
    def whole(x, w):
        y = torch.relu(x @ w)
        return y, x.clone().t(), x.clone().unflatten(0, (5, 13))

    given = torch.randn(M, K), torch.randn(K, N)
    torch._dynamo.reset()
    results = torch.compile(whole, backend=epifuse.torch.backend)(*given)
    assert len({y.untyped_storage().data_ptr() for y in results}) == 3


def test_scales_of_another_number_of_blocks_are_refused():
    x, w, sx = operands()

    def whole(x, w, sx, sw):
        return by_shapes(x, w, sx, sw).relu()

    graph = capture(whole, x, w, sx, scales_of_w(False)).graph
    product = next(node for node in graph.nodes if "_scaled_mm" in str(node.target))
    sizes = product.args[2].meta
    sizes["val"] = sizes["val"][:, :-1]
    refused = import_graph(graph).refused
    assert [each.code for each in refused] == ["scaled_mm"]
