"""Sums of the rows of what kernels read: in the text of their graph, and equal to eager's."""

import pytest
import torch
from close import distance, in_float64
from fx_capture import compare
from torch import nn
from torch.nn import functional as F

import epifuse.torch

R3 = torch.arange(60).view(2, 3, 10).remainder(7).bfloat16()
X, W, R = (torch.arange(n).remainder(5).bfloat16() for n in (48, 80, 60))
X, W, R = X.view(6, 8), W.view(8, 10), R.view(6, 10)

SUMMED = {
    "a residual": (lambda x, w, r: (x @ w + r, r.sum(0)), X, W, R),
    "before it is read": (lambda x, w, r: (r.sum(0, keepdim=True), x @ w + r), X, W, R),
    "of sequences": (lambda x, w, r: ((x @ w).view(2, 3, 10) + r, r.sum((0, 1))), X, W, R3),
    "a view of it": (lambda x, w, r: ((x @ w).view(2, 3, 10) + r, r.view(6, 10).sum(0)), X, W, R3),
    "an operand": (lambda x, w: (x @ w, x.sum(0)), X, W),
}
NOT_SUMMED = {
    "of fewer rows": (lambda x, w, r: (x @ w + r.view(6, 10), r.sum(0)), X, W, R3),
    "of other rows": (lambda x, w, r: (x @ w + r, r.view(10, 6).sum(0)), X, W, R),
    "of columns": (lambda x, w, r: (x @ w + r, r.sum(1)), X, W, R),
    "in another dtype": (lambda x, w, r: (x @ w + r, r.sum(0, dtype=torch.float32)), X, W, R),
    "of what no kernel reads": (lambda x, w, r: (x @ w, r.sum(0)), X, W, R),
    "which the text reads": (lambda x, w, r: x @ w + r + r.sum(0), X, W, R),
}


@pytest.mark.parametrize("case", SUMMED.values(), ids=SUMMED.keys())
def test_sums_come_into_the_text(case):
    function, *args = case
    assert compare(function, *args).text.count("= col_sum") == 1


@pytest.mark.parametrize("case", NOT_SUMMED.values(), ids=NOT_SUMMED.keys())
def test_other_sums_stay_outside(case):
    function, *args = case
    assert "col_sum" not in compare(function, *args).text


class Layers(nn.Module):
    """A norm between two products with biases: the first one's bias is summed with the residual."""

    def __init__(self, width, inner):
        super().__init__()
        self.first, self.norm = nn.Linear(width, width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x):
        x = self.norm(x + self.first(x))
        return x + self.down(F.gelu(self.up(x)))


@pytest.mark.usefixtures("fresh")
def test_a_bias_behind_a_norm_is_summed_where_its_gradient_is_read(own_reports):
    torch.manual_seed(0)
    model, x = Layers(64, 128), torch.randn(96, 64, requires_grad=True)
    run = torch.compile(model, backend=epifuse.torch.backend,
                        options={"epifuse.only_faster": False})  # fmt: skip
    gradients, wide = [], in_float64(model)
    for each, its in ((run, model), (model, model), (wide, wide)):
        its.zero_grad()
        each(x.to(next(its.parameters()).dtype)).square().mean().backward()
        gradients.append([p.grad.clone() for p in its.parameters()])
    assert "residual+col_sum" in [kernel.epilogue for report in own_reports
                                  for kernel in report.kernels]
    for ours, eager, exact in zip(*gradients):
        assert distance(ours, exact) <= 1.5 * distance(eager, exact) + 1e-6
