"""Results in 8 bits with a scale for each block of 128 rows and columns."""

import pytest
import torch
from torch.nn import functional as F

import epifuse.torch

E4M3 = torch.float8_e4m3fn
ROWS, COLUMNS, HIDDEN = 256, 384, 256


def scale_of(magnitude):
    return (magnitude / 448).clamp(min=1e-12)


def by_view(x):
    """Maxima keep their dims."""
    m, n = x.shape
    blocks = x.float().view(m // 128, 128, n // 128, 128)
    scale = scale_of(blocks.abs().amax(dim=(1, 3), keepdim=True))
    q = (blocks / scale).clamp(-448, 448).to(E4M3)
    return q.view(m, n), scale.view(m // 128, n // 128)


def by_unflatten(x):
    """They lose them; nothing bounds what is at most 448."""
    blocks = x.float().unflatten(0, (-1, 128)).unflatten(-1, (-1, 128))
    scale = scale_of(blocks.abs().amax((3, 1)))
    q = (blocks / scale[:, None, :, None]).to(E4M3)
    return q.flatten(2).flatten(0, 1), scale


def by_steps(x):
    """Of columns first, then of rows."""
    m, n = x.shape
    blocks = x.float().view(m // 128, 128, n // 128, 128)
    scale = scale_of(blocks.abs().amax(3).amax(1))
    q = (blocks / scale.view(m // 128, 1, n // 128, 1)).clamp(-448, 448).to(E4M3)
    return q.view(m, n), scale


def padded(size):
    return (size + 127) // 128 * 128


def per_block_cast_to_fp8(x, powers=False):
    """DeepGEMM's, which pads."""
    m, n = x.shape
    whole = torch.zeros((padded(m), padded(n)), dtype=x.dtype, device=x.device)
    whole[:m, :n] = x
    view = whole.view(-1, 128, whole.size(1) // 128, 128)
    scale = view.abs().float().amax(dim=(1, 3), keepdim=True).clamp(1e-4) / 448.0
    if powers:
        scale = torch.pow(2.0, torch.ceil(torch.log2(scale.abs())))
    q = (view * (1.0 / scale)).to(E4M3)
    return q.view_as(whole)[:m, :n].contiguous(), scale.view(view.size(0), view.size(2))


WAYS = {
    "view": by_view,
    "unflatten": by_unflatten,
    "steps": by_steps,
    "deepgemm": per_block_cast_to_fp8,
    "powers": lambda x: per_block_cast_to_fp8(x, powers=True),
}


def compiled(model, *given):
    torch._dynamo.reset()
    return torch.compile(model, backend=epifuse.torch.backend)(*given)


def spread(scale):
    return scale.repeat_interleave(128, 0).repeat_interleave(128, 1)


def assert_scaled(got, expected):
    """Elements times scales agree to a step of 8 bits: kernels keep float32 where eager rounds."""
    (q, s), (eq, es) = got, expected
    assert q.dtype == eq.dtype and q.shape == eq.shape and s.shape == es.shape
    assert torch.allclose(s, es, rtol=2**-7, atol=1e-9)
    got, wanted = q.float() * spread(s), eq.float() * spread(es)
    error = (got - wanted).abs()
    assert (error <= wanted.abs() / 8 * 1.125 + es.max() * 2**-6).all()
    assert (error <= wanted.abs() / 32 + es.max() * 2**-9).float().mean() > 0.9


def operands():
    torch.manual_seed(0)
    x = torch.randn(ROWS, HIDDEN).bfloat16()
    w = torch.randn(COLUMNS, HIDDEN).bfloat16()
    x[:128], w[:128] = x[:128] / 16, w[:128] * 16  # so that blocks have scales of their own
    return x, w


@pytest.mark.parametrize("way", WAYS)
def test_squares_are_one_kernel(way):
    x, w = operands()

    def whole(x, w):
        return WAYS[way](F.silu(x @ w.t()))

    report = epifuse.torch.explain(whole, x, w, only_faster=False)
    assert len(report.kernels) == 1 and not report.left_out
    assert "block_max" in report.kernels[0].epilogue and len(report.kernels[0].outputs) == 2
    assert report.on_hopper.kernels == 1 and not report.on_hopper.products_left
    assert_scaled(compiled(whole, x, w), whole(x, w))


def test_squares_of_a_gradient_of_weights():
    x, w = operands()
    dy = torch.randn(ROWS, COLUMNS).bfloat16()

    def whole(dy, x):
        return by_view(dy.t() @ x)

    report = epifuse.torch.explain(whole, dy, x, only_faster=False)
    assert len(report.kernels) == 1 and not report.left_out
    assert_scaled(compiled(whole, dy, x), whole(dy, x))


def test_squares_of_zeros_and_of_nan():
    def whole(x, w):
        return by_view(F.relu(x @ w.t()))

    x, w = torch.ones(ROWS, 64), torch.zeros(COLUMNS, 64)
    w[128:256] = -1
    x[140, 0] = torch.nan
    w[:128] = 2
    q, s = compiled(whole, x, w)
    eq, es = whole(x, w)
    assert torch.equal(s, es) is False and torch.equal(s.isnan(), es.isnan())
    assert torch.equal(q.float().isnan(), eq.float().isnan()) and s[1].isnan().all()
    assert torch.allclose(s[0], es[0]) and not q[:128, 128:].float().any()


@pytest.mark.parametrize(("rows", "columns"), [(200, 384), (256, 200)])
def test_what_must_be_padded_is_left_to_the_framework(rows, columns):
    torch.manual_seed(0)
    x, w = torch.randn(rows, HIDDEN).bfloat16(), torch.randn(columns, HIDDEN).bfloat16()

    def whole(x, w):
        return per_block_cast_to_fp8(F.silu(x @ w.t()))

    report = epifuse.torch.explain(whole, x, w, only_faster=False)
    assert all("block_max" not in kernel.epilogue for kernel in report.kernels)
    got, expected = compiled(whole, x, w), whole(x, w)
    assert torch.allclose(got[1], expected[1], rtol=2**-7)


def test_a_kernel_without_squares_has_the_rest():
    """Hopper's kernels read no full tensor beside maxima of squares; the CPU's do."""
    x, w = operands()
    residual, bias = torch.randn(ROWS, COLUMNS).bfloat16(), torch.randn(COLUMNS).bfloat16()

    def whole(x, w, residual):
        return by_view(F.linear(x, w, bias) + residual)

    report = epifuse.torch.explain(whole, x, w, residual, only_faster=False)
    assert "block_max" in report.kernels[0].epilogue
    assert report.on_hopper.kernels == 1 and not report.on_hopper.products_left
    assert_scaled(compiled(whole, x, w, residual), whole(x, w, residual))
