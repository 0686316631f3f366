"""Gated activations under torch.compile: one kernel, however a model spells the two products."""

import pytest
import torch
from close import assert_no_further_than_eager, distance
from torch import nn
from torch.nn import functional as F

import epifuse.torch
from epifuse.torch import inductor

pytestmark = pytest.mark.usefixtures("fresh")

WIDTH, INNER = 64, 96


def halves(h):
    return h.chunk(2, -1)


def split(h):
    return h.split(INNER, -1)


def slices(h):
    return h[..., :INNER], h[..., INNER:]


def every_other(h):
    return h[..., ::2], h[..., 1::2]


def unbound(h):
    return h.unflatten(-1, (2, INNER)).unbind(-2)


def unbound_pairs(h):
    return h.unflatten(-1, (INNER, 2)).unbind(-1)


def swiglu(gate, up):
    return F.silu(gate) * up


def swiglu_spelled_out(gate, up):
    return up * (gate * torch.sigmoid(gate))


def swiglu_in_float(gate, up):
    return (F.silu(gate.float()) * up.float()).to(up.dtype)


def geglu(gate, up):
    return F.gelu(gate) * up


def geglu_tanh(gate, up):
    return up * F.gelu(gate, approximate="tanh")


def reglu(gate, up):
    return F.relu(gate) * up


def softplus(gate, up):
    return F.softplus(gate) * up


def mish(gate, up):
    return up * F.mish(gate)


def swiglu_oai(gate, up):
    gate, up = gate.clamp(max=7.0), up.clamp(min=-7.0, max=7.0)
    return (up + 1) * (gate * torch.sigmoid(gate * 1.702))


class Gated(nn.Module):
    """A gate on the columns of one product."""

    def __init__(self, columns, gate, bias):
        super().__init__()
        self.columns, self.gate = columns, gate
        self.up = nn.Linear(WIDTH, 2 * INNER, bias=bias, dtype=torch.bfloat16)

    def forward(self, x):
        return self.gate(*self.columns(self.up(x)))


class TwoWeights(nn.Module):
    """The MLP of Llama."""

    def __init__(self, bias=False):
        super().__init__()
        make = {"bias": bias, "dtype": torch.bfloat16}
        self.gate, self.up = nn.Linear(WIDTH, INNER, **make), nn.Linear(WIDTH, INNER, **make)
        self.down = nn.Linear(INNER, WIDTH, **make)

    def forward(self, x):
        return x + self.down(F.silu(self.gate(x)) * self.up(x))


class Einsum(nn.Module):
    """Inductor makes batched products of one matrix of it. `parts`: gate and up have a dim."""

    def __init__(self, parts):
        super().__init__()
        shape = (2, INNER, WIDTH) if parts else (2 * INNER, WIDTH)
        self.weight = nn.Parameter(torch.randn(shape, dtype=torch.bfloat16) / 8)

    def forward(self, x):
        if self.weight.dim() == 3:
            return swiglu(*torch.einsum("bsk,gnk->bsgn", x, self.weight).unbind(-2))
        return swiglu(*torch.einsum("bsk,nk->bsn", x, self.weight).chunk(2, -1))


