"""Several processes on a machine, as torchrun starts them: each compiles and agrees with eager."""

import socket
import subprocess
import sys

import pytest

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


TRAINING = """
import copy
import pathlib
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel,
                                               parallelize_module)
from torch.nn.parallel import DistributedDataParallel

import epifuse.torch
from epifuse.torch import inductor

inductor.OPTIONS["only_faster"] = False
dist.init_process_group("gloo")
torch.manual_seed(0)
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
batches = torch.randn(2, 16, 64)


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(64, 96), nn.Linear(96, 64)

    def forward(self, x):
        return self.down(nn.functional.gelu(self.up(x)))


def replicated(model):
    return DistributedDataParallel(model)


def sharded(model):
    return fully_shard(model, mesh=mesh)


def tensor_parallel(model):
    return parallelize_module(model, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})


def gradients(model, way, run):
    x = batches[0] if way is tensor_parallel else batches[dist.get_rank()]
    run(x).square().mean().backward()
    grads = [parameter.grad for parameter in model.parameters()]
    return [each.full_tensor() if isinstance(each, DTensor) else each for each in grads]


first = Mlp()
for way in (replicated, sharded, tensor_parallel):
    model = way(copy.deepcopy(first))
    eager = [each.clone() for each in gradients(model, way, model)]
    model.zero_grad()
    before = epifuse.torch.stats().calls
    got = gradients(model, way, torch.compile(model, backend=inductor.backend))
    assert epifuse.torch.stats().calls >= before + 2, way
    for mine, theirs in zip(got, eager, strict=True):
        assert torch.allclose(mine, theirs, rtol=1e-4, atol=1e-6), way
dist.barrier()
pathlib.Path(sys.argv[1], f"agrees_{dist.get_rank()}").touch()
dist.destroy_process_group()
"""


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return str(taken.getsockname()[1])


@pytest.mark.parametrize("text", [SCRIPT, TRAINING], ids=["inference", "training"])
def test_processes_of_torchrun(tmp_path, text):
    script = tmp_path / "script.py"
    script.write_text(text)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2",
                "--master-addr", "127.0.0.1", "--master-port", free_port()]  # fmt: skip
    command = [*torchrun, str(script), str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert run.returncode == 0, run.stdout + run.stderr
    assert len(list(tmp_path.glob("agrees_[01]"))) == 2
