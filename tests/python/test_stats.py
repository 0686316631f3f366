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
    assert epifuse.torch.stats().calls == 2


def test_explain_is_no_compilation_of_the_program():
    epifuse.torch.reset_stats()
    with torch.no_grad():
        epifuse.torch.explain(Headed(), torch.randn(4, 64, dtype=torch.bfloat16))
    assert epifuse.torch.stats().graphs == 0


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
stats = epifuse.torch.stats()
from torch._dynamo.utils import counters
print(counters["inductor"]["fxgraph_cache_hit"], stats.graphs, stats.calls, stats.fallbacks)
"""
HEADLINE = "2 kernels; 1 product left to PyTorch: nothing to fuse."


def test_reports_of_cached_code_are_logged_and_counted(tmp_path):
    """A server that is started again: all its code comes from Inductor's cache."""
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path),
                   "TORCH_LOGS": "epifuse.torch",
                   "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])}
    runs = [subprocess.run([sys.executable, "-c", SERVER], env=environment, capture_output=True,
                           text=True, check=True) for _ in range(2)]
    cold, warm = runs
    assert cold.stdout.splitlines()[-1] == "0 1 4 {'nothing_to_fuse': 1}"
    assert warm.stdout.splitlines()[-1] == "1 1 4 {'nothing_to_fuse': 1}"
    assert cold.stderr.count(HEADLINE) == warm.stderr.count(HEADLINE) == 1
    assert "from Inductor's cache: " + HEADLINE in warm.stderr
    for line in ("up: matmul_bias_gelu_erf, 4x128x64 bfloat16", "down: matmul_bias_residual",
                 "head: 4x8x64 bfloat16"):
        assert line in cold.stderr and line in warm.stderr
