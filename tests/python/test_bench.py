"""The programs of bench/ that time PyTorch: what they compute, and what they say of the times."""

import pathlib
import sys

import pytest
import torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench"))
import gradients  # noqa: E402
import networks  # noqa: E402
import random_torch  # noqa: E402
import scaled  # noqa: E402
import training  # noqa: E402


def point(epilogue, layout="", groups=1, **own):
    return {"workload": "1.0", "m": 5, "n": 7, "k": 3, "groups": groups, "dtype": "bf16",
            "epilogue": epilogue, "layout": layout, **own}  # fmt: skip


@pytest.mark.parametrize("layout", ["", "xm", "nn", "xm nn"])
@pytest.mark.parametrize("groups", [1, 2])
def test_a_random_point_is_the_product_that_its_words_name(layout, groups):
    each = point("bias+scale+residual+softplus+preact", layout, groups)
    x, w, b, s, r = (t.double() for t in random_torch.operands(each, "cpu"))
    y, z = random_torch.expression(each)(x, w, b, s, r)
    assert x.shape[-2:] == ((3, 5) if "xm" in layout else (5, 3))
    assert w.shape[-2:] == ((3, 7) if "nn" in layout else (7, 3))
    a = x.transpose(-1, -2) if "xm" in layout else x
    c = w if "nn" in layout else w.transpose(-1, -2)
    product = (a.unsqueeze(-1) * c.unsqueeze(-3)).sum(-2)
    torch.testing.assert_close(z, (product + b) * s + r)
    torch.testing.assert_close(y, torch.log(1 + torch.exp(z)))
    assert y.shape == ((groups,) if groups > 1 else ()) + (5, 7)
    assert random_torch.error_of(each, (y, z), (x, w, b, s, r)) < 1e-12
    assert random_torch.error_of(each, (y * 1.1, z), (x, w, b, s, r)) > 0.05


def test_a_word_that_is_not_known_is_refused():
    with pytest.raises(ValueError, match="'swish'"):
        random_torch.expression(point("bias+swish"))


def test_slower_is_what_takes_three_percent_and_two_microseconds_more():
    times = [(100.0, 100.0), (104.0, 100.0), (11.9, 10.0), (50.0, 100.0), (500.0, 400.0)]
    measured = [random_torch.Measured(point("silu"), us, other, "ping-pong", 0.0)
                for us, other in times]
    first, *rest = random_torch.summary(measured)
    assert first == ("5 points: geometric mean 0.950, 95th percentile 1.250, worst 1.250; "
                     "2 slower by more than 3 % and 2 us")
    assert [line.split(":")[1] for line in rest] == [" 1.0 5x7x3 bf16 silu"] * 2
    assert "500.0 us, Inductor 400.0, ping-pong" in rest[0]


def test_loops_beside_products_are_those_with_one_next_to_them():
    kernels = [("triton_poi_fused_0", 1), ("nvjet_hsh_128x256", 10), ("triton_red_fused_1", 2),
               ("triton_poi_fused_2", 4), ("fmha_cutlassF_bf16", 20), ("triton_poi_fused_3", 8),
               ("epifuse_gemm_bias", 30), ("multi_tensor_apply_kernel", 40)]  # fmt: skip
    assert training.beside_products(kernels) == 1 + 2 + 8
    assert training.beside_products(kernels[3:4]) == 0
    assert training.class_of("epifuse_side_by_side_bias") == "products"


def test_a_step_of_decoding_is_the_last_token_of_a_sequence():
    torch.manual_seed(0)
    step = networks.DecodingLayer(2, 6, 32, 48, 4, 2, True).double()
    whole = networks.LlamaLayer(32, 48, 4, 2, True).double()
    whole.load_state_dict(step.state_dict(), strict=False)
    x, still = torch.randn(2, 7, 32).double(), (torch.ones(1), torch.zeros(1))
    y = whole.norm1(x)
    for kept, product in ((step.keys, whole.k), (step.values, whole.v)):
        kept.copy_(product(y).view(2, 7, 2, 8).transpose(1, 2))
        kept[:, :, -1] = 0
    torch.testing.assert_close(step(x[:, -1:], *still), whole(x, *still)[:, -1:])


