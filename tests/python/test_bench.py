"""The programs of bench/ that time PyTorch: what they compute, and what they say of the times."""

import pathlib
import sys

import pytest
import torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench"))
import random_torch  # noqa: E402
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
