"""Weights of 8 bits on a GPU: kernels read them as they are stored. Skipped without one."""

import pytest
import torch
from test_narrow_weights import (
    BF16, E4M3, E5M2, F16, FORMS, INT8, assert_right, before, behind, declared,
    weights)  # fmt: skip
from torch.nn import functional as F

import epifuse.torch
from epifuse.torch.narrow_weights import MOST_ROWS

WIDTH, INNER = 1040, 784

pytestmark = [
    pytest.mark.usefixtures("fresh"),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"),
    pytest.mark.skipif(torch.cuda.is_available() and torch.cuda.get_device_capability() < (8, 9),
                       reason="Triton converts no 8-bit floats here"),
]


def given(rows, dtype, x_dtype=BF16, width=WIDTH):
    x = torch.randn(rows, width).to(x_dtype)
    return [each.cuda() for each in (x, *weights(INNER, width, dtype))]


@pytest.mark.parametrize("rows", [1, 5, 16, 17, 64, 300, 1025])
@pytest.mark.parametrize("form", [behind, before])
def test_rows(form, rows, own_reports):
    def layer(x, w, scale):
        return F.silu(form(x, w, scale))

    for dtype in (INT8, E4M3):
        torch._dynamo.reset()
        operands = given(rows, dtype)
        got = torch.compile(layer, backend=epifuse.torch.backend)(*operands)
        assert_right(got, layer, *operands)
        (kernel,) = own_reports[-1].kernels
        assert declared(kernel, dtype) == (rows <= MOST_ROWS)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("width", [1040, 1000, 129])
def test_forms(form, width, own_reports):
    """Also of weights whose rows do not begin at 16-byte boundaries."""
    for rows, dtype, x_dtype in ((3, E5M2, BF16), (40, INT8, F16)):
        torch._dynamo.reset()
        operands = given(rows, dtype, x_dtype, width)
        got = torch.compile(form, backend=epifuse.torch.backend)(*operands)
        assert_right(got, form, *operands)
        assert sum(declared(kernel, dtype) for kernel in own_reports[-1].kernels) == 1


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
@pytest.mark.parametrize("rows", [1, 16, 64])
def test_a_step_of_decoding(rows, mode):
    x, *first = given(rows, INT8)
    second, third = ([each.cuda() for each in weights(INNER, WIDTH, INT8, i)] for i in (1, 2))
    down = [each.cuda() for each in weights(WIDTH, INNER, INT8, 3)]

    def step(x, *of):
        heads = [behind(x, *of[i : i + 2]) for i in (0, 2, 4)]
        return behind(F.silu(heads[0]) * heads[1] + heads[2], *of[6:]) + x

    operands = x, *first, *second, *third, *down
    run = torch.compile(step, backend=epifuse.torch.backend, mode=mode)
    for _ in range(3):
        got = run(*operands)
    assert_right(got, step, *operands)
