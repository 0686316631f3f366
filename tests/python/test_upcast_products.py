"""Products in float32 of what was 16 bits wide: products of 16 bits, as exact as eager's."""

import pytest
import torch
from close import distance, wide
from fx_capture import capture
from torch import fx
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from epifuse.torch import inductor, unharmed, upcast_products


class OnCpu(fx.Interpreter):
    """Runs products of 16 bits with results in float32, which PyTorch has for GPUs alone."""

    def call_function(self, target, args, kwargs):
        if str(target) in ("aten.mm.dtype", "aten.bmm.dtype"):
            return args[0].to(args[2]) @ args[1].to(args[2])
        return super().call_function(target, args, kwargs)


def products(graph):
    """Their results' and first operands' dtypes."""
    return [(node.meta["val"].dtype, node.args[-2].meta["val"].dtype)
            if "dtype" not in str(node.target)
            else (node.meta["val"].dtype, node.args[0].meta["val"].dtype)
            for node in graph.nodes if "mm." in str(node.target)]  # fmt: skip


def dtypes_multiplied(write, function, *args, **how):
    """Of the products of a graph that `write` changes; what it gives is right."""
    module = capture(function, *args, inductor=True, **how)
    write(module.graph)
    module.graph.lint()
    module.graph.eliminate_dead_code()
    module.recompile()
    got, eager = OnCpu(module).run(*args), function(*args)
    exact = function(*(wide(each) for each in args))
    single = not isinstance(eager, tuple)
    for ours, theirs, true in zip(*((each,) if single else each for each in (got, eager, exact)),
                                  strict=True):  # fmt: skip
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        assert distance(ours, true) <= 1.1 * distance(theirs, true) + 1e-7
    found = products(module.graph)
    assert all(result == torch.float32 for result, _ in found)
    return [dtype for _, dtype in found]


def left(function, *args, device="cpu", **how):
    """How many products stay in float32, and how many there are."""
    found = dtypes_multiplied(
        lambda graph: upcast_products.multiply_before_upcasts(graph, device), function, *args,
        **how)  # fmt: skip
    return found.count(torch.float32), len(found)


def upcast(x):
    """To float32, or left in float64."""
    return x if x.dtype == torch.float64 else x.float()


def attention(q, k, v, mask=None):
    with sdpa_kernel(SDPBackend.MATH):
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=0.1)


def heads(dtype=torch.bfloat16, length=48):
    """Heads that lie side by side in a token's row, as those of most models."""
    torch.manual_seed(0)
    return [torch.randn(2, length, 3, 64).to(dtype).transpose(1, 2) for _ in range(3)]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_scores_of_attention_are_products_of_16_bits(dtype):
    q, k, v = heads(dtype)
    mask = torch.randn(2, 1, 48, 48).to(dtype)
    assert left(attention, q, k, v, mask) == (1, 2)  # not the values, whose weights are float32


def test_batches_of_any_size_stay():
    mask = torch.randn(2, 1, 48, 48).bfloat16()
    assert left(attention, *heads(), mask, dynamic=True) == (2, 2)


def test_operands_that_are_no_views_before_they_are_converted():
    """A query for all samples, which has no memory of its own for each."""
    _, k, v = heads()

    def step(q, k, v):
        return attention(q.expand(2, 3, 1, 64), k, v)

    assert left(step, torch.randn(1, 3, 1, 64).bfloat16(), k, v) == (1, 2)


def test_gradients_of_attention_have_one_more():
    def step(q, k, v, dy):
        q, k, v = (each.detach().requires_grad_() for each in (q, k, v))
        y = attention(q, k, v)
        return y, *torch.autograd.grad(y, (q, k, v), dy)

    q, k, v = heads()
    assert left(step, q, k, v, torch.randn(2, 3, 48, 64).bfloat16()) == (4, 6)


def routed(x, w):
    return functional.linear(upcast(x), upcast(w))


def with_bias(x, w):
    return functional.linear(upcast(x), upcast(w), upcast(w[:, 0]))


def scaled(x, w):
    return (upcast(x) * 0.5) @ (upcast(w.t()) * -3.0)


@pytest.mark.parametrize("function", [routed, with_bias, scaled])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("dynamic", [False, True])
def test_products_of_matrices(function, dtype, dynamic):
    torch.manual_seed(0)
    x, w = torch.randn(40, 128).to(dtype), torch.randn(24, 128).to(dtype)
    assert left(function, x, w, dynamic=dynamic) == (0, 1)


def rounded_weights(p, v):
    return upcast(torch.softmax(p, -1).to(v.dtype)) @ upcast(v)


