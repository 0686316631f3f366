"""Rotary positions in kernels of queries and keys: found as for a Hopper GPU, run on the CPU."""

import copy
import sys

import pytest
import torch
from close import assert_no_further_than_eager, distance, in_float64
from torch import nn
from torch.nn import functional as F

from epifuse.torch import inductor

pytestmark = pytest.mark.usefixtures("fresh")

HEADS, WIDTH, DIM = 2, 96, 128
ROWS = 1151  # so many that they fill tiles of rows, and that one launch for all is no better


def epilogues(reports):
    """Of all kernels of all graphs, in order."""
    return [kernel.epilogue for report in reports for kernel in report.kernels]


def halves(x):
    """Each half of a head turned against the other one, as Hugging Face's models have it."""
    return torch.cat((-x[..., x.shape[-1] // 2:], x[..., :x.shape[-1] // 2]), -1)


def pairs(x):
    """Neighbours turned against each other, as GPT-J has it."""
    return torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)


def by_halves(x, c, s):
    """With tables of whole heads, whose halves are equal."""
    c, s = torch.cat((c, c), -1), torch.cat((s, s), -1)
    return x * c + halves(x) * s


def by_pairs(x, c, s):
    c, s = c.repeat_interleave(2, -1), s.repeat_interleave(2, -1)
    return x * c + pairs(x) * s


def plain_halves(x, c, s):
    a, b = x.chunk(2, -1)
    return torch.cat((a * c - b * s, b * c + a * s), -1)


def plain_pairs(x, c, s):
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack((a * c - b * s, b * c + a * s), -1).flatten(-2)


FORMS = {form.__name__: form for form in (by_halves, by_pairs, plain_halves, plain_pairs)}


class Attention(nn.Module):
    """Two heads, and keys that nothing repeats, as attention on GPUs reads them."""

    def __init__(self, turn, bias=False):
        super().__init__()
        self.turn = turn
        self.q = nn.Linear(WIDTH, HEADS * DIM, bias)
        self.k, self.v = (nn.Linear(WIDTH, HEADS * DIM, bias) for _ in range(2))
        self.o = nn.Linear(HEADS * DIM, WIDTH, bias=False)

    def tables(self, x):
        place = torch.arange(x.shape[1], device=x.device)[:, None] / 8
        angle = place * torch.arange(1, DIM // 2 + 1, device=x.device) / DIM
        return angle.cos().to(x.dtype), angle.sin().to(x.dtype)

    def attend(self, x, q, k):
        v = self.v(x).unflatten(-1, (-1, DIM)).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.o(y.transpose(1, 2).flatten(-2))

    def forward(self, x):
        c, s = self.tables(x)
        q, k = (self.turn(each(x).unflatten(-1, (-1, DIM)).transpose(1, 2), c, s)
                for each in (self.q, self.k))
        return self.attend(x, q, k)


def compiled(model, **options):
    return torch.compile(model, backend=inductor.backend, **options)


@pytest.mark.parametrize("form, bias", [("by_halves", True), ("by_pairs", False),
                                        ("plain_halves", False), ("plain_pairs", True)])
def test_queries_and_keys_are_a_kernel_each(reports, form, bias):
    model = Attention(FORMS[form], bias).bfloat16().eval()
    x = torch.randn(2, ROWS, WIDTH).bfloat16()
    assert_no_further_than_eager(model, compiled(model), (x,), slack=1.25)
    turned = "bias+rotary" if bias else "rotary"
    rest = ["bias", "residual"] if bias else ["residual"]
    assert sorted(epilogues(reports)) == sorted([turned, turned, *rest])


@pytest.mark.parametrize("form", ["by_halves", "plain_pairs"])
def test_heads_may_come_behind_rows(reports, form):
    """As in GPT-J: turned first, put in front of rows behind that."""
    class Rows(Attention):
        def forward(self, x):
            c, s = (table[:, None] for table in self.tables(x))
            q, k = (self.turn(each(x).unflatten(-1, (-1, DIM)), c, s).transpose(1, 2)
                    for each in (self.q, self.k))
            return self.attend(x, q, k)

    model = Rows(FORMS[form]).bfloat16().eval()
    x = torch.randn(2, ROWS, WIDTH).bfloat16()
    assert_no_further_than_eager(model, compiled(model), (x,), slack=1.25)
    assert sorted(epilogues(reports)) == ["residual", "rotary", "rotary"]


@pytest.mark.parametrize("form", ["by_halves", "by_pairs", "plain_pairs"])
def test_heads_may_be_turned_in_float32_by_tables_of_16_bits(reports, form):
    """As in Cohere's models."""
    def turn(x, c, s):
        wide = x if x.dtype == torch.float64 else x.float()
        return FORMS[form](wide, c, s).to(x.dtype)

    model = Attention(turn).bfloat16().eval()
    x = torch.randn(2, ROWS, WIDTH).bfloat16()
    assert_no_further_than_eager(model, compiled(model), (x,), slack=1.25)
    assert sorted(epilogues(reports)) == ["residual", "rotary", "rotary"]


def test_tables_are_read_by_the_half(reports):
    model = Attention(by_halves).bfloat16().eval()
    with torch.no_grad():
        compiled(model)(torch.randn(1, ROWS, WIDTH).bfloat16())
    kernels = [kernel for report in reports for kernel in report.kernels]
    turned = [kernel for kernel in kernels if kernel.epilogue == "rotary"]
    assert len(turned) == 2
    for kernel in turned:
        assert kernel.graph.count(f"bf16[{ROWS}, {DIM // 2}]") == 2, kernel.graph
        assert f"{ROWS}, {DIM}]" not in kernel.graph.split("{")[0], kernel.graph


def test_few_rows_are_left_to_one_launch(reports):
    model = Attention(by_halves).bfloat16().eval()
    for shape in ((1, 1), (1, 64), (8, 65), (8, 128)):
        torch._dynamo.reset()
        reports.clear()
        assert_no_further_than_eager(model, compiled(model, dynamic=False),
                                     (torch.randn(*shape, WIDTH).bfloat16(),), slack=1.25)
        assert not any("rotary" in each for each in epilogues(reports))


def test_narrow_heads_are_left(reports, monkeypatch):
    """Their tiles would be, too."""
    monkeypatch.setattr(sys.modules[__name__], "DIM", 64)
    model = Attention(by_halves).bfloat16().eval()
    x = torch.randn(1, ROWS, WIDTH).bfloat16()
    assert_no_further_than_eager(model, compiled(model), (x,), slack=1.25)
    assert not any("rotary" in each for each in epilogues(reports))


def test_cpus_leave_them(own_reports):
    model = Attention(by_halves).bfloat16().eval()
    x = torch.randn(1, ROWS, WIDTH).bfloat16()
    assert_no_further_than_eager(model, compiled(model), (x,), slack=1.25)
    assert epilogues(own_reports) == ["residual"]


def test_results_lie_as_in_the_program(reports):
    """Heads of a row next to each other, so that nothing behind attention is copied."""
    class Turned(nn.Module):
        def __init__(self):
            super().__init__()
            self.q = nn.Linear(WIDTH, HEADS * DIM, False)

        def forward(self, x, c, s):
            return by_halves(self.q(x).unflatten(-1, (-1, DIM)).transpose(1, 2), c, s)

    model = Turned().bfloat16()
    x = torch.randn(2, ROWS, WIDTH).bfloat16()
    c, s = (torch.randn(ROWS, DIM // 2).bfloat16() for _ in range(2))
    assert_no_further_than_eager(model, compiled(model), (x, c, s), slack=1.25)
    assert epilogues(reports) == ["rotary"]
    with torch.no_grad():
        _, (code,) = torch._inductor.utils.run_and_get_code(compiled(model), x, c, s)
    strides = f"(({HEADS * DIM * ROWS}, {DIM}, {HEADS * DIM}, 1)"
    assert f"(2, {HEADS}, {ROWS}, {DIM}), {strides[1:]}, torch.bfloat16)" in code


def test_rows_may_change(reports):
    model = Attention(by_halves).bfloat16().eval()
    run = compiled(model, dynamic=True)
    for rows in (ROWS, 1154, 1121):
        x = torch.randn(1, rows, WIDTH).bfloat16()
        assert_no_further_than_eager(model, run, (x,), slack=1.25)
    assert epilogues(reports).count("rotary") == 2


@pytest.mark.parametrize("form", ["by_halves", "by_pairs"])
def test_one_training_step(reports, form):
    model = Attention(FORMS[form], bias=True).bfloat16()
    x = torch.randn(2, ROWS, WIDTH).bfloat16()
    wide, eager = in_float64(model), copy.deepcopy(model)
    compiled(model)(x).square().mean().backward()
    eager(x).square().mean().backward()
    wide(x.double()).square().mean().backward()
    assert epilogues(reports).count("bias+rotary") == 2
    for got, plain, exact in zip(model.parameters(), eager.parameters(), wide.parameters()):
        assert (distance(got.grad, exact.grad)
                <= 1.25 * distance(plain.grad, exact.grad) + 2**-10)  # fmt: skip


def _hugging_face(name, **more):
    transformers = pytest.importorskip("transformers")
    config = getattr(transformers, f"{name}Config")(
        hidden_size=WIDTH, intermediate_size=160, num_attention_heads=HEADS, num_hidden_layers=2,
        num_key_value_heads=HEADS, head_dim=DIM, vocab_size=128, **more)
    return getattr(transformers, f"{name}ForCausalLM")(config).bfloat16().eval()


@pytest.mark.parametrize("name", ["Llama", "Qwen2"])
def test_models_of_hugging_face(reports, name):
    model = _hugging_face(name)
    ids = torch.randint(0, 128, (1, ROWS))
    kwargs = {"use_cache": False}
    assert_no_further_than_eager(model, compiled(model), (ids,), kwargs, slack=1.25)
    turned = "rotary" if name == "Llama" else "bias+rotary"
    assert epilogues(reports).count(turned) == 4  # queries and keys of two layers


def test_generation(reports):
    model = _hugging_face("Llama")
    ids = torch.randint(0, 128, (1, ROWS))
    greedy = {"max_new_tokens": 4, "do_sample": False, "pad_token_id": 0}
    expected = model.generate(ids, **greedy)
    model.forward = compiled(model.forward)
    assert torch.equal(model.generate(ids, **greedy), expected)
    assert epilogues(reports).count("rotary") == 4
