"""torch.compile(model, backend="epifuse") on the CPU: results, strides, reports, dynamic sizes."""

import pytest
import torch
from close import assert_no_further_than_eager
from torch import nn
from torch.nn import functional as F

import epifuse.torch
from epifuse import BadInputError, _native

pytestmark = pytest.mark.usefixtures("fresh")


class Mlp(nn.Module):
    def __init__(self, width=64, inner=128, dtype=torch.bfloat16):
        super().__init__()
        self.norm = nn.LayerNorm(width, dtype=dtype)
        self.up = nn.Linear(width, inner, dtype=dtype)
        self.down = nn.Linear(inner, width, dtype=dtype)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


def compiled(model, **kwargs):
    return torch.compile(model, backend=epifuse.torch.backend, **kwargs)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_mlp_is_two_kernels(dtype):
    model = Mlp(dtype=dtype).eval().requires_grad_(False)
    x = torch.randn(3, 17, 64, dtype=dtype)
    report = epifuse.torch.explain(model, x)
    assert [kernel.epilogue for kernel in report.kernels] == ["bias+gelu_erf", "bias+residual"]
    assert_no_further_than_eager(model, compiled(model), (x,))


def test_residual_that_feeds_a_norm_and_the_next_residual_fuses():
    model = nn.Sequential(Mlp(), Mlp(), Mlp()).eval().requires_grad_(False)
    x = torch.randn(2, 8, 64, dtype=torch.bfloat16)
    report = epifuse.torch.explain(model, x)
    assert [kernel.epilogue for kernel in report.kernels] == ["bias+gelu_erf", "bias+residual"] * 3
    assert_no_further_than_eager(model, compiled(model), (x,))


def test_explain_names_nodes_and_reasons():
    model, x = Mlp().eval().requires_grad_(False), torch.randn(4, 64, dtype=torch.bfloat16)
    report = epifuse.torch.explain(model, x)
    assert report.kernels[0].name == "matmul_bias_gelu_erf"
    assert len(report.kernels[0].nodes) > 1 and len(report.kernels[0].outputs) == 1
    assert "kernels" in str(report) and '"left_out"' in report.json()
    for left_out in report.left_out:
        assert left_out.why.endswith(".") and left_out.code.isidentifier()


def test_explain_sees_what_was_compiled_before():
    model, x = Mlp().eval().requires_grad_(False), torch.randn(4, 64, dtype=torch.bfloat16)
    for backend in ("inductor", epifuse.torch.backend):
        run = torch.compile(model, backend=backend)
        run(x)
        for _ in range(3):
            assert len(epifuse.torch.explain(model, x).kernels) == 2
        before = torch._dynamo.utils.counters["stats"]["unique_graphs"]
        run(x)  # and it stays compiled
        assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == before


def test_rows_may_change_without_new_binaries():
    model = Mlp().eval().requires_grad_(False)
    run = compiled(model, dynamic=True)
    with torch.no_grad():
        run(torch.randn(5, 64, dtype=torch.bfloat16))
        before = _native.counts().programs
        for rows in (2, 7, 33, 128):
            assert_no_further_than_eager(model, run, (torch.randn(rows, 64).bfloat16(),))
    assert _native.counts().programs == before


def test_zeros_of_both_signs_are_no_equal_work():
    def f(x, w):
        y = (x @ w).abs()
        return 1 / (y * 0.0), 1 / (y * -0.0)

    x, w = torch.randn(8, 16), torch.randn(16, 8)
    plus, minus = compiled(f)(x, w)
    assert (plus == torch.inf).all() and (minus == -torch.inf).all()


class Views(nn.Module):
    """Weights as views of their storage, operands repeated, results seen through views."""

    def __init__(self):
        super().__init__()
        self.storage = nn.Parameter(torch.randn(96, 80, dtype=torch.bfloat16))
        self.vector = nn.Parameter(torch.randn(32, dtype=torch.bfloat16))

    def forward(self, x):
        sliced = torch.relu(x @ self.storage[:64, 8:40] + self.vector)
        turned = torch.relu(x @ self.storage[10:42, 16:].t() + self.vector.expand(x.shape[0], 32))
        column = F.silu(x @ self.storage[:64, :32] * sliced[:, :1])
        return sliced, turned.t(), column.view(-1, 4, 8).permute(1, 0, 2)


def test_views_keep_values_and_strides():
    model = Views().eval().requires_grad_(False)
    x = torch.randn(33, 64, dtype=torch.bfloat16)
    assert_no_further_than_eager(model, compiled(model), (x,))
    assert len(epifuse.torch.explain(model, x).kernels) == 3


def test_square_bias_is_a_row():
    def f(x, w, b):
        return torch.relu(x @ w + b)

    x, w, b = (torch.randn(*shape, dtype=torch.bfloat16) for shape in ((32, 32), (32, 32), (32,)))
    got = compiled(f)(x, w, b)
    exact = torch.relu(x.double() @ w.double() + b.double())
    assert torch.allclose(got.double(), exact, rtol=2**-8, atol=32 * 2**-16)


def test_gradients_equal_eager():
    model = Mlp(dtype=torch.float32)
    x = torch.randn(9, 64, requires_grad=True)
    model(x).square().sum().backward()
    expected = [x.grad.clone()] + [p.grad.clone() for p in model.parameters()]
    x.grad = None
    model.zero_grad()
    compiled(model)(x).square().sum().backward()
    for got, want in zip([x.grad] + [p.grad for p in model.parameters()], expected):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


