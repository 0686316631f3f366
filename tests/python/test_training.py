"""Steps of training: gradients as near to float64 as eager's, as real programs take them."""

import copy
import re

import layers
import pytest
import torch
from close import distance, in_float64
from torch import nn
from torch.nn import functional as F
from torch._inductor.utils import run_and_get_code
from torch.utils.checkpoint import checkpoint

from epifuse.torch import inductor, process

pytestmark = pytest.mark.usefixtures("fresh")

BATCH, LENGTH = 2, 16


def gradients(model, run, batches):
    """Of the mean of squares, summed over batches, and of the last batch itself."""
    model.zero_grad()
    for x in batches:
        x = x.detach().requires_grad_()
        y = run(x)
        (y if y.dtype == torch.float64 else y.float()).square().mean().backward()
    return [x.grad, *(parameter.grad for parameter in model.parameters())]


def assert_no_further_than_eager(model, run, batches, slack=1.25):
    calls = process.stats().calls
    ours = [each.clone() for each in gradients(model, run, batches)]
    assert process.stats().calls > calls
    eager = gradients(model, model, batches)
    wide = in_float64(model)
    exact = gradients(wide, wide, [x.double() for x in batches])
    names = ["x", *(name for name, _ in model.named_parameters())]
    for name, mine, theirs, wanted in zip(names, ours, eager, exact, strict=True):
        assert mine.dtype == theirs.dtype and mine.shape == theirs.shape
        limit = slack * distance(theirs, wanted) + 2**-9
        assert distance(mine, wanted) <= limit, name


def batches(num=1, dtype=torch.bfloat16):
    return [torch.randn(BATCH, LENGTH, layers.WIDTH, dtype=dtype) for _ in range(num)]


def compiled(model):
    return torch.compile(model, backend=inductor.backend)


@pytest.mark.parametrize("layer", [layers.Bert, layers.Vit, layers.Llama])
def test_gradients_of_two_batches(layer):
    model = layer().bfloat16()
    assert_no_further_than_eager(model, compiled(model), batches(2))


def test_activations_that_are_computed_again():
    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layers.Llama()

        def forward(self, x):
            return checkpoint(self.layer, x, use_reentrant=False)

    model = Checkpointed().bfloat16()
    assert_no_further_than_eager(model, compiled(model), batches())


def test_autocast():
    model = layers.Autocast(layers.Bert())
    assert_no_further_than_eager(model, compiled(model), batches(dtype=torch.float32))


def test_a_backward_that_is_compiled_when_it_runs():
    model = nn.Sequential(nn.Linear(layers.WIDTH, layers.INNER), nn.GELU(),
                          nn.Linear(layers.INNER, layers.WIDTH)).bfloat16()  # fmt: skip
    run, given = compiled(model), batches(2)
    with torch._dynamo.compiled_autograd._enable(compiled):
        ours = [each.clone() for each in gradients(model, run, given)]
    eager = gradients(model, model, given)
    for mine, theirs in zip(ours, eager, strict=True):
        assert distance(mine, theirs) <= 2**-6


@pytest.mark.parametrize(("approximate", "op"), [("none", "erf"), ("tanh", "tanh")])
def test_the_derivative_of_a_gelu_is_one_op(approximate, op):
    model = nn.Sequential(nn.Linear(layers.WIDTH, layers.INNER), nn.GELU(approximate),
                          nn.Linear(layers.INNER, layers.WIDTH)).bfloat16()  # fmt: skip
    process.reset_stats()
    gradients(model, compiled(model), batches())
    names = [kernel.name for kernel in process.stats().kernels if kernel.calls]
    assert [name for name in names if "slope" in name] == [f"matmul_gelu_{op}_slope_mul_col_sum"]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_gradients_are_summed_in_place(dtype):
    """Compiled autograd sees sums over micro-steps: those of weights are the kernels'."""
    model = nn.Sequential(nn.Linear(layers.WIDTH, layers.INNER), nn.GELU(),
                          nn.Linear(layers.INNER, layers.WIDTH)).to(dtype)  # fmt: skip
    model = layers.Autocast(model) if dtype == torch.float32 else model
    run, given = compiled(model), batches(3, dtype)

    def sums():
        with torch._dynamo.compiled_autograd._enable(compiled):
            return gradients(model, run, given)

    with torch._inductor.config.patch(force_disable_caches=True):
        ours, code = run_and_get_code(sums)
    ours = [each.clone() for each in ours]
    for mine, theirs in zip(ours, gradients(model, model, given), strict=True):
        assert mine.dtype == theirs.dtype and distance(mine, theirs) <= 2**-6
    calls = [re.findall(r"epifuse_matmul\w*residual\w*\((.+)\)", text) for text in code]
    read_and_written = [re.findall(r"(arg\d+_1)\.data_ptr\(\)", call)
                        for text in calls for call in text]  # fmt: skip
    assert sum(names.count(names[-1]) == 2 for names in read_and_written if names) == 2


def test_steps_with_adamw_reach_what_eagers_reach():
    torch.manual_seed(1)
    first = nn.Sequential(nn.Linear(layers.WIDTH, layers.INNER), nn.GELU(),
                          nn.Linear(layers.INNER, layers.WIDTH))  # fmt: skip
    x = torch.randn(BATCH * LENGTH, layers.WIDTH)
    wanted = x.roll(1, -1)
    losses = []
    for way in (lambda model: model, compiled):
        model = copy.deepcopy(first)
        run, optimizer = way(model), torch.optim.AdamW(model.parameters(), lr=1e-2)
        for _ in range(20):
            optimizer.zero_grad()
            loss = F.mse_loss(run(x), wanted)
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    assert losses[0] < 0.5
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)