@pytest.mark.parametrize("point", gradients.POINTS, ids=lambda point: point.workload)
def test_products_of_backward_passes_are_what_autograd_computes(point):
    torch.manual_seed(0)
    small = gradients.Product(point.workload, point.run, point.fulls, 5, 7, 3)
    dy, w, *fulls = (x.double() for x in small.operands("cpu"))
    fulls = [x.requires_grad_() for x in fulls]
    after = {"gelu+bias": torch.nn.functional.gelu,
             "swiglu": lambda gate, up: torch.nn.functional.silu(gate) * up}  # fmt: skip
    wanted = list(torch.autograd.grad(after[point.workload](*fulls), fulls, dy @ w.t()))
    if point.workload == "gelu+bias":
        wanted.append(wanted[0].sum(0))
    torch.testing.assert_close(list(point.run(dy, w, *(x.detach() for x in fulls))), wanted)


def test_wide_tensors_are_those_of_float32_and_the_results_shape():
    code = """buf0 = empty_strided_cuda((64, 48), (48, 1), torch.float32)
        buf1 = empty_strided_cuda((64, 48), (48, 1), torch.bfloat16)
        buf2 = empty_strided_cuda((8, 48), (48, 1), torch.float32)"""
    assert gradients.wide_tensors([code, ""], (64, 48)) == 1


def whole(q, scale, rows, columns):
    """The float64 values of 8-bit ones, each scale for so many rows and columns."""
    return q.double() * scale.double().repeat_interleave(rows, 0).repeat_interleave(columns, 1)


@pytest.mark.parametrize("quantise, rows, columns", [
    (scaled.by_rows, 1, 256), (scaled.by_blocks, 1, 128), (scaled.by_squares, 128, 128)])
def test_the_largest_of_what_shares_a_scale_becomes_the_largest_number(quantise, rows, columns):
    torch.manual_seed(0)
    x = torch.randn(256, 256) * 3
    x[128:, :128] = 0
    q, scale = quantise(x)
    assert scale.shape == (256 // rows, 256 // columns)
    values = whole(q, scale, rows, columns)
    torch.testing.assert_close(values, x.double(), rtol=2**-4, atol=0.02)
    parts = q.float().abs().unflatten(0, (-1, rows)).unflatten(-1, (-1, columns)).amax((1, 3))
    assert set(parts.flatten().tolist()) <= {448.0, 0.0}


def linear(x, sx, w, sw):
    return whole(x, sx, 1, x.shape[1]) @ whole(w, sw, 1, w.shape[1]).t()


def gated(x, sx, w, sw):
    gate, up = linear(x, sx, w, sw).chunk(2, -1)
    return torch.nn.functional.silu(gate) * up


@pytest.mark.parametrize("run, epilogue, exact", [
    (scaled.silu, "bias+silu", lambda *of, b: torch.nn.functional.silu(linear(*of) + b)),
    (scaled.gelu, "bias+gelu_erf", lambda *of, b: torch.nn.functional.gelu(linear(*of) + b)),
    (scaled.promoted, "identity", linear),
    (scaled.relu, "relu", lambda *of: torch.relu(linear(*of))),
    (scaled.swiglu, "swiglu", gated)])  # fmt: skip
def test_a_point_with_scales_is_the_program_that_it_names(run, epilogue, exact):
    point = scaled.Point("rows", epilogue, 16, 48, 64, run)
    x, sx, w, sw, *bias = given = point.operands("cpu")
    wanted = exact(x, sx, w, sw, **{"b": b.double() for b in bias})
    torch.testing.assert_close(run(*given).double(), wanted, rtol=2**-6, atol=2**-6)
    torch.testing.assert_close(point.baseline(given)().double(), linear(x, sx, w, sw),
                               rtol=2**-7, atol=2**-7)  # fmt: skip


def test_an_mlp_in_8_bits_is_two_products_and_what_quantises():
    point = scaled.Point("mlp rows", "mlp", 16, 32, 32, scaled.mlp_by(scaled.by_rows), inner=64)
    x, w, sw, down, of_down = given = point.operands("cpu")
    q, sx = scaled.by_rows(x)
    h, sh = scaled.by_rows(gated(q, sx, w, sw))
    wanted = linear(h, sh, down, of_down)
    assert (point.run(*given).double() - wanted).norm() < 0.02 * wanted.norm()
    first, second = point.baseline(given)()
    assert first.shape == (16, 128)
    assert (second.double() - wanted).norm() < 0.02 * wanted.norm()


def test_calls_of_points_with_scales_are_measured_by_turns():
    point = scaled.Point("rows", "bias+silu", 8, 16, 32, scaled.silu, contenders=("eager",))
    us, _, errors = scaled.measure(point, {"eager": {"backend": "eager"}}, "cpu")
    assert set(us) == {"scaled_mm", "eager"} and min(us.values()) > 0
    assert errors == {"scaled_mm": 0.0, "eager": 0.0}
