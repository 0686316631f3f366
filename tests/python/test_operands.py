"""Work on an epilogue's operands: what kernels of a training step read and write."""

import contextlib

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from epifuse.torch.call import fused
from epifuse.torch.inductor import FusionPass

ROWS, WIDTH, HIDDEN = 96, 64, 128


class Looking(FusionPass):
    """Keeps the tensors that each kernel reads and writes, of one graph after the other."""

    def __init__(self):
        super().__init__({"only_faster": False}, None)
        self.graphs = []

    def __call__(self, graph):
        super().__call__(graph)
        calls = [node for node in graph.nodes if node.target is fused]
        self.graphs.append([([each.meta["val"] for each in node.args[0]], node.meta["val"])
                            for node in calls])  # fmt: skip


@contextlib.contextmanager
def looking():
    from torch._inductor import config

    look = Looking()
    with config.patch(post_grad_custom_pre_pass=look, fx_graph_cache=False):
        yield look


class Gelu(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, HIDDEN, dtype=torch.bfloat16)
        self.down = nn.Linear(HIDDEN, WIDTH, dtype=torch.bfloat16)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up = (nn.Linear(WIDTH, HIDDEN, bias=False, dtype=torch.bfloat16)
                              for _ in range(2))  # fmt: skip
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False, dtype=torch.bfloat16)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


def gradients(function, model, x, way):
    x = x.detach().requires_grad_()
    model.zero_grad()
    function(x).backward(way)
    return [x.grad, *(parameter.grad for parameter in model.parameters())]


def assert_gradients_no_further_than_eager(model, got, x, way):
    eager = gradients(model, model, x, way)
    exact = gradients(model, model.double(), x.double(), way.double())
    for mine, theirs, wanted in zip(got, eager, exact):
        scale = wanted.abs().max()
        limit = 1.5 * (theirs - wanted).abs().max() + 2**-8 * scale
        assert (mine - wanted).abs().max() <= limit


@pytest.mark.parametrize(("layer", "num_results"), [(Gelu, {1, 2}), (Gate, {2, 3})])
def test_derivatives_of_activations_are_computed_in_the_kernel(fresh, layer, num_results):
    model = layer()
    x, way = (torch.randn(ROWS, WIDTH, dtype=torch.bfloat16) for _ in range(2))
    with looking() as look:
        got = [each.clone() for each in gradients(torch.compile(model), model, x, way)]
    assert len(look.graphs) == 2
    for calls in look.graphs:
        for inputs, results in calls:
            full = [tensor for tensor in (*inputs, *results) if tensor.shape == (ROWS, HIDDEN)]
            assert all(tensor.dtype == torch.bfloat16 for tensor in full)
    derivatives = [results for inputs, results in look.graphs[1]
                   if results[0].shape == (ROWS, HIDDEN)]  # fmt: skip
    assert len(derivatives) == 1
    assert len(derivatives[0]) in num_results
    assert_gradients_no_further_than_eager(model, got, x, way)


def test_what_a_kernel_reads_of_random_numbers_is_the_mask(fresh):
    def function(x, w, r):
        return F.dropout(x @ w, 0.5) + r

    x, w, r = (torch.randn(WIDTH, WIDTH, dtype=torch.bfloat16) for _ in range(3))
    with looking() as look:
        result = torch.compile(function)(x, w, r)
    dropped = (result == r).double().mean()
    assert 0.3 < dropped < 0.7
    for inputs, _ in look.graphs[0]:
        assert not any(tensor.dtype == torch.float32 and tensor.dim() == 2 for tensor in inputs)
