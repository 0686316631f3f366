"""What a training step reads and writes: at most what Inductor's kernels do, by no more of them.

Counted after Inductor has fused its part, kernel by kernel; nothing is compiled to machine code.
"""

import math

import layers
import pytest
import torch
from torch._inductor import async_compile, config, ir, scheduler
from torch._inductor.virtualized import V

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
    (lambda: layers.Autocast(layers.Vit()), torch.float32, 0.35, 7),
    (lambda: layers.Autocast(layers.Llama()), torch.float32, 0.4, 8),
], ids=["bert", "llama", "vit_autocast", "llama_autocast"])  # fmt: skip
def test_a_step_moves_less_than_inductors(counts, layer, dtype, gone, fewer):
    theirs = step(layer, dtype, "inductor", counts)
    ours = step(layer, dtype, inductor.backend, counts)
    for mine, its in zip(ours, theirs):
        assert mine.bytes < its.bytes
        assert mine.kernels <= its.kernels
    assert ours[1].loop_bytes <= (1 - gone) * theirs[1].loop_bytes
    assert ours[1].kernels <= theirs[1].kernels - fewer
