"""Products that are padded, as Inductor does (pad_mm.py), are fused as if they were not."""

import pytest
import torch
from close import assert_no_further_than_eager
from test_backend import compiled
from torch import nn
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch.nn import functional as F

import epifuse.torch
from epifuse.torch.inductor import FusionPass

pytestmark = pytest.mark.usefixtures("fresh")

PADS = [(6, 0, 0), (0, 3, 0), (0, 0, 5), (6, 3, 5)]  # of m, k, n
M, K, N = 34, 61, 59


def behind(x, *pads):
    """Zeros behind the last columns and rows."""
    return F.pad(x, pads) if any(pads) else x


def cut(y, m, n):
    y = y[..., :-m, :] if m else y
    return y[..., :-n] if n else y


def padded_mm(x, w, m, k, n, product=torch.mm):
    return cut(product(behind(x, 0, k, 0, m), behind(w, 0, n, 0, k)), m, n)


def padded_addmm(b, x, w, m, k, n):
    if n:
        b = torch.cat([b, b.new_zeros(*b.shape[:-1], n)], dim=-1)
    if m and b.dim() == 2:
        b = torch.cat([b, b.new_zeros(m, b.shape[1])], dim=0)
    return cut(torch.addmm(b, behind(x, 0, k, 0, m), behind(w, 0, n, 0, k)), m, n)


class Layer(nn.Module):
    def __init__(self, pads, has_bias, activation=F.gelu):
        super().__init__()
        self.pads, self.activation = pads, activation
        self.w = nn.Parameter(torch.randn(K, N).bfloat16() / 8, requires_grad=False)
        self.b = nn.Parameter(torch.randn(N).bfloat16(), requires_grad=False) if has_bias else None

    def forward(self, x):
        if self.b is None:
            return self.activation(padded_mm(x, self.w, *self.pads))
        return self.activation(padded_addmm(self.b, x, self.w, *self.pads))


def tensors(*shapes):
    return [torch.randn(*shape).bfloat16() for shape in shapes]


def explained(model, *args):
    return [kernel.epilogue for kernel in epifuse.torch.explain(model, *args).kernels]


@pytest.mark.parametrize("pads", PADS)
@pytest.mark.parametrize("has_bias", [True, False])
def test_padded_layer_is_one_kernel(pads, has_bias):
    model, (x,) = Layer(pads, has_bias), tensors((M, K))
    assert explained(model, x) == ["bias+gelu_erf" if has_bias else "gelu_erf"]
    assert_no_further_than_eager(model, compiled(model), (x,))


def test_frozen_weights():
    model, (x,) = Layer((6, 3, 5), True), tensors((M, K))
    with torch.no_grad(), torch._inductor.config.patch(freezing=True):
        assert_no_further_than_eager(model, compiled(model), (x,))


def test_what_is_added_in_full():
    def run(x, w, r):
        return F.relu(padded_addmm(r, x, w, 6, 0, 5))

    args = tensors((M, K), (K, N), (M, N))
    assert explained(run, *args) == ["residual+relu"]
    torch.testing.assert_close(compiled(run)(*args), run(*args), rtol=2e-2, atol=2e-1)


def test_a_bias_of_parts_is_no_padded_one():
    def run(x, w, first, others):
        return F.relu(cut(torch.addmm(torch.cat([first, others]), x, F.pad(w, (0, 5))), 0, 5))

    args = tensors((M, K), (K, N), (1,), (N + 4,))
    torch.testing.assert_close(compiled(run)(*args), run(*args), rtol=2e-2, atol=2e-1)


def test_batches():
    def run(x, w):
        return F.silu(padded_mm(x, w, 6, 3, 5, torch.bmm))

    args = tensors((3, M, K), (3, K, N))
    assert explained(run, *args) == ["silu"]
    torch.testing.assert_close(compiled(run)(*args), run(*args), rtol=2e-2, atol=2e-1)


class Look(CustomGraphPass):
    """Our pass, and what it leaves padded."""

    def __init__(self):
        self.num_padded = None

    def __call__(self, graph):
        FusionPass({}, None)(graph)
        self.num_padded = sum("constant_pad_nd" in str(node.target) for node in graph.nodes)

    def uuid(self):
        return None


@pytest.mark.parametrize("pads", PADS)
def test_padding_stays_where_nothing_is_fused(pads):
    m, k, n = pads
    model, (x,) = Layer(pads, False, lambda h: torch.cumsum(h, 1)), tensors((M, K))
    report, look = epifuse.torch.explain(model, x), Look()
    assert not report.kernels
    with torch._inductor.config.patch(post_grad_custom_pre_pass=look):
        assert_no_further_than_eager(model, torch.compile(model), (x,))
    assert look.num_padded == bool(m or k) + bool(k or n)


def test_another_part_of_a_padded_product():
    def run(x, w):
        return F.gelu((F.pad(x, (0, 0, 0, 6)) @ w)[:20])

    args = tensors((M, K), (K, N))
    torch.testing.assert_close(compiled(run)(*args), run(*args), rtol=2e-2, atol=2e-1)


def test_pads_that_are_no_zeros():
    def run(x, w):
        return F.gelu(F.pad(x, (0, 3), value=1.0) @ F.pad(w, (0, 0, 0, 3), value=1.0))

    args = tensors((M, K), (K, N))
    torch.testing.assert_close(compiled(run)(*args), run(*args), rtol=2e-2, atol=2e-1)
