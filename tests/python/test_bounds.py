"""Quotients that need no clamp before they become e4m3: those of values by their own magnitude."""

import pytest
import torch
from fx_capture import capture

import epifuse.torch
from epifuse.torch import rewrite
from epifuse.torch.importer import import_graph

E4M3 = torch.float8_e4m3fn
ROWS = 40


def compiled(function, *given):
    torch._dynamo.reset()
    return torch.compile(function, backend=epifuse.torch.backend)(*given)


def blocks_of(x):
    return x.view(x.shape[0], -1, 128)


def magnitudes_dropped(x):
    return blocks_of(x).abs().float().amax(dim=2).view(x.shape[0], -1).clamp(1e-4)


def by_block_of_deepgemm(x):
    """As its `per_token_cast_to_fp8` has it."""
    scale = torch.pow(2.0, torch.ceil(torch.log2((magnitudes_dropped(x) / 448.0).abs())))
    q = (blocks_of(x) * (1.0 / scale.unsqueeze(2))).to(E4M3)
    return q.view_as(x).contiguous(), scale


def by_number_over_magnitude(x):
    magnitude = magnitudes_dropped(x)
    q = (blocks_of(x) * (448.0 / magnitude.unsqueeze(2))).to(E4M3)
    return q.view_as(x), magnitude / 448.0


def by_values_of_max(x):
    magnitude = blocks_of(x).float().abs().max(dim=-1, keepdim=True).values
    scale = (magnitude / 448).clamp(min=1e-12)
    return (blocks_of(x).float() / scale).to(E4M3).view_as(x), scale.squeeze(-1)


BOUNDED = [by_block_of_deepgemm, by_number_over_magnitude, by_values_of_max]


@pytest.mark.parametrize("quantise", BOUNDED)
def test_what_its_own_magnitude_bounds_need_not_be_clamped(quantise):
    """The product is exact, so that all bits are those of eager PyTorch."""
    torch.manual_seed(0)
    x = torch.randn(ROWS, 384) * torch.exp2(torch.randint(-30, 30, (ROWS, 384)).float())
    x[0], x[1], x[2] = 0, -1e-12, 3e38
    x[3, 5] = torch.nan
    x[4] = torch.exp2(torch.linspace(-12, 12, 384)) * 448

    def whole(x, w):
        return quantise(x @ w)

    given = x.nan_to_num(7.0), torch.eye(384)
    torch._dynamo.reset()
    report = epifuse.torch.explain(whole, *given, only_faster=False)
    assert len(report.kernels) == 1 and not report.left_out
    assert "block_max" in report.kernels[0].epilogue
    assert "pow" not in report.kernels[0].epilogue
    for got, expected in zip(compiled(whole, *given), whole(*given)):
        assert torch.equal(got.view(torch.uint8), expected.view(torch.uint8))
    got, expected = compiled(whole, x, torch.eye(384)), whole(x, torch.eye(384))
    assert all(torch.equal(a.isnan(), b.isnan()) for a, b in zip(got, expected))


def test_maxima_whose_indices_are_read_stay():
    def whole(x, w):
        values, indices = (x @ w).max(-1)
        return values.relu(), indices

    module = capture(whole, torch.randn(ROWS, 64), torch.eye(64), inductor=True)
    rewrite.fuse(module.graph, {"numerics": "fast", "tf32": False}, only_faster=False)
    assert "aten.max.dim" in str(module.graph)


def magnitude_of(x):
    return blocks_of(x).abs().amax(-1, keepdim=True)


UNBOUNDED = {
    "another number": lambda x: blocks_of(x) / (magnitude_of(x) / 4480).clamp(min=1e-12),
    "no least scale": lambda x: blocks_of(x) / (magnitude_of(x) / 448),
    "no magnitude": lambda x: blocks_of(x) / (blocks_of(x).amax(-1, True) / 448).clamp(min=1e-12),
    "another value": lambda x: (blocks_of(x) + 1) / (magnitude_of(x) / 448).clamp(min=1e-12),
    "a largest scale": lambda x: blocks_of(x) / (magnitude_of(x) / 448).clamp(1e-12, 1e-3),
    "of columns": lambda x: x.view(ROWS, 128, 3) / magnitude_of(x).mT.clamp(min=1.0),
}


@pytest.mark.parametrize("which", UNBOUNDED)
def test_quotients_that_may_be_larger_stay(which):
    def whole(x, w):
        return UNBOUNDED[which](x @ w).to(E4M3)

    x = torch.randn(ROWS, 384)
    imported = import_graph(capture(whole, x, torch.eye(384)).graph)
    assert any("NaN above 448" in refused.why for refused in imported.refused)
