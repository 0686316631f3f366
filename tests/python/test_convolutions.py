"""Convolutions as products of matrices, and which of them stay what they are."""

import copy

import pytest
import random_programs
import torch
from close import assert_no_further_than_eager, distance, wide
from random_programs import traced
from random_steps import to
from test_training import assert_no_further_than_eager as assert_gradients_no_further_than_eager
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F

import epifuse.torch
from epifuse.torch import call, convolutions

bf16 = torch.bfloat16
pytestmark = pytest.mark.usefixtures("fresh", "on_hopper")


def values(*shapes, last=False):
    given = [(torch.randn(shape) * 0.5).to(bf16) for shape in shapes]
    return [each.to(memory_format=torch.channels_last) if last and each.ndim == 4 else each
            for each in given]  # fmt: skip


def convolutions_of(graph):
    return sum("convolution" in str(node.target) for node in graph.nodes)


def fused(function, given):
    """What fusion makes of a function's graph: its report, and how many convolutions are left.
    Results are as near to float64's as eager PyTorch's."""
    module = traced(function, given)
    assert convolutions_of(module.graph)
    _, report = random_programs.fused(module)
    listed = lambda results: results if isinstance(results, (list, tuple)) else [results]
    eager, exact = listed(function(*given)), listed(function(*map(wide, given)))
    for ours, theirs, each in zip(listed(module(*given)), eager, exact, strict=True):
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
        assert distance(ours, each, 1e-4) <= 1.2 * distance(theirs, each, 1e-4) + 1e-5
    return report, convolutions_of(module.graph)


def tokens(x, w, b, stride):
    return F.conv2d(x, w, b, stride=stride).flatten(2).transpose(1, 2)


