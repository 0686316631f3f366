"""On a GPU: attention that PyTorch multiplies in float32, by products of 16 bits."""

import pytest
import torch
from close import assert_no_further_than_eager
from test_backend import compiled
from test_training import assert_no_further_than_eager as assert_gradients_no_further_than_eager
from torch import nn
from torch._inductor.utils import run_and_get_code
from torch.nn import functional as F

pytestmark = [
    pytest.mark.usefixtures("fresh"),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"),
    pytest.mark.skipif(torch.cuda.is_available() and torch.cuda.get_device_capability() != (9, 0),
                       reason="no Hopper GPU"),
]
SMALL, LARGE = 96, 640  # tokens: the large one's values by weights are worth two products


class MaskedAttention(nn.Module):
    """With a mask that is expanded along keys, which no fused kernel of PyTorch's takes."""

    def __init__(self):
        super().__init__()
        self.queries, self.out = nn.Linear(256, 768), nn.Linear(256, 256)

    def forward(self, x):
        batch, length, _ = x.shape
        heads = self.queries(x).view(batch, length, 3, 4, 64).permute(2, 0, 3, 1, 4).unbind(0)
        is_there = torch.arange(length, device=x.device).view(1, 1, length, 1) < length - 5
        mask = is_there.expand(batch, 1, length, length)
        y = F.scaled_dot_product_attention(*heads, attn_mask=mask)
        return self.out(y.transpose(1, 2).reshape(batch, length, 256))


def tokens(length, dtype):
    return torch.randn(3, length, 256, device="cuda", dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("length", [SMALL, LARGE])
def test_without_gradients(length, dtype):
    """Rows that attend to nothing are as eager's."""
    model = MaskedAttention().cuda().to(dtype).eval().requires_grad_(False)
    x = tokens(length, dtype)
    assert_no_further_than_eager(model, compiled(model), (x,))
    torch.compiler.reset()
    _, (code,) = run_and_get_code(compiled(model), x)
    in_float32 = 0 if length == LARGE and dtype == torch.bfloat16 else 1
    assert code.count("extern_kernels.bmm(") == in_float32


@pytest.mark.parametrize("length", [SMALL, LARGE])
def test_gradients(length):
    model = MaskedAttention().cuda().to(torch.bfloat16)
    assert_gradients_no_further_than_eager(
        model, compiled(model), [tokens(length, torch.bfloat16)])  # fmt: skip


def test_batches_of_any_length():
    model = MaskedAttention().cuda().to(torch.bfloat16)
    run = compiled(model, dynamic=True)
    for length in (SMALL, LARGE, 128):
        assert_gradients_no_further_than_eager(model, run, [tokens(length, torch.bfloat16)])
