"""Products whose results meet operands of batches: one kernel, of the same values."""

import pytest
import torch
from close import distance, tensors
from torch import nn
from torch.nn import functional as F

import epifuse.torch

pytestmark = pytest.mark.usefixtures("fresh")

B, S, K, N = 3, 128, 48, 64


def given(*shape, dtype=torch.bfloat16):
    return torch.randn(*shape, dtype=dtype)


def gated(x, w, b, g, r):
    return r + g[:, None] * F.linear(x, w, b)


def modulated(x, w, b, g, r):
    shift, scale = (g[:, None] * 0.5).chunk(2, -1)
    return F.relu(F.linear(x, w, b) * (1 + scale) + shift)


def placed(x, w, b, p, r):
    return F.gelu(F.linear(x, w) + p) + r


def sampled(x, w, b, keeps, r):
    return r + F.linear(x, w, b) * keeps[:, None, None]


_FORMS = {
    "gated": (gated, (B, N), "bias+row_scale+residual"),
    "modulated": (modulated, (B, 2 * N), "bias+row_scale+bias+relu"),
    "placed": (placed, (S, N), "residual+gelu_erf+residual"),
    "sampled": (sampled, (B,), "bias+scale+residual"),
}


def assert_no_further_than_eager(function, args, got):
    eager = tensors(function(*args))
    exact = tensors(function(*[each.double() for each in args]))
    for ours, theirs, reference in zip(tensors(got), eager, exact, strict=True):
        assert ours.shape == theirs.shape and ours.stride() == theirs.stride()
        assert distance(ours, reference) <= 1.1 * distance(theirs, reference) + 1e-7


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", _FORMS)
def test_operands_of_batches_are_read_by_the_kernel(name, dynamic, reports):
    function, shape, epilogue = _FORMS[name]
    args = [given(B, S, K), given(N, K), given(N), given(*shape), given(B, S, N)]
    if dynamic:
        for each in (args[0], args[4], *([] if name == "placed" else [args[3]])):
            torch._dynamo.mark_dynamic(each, 0)
    got = torch.compile(function, backend=epifuse.torch.backend)(*args)
    assert [kernel.epilogue for kernel in reports[-1].kernels] == [epilogue]
    assert_no_further_than_eager(function, args, got)


def test_the_number_of_samples_and_of_rows_may_change(own_reports):
    run = torch.compile(gated, backend=epifuse.torch.backend, dynamic=True)
    w, b = given(N, K), given(N)
    for samples, rows in ((3, 128), (2, 256), (5, 70), (7, 2)):
        args = [given(samples, rows, K), w, b, given(samples, N), given(samples, rows, N)]
        assert_no_further_than_eager(gated, args, run(*args))
    assert len(own_reports) == 1 and len(own_reports[0].kernels) == 1


def test_a_residual_may_be_a_part_of_each_sample_or_lie_by_columns(reports):
    x, w, b = given(B, S, K), given(N, K), given(N)
    for residual in (given(B, S + 3, N)[:, 3:], given(B, N, S).transpose(1, 2)):
        args = (x, w, b, residual)
        run = torch.compile(lambda x, w, b, r: r + F.linear(x, w, b),
                            backend=epifuse.torch.backend)
        got = run(*args)
        assert [kernel.epilogue for kernel in reports[-1].kernels] == ["bias+residual"]
        exact = residual.double() + F.linear(x.double(), w.double(), b.double())
        eager = residual + F.linear(x, w, b)
        assert got.stride() == eager.stride()
        assert distance(got, exact) <= 1.1 * distance(eager, exact)


@pytest.mark.parametrize("rows", [16, 150])
def test_rows_that_fill_no_tiles_stay_rows_of_one_matrix(rows, reports):
    args = [given(B, rows, K), given(N, K), given(N), given(B, N), given(B, rows, N)]
    got = torch.compile(gated, backend=epifuse.torch.backend)(*args)
    assert [kernel.epilogue for kernel in reports[-1].kernels] == ["bias"]
    assert_no_further_than_eager(gated, args, got)


# Of the batch dims: what an operand has before it is expanded; whether that varies by batches.
@pytest.mark.parametrize("shape, by_batches, epilogue", [
    ((1, 1, N), False, "row_scale"),
    ((B, "rows", 1), False, "col_scale"),
    ((1, "rows", 1), True, "col_scale"),
    (("rows", N), True, "mul"),
    ((B, 1, N), True, "row_scale"),
])
@pytest.mark.parametrize("rows", [16, S])  # 16 rows fill no tiles
def test_an_operand_that_is_expanded_is_read_as_it_was(rows, shape, by_batches, epilogue, reports):
    operand = given(*[rows if size == "rows" else size for size in shape])
    args = [given(B, rows, K), given(N, K), given(N), operand]

    def function(x, w, b, r):
        y = F.linear(x, w, b)
        return y, F.gelu(y) * r.expand(y.shape)

    got = torch.compile(function, backend=epifuse.torch.backend)(*args)
    left = by_batches and rows == 16
    expected = "bias" if left else f"bias+gelu_erf+{epilogue}+output"
    assert [kernel.epilogue for kernel in reports[-1].kernels] == [expected]
    assert ("view_of_result" in {each.code for each in reports[-1].left_out}) == left
    assert_no_further_than_eager(function, args, got)