FORWARD = {
    "patches": (lambda x, w, b: tokens(x, w, b, 16),
                [(2, 3, 64, 48), (128, 3, 16, 16), (128,)], "bias"),
    "patches_and_positions": (
        lambda x, w, b, p: tokens(x, w, b, 4) + p,
        [(2, 3, 64, 64), (64, 3, 4, 4), (64,), (1, 256, 64)], "bias+residual"),
    "cut_off": (lambda x, w, b: F.relu(F.conv2d(x, w, b, stride=16)),
                [(2, 3, 70, 66), (128, 3, 16, 16), (128,)], "bias+relu"),
    "whole": (lambda x, w: F.silu(F.conv3d(x, w).view(-1, 128)),
              [(40, 3, 2, 14, 14), (128, 3, 2, 14, 14)], "silu"),
    "along": (lambda x, w, b: F.gelu(F.conv1d(x, w, b, stride=2)),
              [(3, 64, 51), (128, 64, 3), (128,)], "bias+gelu_erf"),
    "along_with_zeros": (lambda x, w, b: F.gelu(F.conv1d(x, w, b, padding=1)),
                         [(3, 64, 51), (128, 64, 3), (128,)], "bias+gelu_erf"),
    "groups": (
        lambda x, w, b: F.conv1d(x.transpose(1, 2), w, b, padding=16, groups=4)[..., :-1],
        [(2, 40, 128), (128, 32, 32), (128,)], "bias"),
    "points_every_second": (lambda x, w: F.relu(F.conv2d(x, w, stride=2)),
                            [(2, 64, 14, 14), (128, 64, 1, 1)], "relu"),
    "points_of_rows": (lambda x, w: F.relu(F.conv2d(x, w, stride=2)),
                       [(2, 3, 9, 8), (64, 3, 1, 2)], "relu"),
    "points_of_frames": (lambda x, w: F.relu(F.conv3d(x, w, stride=(2, 4, 4))),
                         [(2, 3, 4, 9, 8), (64, 3, 1, 4, 4)], "relu"),
    "points_of_a_line": (lambda x, w: F.silu(F.conv1d(x.transpose(1, 2), w)),
                         [(2, 40, 64), (128, 64, 1)], "silu"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORWARD)
def test_one_kernel(name):
    function, shapes, epilogue = FORWARD[name]
    report, left = fused(function, values(*shapes))
    assert [kernel.epilogue for kernel in report.kernels] == [epilogue] and not left


def test_several_are_behind_one_another():
    def stack(x, w, v):
        return F.gelu(F.conv1d(F.gelu(F.conv1d(x, w, stride=2)), v, stride=2))

    report, left = fused(stack, values((3, 64, 79), (96, 64, 3), (128, 96, 2)))
    assert [kernel.epilogue for kernel in report.kernels] == ["gelu_erf"] * 2 and not left


@pytest.mark.parametrize(("last", "epilogues"), [(True, ["row_scale+bias+residual+relu"]),
                                                 (False, [])])  # fmt: skip
def test_what_reads_channels_that_do_not_lie_last_stays_a_convolution(last, epilogues):
    def block(x, w, scale, shift, r):
        return F.relu(F.conv2d(x, w) * scale[:, None, None] + shift[:, None, None] + r)

    given = values((2, 64, 14, 14), (128, 64, 1, 1), (128,), (128,), (2, 128, 14, 14), last=last)
    report, left = fused(block, given)
    assert [kernel.epilogue for kernel in report.kernels] == epilogues
    assert left == (not epilogues)


def test_weights_of_windows_are_laid_out_once_for_all_samples():
    function, shapes, _ = FORWARD["along"]
    module = traced(function, values(*shapes))
    random_programs.fused(module)
    (kernel,) = (node for node in module.graph.nodes if node.target is call.fused)
    weight, memory = kernel.args[0][1], {}
    for node in module.graph.nodes:
        if node.target is torch.ops.aten.clone.default:
            memory[node.meta["val"].untyped_storage()._cdata] = node
    value = weight.meta["val"]
    assert value.stride() == (0, 1, 192)
    assert memory[value.untyped_storage()._cdata].meta["val"].shape == (128, 3, 64)


def test_points_that_no_kernel_takes_leave_no_trace():
    def function(x, w):
        return F.conv2d(x, w).sin()

    report, left = fused(function, values((2, 64, 14, 14), (128, 64, 1, 1)))
    assert left == 1 and not report.kernels and not report.left_out


def test_what_is_left_out_behind_products_is_told_beside_such_points():
    def function(x, w, v):
        return F.conv2d(x, w).sin() + F.linear(x, v).cos()

    report, left = fused(function, values((2, 64, 14, 16), (64, 64, 1, 1), (16, 16)))
    assert left == 1 and {each.node for each in report.left_out} == {"mm", "cos"}


@pytest.mark.parametrize(("function", "shapes"), [
    (lambda x, w: F.conv2d(x, w, padding=1), [(2, 8, 14, 14), (16, 8, 3, 3)]),
    (lambda x, w: F.conv2d(x, w, stride=2, dilation=2), [(2, 3, 14, 14), (16, 3, 2, 2)]),
    (lambda x, w: F.conv2d(x, w, groups=8), [(2, 8, 14, 14), (8, 1, 1, 1)]),
    (lambda x, w: F.conv_transpose2d(x, w, stride=2), [(2, 8, 7, 7), (8, 16, 2, 2)]),
    (lambda x, w: F.conv1d(x, w, groups=8), [(2, 32, 40), (32, 4, 3)]),  # 4 channels: 8 bytes
    (lambda x, w: F.conv1d(x, w, groups=4, stride=2), [(2, 32, 40), (32, 8, 3)]),
])  # fmt: skip
def test_other_convolutions_stay(function, shapes):
    report, left = fused(function, values(*shapes))
    assert left == 1 and not report.kernels


def test_images_with_channels_last_keep_their_one_reader():
    def function(x, w, h, v):  # of several, before a convolution, Inductor lays their rows last
        y = F.layer_norm(F.conv2d(x, w, padding=1).permute(0, 2, 3, 1), (64,)).flatten(1, 2)
        return y + F.linear(h, v), y.sum(1)

    module = traced(function, values((2, 8, 14, 14), (64, 8, 3, 3), (2, 196, 32), (64, 32)))
    _, report = random_programs.fused(module)
    assert [kernel.epilogue for kernel in report.kernels] == ["residual"]
    *_, image = (node for node in module.graph.nodes
                 if getattr(node.meta.get("val"), "shape", None) == (2, 14, 14, 64))
    (view,) = image.users
    assert len(view.users) == 2


def with_gradients(function):
    def call(*given):
        def loss(*given):
            result = function(*given)
            return to(result, torch.float32).square().mean(), result

        gradients, result = torch.func.grad(loss, tuple(range(len(given))), True)(*given)
        return [result, *gradients]

    return call


@pytest.mark.parametrize(("name", "left"), [
    ("patches", 0), ("cut_off", 0), ("whole", 0), ("groups", 0), ("along", 1),
    ("points_of_rows", 0), ("points_of_frames", 0), ("points_every_second", 1)])  # fmt: skip
def test_gradients(name, left):
    function, shapes, _ = FORWARD[name]
    _, convolutions_left = fused(with_gradients(function), values(*shapes))
    assert convolutions_left == left


def test_of_several_groups_without_many_taps_cudnn_takes_the_gradient_by_the_input():
    function = lambda x, w, b: F.gelu(F.conv1d(x, w, b, padding=1, groups=4))
    _, left = fused(with_gradients(function), values((3, 64, 40), (96, 16, 5), (96,)))
    assert left == 1


class OnGpu:
    """A graph with tensors of a GPU that need not be there."""

    def __init__(self, function, *shapes):
        mode = FakeTensorMode()
        with mode:
            given = [each.to("meta") for each in values(*shapes)]
        self.graph = traced(function, given).graph
        for node in self.graph.nodes:
            value = node.meta.get("val")
            if isinstance(value, torch.Tensor):
                node.meta["val"] = mode.from_tensor(torch.empty_like(value, device="meta"))
                node.meta["val"].fake_device = torch.device("cuda:0")

    def products(self):
        return len(convolutions.as_products(self.graph, only_faster=True))


ON_GPU = {
    "patches": ([(2, 3, 64, 48), (64, 3, 16, 16)], {"stride": 16}, True),
    "patches_that_are_copied_in_vain": ([(2, 8, 64, 48), (64, 8, 16, 16)], {"stride": 16}, False),
    "whole": ([(2, 8, 16, 16), (64, 8, 16, 16)], {}, True),
    "points_of_images_alone": ([(2, 64, 14, 14), (128, 64, 1, 1)], {}, True),
    "points_of_three_channels": ([(2, 3, 14, 14), (64, 3, 1, 1)], {}, False),
    "along": ([(2, 64, 260), (64, 64, 3)], {}, True),
    "along_of_few_rows": ([(2, 64, 40), (64, 64, 3)], {}, False),
    "along_of_one_sample": ([(1, 64, 40), (64, 64, 3)], {}, True),
    "groups": ([(2, 64, 60), (64, 16, 32)], {"groups": 4}, True),
    "points_of_lines_in_order": ([(2, 64, 60), (64, 64, 1)], {}, False),
}


@pytest.mark.parametrize("name", ON_GPU)
def test_what_may_be_faster_on_a_gpu(name):
    (x, w), how, may_be = ON_GPU[name]
    convolve = F.conv1d if len(x) == 3 else F.conv2d
    graph = OnGpu(lambda x, w: convolve(x, w, **how), x, w)
    assert graph.products() == may_be


def test_points_of_lines_whose_channels_lie_last_may_be_faster_on_a_gpu():
    def convolve(x, w):
        return F.conv1d(x.transpose(1, 2), w)

    assert OnGpu(convolve, (2, 40, 64), (128, 64, 1)).products() == 1


def test_images_that_inductor_lays_last_are_said_to_lie_so():
    def convolve(x, w, first, second, third):  # the last one reads what a product has laid last
        y = F.relu(F.conv2d(x, w, padding=1))
        return F.conv2d(F.relu(F.conv2d(y, first)), third), F.conv2d(y, second)

    shapes = (64, 64, 3, 3), (64, 64, 1, 1), (128, 64, 1, 1), (96, 64, 1, 1)
    graph = OnGpu(convolve, (2, 64, 14, 14), *shapes)
    assert graph.products() == 3
    (laid,) = (node for node in graph.graph.nodes if "force_stride_order" in str(node.target))
    assert laid.all_input_nodes[0].target is torch.ops.aten.relu.default
    assert laid.meta["val"].stride() == (64 * 14 * 14, 1, 14 * 64, 64) and len(laid.users) == 2


@pytest.mark.parametrize("name", FORWARD)
def test_on_cpus_none_does_that_is_to_be_faster(name):
    function, shapes, _ = FORWARD[name]
    module = traced(function, values(*shapes))
    assert not convolutions.as_products(module.graph, only_faster=True)


CONVOLUTIONS = {
    "patches": (nn.Conv2d(3, 64, 8, 8), (2, 3, 32, 40)),
    "all_of_a_patch": (nn.Conv3d(3, 64, (2, 6, 6), (2, 6, 6)), (30, 3, 2, 6, 6)),
    "along": (nn.Conv1d(64, 96, 3, 2), (3, 64, 81)),
    "groups": (nn.Conv1d(64, 64, 32, padding=16, groups=4), (3, 64, 50)),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_models(name):
    convolution, shape = CONVOLUTIONS[name]
    model = nn.Sequential(copy.deepcopy(convolution), nn.SiLU()).to(bf16)
    x = torch.randn(shape).to(bf16)
    run = torch.compile(model, backend=epifuse.torch.backend)
    assert_gradients_no_further_than_eager(model, run, [x])
    assert_no_further_than_eager(model.eval(), run, (x,))


class Patches(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Conv2d(3, 64, 8, 8)
        self.mlp = nn.Linear(64, 64)

    def forward(self, x):
        return F.gelu(self.mlp(self.embed(x).flatten(2).transpose(1, 2)))


def test_any_number_of_samples():
    model = Patches().to(bf16).eval().requires_grad_(False)
    run = torch.compile(model, backend=epifuse.torch.backend, dynamic=True)
    for samples in (2, 5, 3):
        assert_no_further_than_eager(model, run, (torch.randn(samples, 3, 32, 40).to(bf16),))
