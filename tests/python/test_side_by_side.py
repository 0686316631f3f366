"""Products of one input in one kernel: found as for a Hopper GPU, run on the CPU."""

import pytest
import torch
from close import distance
from torch import nn
from torch.nn import functional as F

from epifuse.torch import inductor

pytestmark = pytest.mark.usefixtures("fresh")

WIDTH = 64


class Decoder(nn.Module):
    """Queries, keys and values of their own sizes, keys turned."""

    def __init__(self, bias):
        super().__init__()
        self.q = nn.Linear(WIDTH, 2 * WIDTH, bias)
        self.k, self.v = (nn.Linear(WIDTH, WIDTH, bias) for _ in range(2))
        self.o = nn.Linear(2 * WIDTH, WIDTH, bias=False)

    def forward(self, x):
        q, k, v = self.q(x), self.k(x), self.v(x)
        k = torch.cat((-k[..., WIDTH // 2:], k[..., :WIDTH // 2]), -1)
        heads = lambda y: y.unflatten(-1, (-1, WIDTH // 2)).transpose(1, 2)
        y = F.scaled_dot_product_attention(heads(q), heads(k), heads(v), enable_gqa=True)
        return x + self.o(y.transpose(1, 2).flatten(-2))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("rows", [1, 16, 17, 64, 65, 200])
def test_queries_keys_and_values(reports, rows, bias):
    model = Decoder(bias).bfloat16()
    x = torch.randn(rows, 1, WIDTH).bfloat16()
    with torch.no_grad():
        got = torch.compile(model, backend=inductor.backend)(x)
        assert distance(got, model(x)) <= 2**-7
    names = [kernel.name for report in reports for kernel in report.kernels]
    of_o = "matmul_residual" if rows > 1 else "matmul_bias"
    of_all = "matmul_bias_side_by_side" if bias else "matmul_side_by_side"
    assert sorted(names) == sorted([of_o, of_all])


@pytest.mark.parametrize("rows", [4, 40, 200])
def test_queries_keys_and_values_of_8_bits(reports, rows):
    """The scales of x are one tensor, which all three products read."""
    weights = [torch.randn(n, WIDTH).to(torch.float8_e4m3fn) for n in (2 * WIDTH, WIDTH, WIDTH)]
    scales = [torch.rand(1, len(w)) for w in weights]

    def whole(x):
        scale = x.abs().amax(-1, keepdim=True).float() / 448
        x = (x / scale).to(torch.float8_e4m3fn)
        return [torch._scaled_mm(x, w.t(), scale, s, out_dtype=torch.bfloat16, use_fast_accum=True)
                for w, s in zip(weights, scales)]

    x = torch.randn(rows, WIDTH).bfloat16()
    for got, expected in zip(torch.compile(whole, backend=inductor.backend)(x), whole(x)):
        assert distance(got, expected) <= 2**-7
    names = [kernel.name for report in reports for kernel in report.kernels]
    assert names == ["matmul_col_scale_row_scale_side_by_side"]


@pytest.mark.parametrize("made", ["by a kernel", "by PyTorch", "by itself"])
def test_products_that_wait_for_each_other_are_no_launch(reports, made):
    """The second one's weights are made of the first one's result."""
    w, m = (torch.randn(WIDTH, WIDTH).bfloat16() / 8 for _ in range(2))
    b = torch.randn(WIDTH).bfloat16()

    def whole(x):
        q = x @ w
        t = {"by a kernel": lambda: F.silu(m @ q + b), "by PyTorch": lambda: q.softmax(-1),
             "by itself": lambda: q}[made]()  # fmt: skip
        return q, x @ t

    x = torch.randn(WIDTH, WIDTH).bfloat16()
    for got, expected in zip(torch.compile(whole, backend=inductor.backend)(x), whole(x)):
        assert distance(got, expected) <= 2**-7
    names = [kernel.name for report in reports for kernel in report.kernels]
    assert not any(name.endswith("side_by_side") for name in names)
