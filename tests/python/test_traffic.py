"""What a training step reads and writes: at most what Inductor's kernels do, by no more of them.

Counted after Inductor has fused its part, kernel by kernel; nothing is compiled to machine code.
"""

import math

import layers
import pytest
import torch
from torch import nn
from torch._inductor import async_compile, config, ir, scheduler
from torch._inductor.virtualized import V
from torch.nn import functional as F

from epifuse.torch import inductor

BATCH, LENGTH = 4, 32


class Count:
    """Of one graph: kernels, bytes that all move, and bytes that move outside of products."""

    def __init__(self, nodes):
        self.nodes = [node for node in nodes if not self._is_nothing(node)]
        self.kernels = len(self.nodes)
        self.bytes = sum(map(self._moved, self.nodes))
        self.loop_bytes = sum(self._moved(node) for node in self.nodes
                              if not isinstance(node, scheduler.ExternKernelSchedulerNode))

    @staticmethod
    def _is_nothing(node):
        """A place without work: one result of several is counted with its kernel."""
        is_part = isinstance(getattr(node, "node", None), (ir.MultiOutput, ir.NoneAsConstantBuffer))
        return isinstance(node, scheduler.NopKernelSchedulerNode) or is_part

    def _moved(self, node):
        inside = set(node.get_buffer_names())
        reads = {dep.name for dep in node.read_writes.reads} - inside
        return sum(map(_size, reads)) + sum(map(_size, self._written(node)))

    def _written(self, node):
        """What others read, or the caller."""
        names = {each.get_name() for each in node.get_nodes()}
        written = []
        for buffer in node.get_outputs():
            users = [user.node for user in buffer.users]
            parts = [user.node.get_name() for user in users
                     if isinstance(getattr(user, "node", None), ir.MultiOutput)]
            is_read = any(getattr(user, "get_name", str)() not in names for user in users)
            if parts:
                written += parts
            elif is_read:
                written.append(buffer.get_name())
        return written


def _size(name):
    known = {**V.graph.graph_inputs, **V.graph.name_to_buffer}.get(name)
    if known is None or isinstance(getattr(known, "layout", None), ir.MultiOutputLayout):
        return 0
    return math.prod(map(int, known.get_size())) * known.get_dtype().itemsize


@pytest.fixture
def counts(fresh, monkeypatch):
    """The graphs that Inductor writes code for, each counted. The code does nothing."""
    counted = []
    write = scheduler.Scheduler.codegen

    def codegen(self):
        counted.append(Count(self.nodes))
        return write(self)

    monkeypatch.setattr(scheduler.Scheduler, "codegen", codegen)
    monkeypatch.setattr(async_compile.AsyncCompile, "cpp_pybinding",
                        lambda *arguments: lambda *tensors: None)
    with config.patch(force_disable_caches=True):
        yield counted


def step(layer, dtype, backend, counted):
    """Forward and backward of a layer."""
    torch._dynamo.reset()
    counted.clear()
    model = layer().to(dtype)
    x = torch.randn(BATCH, LENGTH, layers.WIDTH, dtype=dtype, requires_grad=True)
    y = torch.compile(model, backend=backend)(x)
    y.backward(torch.ones_like(y))
    forward, backward = counted
    return forward, backward


# How much of what moves outside of products backward is gone at least, and by how many kernels.
@pytest.mark.parametrize(("layer", "dtype", "gone", "fewer"), [
    (layers.Bert, torch.bfloat16, 0.4, 2),
    (layers.Llama, torch.bfloat16, 0.5, 1),
    (layers.Esm, torch.bfloat16, 0.4, 4),
    (lambda: layers.Autocast(layers.Vit()), torch.float32, 0.35, 7),
    (lambda: layers.Autocast(layers.Llama()), torch.float32, 0.4, 8),
], ids=["bert", "llama", "esm", "vit_autocast", "llama_autocast"])  # fmt: skip
def test_a_step_moves_less_than_inductors(counts, layer, dtype, gone, fewer):
    theirs = step(layer, dtype, "inductor", counts)
    ours = step(layer, dtype, inductor.backend, counts)
    for mine, its in zip(ours, theirs):
        assert mine.bytes < its.bytes
        assert mine.kernels <= its.kernels
    assert ours[1].loop_bytes <= (1 - gone) * theirs[1].loop_bytes
    assert ours[1].kernels <= theirs[1].kernels - fewer


class Tokens(nn.Module):
    """Of an image, as PVT has them: their first norm is that of the image."""

    def __init__(self):
        super().__init__()
        self.embed, self.norm = nn.Conv2d(3, 64, 7, 4, 3), nn.LayerNorm(64)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64))
            for _ in range(2))  # fmt: skip
        self.reduce = nn.Conv2d(64, 64, 3, 2, 1)

    def forward(self, x):
        y = self.norm(self.embed(x).permute(0, 2, 3, 1))
        tokens = y.flatten(1, 2)
        for block in self.blocks:
            tokens = tokens + block(tokens)
        return self.reduce(tokens.view(y.shape).permute(0, 3, 1, 2))


def normed(*sizes, **how):
    return nn.Sequential(nn.Conv2d(*sizes, bias=False, **how), nn.BatchNorm2d(sizes[1]))


class Bottleneck(nn.Module):
    """The start of a ResNet."""

    def __init__(self):
        super().__init__()
        self.stem, self.beside = normed(3, 64, 3, padding=1), normed(64, 128, 1)
        self.first, self.inner = normed(64, 64, 1), normed(64, 64, 3, padding=1)
        self.last = normed(64, 128, 1)

    def forward(self, x):
        x = F.relu(self.stem(x))
        y = F.relu(self.inner(F.relu(self.first(x))))
        return F.relu(self.last(y) + self.beside(x))


@pytest.mark.parametrize(("network", "shape", "gone"), [
    (Tokens, (2, 3, 64, 64), 0.2), (Bottleneck, (2, 3, 48, 56), 0.08),
], ids=["tokens", "bottleneck"])  # fmt: skip
def test_images_move_less_than_inductors(counts, on_hopper, network, shape, gone):
    model = network().to(torch.bfloat16).eval().requires_grad_(False)
    x, moved = torch.randn(shape).to(torch.bfloat16), []
    runs = ("inductor", {}), (inductor.backend, {"epifuse.only_faster": False})
    with config.patch(force_layout_optimization=True), torch.backends.mkldnn.flags(enabled=False):
        for backend, options in runs:
            torch._dynamo.reset()
            counts.clear()
            torch.compile(model, backend=backend, options=options)(x)
            moved.append(sum(graph.bytes for graph in counts))
    theirs, ours = moved
    assert ours < (1 - gone) * theirs
