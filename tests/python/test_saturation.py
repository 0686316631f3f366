"""Bounds before casts to e4m3: gone where the cast keeps them, there where it does not."""

import pytest
import torch
from fx_capture import capture

from epifuse.torch import saturation

E4M3, LARGEST = torch.float8_e4m3fn, 448.0


def bounds_left(function, x, saturates=True, inductor=True):
    """How many bounds are left; what casts of values within them give is the same in any case."""
    module = capture(function, x, inductor=inductor)
    before = function(x)
    saturation.without_bounds_of_casts(module.graph, lambda device: saturates)
    module.graph.lint()
    module.recompile()
    assert torch.equal(module(x).view(torch.uint8), before.view(torch.uint8))
    return sum("clamp" in str(node.target) or "hardtanh" in str(node.target)
               for node in module.graph.nodes)  # fmt: skip


def within(x, low, high):
    return x.clamp(low, high).to(E4M3)


VALUES = torch.tensor([0.0, -0.0, 0.3, -2.0**-9, 447.0, -448.0, float("nan")])


@pytest.mark.parametrize("inductor", [False, True])
@pytest.mark.parametrize("function", [
    lambda x: within(x, -LARGEST, LARGEST),
    lambda x: within(x, -500, 1e30),
    lambda x: within(x, None, LARGEST),
    lambda x: within(x, -LARGEST, None),
    lambda x: x.clamp_min(-LARGEST).clamp_max(LARGEST).to(E4M3),
    lambda x: torch.nn.functional.hardtanh(x, -LARGEST, LARGEST).to(E4M3),
    lambda x: within(x.bfloat16().float(), -LARGEST, LARGEST),
])  # fmt: skip
def test_bounds_that_casts_keep_are_dropped(function, inductor):
    assert bounds_left(function, VALUES, inductor=inductor) == 0


@pytest.mark.parametrize("function", [
    lambda x: within(x, -LARGEST, 240.0),
    lambda x: within(x, 0.0, LARGEST),
    lambda x: within(x.bfloat16(), -LARGEST, LARGEST),  # what Inductor rounds to is its own affair
    lambda x: x.clamp(-LARGEST, LARGEST).to(torch.float8_e5m2).view(torch.uint8),
    lambda x: x.clamp(-LARGEST, LARGEST).bfloat16().to(E4M3),
    lambda x: torch.clamp(x, x - 1, x + 1).to(E4M3),
])  # fmt: skip
def test_other_bounds_stay(function):
    assert bounds_left(function, VALUES, inductor=False) == 1


def test_bounds_stay_where_casts_do_not_saturate():
    assert bounds_left(lambda x: within(x, -LARGEST, LARGEST), VALUES, saturates=False) == 2


def test_what_others_read_stays():
    def function(x):
        bounded = x.clamp(-LARGEST, LARGEST)
        return bounded.to(E4M3), bounded

    x = VALUES * 3
    module = capture(function, x, inductor=True)
    saturation.without_bounds_of_casts(module.graph, lambda device: True)
    module.recompile()
    torch.testing.assert_close(module(x)[1], function(x)[1], rtol=0, atol=0, equal_nan=True)
    (cast,) = (node for node in module.graph.nodes if "convert" in str(node.target))
    assert cast.args[0].op == "placeholder"


def test_cpus_do_not_saturate():
    assert not saturation.triton_saturates(torch.device("cpu"))
