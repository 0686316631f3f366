"""Several processes on a machine, as torchrun starts them: each compiles and agrees with eager."""

import socket
import subprocess
import sys

SCRIPT = """
import pathlib
import sys

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(768, 3072), nn.GELU(), nn.Linear(3072, 768)).eval()
model.requires_grad_(False)
x = torch.randn(16, 768) + dist.get_rank()  # each process has rows of its own


class Sharded(nn.Module):
    def forward(self, x):
        y = torch.relu(model(x) + x)
        dist.all_reduce(y)
        return y


import epifuse.torch
got = torch.compile(Sharded(), backend=epifuse.torch.backend)(x)
expected = Sharded()(x)
assert torch.allclose(got, expected, rtol=1e-4, atol=1e-4), (got - expected).abs().max()
from epifuse import _native
assert _native.counts().programs >= 2, _native.counts()
dist.barrier()
pathlib.Path(sys.argv[1], f"agrees_{dist.get_rank()}").touch()
dist.destroy_process_group()
"""


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return str(taken.getsockname()[1])


def test_processes_of_torchrun(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2",
                "--master-addr", "127.0.0.1", "--master-port", free_port()]  # fmt: skip
    command = [*torchrun, str(script), str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert run.returncode == 0, run.stdout + run.stderr
    assert len(list(tmp_path.glob("agrees_[01]"))) == 2
