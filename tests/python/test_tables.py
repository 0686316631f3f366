"""Small tables that are read by much larger tensors: stored once, and equal to eager's."""

import pytest
import torch
from close import distance
from fx_capture import capture
from torch._inductor.utils import run_and_get_code

import epifuse.torch
from epifuse.torch import inductor, tables

LENGTH, HEADS, SIZE = 64, 64, 256  # as many elements as it takes


def sines(dtype):
    angle = torch.arange(LENGTH)[:, None] * 100.0 ** (-torch.arange(SIZE) / SIZE)[None, :]
    return angle.cos().to(dtype), angle.sin().to(dtype)


def rotated(x, cos=None, sin=None):
    cos, sin = sines(x.dtype) if cos is None else (cos, sin)
    return x * cos + x.flip(-1) * sin


def stored_of(function, *args, device="cpu", **given):
    """The names of what is stored; what the graph gives stays as it is."""
    module = capture(lambda *given: function(*given), *args, inductor=True)
    tables.store_tables(module.graph, device, **given)
    module.graph.lint()
    module.recompile()
    assert torch.equal(module(*args), function(*args))
    return [str(node.args[0].target) for node in module.graph.nodes if node.target is tables.stored]


def test_sines_of_positions_are_stored():
    x = torch.randn(HEADS, LENGTH, SIZE)
    assert sorted(stored_of(rotated, x)) == ["aten.cos.default", "aten.sin.default"]
    narrow = stored_of(rotated, x.bfloat16())
    assert narrow == ["prims.convert_element_type.default"] * 2  # as it is read
    assert stored_of(rotated, x, device="cuda") == []


@pytest.mark.parametrize("readers", [3, 4])
def test_what_many_small_tensors_read_is_stored_where_graphs_are_replayed(readers):
    def layers(x):
        table = sines(x.dtype)[0]
        for _ in range(readers):
            x = (x * table).sum(-1, keepdim=True) + x
        return x

    x = torch.randn(8, LENGTH, SIZE)
    assert stored_of(layers, x) == []
    expected = ["aten.cos.default"] if readers == 4 else []
    assert stored_of(layers, x, is_replayed=True) == expected


def test_a_table_behind_a_view_is_stored():
    def function(x):
        table = torch.arange(LENGTH * SIZE).view(LENGTH, SIZE).sin()
        return x * table.unsqueeze(0).expand(HEADS, LENGTH, SIZE)

    assert stored_of(function, torch.randn(HEADS, LENGTH, SIZE)) == ["aten.sin.default"]


def behind_many_ops(x):
    table = torch.arange(LENGTH * SIZE).view(LENGTH, SIZE).float()
    for _ in range(1200):
        table = table.sin()
    return x * table


OTHERS = {
    "behind many ops": (behind_many_ops, torch.randn(HEADS, LENGTH, SIZE)),
    "small": (rotated, torch.randn(HEADS // 2, LENGTH, SIZE)),
    "as large as its reader": (lambda x: x * x.exp(), torch.randn(HEADS, LENGTH, SIZE)),
    "cheap": (lambda x: x * (torch.arange(SIZE) * 2 + 1), torch.randn(HEADS, LENGTH, SIZE)),
    "of a norm": (lambda x: x * (x.square().mean(-1, keepdim=True) + 1).pow(-0.5),
                  torch.randn(HEADS, LENGTH, SIZE)),
}  # fmt: skip


@pytest.mark.parametrize("case", OTHERS.values(), ids=OTHERS.keys())
def test_other_work_is_computed_where_it_is_read(case):
    assert stored_of(*case) == []


@pytest.mark.usefixtures("fresh")
def test_inductor_computes_a_table_once(monkeypatch):
    monkeypatch.setattr(inductor, "store_tables",
                        lambda graph, **given: tables.store_tables(graph, "cpu", **given))

    def layers(x):
        table = sines(x.dtype)
        return rotated(rotated(x, *table).relu(), *table)

    x = torch.randn(HEADS, LENGTH, SIZE)
    run = torch.compile(layers, backend=epifuse.torch.backend)
    got, (code,) = run_and_get_code(run, x)
    assert distance(got, layers(x)) < 1e-6
    memory = [line for line in code.splitlines() if "= empty_strided" in line]
    assert sum(f"({LENGTH}, {SIZE})" in line for line in memory) == 2
