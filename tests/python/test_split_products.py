"""Products in float32 of which bf16 is kept: two products of bf16, as near as one in float32."""

import pytest
import torch
from fx_capture import capture
from test_upcast_products import OnCpu, attention, dtypes_multiplied, heads

from epifuse.torch import inductor, split_products, upcast_products


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(split_products, "_FEWEST", 1)
    monkeypatch.setattr(split_products, "_FEWEST_OF_EACH", 1)


def narrow(x, dtype=torch.bfloat16):
    """Rounded, or left in float64."""
    return x if x.dtype == torch.float64 else x.to(dtype)


def written(function, *args, device="cpu"):
    """Products in float32 and of 16 bits, of a graph as it is written."""

    def write(graph):
        upcast_products.multiply_before_upcasts(graph, device)
        split_products.multiply_in_two_parts(graph, device)

    dtypes = dtypes_multiplied(write, function, *args)
    return dtypes.count(torch.float32), dtypes.count(torch.bfloat16)


def test_weights_of_attention_are_two_operands():
    q, k, v = heads()
    assert written(attention, q, k, v, torch.randn(2, 1, 48, 48).bfloat16()) == (0, 3)


def test_weights_that_are_kept_for_a_backward_pass_stay():
    def step(q, k, v, dy):
        q, k, v = (each.detach().requires_grad_() for each in (q, k, v))
        y = attention(q, k, v)
        return y, *torch.autograd.grad(y, (q, k, v), dy)

    q, k, v = heads()
    # Values by weights, which the gradient of a softmax reads, too, and the gradients of values.
    assert written(step, q, k, v, torch.randn(2, 3, 48, 64).bfloat16()) == (2, 2 + 2 * 2)


def by_values(p, v):
    return narrow(p.cos() @ v.to(p.dtype))


def scaled_and_moved(p, v):
    return narrow(((p.cos().t() * 0.3) @ (v.to(p.dtype) * 2.0)).t())


def weights_second(p, v):
    return narrow(v.t().to(p.dtype) @ p.cos())


@pytest.mark.parametrize("function", [by_values, scaled_and_moved, weights_second])
def test_products_of_matrices(function):
    torch.manual_seed(0)
    assert written(function, torch.randn(64, 64), torch.randn(64, 40).bfloat16()) == (0, 2)


def kept_in_float32(p, v):
    y = p.cos() @ v.to(p.dtype)
    return y, narrow(y)


def read_elsewhere(p, v):
    p = p.exp()
    return p, narrow(p @ v.to(p.dtype))


def of_float16(p, v):
    return narrow(p.cos() @ v.half().to(p.dtype), torch.float16)


def of_two_in_float32(p, v):
    return narrow(p.cos() @ (v.to(p.dtype) + p[:, :1]))


def of_an_input(p, v):
    return narrow(p.t() @ v.to(p.dtype))


@pytest.mark.parametrize("function", [kept_in_float32, read_elsewhere, of_float16,
                                      of_two_in_float32, of_an_input])  # fmt: skip
def test_others_stay(function):
    torch.manual_seed(0)
    assert written(function, torch.randn(64, 64), torch.randn(64, 40).bfloat16()) == (1, 0)


def test_small_products_and_those_on_cpus_stay(monkeypatch):
    p, v = torch.randn(64, 64), torch.randn(64, 40).bfloat16()
    assert written(by_values, p, v, device="cuda") == (1, 0)
    monkeypatch.setattr(split_products, "_FEWEST", 64 * 64 * 40 + 1)
    assert written(by_values, p, v) == (1, 0)


@pytest.mark.parametrize(("fewest", "count"), [(40, (0, 2)), (41, (1, 0))])
@pytest.mark.parametrize("function", [by_values, weights_second])
def test_few_columns_stay(function, fewest, count, monkeypatch):
    monkeypatch.setattr(split_products, "_FEWEST_OF_EACH", fewest)
    assert written(function, torch.randn(64, 64), torch.randn(64, 40).bfloat16()) == count


def unchanged(p, v):
    return narrow(p.neg().neg() @ v.to(p.dtype))


def test_both_parts_have_16_bits_and_what_is_not_finite_stays_so():
    p = torch.zeros(8, 64)
    p[:, 0] = torch.tensor([1 + 2**-7 + 2**-14, 1 / 3, torch.inf, -torch.inf, torch.nan, 1e-30,
                            3e38, -0.7])  # fmt: skip
    v = torch.zeros(64, 2).bfloat16()
    v[0] = torch.tensor([1.0, -2.0])
    module = capture(unchanged, p, v, inductor=True)
    split_products.multiply_in_two_parts(module.graph, "cpu")
    module.recompile()
    got = OnCpu(module).run(p, v)
    assert torch.equal(got.nan_to_num(9.0), unchanged(p, v).nan_to_num(9.0))
    *_, total = (node for node in module.graph.nodes if str(node.target) == "aten.add.Tensor")
    assert [str(each.target) for each in total.args] == ["aten.mm.dtype"] * 2
    module.graph.output_node().args = (total,)
    module.recompile()
    total = OnCpu(module).run(p, v)[:, 0]
    assert total[0] == p[0, 0]
    assert (total - p[:, 0])[[1, 5, 6, 7]].abs().div(p[[1, 5, 6, 7], 0].abs()).max() <= 2**-15


@pytest.mark.parametrize("sign", [1, -1])
def test_infinite_values_stay_infinite(sign):
    """By weights that one part holds, that need two, that are infinite or NaN: only 0 makes NaN."""
    p, v = torch.zeros(10, 64), torch.ones(64, 3).bfloat16()
    p[:9, 0] = torch.tensor([1.0, 0.5, -0.25, 1 / 3, torch.inf, -torch.inf, 0.0, 2e-33, 3e38])
    p.view(torch.int32)[9, 0] = 0x7F800001  # NaN, in its last bit alone
    v[0] = torch.tensor([sign * torch.inf, torch.nan, 0.0])
    module = capture(unchanged, p, v, inductor=True)
    split_products.multiply_in_two_parts(module.graph, "cpu")
    module.recompile()
    got, eager = OnCpu(module).run(p, v), unchanged(p, v)
    assert eager[:, 0].isinf().sum() == 8 and eager[:, 2].isnan().sum() == 3
    torch.testing.assert_close(got, eager, rtol=0, atol=0, equal_nan=True)


def by_zero(p, v):
    return narrow((p.cos() * 1e30) @ (v.to(p.dtype) * 0.0))


def test_a_factor_of_0_leaves_one_product():
    assert written(by_zero, torch.randn(64, 64), torch.full((64, 40), 1e10).bfloat16()) == (1, 0)


@pytest.mark.parametrize("numerics", ["fast", "exact"])
def test_float32_is_kept_where_each_rounding_is_asked_for(numerics, monkeypatch):
    called = []
    monkeypatch.setattr(inductor, "multiply_in_two_parts", called.append)
    (patch,) = inductor.with_masks_pass({}, {"numerics": numerics}).values()
    patch(capture(by_values, torch.randn(8, 64), torch.randn(64, 8).bfloat16()).graph)
    assert len(called) == (numerics == "fast")
