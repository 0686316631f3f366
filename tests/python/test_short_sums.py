"""Sums of a few tensors that lie one behind the other: additions, and as exact as eager's."""

import pytest
import torch
from close import distance
from fx_capture import capture

from epifuse.torch import short_sums


def sums_left(function, x, device="cpu"):
    """How many sums are left; what the graph gives is right in any case."""
    module = capture(function, x, inductor=True)
    short_sums.add_short_sums(module.graph, device)
    module.graph.lint()
    module.recompile()
    got, eager = module(x), function(x)
    assert got.shape == eager.shape and got.dtype == eager.dtype
    exact = function(x.double())
    assert distance(got, exact) <= 1.1 * distance(eager, exact) + 1e-7
    return sum("sum" in str(node.target) for node in module.graph.nodes)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize(("shape", "dim"), [((5, 8, 64), 1), ((8, 96), 0), ((3, 12, 2, 64), -3),
                                            ((2, 16, 128), 1)])  # fmt: skip
def test_short_sums_are_additions(shape, dim, keepdim, dtype):
    torch.manual_seed(0)
    x = torch.randn(shape).to(dtype)
    assert sums_left(lambda x: x.sum(dim, keepdim=keepdim), x) == 0


@pytest.mark.parametrize(("shape", "dims"), [
    ((5, 7, 64), 1),  # Inductor's
    ((5, 17, 64), 1),
    ((5, 8), 1),
    ((5, 64, 8), 2),
    ((5, 8, 63), 1),
    ((8, 8, 64), (0, 1)),
])  # fmt: skip
def test_other_sums_stay(shape, dims):
    torch.manual_seed(0)
    assert sums_left(lambda x: x.sum(dims), torch.randn(shape)) == 1


def test_sums_on_cpus_stay():
    assert sums_left(lambda x: x.sum(1), torch.randn(5, 8, 64), "cuda") == 1


def test_results_in_another_dtype():
    x = torch.randn(5, 8, 64).bfloat16()
    assert sums_left(lambda x: x.sum(1, dtype=torch.float32 if x.dtype != torch.float64 else None),
                     x) == 0  # fmt: skip
