"""Random programs of `bench/random_forms.py`: what its points draw and compute."""

import argparse
import math
import pathlib
import random
import sys

import pytest
import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench"))
import random_forms  # noqa: E402
from forms import FORMS, Tensors  # noqa: E402


def options(**own):
    return argparse.Namespace(**{"form": list(FORMS), "seed": 3, "count": 4, "only": "",
                                 "dry_run": True, **own})  # fmt: skip


def drawn(kind, **own):
    point = {"kind": kind, "seed": "0.0", **FORMS[kind].draw(random.Random(kind))}
    return {**point, "m": 7, "n": 128, "k": 128, **own}


def results(point):
    args = FORMS[point["kind"]].operands(point, Tensors("cpu"))
    return FORMS[point["kind"]].program(point)(*args), args


def test_a_seed_draws_the_same_points_each_time():
    points = random_forms.points_of(options())
    assert points == random_forms.points_of(options())
    assert points != random_forms.points_of(options(seed=4))
    assert [point["kind"] for point in points] == [kind for kind in FORMS for _ in range(4)]
    assert all(point["m"] <= 7 and point["n"] <= 128 for point in points)
    only = random_forms.points_of(options(only="gated 3.1 "))
    assert [random_forms.text(point)[:10] for point in only] == ["gated 3.1 "]


@pytest.mark.parametrize("kind", FORMS)
def test_sizes_are_within_their_bounds(kind):
    for i in range(200):
        point = FORMS[kind].draw(random.Random(i))
        assert 2 * point["m"] * point["n"] * point["k"] < 1.2e12
        assert min(point["m"], point["n"], point["k"]) >= 1
        if kind in ("scaled", "int8") or point.get("bits") == 8:
            assert point["n"] % 16 == 0 and point["k"] % 16 == 0
        if point.get("scales") == "blocks":
            assert point["n"] % 128 == 0 and point["k"] % 512 == 0


@pytest.mark.parametrize("layout", ["separate", "halves", "interleaved"])
@pytest.mark.parametrize("along", ["k", "n"])
def test_a_gate_is_of_two_products(layout, along):
    point = drawn("gated", layout=layout, along=along, gate="swiglu", bias=True, more="residual")
    y, (x, weights, biases, residual) = results(point)
    rows = [w.double() if along == "k" else w.double().t() for w in weights]
    products = [x.double() @ w.t() + b.double() for w, b in zip(rows, biases, strict=True)]
    if layout == "halves":
        products = [products[0][:, :128], products[0][:, 128:]]
    elif layout == "interleaved":
        products = [products[0][:, 0::2], products[0][:, 1::2]]
    gate, up = products
    expected = gate / (1 + torch.exp(-gate)) * up + residual.double()
    torch.testing.assert_close(y.double(), expected, atol=0.05, rtol=0.05)


@pytest.mark.parametrize("form", ["plain", "gate", "gather", "put", "bias"])
@pytest.mark.parametrize("along", ["k", "n"])
def test_rows_of_groups_meet_their_own_weights(form, along):
    point = drawn("grouped", form=form, along=along, act="silu", m=40, experts=4, skewed=True)
    y, (x, w, ends, order, biases, ids, probabilities) = results(point)
    assert ends.tolist() == [(ids <= e).sum().item() for e in range(4)]
    rows = x[order] if form == "gather" else x
    each = [rows[i].double() @ (w[g].double().t() if along == "k" else w[g].double())
            for i, g in enumerate(ids.tolist())]  # fmt: skip
    expected = torch.stack(each)
    if form in ("gate", "gather"):
        expected = F.silu(expected[:, :128]) * expected[:, 128:]
    elif form == "bias":
        expected = F.silu(expected + biases.double()[ids])
    elif form == "put":
        expected = (expected * probabilities.double())[order.argsort()]
    torch.testing.assert_close(y.double(), expected, atol=0.05, rtol=0.05)


def test_a_scaled_product_is_that_of_what_its_values_stand_for():
    point = drawn("scaled", scales="rows", act="none", bias=False, residual=True, result="bf16",
                  gated=False, quantised=True, fast=False)  # fmt: skip
    y, (x, of_x, w, of_w, _, residual, _) = results(point)
    expected = (x.double() * of_x) @ (w.double() * of_w).t() + residual.double()
    torch.testing.assert_close(y.double(), expected, atol=0.05, rtol=0.05)


@pytest.mark.parametrize("odd", ["", "relu", "residual"])
@pytest.mark.parametrize("bits, along, norm", [(16, "k", True), (16, "n", False), (8, "k", False)])
def test_products_of_one_operand_have_weights_of_their_own(bits, along, norm, odd):
    point = drawn("shared", bits=bits, along=along, norm=norm, odd=odd, parts=[1, 4, 2], bias=True,
                  act="silu")  # fmt: skip
    ys, (x, g, weights, scales, biases, residual) = results(point)
    assert [y.shape[1] for y in ys] == [128, 32, 64]
    x = F.rms_norm(x, g.shape, g).double() if norm else x.double()
    for i, (y, w, s, b) in enumerate(zip(ys, weights, scales, biases, strict=True)):
        w = w.double() * s if bits == 8 else w.double()
        expected = F.silu(x @ (w.t() if along == "k" else w) + b.double())
        if i == 0:
            expected = {"": expected, "relu": expected.relu(),
                        "residual": expected + residual.double()}[odd]  # fmt: skip
        torch.testing.assert_close(y.double(), expected, atol=0.1 if bits == 8 else 0.05,
                                   rtol=0.05)  # fmt: skip


def test_a_step_of_training_has_all_gradients():
    point = drawn("trained", form="mlp", act="relu", bias=True, dtype="bf16")
    args = FORMS["trained"].operands(point, Tensors("cpu", torch.float64))
    y, *gradients = random_forms.call_of(FORMS["trained"].program(point), point, args)()
    (x, w, b, v, c), gradient = args
    h = x @ w.t() + b
    back = (gradient @ v) * (h > 0)
    expected = [x + h.relu() @ v.t() + c, gradient + back @ w, back.t() @ x, back.sum(0),
                gradient.t() @ h.relu(), gradient.sum(0)]  # fmt: skip
    for got, exact in zip([y, *gradients], expected, strict=True):
        torch.testing.assert_close(got, exact.detach())


def test_results_are_wrong_where_they_are_far_from_eagers_and_further_than_inductors():
    exact = [torch.ones(4), torch.full((2,), 2.0)]
    near = [torch.ones(4), torch.full((2,), 2.02)]
    assert random_forms.error_of(near, exact) == pytest.approx(0.01)
    for nans in ([exact[0] * math.nan, exact[1]], [exact[0], exact[1] * math.nan]):
        assert math.isnan(random_forms.error_of(nans, exact))
    assert random_forms.is_right(0.019, 0) and not random_forms.is_right(0.021, 0)
    assert random_forms.is_right(0.14, 0.1) and not random_forms.is_right(0.16, 0.1)
    assert not random_forms.is_right(math.nan, 0)


@pytest.mark.parametrize("kind", FORMS)
def test_ours_computes_what_eager_does(kind):
    for point in random_forms.points_of(options(form=[kind], count=2)):
        if point.get("scales") == "blocks":
            continue  # PyTorch has no such product on CPUs
        calls, eager, report = random_forms.compiled(point, "cpu", fresh=True)
        exact = [each.clone() for each in eager()]
        assert random_forms.error_of(calls["epifuse"](), exact) < 0.02
        assert report.kernels or kind in ("grouped", "chained", "shared")
