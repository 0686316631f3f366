"""Scales of a grouped product's rows: before the product, and as exact as eager's."""

import pytest
import torch
from close import distance, wide
from fx_capture import capture
from torch.nn import functional as F

from epifuse.torch import inductor, row_scales

if not hasattr(F, "grouped_mm"):
    pytest.skip("this PyTorch has no grouped_mm", allow_module_level=True)

ROWS, INNER, WIDTH = 48, 16, 64
ENDS = torch.tensor([0, 20, 21, 48], dtype=torch.int32)


def product(x, w, ends):
    return torch._grouped_mm(x, w, offs=ends)


def summed(x, y):
    return (x * y).sum(1, keepdim=True)


def gradients(back, h, w, ends):
    return product(back, w.transpose(1, 2), ends), product(back.t(), h, ends)


def step(h, w, scale, dy, ends):
    """A product whose rows are scaled, and its gradients."""
    y = product(h, w, ends)
    return y * scale, summed(dy, y), *gradients(dy * scale, h, w, ends)


def weights_the_other_way(h, w, scale, dy, ends):
    y = product(h, w, ends)
    back = scale * dy
    rows = product(back, w.transpose(1, 2), ends)
    return scale * y, summed(y, dy), rows, product(h.t(), back, ends)


def without_weights_gradient(h, w, scale, dy, ends):
    y = product(h, w, ends)
    return y * scale, summed(dy, y), product(dy * scale, w.transpose(1, 2), ends)


def exactly(function, *args):
    """In float64, group by group."""

    def by_group(x, w, offs):
        first, out = 0, []
        for group, end in enumerate(offs.tolist()):
            columns, rows = x[:, first:end], x[first:end]
            out.append(columns @ w[first:end] if w.ndim == 2 else rows @ w[group])
            first = end
        return torch.stack(out) if w.ndim == 2 else torch.cat(out)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "_grouped_mm", by_group)
        return function(*map(wide, args))


@pytest.fixture
def operands():
    torch.manual_seed(0)
    h, w = torch.randn(ROWS, INNER).bfloat16(), torch.randn(4, INNER, WIDTH).bfloat16()
    return h, w, torch.rand(ROWS, 1).bfloat16(), torch.randn(ROWS, WIDTH).bfloat16(), ENDS


def moves(function, operands, device="cpu"):
    """Whether nothing reads an unscaled product of full width, and all results are right."""
    module = capture(function, *operands, inductor=True)
    before = [str(node) for node in module.graph.nodes]
    row_scales.scale_rows_before_products(module.graph, device)
    module.graph.lint()
    module.recompile()
    after = [str(node) for node in module.graph.nodes]
    for got, eager, exact in zip(module(*operands), function(*operands),
                                 exactly(function, *operands), strict=True):
        assert got.shape == eager.shape and got.dtype == eager.dtype
        assert distance(got, exact) <= 1.5 * distance(eager, exact) + 1e-7
    widths = [node for node in module.graph.nodes if "_grouped_mm" in str(node.target)
              and node.meta["val"].shape[-1:] == (WIDTH,)
              and node.meta["val"].ndim == 2]  # fmt: skip
    is_moved = all(len(node.users) == 1 and "mul" not in str(next(iter(node.users)).target)
                   for node in widths)  # fmt: skip
    assert is_moved == (before != after)
    return is_moved


@pytest.mark.parametrize("function", [step, weights_the_other_way, without_weights_gradient])
def test_scales_move_before_the_product(operands, function):
    assert moves(function, operands)


def test_on_cpus_they_stay(operands):
    assert not moves(step, operands, "cuda")


def gated(g, w, scale, dy, ends):
    """What is multiplied is a product itself; its gradients are not asked for."""
    return step(g * (g + 1), w, scale, dy, ends)


def test_gates_are_multiplied_one_after_the_other(operands):
    assert moves(gated, operands)


def summed_in_float32(h, w, scale, dy, ends):
    y = product(h, w, ends)
    total = (dy * y).sum(1, keepdim=True, dtype=torch.float32)
    return y * scale, total, *gradients(dy * scale, h, w, ends)


def no_gradient_of_scales(h, w, scale, dy, ends):
    return product(h, w, ends) * scale, *gradients(dy * scale, h, w, ends)


def read_unscaled(h, w, scale, dy, ends):
    y = product(h, w, ends)
    return y, y * scale, summed(dy, y), *gradients(dy * scale, h, w, ends)


def scaled_by_one(h, w, scale, dy, ends):
    y, one = product(h, w, ends), scale[:1]
    return y * one, summed(dy, y), *gradients(dy * one, h, w, ends)


def of_other_groups(h, w, scale, dy, ends):
    y = product(h, w, ends)
    return y * scale, summed(dy, y), *gradients(dy * scale, h, w, ends + 0)


def gradient_read_elsewhere(h, w, scale, dy, ends):
    y, back = product(h, w, ends), dy * scale
    return y * scale, summed(dy, y), *gradients(back, h, w, ends), back + 1


def by_other_matrices(h, w, scale, dy, ends):
    y = product(h, w, ends)
    return y * scale, summed(dy, y), *gradients(dy * scale, h, w + 1, ends)


def summed_columns(h, w, scale, dy, ends):
    y = product(h, w, ends)
    return y * scale, (dy * y).sum(0, keepdim=True), *gradients(dy * scale, h, w, ends)


@pytest.mark.parametrize("function", [
    no_gradient_of_scales, read_unscaled, scaled_by_one, of_other_groups, summed_columns,
    gradient_read_elsewhere, by_other_matrices, summed_in_float32])  # fmt: skip
def test_others_stay(operands, function):
    assert not moves(function, operands)


def test_products_that_are_no_wider_than_what_they_multiply_stay(operands):
    h, _, scale, *_ = operands
    w, dy = torch.randn(4, INNER, INNER).bfloat16(), torch.randn(ROWS, INNER).bfloat16()
    module = capture(step, h, w, scale, dy, ENDS, inductor=True)
    before = str(module.graph)
    row_scales.scale_rows_before_products(module.graph, "cpu")
    assert str(module.graph) == before


@pytest.mark.parametrize("numerics", ["fast", "exact"])
def test_each_rounding_is_kept_where_that_is_asked_for(operands, numerics, monkeypatch):
    called = []
    monkeypatch.setattr(inductor, "scale_rows_before_products", called.append)
    patches = inductor.with_masks_pass({}, {"numerics": numerics})
    joint = capture(step, *operands, inductor=True).graph
    (patch,) = patches.values()
    patch(joint)
    assert len(called) == (numerics == "fast")