def test_what_is_rounded_to_16_bits_counts():
    assert left(rounded_weights, torch.randn(40, 64), torch.randn(64, 32).bfloat16()) == (0, 1)


def of_floats(x, w):
    return x.exp() @ upcast(w)


def with_a_tensor_between(x, w):
    return (upcast(x) * upcast(x[:1])) @ upcast(w)


def by_an_alpha(x, w):
    return torch.addmm(upcast(w[0]), upcast(x), upcast(w), alpha=0.5)


@pytest.mark.parametrize("function", [of_floats, with_a_tensor_between, by_an_alpha])
def test_others_stay(function):
    torch.manual_seed(0)
    x = torch.randn(40, 64) if function is of_floats else torch.randn(40, 64).bfloat16()
    assert left(function, x, torch.randn(64, 32).bfloat16()) == (1, 1)


def test_two_kinds_of_16_bits_stay():
    x, w = torch.randn(40, 64).bfloat16(), torch.randn(24, 64).half()
    assert left(routed, x, w) == (1, 1)


def test_products_on_cpus_stay():
    x, w = torch.randn(40, 64).bfloat16(), torch.randn(24, 64).bfloat16()
    assert left(routed, x, w, device="cuda") == (1, 1)


@pytest.mark.parametrize(("capability", "is_there"), [((7, 5), False), ((8, 0), True)])
def test_gpus_without_bf16_have_none(capability, is_there, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert upcast_products._has_products(torch.device("cuda", 0)) == is_there
    monkeypatch.setattr(torch.version, "hip", "6.4")
    assert not upcast_products._has_products(torch.device("cuda", 0))


def test_products_of_16_bits_stay_as_they_are():
    x, w = torch.randn(40, 64).bfloat16(), torch.randn(64, 24).bfloat16()
    module = capture(torch.mm, x, w, inductor=True)
    before = str(module.graph)
    upcast_products.multiply_before_upcasts(module.graph, "cpu")
    assert str(module.graph) == before


def test_what_is_not_finite_stays_so():
    x, w = torch.ones(8, 64).bfloat16(), torch.ones(8, 64).bfloat16()
    x[0, 0], x[1, 1], x[2, 2], w[3, 0] = torch.inf, -torch.inf, torch.nan, 0
    module = capture(scaled, x, w, inductor=True)
    upcast_products.multiply_before_upcasts(module.graph, "cpu")
    module.recompile()
    assert torch.equal(OnCpu(module).run(x, w).nan_to_num(9e9), scaled(x, w).nan_to_num(9e9))


FACTORS = {"nothing": (0.0, 1.0), "infinite": (torch.inf, 1.0), "nan": (1.0, torch.nan),
           "beyond_float32": (1e300, 1e-300), "next_to_nothing": (1e-30, 1e-30)}  # fmt: skip


@pytest.mark.parametrize("name", FACTORS)
def test_factors_that_may_not_come_behind_the_sum_stay(name):
    """By 0 the sum of large operands is 0; before the factor it would be infinite."""
    first, second = FACTORS[name]

    def scaled(x, w):
        return (x.float() * first) @ (w.t().float() * second)

    x, w = torch.full((40, 64), 3e38).bfloat16(), torch.full((24, 64), 2.0).bfloat16()
    module = capture(scaled, x, w, inductor=True)
    upcast_products.multiply_before_upcasts(module.graph, "cpu")
    module.recompile()
    assert [dtype for _, dtype in products(module.graph)] == [torch.float32]
    torch.testing.assert_close(OnCpu(module).run(x, w), scaled(x, w), equal_nan=True)


@pytest.mark.parametrize("numerics", ["fast", "exact"])
def test_each_rounding_is_kept_where_that_is_asked_for(numerics, monkeypatch):
    called = []
    monkeypatch.setattr(inductor, "multiply_before_upcasts", called.append)
    (patch,) = inductor.with_masks_pass({}, {"numerics": numerics}).values()
    patch(capture(routed, torch.randn(8, 64).bfloat16(), torch.randn(8, 64).bfloat16()).graph)
    assert len(called) == (numerics == "fast")


def test_a_fault_leaves_products_in_float32(monkeypatch):
    def fail(graph):
        next(reversed(graph.nodes)).args = ()
        raise ValueError("no such product")

    monkeypatch.setattr(unharmed, "FAULTS", (Exception,))
    monkeypatch.setattr(inductor, "multiply_in_two_parts", fail)
    (patch,) = inductor.with_masks_pass({}, {}).values()
    x, w = torch.randn(8, 64).bfloat16(), torch.randn(8, 64).bfloat16()
    module = capture(routed, x, w)
    patch(module.graph)
    module.recompile()
    assert torch.equal(module(x, w), routed(x, w))
