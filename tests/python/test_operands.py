"""Work on an epilogue's operands: what kernels of a training step read and write."""

import re

import pytest
import torch
from torch import nn
from torch._inductor import config
from torch._inductor.utils import run_and_get_code
from torch.nn import functional as F

from epifuse.torch import inductor, rewrite
from epifuse.torch.call import fused, fused_in_place

ROWS, WIDTH, HIDDEN = 96, 64, 128
BATCH = 4  # rows are BATCH sequences where tensors have three dims


@pytest.fixture
def kernels(fresh, monkeypatch):
    """The tensors that each kernel reads and those that it writes, graph after graph."""
    graphs = []

    def fuse(graph, *options):
        report = rewrite.fuse(graph, *options)
        calls = [node for node in graph.nodes if node.target in (fused, fused_in_place)]
        graphs.append([([each.meta["val"] for each in node.args[0]], node.meta["val"])
                       for node in calls])  # fmt: skip
        return report

    monkeypatch.setattr(inductor, "fuse", fuse)
    with config.patch(fx_graph_cache=False):
        yield graphs


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


def assert_no_f32_of_full_size(codes):
    """No buffer of Inductor's, and so none that a kernel reads or writes."""
    for code in codes:
        assert "empty_strided" in code
        full = rf"({ROWS}|{BATCH}, {ROWS // BATCH}), {HIDDEN}"
        assert not re.search(rf"empty_strided\w*\(\({full}\),.*float32\)", code)


# The one kernel beside it is the bias gradient of what is no derivative: a sum of what comes in.
@pytest.mark.parametrize(("layer", "results", "num_others"),
                         [(Gelu, [(ROWS, HIDDEN), (1, HIDDEN)], 1),
                          (Gate, [(ROWS, HIDDEN), (ROWS, HIDDEN)], 0)])  # fmt: skip
