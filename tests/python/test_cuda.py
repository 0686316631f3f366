"""The backend on a GPU: results, CUDA graphs, streams, sizes that change. Skipped without one."""

import copy

import layers
import pytest
import torch
from close import assert_no_further_than_eager, in_float64
from test_backend import Mlp, Views, compiled
from test_rotary import FORMS, Attention
from test_side_by_side import WIDTH, Decoder
from test_training import assert_no_further_than_eager as assert_gradients_no_further_than_eager
from torch import nn
from torch._inductor.utils import run_and_get_code
from torch.nn import functional as F

import epifuse.torch
from epifuse import _native

pytestmark = [
    pytest.mark.usefixtures("fresh"),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"),
    pytest.mark.skipif(torch.cuda.is_available() and torch.cuda.get_device_capability() != (9, 0),
                       reason="no Hopper GPU"),
]


def mlp(dtype=torch.bfloat16):
    return Mlp(256, 1024, dtype).cuda().eval().requires_grad_(False)


def tokens(*shape, dtype=torch.bfloat16):
    return torch.randn(*shape, 256, device="cuda", dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rows", [1, 17, 127, 2048])
def test_mlp(dtype, rows):
    model, x = mlp(dtype), tokens(2, rows, dtype=dtype)
    report = epifuse.torch.explain(model, x)
    assert [k.epilogue for k in report.kernels] == ["bias+gelu_erf", "bias+residual"], str(report)
    assert_no_further_than_eager(model, compiled(model), (x,))


def test_products_that_inductor_pads():
    model, x = mlp(), tokens(2, 17)
    with torch._inductor.config.patch(force_shape_pad=True):
        report = epifuse.torch.explain(model, x)
        assert_no_further_than_eager(model, compiled(model), (x,))
    assert [k.epilogue for k in report.kernels] == ["bias+gelu_erf", "bias+residual"], str(report)


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune-no-cudagraphs"])
def test_modes(mode):
    model = nn.Sequential(mlp(), mlp())
    run = compiled(model, mode=mode)
    for _ in range(3):
        assert_no_further_than_eager(model, run, (tokens(64),))


def test_float32_needs_leave_for_tf32():
    model, x = mlp(torch.float32), tokens(100, dtype=torch.float32)
    report = epifuse.torch.explain(model, x)
    assert not report.kernels
    assert {node.code for node in report.left_out} >= {"tf32_not_allowed"}
    assert epifuse.torch.explain(model, x, tf32=True).kernels
    run = compiled(model, options={"epifuse.tf32": True})
    exact = in_float64(model)(x.double())
    torch.testing.assert_close(run(x).double(), exact, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_graphs_without_kernels_run_as_without_us(mode):
    model = mlp(torch.float32)  # TF32 is not allowed
    run = compiled(model, mode=mode)
    epifuse.torch.reset_stats()
    with torch._inductor.config.patch(force_disable_caches=True):
        for _ in range(3):
            x = tokens(100, dtype=torch.float32)
            torch.testing.assert_close(run(x), model(x), rtol=1e-4, atol=1e-4)
    stats = epifuse.torch.stats()
    assert stats.graphs == 1 and stats.calls == 0 and stats.fallbacks == {"tf32_not_allowed": 2}



def test_views():
    model = Views().cuda().eval().requires_grad_(False)
    x = torch.randn(33, 64, device="cuda", dtype=torch.bfloat16)
    assert_no_further_than_eager(model, compiled(model), (x,))


class Shifted(nn.Module):
    """Scores and relative positions, which views shift as Transformer-XL and Funnel do."""

    def forward(self, x, y, positions):
        shifted = positions.view(4, 2, 16, 33).transpose(0, 1).reshape(2, 4, 33, 16)[:, :, 1:]
        scores = torch.einsum("binh,bjnh->bnij", x, y)
        return torch.relu(scores + shifted.reshape(2, 4, 16, 32)[..., :16])


def test_an_operand_that_inductor_copies():
    x, y, positions = (torch.randn(*shape, device="cuda", dtype=torch.bfloat16)
                       for shape in ((2, 16, 4, 64), (2, 16, 4, 64), (4, 32, 33)))  # fmt: skip
    options = {"epifuse.only_faster": False}
    assert_no_further_than_eager(Shifted(), compiled(Shifted(), options=options), (x, y, positions))
    assert "matmul_residual_relu" in [kernel.name for kernel in epifuse.torch.stats().kernels]


def test_rows_may_change_without_new_binaries():
    model = mlp()
    run = compiled(model, dynamic=True)
    assert_no_further_than_eager(model, run, (tokens(100),))
    before = _native.counts()
    for rows in (2, 64, 333):
        assert_no_further_than_eager(model, run, (tokens(rows),))
    assert _native.counts().programs == before.programs


def test_streams():
    model = mlp()
    run, x = compiled(model), tokens(512)
    expected = run(x)
    streams = [torch.cuda.Stream() for _ in range(3)]
    results = []
    torch.cuda.synchronize()
    for stream in streams * 4:
        with torch.cuda.stream(stream):
            results.append(run(x))
    torch.cuda.synchronize()
    assert all(torch.equal(result, expected) for result in results)


def test_gradients():
    model = Mlp(256, 1024, torch.float32).cuda()
    torch.set_float32_matmul_precision("high")
    x = torch.randn(64, 256, device="cuda", requires_grad=True)
    exact = [torch.zeros_like(p) for p in model.parameters()]
    try:
        model(x).square().sum().backward()
        exact = [p.grad.clone() for p in model.parameters()]
        model.zero_grad()
        compiled(model)(x).square().sum().backward()
    finally:
        torch.set_float32_matmul_precision("highest")
    for parameter, want in zip(model.parameters(), exact):
        scale = want.abs().max()
        assert (parameter.grad - want).abs().max() <= 1e-2 * scale


@pytest.mark.parametrize("form, bias", [("by_halves", True), ("plain_halves", False),
                                        ("by_pairs", False), ("plain_pairs", True)])
def test_rotary(form, bias):
    model = Attention(FORMS[form], bias).cuda().bfloat16().eval().requires_grad_(False)
    x = torch.randn(2, 763, model.q.in_features, device="cuda", dtype=torch.bfloat16)
    report = epifuse.torch.explain(model, x)
    turned = "bias+rotary" if bias else "rotary"
    assert [k.epilogue for k in report.kernels].count(turned) == 2, str(report)
    assert_no_further_than_eager(model, compiled(model), (x,), slack=1.25)


def test_rotary_in_training():
    model = Attention(FORMS["by_halves"], bias=True).cuda().bfloat16()
    x = torch.randn(2, 763, model.q.in_features, device="cuda", dtype=torch.bfloat16)
    assert_gradients_no_further_than_eager(model, compiled(model), [x])


@pytest.mark.parametrize("rows", [1, 100, 1000])
def test_a_result_that_is_written_transposed(rows):
    model = nn.Linear(256, 512).cuda().bfloat16().requires_grad_(False)
    turned = lambda x: F.gelu(model(x)).t().contiguous()
    x = tokens(rows)
    got = compiled(turned)(x)
    exact = F.gelu(F.linear(x.double(), *(p.double() for p in model.parameters()))).t()
    assert got.is_contiguous()
    assert (got - exact).abs().max() <= 2**-6 * exact.abs().max()  # two roundings if split


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
@pytest.mark.parametrize("rows", [1, 9, 16, 17, 64, 200])
@pytest.mark.parametrize("bias", [False, True])
def test_products_of_one_input(bias, rows, mode):
    model = Decoder(bias).bfloat16().cuda().requires_grad_(False)
    x = torch.randn(rows, 1, WIDTH, device="cuda", dtype=torch.bfloat16)
    names = [kernel.name for kernel in epifuse.torch.explain(model, x).kernels]
    assert ("matmul_bias_side_by_side" if bias else "matmul_side_by_side") in names
    run = compiled(model, mode=mode)
    for _ in range(3):
        assert_no_further_than_eager(model, run, (torch.randn_like(x),))


class Cache(nn.Module):
    """Keys and values of one token more, behind those that are kept: what a step of decoding does
    between a norm and attention."""

    def __init__(self, rows):
        super().__init__()
        self.k, self.v = (nn.Linear(256, 256, bias=False) for _ in range(2))
        self.register_buffer("keys", torch.zeros(rows, 3, 256))
        self.register_buffer("values", torch.zeros(rows, 3, 256))

    def forward(self, x):
        x = x * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-5).to(x.dtype)
        k, v = self.k(x), self.v(x)
        self.keys[:, -1] = torch.cat((-k[..., 128:], k[..., :128]), -1)
        self.values[:, -1] = v
        return torch.softmax(self.keys.float(), -1) + self.values


@pytest.mark.parametrize("rows", [1, 16, 64])
def test_kernels_of_inductors_start_early_and_together(rows):
    """Many steps, one behind the other: what starts early must not read too early."""
    from torch._inductor.utils import run_and_get_code

    model = Cache(rows).bfloat16().cuda().requires_grad_(False)
    eager = copy.deepcopy(model)
    run = compiled(model, mode="reduce-overhead")
    with torch._inductor.config.patch(force_disable_caches=True):
        _, (code,) = run_and_get_code(run, tokens(rows))
    num_kernels = code.count("@triton.jit")  # a norm, both copies, a softmax
    assert code.count("'launch_pdl': True") == num_kernels
    assert code.count("gdc_wait()") == num_kernels + 1, code
    for _ in range(20):
        x = tokens(rows)
        torch.testing.assert_close(run(x), eager(x), rtol=2**-6, atol=2**-6)


@pytest.mark.parametrize("rows", [96, 1000, 4096])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_weights_gradient_is_added_in_place(dtype, rows):
    def accumulate(x, way, total):
        total += x.t() @ way

    x, way = tokens(rows), tokens(rows)[:, :200].contiguous()
    total = torch.randn(256, 200, device="cuda").to(dtype)
    exact, place = total.double(), total.data_ptr()
    run = compiled(accumulate)
    for _ in range(2):
        run(x, way, total)
        exact += x.double().t() @ way.double()
    assert total.data_ptr() == place
    assert (total - exact).abs().max() <= 2**-7 * exact.abs().max()


@pytest.mark.parametrize(
    "layer", [layers.Bert, layers.Llama, lambda: layers.Autocast(layers.Vit())],
    ids=["bert", "llama", "vit_autocast"])  # fmt: skip
def test_a_step_of_training(layer):
    model = layer().cuda()
    dtype = torch.float32 if isinstance(model, layers.Autocast) else torch.bfloat16
    x = torch.randn(4, 32, layers.WIDTH, device="cuda", dtype=dtype)
    model = model.to(dtype)
    assert_gradients_no_further_than_eager(model, compiled(model), [x])


@pytest.mark.skipif(not hasattr(F, "grouped_mm"), reason="this PyTorch has no grouped_mm")
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
@pytest.mark.parametrize("kind", ["mixtral", "gpt-oss", "elsewhere"])
def test_experts(kind, mode):
    from test_experts import WIDTH, Experts, assert_right, swiglu, swiglu_oai

    if kind == "mixtral":
        model, epilogues = Experts(8, 2, swiglu, False, False), ["swiglu", "col_scale"]
    elif kind == "elsewhere":
        model, epilogues = Experts(3, 2, swiglu, True, False, 8), ["bias+swiglu", "bias+col_scale"]
    else:
        model = Experts(32, 4, swiglu_oai, True, True)
        epilogues = ["bias+swiglu_oai", "bias+col_scale"]
    model = model.cuda().requires_grad_(False)

    def routed(num_tokens):
        return torch.randn(num_tokens, WIDTH, device="cuda", dtype=torch.bfloat16)

    report = epifuse.torch.explain(model, routed(37))
    assert [k.epilogue for k in report.kernels if "grouped" in k.graph] == epilogues
    run = compiled(model, mode=mode)
    for _ in range(20):  # another routing each time, under one CUDA graph where the mode has them
        assert_right(model, run, routed(37))
    assert_right(model, run, routed(37)[:1].expand(37, WIDTH).contiguous())


@pytest.mark.skipif(not hasattr(F, "grouped_mm"), reason="this PyTorch has no grouped_mm")
@pytest.mark.parametrize("top_k", [2, 8])
def test_gradients_of_experts(top_k):
    """Rows in the order of their experts are looked up, and sums over 8 experts are additions."""
    from test_experts import WIDTH, Experts, distance, swiglu

    model = Experts(16, top_k, swiglu, False, False).cuda()
    x = torch.randn(96, WIDTH, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    gradients = []
    for run in (compiled(model), model):
        gradients.append(torch.autograd.grad(run(x).float().square().mean(),
                                             [x, *model.parameters()]))  # fmt: skip
    for ours, eager in zip(*gradients):
        assert distance(ours, eager) < 0.05


@pytest.mark.parametrize("num_experts", [64, 257])
def test_sorts_of_a_routers_choice_by_short_keys(num_experts):
    from test_short_keys import of_a_router, scores

    given = scores(num_experts).cuda()
    for ours, eager in zip(compiled(of_a_router)(given), of_a_router(given), strict=True):
        assert ours.dtype == eager.dtype and torch.equal(ours, eager)


@pytest.mark.parametrize("rows, depth", [(64, 256), (512, 4096), (128, 16384)])
def test_sums_of_integers_are_those_of_pytorch(rows, depth):
    """The numbers are not zero on average: the longest sums leave the 24 bits of float32."""

    def whole(x, w, sx, sw):
        return torch._int_mm(x, w.t()).to(torch.float32) * sx * sw

    x = torch.randint(16, 128, (rows, depth), dtype=torch.int8, device="cuda")
    w = torch.randint(16, 128, (384, depth), dtype=torch.int8, device="cuda")
    sx, sw = torch.ones(rows, 1, device="cuda"), torch.ones(384, device="cuda")
    sx[::2], sw[::2] = 0.5, 2
    assert len(epifuse.torch.explain(whole, x, w, sx, sw).kernels) == 1
    assert torch.equal(compiled(whole)(x, w, sx, sw), whole(x, w, sx, sw))


@pytest.mark.parametrize("ends", [[1000], [0, 64, 65, 65, 700, 990]])
@pytest.mark.parametrize("is_added", [False, True])
def test_gradients_of_grouped_weights(ends, is_added):
    """Alone they are a kernel, too. Rows behind the last group are NaN and in no sum."""

    def gradient(x, dy, ends, total):
        sums = torch._grouped_mm(x.t(), dy, offs=ends)
        return total + sums.float() if is_added else sums

    x, dy = (torch.randn(1000, width, device="cuda").bfloat16() for width in (136, 264))
    x[ends[-1]:] = torch.nan
    total = torch.randn(len(ends), 136, 264, device="cuda")
    args = (x, dy, torch.tensor(ends, dtype=torch.int32, device="cuda"), total)
    assert len(epifuse.torch.explain(gradient, *args).kernels) == 1
    got, first = compiled(gradient)(*args), 0
    for i, end in enumerate(ends):
        exact = x[first:end].double().t() @ dy[first:end].double()
        exact = exact + total[i].double() if is_added else exact
        scale = (end - first) ** 0.5 + 1
        assert (got[i].double() - exact).abs().max() <= scale * 2**-5
        first = end


@pytest.mark.parametrize("shape", [(3, 7), (64, 512), (1000, 4096)])
def test_casts_to_e4m3_saturate(shape):
    """What quantises has no bounds left; values beyond them, infinities and NaN are as eager's."""

    def quantise(x, scale):
        return (x.float() * scale).clamp(-448.0, 448.0).to(torch.float8_e4m3fn)

    x = (torch.randn(shape, device="cuda") * 300).bfloat16()
    x.view(-1)[:6] = torch.tensor([torch.inf, -torch.inf, torch.nan, -0.0, 448.0, 464.0])
    scale = torch.rand(shape[0], 1, device="cuda") + 1
    got, (code,) = run_and_get_code(compiled(quantise), x, scale)
    assert "maximum" not in code and "minimum" not in code
    expected = quantise(x, scale)
    is_nan = expected.float().isnan()
    assert is_nan.sum() == 1 and torch.equal(got.float().isnan(), is_nan)
    assert torch.equal(got.view(torch.uint8)[~is_nan], expected.view(torch.uint8)[~is_nan])


CONVOLUTIONS = {
    "patches": (nn.Conv2d(3, 128, 16, 16), (4, 3, 224, 224)),
    "all_of_a_patch": (nn.Conv3d(3, 128, (2, 14, 14), (2, 14, 14)), (300, 3, 2, 14, 14)),
    "along": (nn.Conv1d(128, 256, 3, 2), (3, 128, 801)),
    "groups": (nn.Conv1d(256, 256, 128, padding=64, groups=8), (3, 256, 500)),
    "points": (nn.Conv2d(64, 128, 1), (4, 64, 56, 56)),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name):
    convolution, shape = CONVOLUTIONS[name]
    model = nn.Sequential(copy.deepcopy(convolution), nn.SiLU()).cuda().to(torch.bfloat16)
    x = torch.randn(shape, device="cuda", dtype=torch.bfloat16)
    if name == "points":
        x = x.to(memory_format=torch.channels_last)
    assert_gradients_no_further_than_eager(model, compiled(model), [x])
    model.eval().requires_grad_(False)
    report = epifuse.torch.explain(model, x)
    assert len(report.kernels) == 1, str(report)
    assert_no_further_than_eager(model, compiled(model), (x,))
    run = compiled(model, options={"epifuse.only_faster": True})
    assert_no_further_than_eager(model, run, (x,))
