"""Maxima that a backward pass compares with what they are taken of: gradients beside eager's."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import epifuse.torch

ROWS, WIDTH, COLUMNS = 16, 512, 1024
INF = float("inf")
LEFT = "compared_in_backward"

pytestmark = pytest.mark.usefixtures("fresh")


def hidden(x, w, b):
    return F.gelu(F.linear(x, w, b))


REDUCTIONS = {
    "amax of rows": lambda h: h.amax(-1),
    "amax of columns": lambda h: h.amax(0, keepdim=True),
    "amax of all": lambda h: h.amax(),
    "max": torch.max,
    "amin": lambda h: (-h).amin(-1),
    "norm of rows": lambda h: h.norm(INF, -1),
    "norm": lambda h: h.norm(INF),
    "of a part": lambda h: h[:, :100].amax(-1),
    "of views": lambda h: (h.view(4, 4, COLUMNS) * 0.3 + 1).amax(1),
    "in float64": lambda h: h.double().amax(-1).float(),
}


def parameters():
    torch.manual_seed(0)
    shapes = (COLUMNS, WIDTH), (COLUMNS,), (256, COLUMNS)
    return torch.randn(ROWS, WIDTH), *(nn.Parameter(torch.randn(shape) / 32) for shape in shapes)


def gradients(function, numerics=None):
    """A step's loss and gradients: compiled where `numerics` are given."""
    x, *params = parameters()
    run = function
    if numerics is not None:
        torch._dynamo.reset()
        run = torch.compile(function, backend=epifuse.torch.backend,
                            options={"epifuse.numerics": numerics})  # fmt: skip
    out = run(x, *params)
    outs = out if isinstance(out, tuple) else (out,)
    loss = sum((each * torch.linspace(1, 2, each.numel()).view_as(each)).sum() for each in outs)
    loss.backward()
    return [loss.detach(), *(each.grad for each in params if each.grad is not None)]


def assert_as_eager(function, numerics="fast"):
    for mine, theirs in zip(gradients(function, numerics), gradients(function), strict=True):
        assert torch.linalg.vector_norm(mine - theirs) <= 1e-5 * torch.linalg.vector_norm(theirs)


@pytest.mark.parametrize("numerics", ["fast", "exact"])
@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("activation", [F.gelu, torch.tanh, F.silu])
def test_gradients_of_a_maximum(activation, name, numerics):
    def function(x, w, b, v):
        return REDUCTIONS[name](activation(F.linear(x, w, b)))

    assert_as_eager(function, numerics)


def beside_a_product(x, w, b, v):
    h = hidden(x, w, b)
    return h.amax(-1), F.linear(h, v)


def beside_itself(x, w, b, v):
    h = hidden(x, w, b)
    return h, h.amax(-1)


def of_one_recomputed(x, w, b, v):
    return checkpoint(hidden, x, w, b, use_reentrant=False).amax(-1)


def recomputed(x, w, b, v):
    return checkpoint(lambda x: hidden(hidden(x, w, b), v, None).amax(-1), x, use_reentrant=False)


def largest_alone(x, w, b, v):
    h = hidden(x, w, b)
    return h * (h == h.amax(-1, keepdim=True))


def largest_four(x, w, b, v):
    h = hidden(x, w, b)
    return h * (h >= h.topk(4, -1).values[:, -1:])


def added_to_a_gradient(x, w, b, v):
    h = hidden(x, w, b)
    return h.amax(-1), F.gelu(F.linear(h, v)).square()


@pytest.mark.parametrize("function", [beside_a_product, beside_itself, of_one_recomputed,
                                      recomputed, largest_alone, largest_four, added_to_a_gradient])
def test_gradients_of_programs_with_maxima(function):
    assert_as_eager(function)


def maximum(x, w, b, v):
    return hidden(x, w, b).amax(-1)


def test_explain_says_why():
    report = epifuse.torch.explain(maximum, *parameters())
    assert [kernel.name for kernel in report.kernels] == ["matmul_bias"]
    assert {each.code for each in report.left_out} == {LEFT}
    with torch.no_grad():
        report = epifuse.torch.explain(maximum, *parameters())
    assert [kernel.name for kernel in report.kernels] == ["matmul_bias_gelu_erf_row_max"]
    assert not report.left_out


def observed(x, w, b, v):
    h = hidden(x, w, b)
    return F.linear(h, v), h.detach().abs().amax(-1) / 127


def scaled(x, w, b, v):
    h = hidden(x, w, b)  # the gradient needs the maximum, and does not compare it
    return F.linear(h, v) / h.detach().abs().amax(-1, keepdim=True)


def stored(x, w, b, v):
    h = torch.tanh(F.linear(x, w, b))  # whose gradient reads it
    return h, h.amax(-1)


def above(x, w, b, v):
    h = hidden(x, w, b)
    return F.linear(h, v), h.detach().amax(-1) > b[0]  # of an input, no maximum that was saved


def running(x, w, b, v):
    h = hidden(x, w, b)
    largest = h.detach().amax(-1)
    return F.linear(h, v), torch.where(largest > b[0], largest, b[0])


@pytest.mark.parametrize("function", [observed, scaled, stored, above, running])
def test_other_maxima_are_the_kernels_in_training_too(function):
    report = epifuse.torch.explain(function, *parameters())
    assert any("row_max" in kernel.name for kernel in report.kernels)
    assert LEFT not in report.reasons()
    assert_as_eager(function)


def with_gradient(x, w, b, v):
    h = F.linear(x, w, b)
    largest = F.gelu(h).amax(-1)
    return h.square().sum(-1) * largest.detach() + largest


def without_gradient(x, w, b, v):
    h = F.linear(x, w, b)
    largest = F.gelu(h).amax(-1).detach()
    return h.square().sum(-1) * largest + largest


def test_forward_graphs_that_are_alike_are_not_mixed_up_by_caches():
    """Both compute and save the same. Only one is differentiated by way of the maximum."""
    for function in (without_gradient, with_gradient, without_gradient):
        assert_as_eager(function)