@pytest.mark.parametrize("rows", [(ROWS,), (BATCH, ROWS // BATCH)])
def test_a_derivative_and_what_is_made_of_it_are_one_kernel(
        kernels, rows, layer, results, num_others):  # fmt: skip
    model = layer()
    x, way = (torch.randn(*rows, WIDTH, dtype=torch.bfloat16) for _ in range(2))
    compiled = torch.compile(model, backend=inductor.backend)
    got, codes = run_and_get_code(lambda: gradients(compiled, model, x, way))
    got = [each.clone() for each in got]
    assert len(kernels) == len(codes) == 2
    assert_no_f32_of_full_size(codes)
    assert codes[1].count("async_compile.cpp_pybinding") == num_others
    derivatives = [written for _, written in kernels[1] if written[0].shape == (ROWS, HIDDEN)]
    assert [[tuple(each.shape) for each in written] for written in derivatives] == [results]
    assert {each.dtype for each in derivatives[0]} == {torch.bfloat16}
    assert_gradients_no_further_than_eager(model, got, x, way)


def test_what_a_kernel_reads_of_random_numbers_is_the_mask(kernels):
    def function(x, w, r):
        return F.dropout(x @ w, 0.5) + r

    x, w, r = (torch.randn(WIDTH, WIDTH, dtype=torch.bfloat16) for _ in range(3))
    result = torch.compile(function, backend=inductor.backend)(x, w, r)
    dropped = (result == r).double().mean()
    assert 0.3 < dropped < 0.7
    [[(read, _)]] = kernels
    assert not any(tensor.dtype == torch.float32 and tensor.dim() == 2 for tensor in read)


@pytest.mark.parametrize("reduce", [torch.sum, torch.mean], ids=["sum", "mean"])
@pytest.mark.parametrize("keepdim", [False, True])
def test_the_sum_over_sequences_is_the_kernels(kernels, keepdim, reduce):
    def bias_gradient(x, w, r):
        y = (x @ w) * r
        return y, reduce(y, (0, 1), keepdim=keepdim)

    x, r = (torch.randn(BATCH, 32, WIDTH, dtype=torch.bfloat16) for _ in range(2))
    w = torch.randn(WIDTH, WIDTH, dtype=torch.bfloat16)
    y, total = torch.compile(bias_gradient, backend=inductor.backend)(x, w, r)
    [[(_, written)]] = kernels
    assert [tuple(each.shape) for each in written] == [(BATCH * 32, WIDTH), (1, WIDTH)]
    exact = reduce((x.double() @ w.double()) * r, (0, 1), keepdim=keepdim)
    assert total.shape == exact.shape and y.shape == x.shape
    assert (total - exact).abs().max() <= 2**-7 * exact.abs().max()


def weight_gradient(x, way, total):
    return total + x.t() @ way


def weight_gradient_by_addmm(x, way, total):
    return torch.addmm(total, x.t(), way, out_dtype=torch.float32)


@pytest.mark.parametrize("function", [weight_gradient, weight_gradient_by_addmm])
def test_a_weights_gradient_is_added_to_a_float32_sum_in_the_kernel(kernels, function):
    x, way = (torch.randn(ROWS, width, dtype=torch.bfloat16) for width in (WIDTH, HIDDEN))
    total = torch.randn(WIDTH, HIDDEN)
    got = torch.compile(function, backend=inductor.backend)(x, way, total)
    [[(read, written)]] = kernels
    assert [each.dtype for each in written] == [torch.float32] and len(read) == 3
    exact = total.double() + x.t().double() @ way.double()
    assert (got - exact).abs().max() <= 2**-7 * exact.abs().max()


def plus(x, way, total):
    total += x.t() @ way


def times(x, way, total):
    total.addmm_(x.t(), way, beta=0.5)


def minus_and_read(x, way, total):
    total -= (x.t() @ way) * 0.25
    return total.square().sum()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("layout", ["rows", "columns"])
@pytest.mark.parametrize("accumulate", [plus, times, minus_and_read])
def test_a_sum_in_place_is_the_kernels(kernels, accumulate, layout, dtype):
    if accumulate is times and dtype == torch.float32:
        pytest.skip("addmm takes one dtype")
    x, way = (torch.randn(ROWS, width, dtype=torch.bfloat16) for width in (WIDTH, HIDDEN))
    total = torch.randn(WIDTH, HIDDEN).to(dtype)
    total = total if layout == "rows" else total.t().contiguous().t()
    exact, place = total.double(), total.data_ptr()
    compiled = torch.compile(accumulate, backend=inductor.backend)
    got, (code,) = run_and_get_code(compiled, x, way, total)
    wanted = accumulate(x.double(), way.double(), exact)
    [[(read, written)]] = kernels
    assert [each.dtype for each in written] == [dtype] and len(read) == 3
    assert ".copy_(" not in code and total.data_ptr() == place
    if accumulate is not minus_and_read:  # the kernel and nothing else, in no memory of its own
        assert "cpp_fused" not in code and "empty_strided_cpu(" not in code.split("def call")[1]
    else:
        assert abs(got - wanted) <= 2**-5 * wanted
    assert (total - exact).abs().max() <= 2**-7 * exact.abs().max()


def turned(x, w, b):
    return F.gelu(x @ w.t() + b).t().contiguous()


def turned_sum(x, w, b):
    return (x @ w.t() + x[:, :1] * b).t().contiguous()


def turned_and_read(x, w, b):
    y = F.gelu(x @ w.t() + b)
    return y.t().contiguous(), y


def turned_residual(x, w, b):
    return (F.gelu(x @ w.t()) + (x.sum(1, keepdim=True) + b)).t().contiguous()


def turned_gate(x, w, b):
    gate, up = (x @ w.t()).chunk(2, -1)
    return (F.silu(gate) * up).t().contiguous()


@pytest.mark.parametrize(("function", "is_kernels"), [
    (turned, True), (turned_sum, True), (turned_and_read, False), (turned_residual, True),
    (turned_gate, False)])
def test_a_transposed_copy_of_a_result_is_the_kernels(kernels, function, is_kernels):
    x, w, b = torch.randn(ROWS, WIDTH), torch.randn(HIDDEN, WIDTH), torch.randn(HIDDEN)
    compiled = torch.compile(function, backend=inductor.backend)
    got, (code,) = run_and_get_code(compiled, x, w, b)
    wanted = function(x, w, b)
    [[(_, written)]] = kernels
    assert (written[0].stride() == (1, ROWS)) == is_kernels
    for mine, theirs in zip(torch.utils._pytree.tree_leaves(got),
                            torch.utils._pytree.tree_leaves(wanted)):
        assert mine.stride() == theirs.stride()
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-4)
    if function is turned:
        assert "cpp_fused" not in code


def keeps_the_old(x, way, total):
    old = total * 2
    total += x.t() @ way
    return old


def multiplies_the_old(x, way, total):
    total += x.t() @ way
    return way @ total.t().to(way.dtype), total @ total.t()


def adds_a_square(x, way, total):
    total += total @ total
    return total * 2


@pytest.mark.parametrize("function", [keeps_the_old, multiplies_the_old, adds_a_square])
def test_others_read_what_they_would_of_a_sum_in_place(kernels, function):
    x, way = (torch.randn(ROWS, WIDTH, dtype=torch.bfloat16) for _ in range(2))
    total = torch.randn(WIDTH, WIDTH).bfloat16()
    eager = total.clone()
    wanted = function(x, way, eager)
    got = torch.compile(function, backend=inductor.backend)(x, way, total)
    limit = 2**-6 * eager.abs().max()
    assert (total - eager).abs().max() <= limit
    for mine, theirs in zip(torch.utils._pytree.tree_leaves(got),
                            torch.utils._pytree.tree_leaves(wanted)):
        assert (mine - theirs).abs().max() <= 2**-5 * theirs.abs().max()


@pytest.mark.skipif(not hasattr(F, "grouped_mm"), reason="this PyTorch has no grouped_mm")
def test_a_derivative_beside_groups_is_the_kernels(kernels):
    def gradient(x, w, ends, h):
        h = h.float()
        return (F.grouped_mm(x, w, offs=ends) * (1 - torch.tanh(h).square())).bfloat16()

    x, h = (torch.randn(ROWS, WIDTH, dtype=torch.bfloat16) for _ in range(2))
    w = torch.randn(2, WIDTH, WIDTH, dtype=torch.bfloat16)
    ends = torch.tensor([40, ROWS], dtype=torch.int32)
    got = torch.compile(gradient, backend=inductor.backend)(x, w, ends, h)
    [[(read, _)]] = kernels
    assert not any(tensor.dtype == torch.float32 for tensor in read)
    eager = gradient(x, w, ends, h)
    assert (got - eager).abs().max() <= 2**-6 * eager.abs().max()
