"""How Inductor's own kernels are launched under CUDA graphs: which become one, and when they start.
On a GPU test_cuda.py runs them."""

from types import SimpleNamespace

import pytest
import sympy
import torch
from close import assert_no_further_than_eager
from test_backend import Mlp
from torch._inductor import config, scheduler
from torch._inductor.codegen.triton import TritonKernel

import epifuse.torch
from epifuse.torch import overlapped
from epifuse.torch.overlapped import LaunchPass

PLACE = "_post_fusion_custom_pass"


class Node(scheduler.SchedulerNode):
    """A loop of Inductor's as far as it is looked at."""

    def __init__(self, name, numel=1000, reads=(), reduced=1, device="cuda"):
        self.label, self.ancestors = name, set(reads)
        sizes = sympy.Integer(numel), sympy.Integer(reduced)
        if device == "cpu":  # as Inductor has it
            sizes = tuple((size,) for size in sizes)
        self.group = torch.device(device, 0), sizes
        self.unmet_dependencies = [SimpleNamespace(name=f"buf_{read}") for read in reads]

    def get_device(self):
        return self.group[0]

    def is_reduction(self):
        return self.group[1][1] not in (1, (1,))

    def is_template(self):
        return False

    def get_operation_names(self):
        return {self.label}

    def get_buffer_names(self):
        return {f"buf_{self.label}"}


@pytest.fixture
def grouped(monkeypatch):
    monkeypatch.setattr(overlapped, "_one_of", lambda group: "+".join(n.label for n in group))

    def run(*nodes):
        return [getattr(out, "label", out) for out in overlapped.side_by_side(list(nodes))]

    return run


def test_small_neighbours_become_one_launch(grouped):
    assert grouped(Node("a"), Node("b"), Node("c")) == ["a+b+c"]


def test_what_reads_another_stands_behind_it(grouped):
    assert grouped(Node("a"), Node("b", reads="a"), Node("c")) == ["a", "b+c"]


@pytest.mark.parametrize("other", [
    Node("x", numel=1 << 20),
    Node("x", reduced=64),
    Node("x", device="cpu"),
    object.__new__(scheduler.ExternKernelSchedulerNode),
])
def test_others_stay_where_they_are(grouped, other):
    other.label = "x"
    assert grouped(Node("a"), Node("b"), other, Node("c"), Node("d")) == ["a+b", "x", "c+d"]


def test_sizes_that_are_not_known_are_left(grouped):
    unknown = Node("x")
    unknown.group = unknown.group[0], (sympy.Symbol("s0"), sympy.Integer(1))
    assert grouped(Node("a"), unknown, Node("b")) == ["a", "x", "b"]


def test_a_launch_has_eight_at_most(grouped):
    names = "abcdefghij"
    assert grouped(*map(Node, names)) == ["a+b+c+d+e+f+g+h", "i+j"]


def test_a_kernel_waits_before_all_else():
    kernel = object.__new__(overlapped._overlapped(TritonKernel))
    code = SimpleNamespace(_lines=["x = tl.load(in_ptr0)", "tl.store(out_ptr0, x)"])
    for _ in range(2):  # Inductor may write a kernel twice
        kernel._filter_pdl(code)
    assert code._lines == ["tl.extra.cuda.gdc_wait()", "tl.extra.cuda.gdc_launch_dependents()",
                           "x = tl.load(in_ptr0)", "tl.store(out_ptr0, x)"]  # fmt: skip
    assert kernel._enable_pdl_codegen()
    assert type(kernel).triton_meta_common()["launch_pdl"]


def test_a_kernel_whose_blocks_meet_starts_as_usual():
    kernel = object.__new__(overlapped._overlapped(TritonKernel))
    kernel.triton_meta = {"launch_pdl": True, "launch_cooperative_grid": True}
    code = SimpleNamespace(_lines=["tl.store(out_ptr0, x)"])
    kernel._filter_pdl(code)
    assert code._lines == ["tl.store(out_ptr0, x)"] and not kernel.triton_meta["launch_pdl"]


def test_inductor_has_what_is_changed():
    for name in ("_enable_pdl_codegen", "_handle_pdl_before_access", "_handle_pdl_after_load",
                 "_filter_pdl", "GDC_WAIT", "GDC_LAUNCH"):  # fmt: skip
        assert hasattr(TritonKernel, name)
    assert not config.triton.enable_pdl and hasattr(config, PLACE)


def test_without_graphs_all_stays_as_it_is():
    nodes = [Node("a"), Node("b")]
    assert LaunchPass(None)(nodes) is nodes


def test_the_users_pass_stays(fresh):
    seen = []

    def own(nodes):
        seen.extend(nodes)
        return nodes

    model, x = Mlp().eval().requires_grad_(False), torch.randn(4, 64, dtype=torch.bfloat16)
    with config.patch({PLACE: own, "fx_graph_cache": False}), epifuse.torch.enabled():
        assert_no_further_than_eager(model, torch.compile(model), (x,))
    assert seen
    with config.patch({PLACE: own}):
        epifuse.torch.enable()
        assert isinstance(getattr(config, PLACE), LaunchPass)
        epifuse.torch.disable()
        assert getattr(config, PLACE) is own


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_modes_with_graphs_compile_for_cpus(fresh, mode):
    class Loop(Mlp):
        def forward(self, x):
            return super().forward(x).sin()

    model, x = Loop().eval(), torch.randn(4, 64, dtype=torch.bfloat16)
    with config.patch(fx_graph_cache=False):
        compiled = torch.compile(model, backend=epifuse.torch.backend, mode=mode)
        assert_no_further_than_eager(model, compiled, (x,))


def test_caches_know_the_pass():
    assert LaunchPass(None).uuid() == LaunchPass(None).uuid()
    unknown = LaunchPass(len)
    assert unknown.uuid() != unknown.uuid()
    assert LaunchPass(len, "mine").uuid() != LaunchPass(len, "other").uuid()