class Batched(nn.Module):
    """A product for each of two batches, which einsum views in a circle."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(2, WIDTH, 2 * INNER, dtype=torch.bfloat16) / 8)

    def forward(self, x):
        return swiglu(*torch.einsum("bsk,bkn->bsn", x, self.weight).chunk(2, -1))


def check(model, x, *epilogues):
    model = model.eval().requires_grad_(False)
    report = epifuse.torch.explain(model, x)
    assert [kernel.epilogue for kernel in report.kernels] == list(epilogues)
    assert not report.left_out
    run = torch.compile(model, backend=epifuse.torch.backend)
    assert_no_further_than_eager(model, run, (x,))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    "columns",
    [halves, split, slices, every_other, unbound, unbound_pairs],
    ids=lambda f: f.__name__,
)
def test_columns_of_one_product(columns, bias):
    x = torch.randn(2, 17, WIDTH, dtype=torch.bfloat16)
    check(Gated(columns, swiglu, bias), x, "bias+swiglu" if bias else "swiglu")


@pytest.mark.parametrize(
    ("gate", "name"),
    [
        (swiglu_spelled_out, "swiglu"),
        (swiglu_in_float, "swiglu"),
        (geglu, "geglu_erf"),
        (geglu_tanh, "geglu_tanh"),
        (reglu, "reglu"),
        (softplus, "softplus+mul"),
        (mish, "softplus+tanh+mul+mul"),
        (swiglu_oai, "swiglu_oai"),
    ],
)
def test_gates_by_name(gate, name):
    x = torch.randn(5, WIDTH, dtype=torch.bfloat16)
    check(Gated(every_other, gate, True), x, f"bias+{name}")


def test_glu():
    model = nn.Sequential(nn.Linear(WIDTH, 2 * INNER, dtype=torch.bfloat16), nn.GLU())
    check(model, torch.randn(3, 7, WIDTH, dtype=torch.bfloat16), "bias+glu")


@pytest.mark.parametrize("shape", [(2, 17), (4, 1), (1, 1)], ids=str)
@pytest.mark.parametrize("parts", [False, True])
def test_einsum(parts, shape):
    check(Einsum(parts), torch.randn(*shape, WIDTH, dtype=torch.bfloat16), "swiglu")


def test_einsum_of_batches():
    check(Batched(), torch.randn(2, 17, WIDTH, dtype=torch.bfloat16), "swiglu")


@pytest.mark.parametrize("bias", [False, True])
def test_two_weights(bias):
    x = torch.randn(2, 17, WIDTH, dtype=torch.bfloat16)
    prefix = "bias+" if bias else ""
    check(TwoWeights(bias), x, f"{prefix}swiglu", f"{prefix}residual")


def test_limits_are_read_from_the_graph():
    def gate(limit):
        return lambda g, u: torch.sigmoid(g.clamp(max=limit) * 1.5) * u

    x = torch.randn(9, WIDTH, dtype=torch.bfloat16) * 8
    for limit in (0.25, 3.0):
        model = Gated(halves, gate(limit), False).eval().requires_grad_(False)
        run = torch.compile(model, backend=epifuse.torch.backend)
        assert_no_further_than_eager(model, run, (x,))
        torch._dynamo.reset()


def test_three_parts_are_no_gate():
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(WIDTH, 3 * INNER, dtype=torch.bfloat16)

        def forward(self, x):
            q, k, v = self.qkv(x).chunk(3, -1)
            return q * k + v

    model = Attention().eval().requires_grad_(False)
    x = torch.randn(5, WIDTH, dtype=torch.bfloat16)
    report = epifuse.torch.explain(model, x)
    assert [kernel.epilogue for kernel in report.kernels] == ["bias"]
    assert_no_further_than_eager(model, torch.compile(model, backend=epifuse.torch.backend), (x,))


def test_training_keeps_what_comes_before_the_gate():
    torch.manual_seed(0)
    model = Gated(halves, swiglu, True)
    x = torch.randn(6, WIDTH, dtype=torch.bfloat16, requires_grad=True)
    run = torch.compile(model, backend=epifuse.torch.backend)
    grads = []
    for f in (model, run):
        for parameter in (x, *model.parameters()):
            parameter.grad = None
        f(x).float().square().sum().backward()
        grads.append([p.grad.float() for p in (x, *model.parameters())])
    for eager, ours in zip(*grads, strict=True):
        torch.testing.assert_close(ours, eager, rtol=0.05, atol=0.05 * eager.abs().max().item())


def gate_whose_half_is_multiplied(x, w, b, c, _):
    h = F.linear(x, w, b)
    gate, up = halves(h)
    return h, swiglu(gate, up), F.relu(c.t() @ gate + c[0])


def gates_of_one_product(x, w, b, _, d):
    return F.relu(F.linear(x, w, b)), swiglu(*halves(F.linear(x, w, d)))


@pytest.mark.parametrize("program", [gate_whose_half_is_multiplied, gates_of_one_product])
def test_kernels_store_what_the_program_has(reports, program):
    """No half of a result, and no product before its bias, which two layers may share."""
    x, c = torch.randn(WIDTH, WIDTH).bfloat16(), torch.randn(WIDTH, INNER).bfloat16()
    w = torch.randn(2 * INNER, WIDTH).bfloat16() / 8
    b, d = (torch.randn(2 * INNER).bfloat16() for _ in range(2))
    with torch.no_grad():
        got = torch.compile(program, backend=inductor.backend)(x, w, b, c, d)
        for ours, eager in zip(got, program(x, w, b, c, d)):
            assert distance(ours, eager) <= 2**-6
    assert sum(len(report.kernels) for report in reports) == 2