@pytest.mark.parametrize("by_columns", [False, True])
def test_a_grouped_product_without_groups_is_one_of_batches(by_columns, reports):
    order = torch.tensor([2, 0, 1])

    def function(x, w, b):
        multiply = F.grouped_mm if x.dtype == torch.bfloat16 else torch.bmm
        return F.silu(multiply(x[order], w) + b)

    w = given(B, N, K).transpose(1, 2) if by_columns else given(B, K, N)
    args = [given(B, S, K), w, given(B, 1, N)]
    got = torch.compile(function, backend=epifuse.torch.backend)(*args)
    (kernel,) = reports[-1].kernels
    assert kernel.epilogue == "bias+silu"
    assert_no_further_than_eager(function, args, got)


HEADS = 4


def by_einsum(x, w):
    return torch.einsum("bsk,khd->bshd", x, w)


def by_tensordot(x, w):
    return torch.tensordot(x, w, dims=1)


def by_a_view(x, w):
    return F.linear(x, w.flatten(1).t()).unflatten(-1, (HEADS, -1))


@pytest.mark.parametrize("multiply", [by_einsum, by_tensordot, by_a_view])
def test_columns_that_are_split_into_heads_are_still_columns(multiply, reports):
    def function(x, w, b, c, r):
        return F.gelu(multiply(x, w) + b) * c[:, :, None, None] + r

    heads = (HEADS, N // HEADS)
    args = [given(B, S, K), given(K, *heads), given(*heads), given(B, S), given(B, S, *heads)]
    got = torch.compile(function, backend=epifuse.torch.backend)(*args)
    (kernel,) = reports[-1].kernels
    assert kernel.epilogue == "bias+gelu_erf+col_scale+residual"
    assert_no_further_than_eager(function, args, got)


@pytest.mark.parametrize("operand", [(HEADS, 1), (N // HEADS,), (B, S, HEADS, 1)])
def test_what_each_head_has_its_own_of_is_left_to_inductor(operand, reports):
    def function(x, w, b, s):
        y = F.linear(x, w, b)
        return F.relu(y), y.unflatten(-1, (HEADS, -1)) * s

    args = [given(B, S, K), given(N, K), given(N), given(*operand)]
    got = torch.compile(function, backend=epifuse.torch.backend)(*args)
    assert "view_of_result" in {each.code for each in reports[-1].left_out}
    assert_no_further_than_eager(function, args, got)


@pytest.mark.parametrize("by_row", [False, True])
def test_products_of_8_bit_floats_may_be_of_batches(by_row, reports):
    def quantised(x, w, sx, sw, g, r):
        y = torch._scaled_mm(x.reshape(-1, K), w.t(), sx, sw, out_dtype=torch.bfloat16)
        return r + g[:, None] * y.unflatten(0, (B, S))

    def exactly(x, w, sx, sw, g, r):
        y = (x.reshape(-1, K) @ w.t() * sx * sw).unflatten(0, (B, S))
        return r + g[:, None] * y

    x, w = given(B, S, K).to(torch.float8_e4m3fn), given(N, K).to(torch.float8_e4m3fn)
    scales = (torch.rand(B * S, 1), torch.rand(1, N)) if by_row else (torch.rand(()),) * 2
    args = [x, w, *scales, given(B, N), given(B, S, N)]
    got = torch.compile(quantised, backend=epifuse.torch.backend)(*args)
    (kernel,) = reports[-1].kernels
    assert kernel.epilogue.endswith("scale+row_scale+residual")
    exact, eager = exactly(*[each.double() for each in args]), quantised(*args)
    assert distance(got, exact) <= 1.1 * distance(eager, exact)


class Block(nn.Module):
    """The two halves of a diffusion transformer's block, without attention."""

    def __init__(self, width=64):
        super().__init__()
        self.ada = nn.Linear(width, 6 * width)
        self.proj = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x, c):
        parts = self.ada(F.silu(c))[:, None].chunk(6, -1)
        norm = lambda y: F.layer_norm(y, y.shape[-1:])
        x = x + parts[2] * self.proj(norm(x) * (1 + parts[1]) + parts[0])
        y = F.gelu(self.up(norm(x) * (1 + parts[4]) + parts[3]), approximate="tanh")
        return x + parts[5] * self.down(y)


def test_a_diffusion_transformers_gates_are_in_its_kernels(reports):
    block = Block().bfloat16().eval().requires_grad_(False)
    x, c = given(2, 256, 64), given(2, 64)
    got = torch.compile(block, backend=epifuse.torch.backend)(x, c)
    epilogues = [kernel.epilogue for kernel in reports[-1].kernels]
    assert epilogues.count("bias+row_scale+residual") == 2 and "bias+gelu_tanh" in epilogues
    exact, theirs = block.double()(x.double(), c.double()), block.bfloat16()(x, c)
    assert distance(got, exact) <= 1.1 * distance(theirs, exact)


@pytest.mark.parametrize("autocast", [False, True])
def test_training_has_the_gradients_of_eager(autocast, reports):
    model = Block() if autocast else Block().bfloat16()
    dtype = torch.float32 if autocast else torch.bfloat16

    def gradients(run, x, c):
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast and x.dtype != torch.float64):
            run(x, c).square().mean().backward()
        return [each.grad.clone() for each in model.parameters()]

    x, c = given(2, 128, 64, dtype=dtype), given(2, 64, dtype=dtype)
    ours = gradients(torch.compile(model, backend=epifuse.torch.backend), x, c)
    eager = gradients(model, x, c)
    exact = gradients(model.double(), x.double(), c.double())
    for a, b, reference in zip(ours, eager, exact):
        assert distance(a, reference) <= 1.5 * distance(b, reference) + 1e-3
    assert any("row_scale" in kernel.epilogue for kernel in reports[0].kernels)
