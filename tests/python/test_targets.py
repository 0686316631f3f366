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

# NVIDIA GPUs since Ampere, but for Hopper's.
TARGETS = ["sm_80", "sm_86", "sm_89", "sm_100", "sm_120"]


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


def fuse_for(target, name):
    function, shapes = PROGRAMS[name]
    module = capture(function, *(randn(*shape) for shape in shapes), inductor=True)
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


@pytest.mark.skipif(not COMMAND.exists(), reason="needs the command line")
@pytest.mark.parametrize("target", TARGETS)
def test_explain_says_which_kernels_run_there_and_that_nothing_was_measured(target):
    _, report = fuse_for(target, "layer")
    words = [COMMAND, "explain", "/dev/stdin", "--target", target, "--json"]
    done = subprocess.run(words, input=report.kernels[0].graph, capture_output=True, text=True,
                          check=True)  # fmt: skip
    explained = json.loads(done.stdout)
    (run,) = explained["runs"]
    assert run["how"].startswith("sm80, ") and run["grounds"].endswith("us expected"), run
    assert "There is no profile" in explained["profile"]
    assert "scaled by the rates that the driver gives" in explained["profile"]
