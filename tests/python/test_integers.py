"""Products of int8, whose sums are exact: with scales they are one kernel, others stay."""

import pytest
import torch
from fx_capture import capture
from torch.nn import functional as F

import epifuse.torch
from epifuse.torch.importer import import_graph
from epifuse.torch.integers import MOST_PRODUCTS, as_floats, put_back

M, N = 33, 40
CONVERT = torch.ops.prims.convert_element_type.default


def operands(depth, columns=N):
    """Numbers that are not zero on average, so that long sums leave the 24 bits of float32."""
    torch.manual_seed(0)
    x = (torch.randn(M, depth) * 48 + 32).round().clamp(-128, 127).to(torch.int8)
    w = (torch.randn(columns, depth) * 48 + 32).round().clamp(-128, 127).to(torch.int8)
    return x, w, torch.rand(M, 1), torch.rand(columns)


def exact(x, w):
    """The sums in float64, which holds them all."""
    return x.double() @ w.double().t()


def compiled(function, *given):
    torch._dynamo.reset()
    report = epifuse.torch.explain(function, *given)
    assert len(report.kernels) == 1 and not report.left_out
    torch._dynamo.reset()
    return torch.compile(function, backend=epifuse.torch.backend)(*given)


@pytest.mark.parametrize("depth", [8, 1000, 20000])
def test_sums_are_rounded_once(depth):
    """A scale of 1 leaves what the sum became: the nearest float32 of the integer."""

    def whole(x, w, sx, sw):
        return torch._int_mm(x, w.t()).float() * sx * sw

    x, w, sx, sw = operands(depth)
    y = compiled(whole, x, w, torch.ones_like(sx), torch.ones_like(sw))
    sums = exact(x, w)
    assert depth < 20000 or sums.abs().max() > 2**24
    assert torch.equal(y, sums.float())


def test_an_epilogue_behind_the_scales():
    def whole(x, w, sx, sw, bias, residual):
        y = (torch._int_mm(x, w.t()).to(torch.float32) * sx * sw).to(torch.bfloat16)
        return F.silu(y + bias) + residual

    x, w, sx, sw = operands(264)
    scale = 2**-16
    bias, residual = torch.randn(N).bfloat16(), torch.randn(M, N).bfloat16()
    y = compiled(whole, x, w, sx * scale, sw, bias, residual)
    expected = exact(x, w) * sx * scale * sw
    expected = F.silu(expected + bias.double()) + residual.double()
    torch.testing.assert_close(y.double(), expected, rtol=2**-6, atol=2**-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_integers_times_scales(dtype):
    """As torchao multiplies: the integer becomes a float of the dtype of the scales."""

    def whole(x, w, sx, sw):
        return torch._int_mm(x, w.t()) * sx.expand(M, N) * sw

    x, w, sx, sw = operands(96)
    given = (x, w, sx.to(dtype), sw.to(dtype))
    y = compiled(whole, *given)
    assert y.dtype == dtype
    expected = exact(x, w) * given[2].double() * given[3].double()
    step = 2**-6 if dtype == torch.bfloat16 else 2**-21
    torch.testing.assert_close(y.double(), expected, rtol=step, atol=0)


class Scaled(torch.nn.Module):
    """A layer whose weights have a size along K that is known."""

    def __init__(self, w, sw):
        super().__init__()
        self.register_buffer("w", w)
        self.register_buffer("sw", sw)

    def forward(self, x, sx):
        return torch._int_mm(x, self.w.t()).float() * sx * self.sw


def test_rows_may_be_a_symbol():
    x, w, sx, sw = operands(64)
    layer = Scaled(w, sw)
    torch._dynamo.mark_dynamic(x, 0)
    torch._dynamo.mark_dynamic(sx, 0)
    torch._dynamo.reset()
    report = epifuse.torch.explain(layer, x, sx)
    assert len(report.kernels) == 1 and not report.left_out
    assert report.kernels[0].products[0].node == report.kernels[0].nodes[0] == "_int_mm"
    assert "x0: i8[d0, 64]" in report.kernels[0].graph
    torch._dynamo.reset()
    fast = torch.compile(layer, backend=epifuse.torch.backend)
    for rows in (M, 20, 30):
        expected = (exact(x, w) * sx.double() * sw.double())[:rows]
        y = fast(x[:rows], sx[:rows])
        torch.testing.assert_close(y.double(), expected, rtol=2**-21, atol=0)


def test_a_gate_of_two_products():
    def whole(x, w, v, sx, sw):
        gate = torch._int_mm(x, w.t()).float() * sx * sw
        up = torch._int_mm(x, v.t()).float() * sx * sw
        return (F.silu(gate) * up).bfloat16()

    x, w, sx, sw = operands(128)
    v = w.flip(0).contiguous()
    sx = sx * 2**-14
    y = compiled(whole, x, w, v, sx, sw)
    scaled = [exact(x, each) * sx.double() * sw.double() for each in (w, v)]
    torch.testing.assert_close(y.double(), F.silu(scaled[0]) * scaled[1], rtol=2**-8, atol=1e-6)


def left(function, *given):
    """The graph behind the two passes, and the codes of what stays."""
    graph = capture(function, *given, inductor=True).graph
    products = as_floats(graph)
    refused = [each.code for each in import_graph(graph).refused]
    put_back(graph, products)
    graph.lint()
    return graph, refused


def test_integers_that_are_results_stay():
    graph, refused = left(lambda x, w: torch._int_mm(x, w.t()), *operands(16)[:2])
    assert refused == ["int_mm"]
    assert "aten._int_mm.default" in [str(node.target) for node in graph.nodes]


def test_integers_that_are_added_to_stay():
    def whole(x, w, sx):
        return (torch._int_mm(x, w.t()) + 1) * sx

    assert "int_mm" in left(whole, *operands(16)[:3])[1]


def test_sums_that_may_leave_32_bits_stay():
    def whole(x, w, sx):
        return torch._int_mm(x, w.t()) * sx

    assert left(whole, *operands(MOST_PRODUCTS, 8)[:3])[1] == []
    assert "int_mm" in left(whole, *operands(MOST_PRODUCTS + 1, 8)[:3])[1]


def test_what_is_not_fused_is_as_it_was():
    """Each reader reads integers again, converted as before."""

    def whole(x, w, sx, sw):
        sums = torch._int_mm(x, w.t())
        return sums.bfloat16() * sx.bfloat16(), sums.float() + sw, sums * sx.bfloat16()

    given = operands(24)
    before = capture(whole, *given, inductor=True)
    expected = torch.fx.Interpreter(before).run(*given)
    graph, _ = left(whole, *given)
    module = torch.fx.GraphModule(before, graph)
    targets = [str(node.target) for node in graph.nodes]
    assert "aten.mm.dtype" not in targets and targets.count("aten._int_mm.default") == 1
    for y, known in zip(module(*given), expected, strict=True):
        assert y.dtype == known.dtype and torch.equal(y, known)


def test_the_cpu_keeps_pytorchs_own_product_where_speed_counts():
    def whole(x, w, sx):
        return (torch._int_mm(x, w.t()) * sx).relu()

    report = epifuse.torch.explain(whole, *operands(64)[:3], only_faster=True)
    assert not report.kernels
    assert {each.code for each in report.left_out} == {"framework_is_faster"}
