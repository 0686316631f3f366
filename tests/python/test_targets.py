"""What the backend makes of a program for GPUs that are not here: planning one needs none."""

import json
import subprocess

import pytest
import torch
from fx_capture import COMMAND, capture
from torch.nn import functional as F

from epifuse.torch import rewrite
from epifuse.torch.call import fused
from epifuse.torch.importer import PRODUCTS

# NVIDIA GPUs since Ampere, but for Hopper's; and those of them that multiply 8-bit floats.
TARGETS = ["sm_80", "sm_86", "sm_89", "sm_100", "sm_120"]
TARGETS_OF_FP8 = ["sm_89", "sm_100", "sm_120"]


def randn(*shape):
    return torch.randn(*shape).bfloat16()


def layer(x, w, b, r):
    return F.silu(x @ w.t() + b) + r


def swiglu(x, w):
    gate, up = (x @ w.t()).chunk(2, -1)
    return F.silu(gate) * up


def training_step(x, w, y):
    h = x @ w
    return torch.ops.aten.gelu_backward(y, h), h


PROGRAMS = {
    "layer": (layer, [(64, 136), (200, 136), (200,), (64, 200)]),
    "swiglu": (swiglu, [(64, 136), (400, 136)]),
    "training step": (training_step, [(64, 136), (136, 200), (64, 200)]),
}


def explained(text, target):
    words = [COMMAND, "explain", "/dev/stdin", "--target", target, "--json"]
    done = subprocess.run(words, input=text, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def scaled_layer(x, w, sx, sw, b):
    product = torch._scaled_mm(x, w.t(), sx, sw, out_dtype=torch.bfloat16, use_fast_accum=True)
    return F.silu(product + b)


def scaled_layer_of(dtype):
    """Operands of it, whose weights are of that format."""
    x, w = randn(64, 144).to(torch.float8_e4m3fn), randn(208, 144).to(dtype)
    return x, w, torch.rand(64, 1), torch.rand(1, 208), randn(208)


def fuse_for(target, name):
    function, shapes = PROGRAMS[name]
    return fuse(target, function, *(randn(*shape) for shape in shapes))


def fuse(target, function, *given):
    module = capture(function, *given, inductor=True)
    options = {"numerics": "fast", "tf32": False, "target": target}
    return module.graph, rewrite.fuse(module.graph, options, only_faster=False)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_each_product_is_a_kernel_on_every_gpu_since_ampere(target, name):
    graph, report = fuse_for(target, name)
    assert len(report.kernels) == 1 and not report.left_out
    assert not any(str(node.target) in PRODUCTS for node in graph.nodes)
    calls = [node for node in graph.nodes if node.target is fused]
    assert [json.loads(call.args[2])["target"] for call in calls] == [target]


def test_calls_print_in_one_line_as_comments_of_code_have_them():
    graph, _ = fuse_for("sm_90a", next(iter(PROGRAMS)))
    (call,) = (node for node in graph.nodes if node.target is fused)
    text = call.format_node(include_tensor_metadata=True)
    assert "\n" not in text and "matmul" in text


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
@pytest.mark.parametrize("target", TARGETS_OF_FP8)
def test_each_product_of_8_bit_floats_is_a_kernel_from_ada_on(target, dtype):
    graph, report = fuse(target, scaled_layer, *scaled_layer_of(dtype))
    assert len(report.kernels) == 1 and not report.left_out
    assert not any(str(node.target) in PRODUCTS for node in graph.nodes)


@pytest.mark.parametrize("target", [each for each in TARGETS if each not in TARGETS_OF_FP8])
def test_products_of_8_bit_floats_are_left_to_inductor_before_ada(target):
    graph, report = fuse(target, scaled_layer, *scaled_layer_of(torch.float8_e4m3fn))
    assert not report.kernels
    assert {left.code for left in report.left_out} == {"operand_dtype"}
    assert any(str(node.target) in PRODUCTS for node in graph.nodes)


@pytest.mark.skipif(not COMMAND.exists(), reason="needs the command line")
@pytest.mark.parametrize("target", TARGETS_OF_FP8)
def test_explain_says_that_a_product_of_8_bit_floats_is_one_kernel(target):
    _, report = fuse(target, scaled_layer, *scaled_layer_of(torch.float8_e5m2))
    (run,) = explained(report.kernels[0].graph, target)["runs"]
    assert run["how"].startswith("sm80, "), run


@pytest.mark.skipif(not COMMAND.exists(), reason="needs the command line")
@pytest.mark.parametrize("target", TARGETS)
def test_explain_says_which_kernels_run_there_and_that_nothing_was_measured(target):
    _, report = fuse_for(target, "layer")
    told = explained(report.kernels[0].graph, target)
    (run,) = told["runs"]
    assert run["how"].startswith("sm80, ") and run["grounds"].endswith("us expected"), run
    assert "There is no profile" in told["profile"]
    assert "scaled by the rates that the driver gives" in told["profile"]


def integer_layer(x, w, sx, sw, b):
    product = (torch._int_mm(x, w).to(torch.float32) * sx * sw).to(torch.bfloat16)
    return F.silu(product + b)


def integer_layer_of(is_k_major):
    x = torch.randint(-128, 128, (64, 144), dtype=torch.int8)
    w = torch.randint(-128, 128, (208, 144), dtype=torch.int8).t()
    w = w if is_k_major else w.contiguous()
    return x, w, torch.rand(64, 1), torch.rand(208), randn(208)


@pytest.mark.parametrize("is_k_major", [True, False])
@pytest.mark.parametrize("target", ["sm_90a", *TARGETS])
def test_each_product_of_int8_is_a_kernel_in_any_layout(target, is_k_major):
    graph, report = fuse(target, integer_layer, *integer_layer_of(is_k_major))
    targets = [str(node.target) for node in graph.nodes]
    assert len(report.kernels) == 1 and not report.left_out
    assert "aten._int_mm.default" not in targets and "aten.mm.dtype" not in targets