def test_pass_keeps_the_users_own_and_is_off_by_default():
    from torch._inductor import config

    calls = []
    assert not isinstance(config.post_grad_custom_pre_pass, epifuse.torch.inductor.FusionPass)
    with config.patch(post_grad_custom_pre_pass=lambda graph: calls.append(graph),
                      fx_graph_cache=False):
        with epifuse.torch.enabled():
            model = Mlp().eval().requires_grad_(False)
            x = torch.randn(4, 64, dtype=torch.bfloat16)
            assert_no_further_than_eager(model, torch.compile(model), (x,))
    assert calls
    epifuse.torch.enable()
    assert isinstance(config.post_grad_custom_pre_pass, epifuse.torch.inductor.FusionPass)
    epifuse.torch.disable()
    assert config.post_grad_custom_pre_pass is None


def test_options_are_checked():
    x = torch.randn(4, 64, dtype=torch.bfloat16)
    with pytest.raises(Exception,
                       match="expected options among numerics, only_faster, tf32, tune, got typo"):
        compiled(Mlp().eval().requires_grad_(False), options={"epifuse.typo": 1})(x)
    with pytest.raises(BadInputError, match="expected fast, exact or approx, got 'slow'"):
        epifuse.torch.enable(numerics="slow")
    with pytest.raises(BadInputError,
                       match="expected off, compile, first-use or full, got 'always'"):
        epifuse.torch.enable(tune="always")
    with pytest.raises(BadInputError, match="only_faster: expected True or False, got 'False'"):
        epifuse.torch.enable(only_faster="False")
    with pytest.raises(BadInputError, match="tf32: expected True or False, got 'high'"):
        epifuse.torch.enable(tf32="high")


def test_kernels_are_measured_as_the_option_then_the_environment_say(monkeypatch):
    def asked(**options):
        return epifuse.torch.inductor.FusionPass(options, None).core_options()["tune"]

    monkeypatch.delenv("EPIFUSE_TUNE", raising=False)
    assert asked() == "compile"
    assert asked(tune="off") == "off"
    monkeypatch.setenv("EPIFUSE_TUNE", "first-use")
    assert asked() == "first-use"
    assert asked(tune="full") == "full"
    monkeypatch.setenv("EPIFUSE_TUNE", "fast")
    assert asked(tune="off") == "off"
    with pytest.raises(BadInputError,
                       match="EPIFUSE_TUNE: expected off, compile, first-use or full, got 'fast'"):
        asked()


@pytest.mark.parametrize(("mode", "options", "environment", "expected"), [
    ("max-autotune", {}, None, "full"),
    ("max-autotune-no-cudagraphs", {}, None, "full"),
    ("reduce-overhead", {}, None, "compile"),
    ("max-autotune", {"epifuse.tune": "off"}, None, "off"),
    ("max-autotune", {}, "off", "off"),
])
def test_max_autotune_measures_all(monkeypatch, mode, options, environment, expected):
    if environment is None:
        monkeypatch.delenv("EPIFUSE_TUNE", raising=False)
    else:
        monkeypatch.setenv("EPIFUSE_TUNE", environment)
    seen = {}
    monkeypatch.setattr("torch._inductor.compile_fx.compile_fx",
                        lambda *_, config_patches: seen.update(config_patches))
    epifuse.torch.backend(None, [], mode=mode, options=options)
    assert seen["post_grad_custom_pre_pass"].core_options()["tune"] == expected


@pytest.mark.parametrize("dynamic", [False, True])
def test_what_inductor_runs_faster_on_cpus_is_left_to_it(fresh, dynamic):
    model = nn.Sequential(nn.Linear(384, 384), nn.GELU()).eval().requires_grad_(False)
    for is_left in (True, False):
        x = torch.randn(128, 384)
        if dynamic:
            torch._dynamo.mark_dynamic(x, 0)
        report = epifuse.torch.explain(model, x, only_faster=is_left)
        assert len(report.kernels) == (not is_left)
        assert ("framework_is_faster" in {left.code for left in report.left_out}) == is_left
    wide = nn.Sequential(nn.Linear(768, 3072), nn.GELU()).eval().requires_grad_(False)
    report = epifuse.torch.explain(wide, torch.randn(16, 768), only_faster=True)
    assert [kernel.epilogue for kernel in report.kernels] == ["bias+gelu_erf"]


def test_sentences_name_nodes_as_the_graph_does(fresh):
    """`sub` is a word of the language, in which the value has another name."""
    model = nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.Linear(64, 64)).eval()
    report = epifuse.torch.explain(model.requires_grad_(False), torch.randn(8, 64))
    why = {left.node: left.why for left in report.left_out}
    assert why["sub"].startswith("sub goes into a matmul")


def test_exact_numerics_round_as_eager_does():
    model = nn.Sequential(nn.Linear(64, 32, dtype=torch.bfloat16), nn.ReLU()).eval()
    x = torch.randn(40, 64, dtype=torch.bfloat16)
    with torch.no_grad():
        got = compiled(model, options={"epifuse.numerics": "exact"})(x)
        same = (got == model(x)).float().mean()
    assert same > 0.98  # up to the order of sums


def test_empty_batch():
    model = Mlp().eval().requires_grad_(False)
    with torch.no_grad():
        assert compiled(model, dynamic=True)(torch.empty(0, 64).bfloat16()).shape == (0, 64)


def test_what_fails_is_left_alone_and_said(monkeypatch):
    def fail(text, options):
        raise _native.UnavailableError("no GPU here")

    monkeypatch.setattr(_native, "fusions", fail)
    model, x = Mlp().eval().requires_grad_(False), torch.randn(4, 64, dtype=torch.bfloat16)
    report = epifuse.torch.explain(model, x)
    assert not report.kernels
    reasons = [(node.code, node.why) for node in report.left_out]
    assert reasons == [("unavailable", "no GPU here")] * 2
