"""What a process did: stats(), and reports in the log, of cached code too."""

import json
import os
import subprocess
import sys

import pytest
import torch
from test_backend import Mlp, compiled
from torch import nn

import epifuse.torch

pytestmark = pytest.mark.usefixtures("fresh")


@pytest.fixture
def no_cache():
    """The pass runs: Inductor takes nothing from its cache."""
    from torch._inductor import config

    with config.patch(force_disable_caches=True):
        yield


class Headed(Mlp):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(64, 8, bias=False, dtype=torch.bfloat16)

    def forward(self, x):
        return torch.softmax(self.head(super().forward(x)), -1)


def run(model, calls):
    x = torch.randn(4, 64, dtype=torch.bfloat16)
    with torch.no_grad():
        for _ in range(calls):
            model(x)


def test_calls_fallbacks_and_compile_times_are_counted(no_cache):
    model = compiled(Headed())
    epifuse.torch.reset_stats()
    run(model, 3)
    stats = epifuse.torch.stats()
    called = [kernel for kernel in stats.kernels if kernel.calls]
    assert [kernel.calls for kernel in called] == [3, 3] and stats.calls == 6
    assert {kernel.name for kernel in called} == {"matmul_bias_gelu_erf", "matmul_bias_residual"}
    assert all(kernel.graph.startswith("graph kernel(") for kernel in called)
    assert stats.graphs == 1 and stats.fallbacks == {"nothing_to_fuse": 1}
    assert json.loads(stats.json())["calls"] == 6
    text = str(stats)
    assert text.startswith("graphs: 1; kernels: ") and "matmul_bias_residual: 3 calls" in text
    assert "products left out: 1\n  nothing_to_fuse: 1" in text


def test_reset_counts_from_zero(no_cache):
    model = compiled(Headed())
    run(model, 2)
    epifuse.torch.reset_stats()
    nothing = epifuse.torch.stats()
    assert nothing.calls == 0 and nothing.graphs == 0 and nothing.fallbacks == {}
    assert nothing.compile_seconds == 0
    run(model, 1)
    stats = epifuse.torch.stats()
    assert stats.calls == 2 and str(stats).count(": 1 call, ") == 2


def test_explain_is_no_compilation_of_the_program():
    epifuse.torch.reset_stats()
    with torch.no_grad():
        epifuse.torch.explain(Headed(), torch.randn(4, 64, dtype=torch.bfloat16))
    assert epifuse.torch.stats().graphs == 0


def test_graphs_without_kernels_run_as_without_us(no_cache):
    def pick(x, w):
        first = x @ w
        return torch.cond(first.sum() > 0, lambda y: torch.softmax(y @ y, -1), lambda y: y @ y,
                          (first,))

    x, w = torch.randn(8, 8), torch.randn(8, 8)
    epifuse.torch.reset_stats()
    for sign in (1, -1):
        torch.testing.assert_close(compiled(pick)(sign * x, w), pick(sign * x, w))
    x.requires_grad_()
    compiled(lambda x: torch.softmax(x @ w, -1).square().sum())(x).backward()
    got, x.grad = x.grad, None
    torch.softmax(x @ w, -1).square().sum().backward()
    torch.testing.assert_close(got, x.grad)
    assert epifuse.torch.stats().graphs >= 3 and not epifuse.torch.stats().calls


SERVER = """
import torch
import epifuse.torch
import conftest
from test_stats import Headed, compiled
torch.manual_seed(0)
with torch.no_grad():
    run = compiled(Headed())
    for _ in range(2):
        run(torch.randn(4, 64, dtype=torch.bfloat16))
    bare = compiled(lambda x: torch.softmax(x @ x, -1))
    bare(torch.randn(8, 8))
stats = epifuse.torch.stats()
from torch._dynamo.utils import counters
print(counters["inductor"]["fxgraph_cache_hit"], stats.graphs, stats.calls, stats.fallbacks)
"""
HEADLINES = ("2 kernels; 1 product left to PyTorch: nothing to fuse.",
             "0 kernels; 1 product left to PyTorch: nothing to fuse.")


def test_reports_of_cached_code_are_logged_and_counted(tmp_path):
    """A server that is started again: all its code comes from Inductor's cache."""
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path),
                   "TORCH_LOGS": "epifuse.torch",
                   "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])}
    runs = [subprocess.run([sys.executable, "-c", SERVER], env=environment, capture_output=True,
                           text=True, check=True) for _ in range(2)]
    cold, warm = runs
    assert cold.stdout.splitlines()[-1] == "0 2 4 {'nothing_to_fuse': 2}"
    assert warm.stdout.splitlines()[-1] == "2 2 4 {'nothing_to_fuse': 2}"
    for headline in HEADLINES:
        assert cold.stderr.count(headline) == warm.stderr.count(headline) == 1
        assert "from Inductor's cache: " + headline in warm.stderr
    for line in ("up: matmul_bias_gelu_erf, 4x128x64 bfloat16", "down: matmul_bias_residual",
                 "head: 4x8x64 bfloat16"):
        assert line in cold.stderr and line in warm.stderr
