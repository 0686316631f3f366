"""Products that the framework was measured to run faster: left out by the pass, with the reason."""

import threading

import pytest
import torch
import torch.nn.functional as F
from fx_capture import capture
from torch._subclasses.fake_tensor import FakeTensorMode

from epifuse.torch import ahead, rewrite
from epifuse.torch.call import fused
from epifuse.torch.rewrite import fuse

OPTIONS = {"numerics": "fast", "tf32": False, "tune": "compile"}
LEFT = {"code": "framework_is_faster", "why": "Here the best kernel took 25.0 us, the rest 16.3."}


def two_products(x, w, v, b):
    """The second one reads a view of the first one's result, which makes a reshape of its own."""
    y = F.gelu(x @ w + b)
    return F.silu(y.reshape(-1, v.shape[0]) @ v)


def captured_on_gpu(run, *shapes):
    with FakeTensorMode(allow_non_fake_inputs=True):
        tensors = [torch.empty(*shape, device="cuda", dtype=torch.bfloat16) for shape in shapes]
    return capture(run, *tensors, inductor=True).graph


@pytest.fixture(name="graph")
def captured():
    return captured_on_gpu(two_products, (2, 8, 16), (16, 24), (24, 40), (24,))


@pytest.fixture(name="choices")
def measured(monkeypatch):
    """What is said of kernels by their epilogue, and what was asked for."""
    said, asked = {}, []

    def choice(text, _options, _inputs):
        asked.append(text)
        name = "gelu" if "erf" in text else "silu"
        return said.get(name, {"how": ["ping-pong"], "grounds": ["9.0 us measured"], "left": None})

    monkeypatch.setattr(ahead._native, "choice", choice)
    ahead._start.cache_clear()
    yield said, asked
    ahead._start.cache_clear()


def targets(graph):
    return [str(node.target) for node in graph.nodes if node.op == "call_function"]


def products_of(graph):
    return [name for name in targets(graph) if name in ("aten.mm.default", "aten.addmm.default")]


def num_kernels(graph):
    return sum(node.target is fused for node in graph.nodes)


def test_a_kernel_says_how_it_runs(graph, choices):
    report = fuse(graph, OPTIONS, only_faster=True)
    assert [kernel.how for kernel in report.kernels] == ["ping-pong: 9.0 us measured"] * 2
    assert num_kernels(graph) == 2 and not products_of(graph)
    assert len(choices[1]) == 2, "each is asked for once"


@pytest.mark.parametrize("left", [["gelu"], ["silu"], ["gelu", "silu"]])
def test_what_the_framework_runs_faster_stays_as_it_was(graph, choices, left):
    choices[0].update({name: {"how": [], "grounds": [], "left": LEFT} for name in left})
    report = fuse(graph, OPTIONS, only_faster=True)
    graph.lint()
    assert len(report.kernels) == num_kernels(graph) == 2 - len(left)
    assert len(products_of(graph)) == len(left)
    assert report.reasons() == {"framework_is_faster": len(left)}
    assert {each.why for each in report.products_left} == {LEFT["why"]}
    assert sum(name == "aten.erf.default" for name in targets(graph)) == ("gelu" in left)


def queries_keys_and_values(x, w, b, v, c, u):
    """Of these the first two have a bias, so that they are a kernel."""
    return x @ w + b, x @ v + c, x @ u


@pytest.mark.parametrize("left", [[], ["all"], ["all", "first"]])
def test_products_that_are_left_together_are_asked_for_by_themselves(monkeypatch, left):
    graph = captured_on_gpu(queries_keys_and_values, (200, 64), (64, 96), (96,), (64, 32), (32,),
                            (64, 32))  # fmt: skip

    def choice(text, *_):
        name = "all" if text.count("matmul") > 1 else "first" if "96" in text else "second"
        said = {"how": [], "grounds": [], "left": LEFT}
        return said if name in left else {"how": [name], "grounds": [""], "left": None}

    monkeypatch.setattr(ahead._native, "choice", choice)
    ahead._start.cache_clear()
    report = fuse(graph, OPTIONS, only_faster=True)
    ahead._start.cache_clear()
    graph.lint()
    kernels = [["all"], ["first", "second"], ["second"]][len(left)]
    assert [kernel.how for kernel in report.kernels] == kernels
    assert num_kernels(graph) == len(kernels)
    assert len(products_of(graph)) == 1 + (left == ["all", "first"])
    of_left = {"framework_is_faster": 1} if len(left) == 2 else {}
    assert report.reasons() == {"nothing_to_fuse": 1, **of_left}


def test_kernels_are_compiled_at_once(graph, monkeypatch):
    both = threading.Barrier(2, timeout=60)  # nobody is told anything before both are asked for

    def choice(*_):
        both.wait()
        return {"how": ["ping-pong"], "grounds": [""], "left": None}

    monkeypatch.setattr(ahead._native, "choice", choice)
    ahead._start.cache_clear()
    assert len(fuse(graph, OPTIONS, only_faster=True).kernels) == 2
    ahead._start.cache_clear()


def rotated_heads(x, w, cos, sin, v):
    """Of 2 heads, whose halves are turned against each other; they are the next one's batches."""
    a, b = (x @ w).view(2, 127, 2, 128).transpose(1, 2).chunk(2, -1)
    return F.silu(torch.cat((a * cos - b * sin, b * cos + a * sin), -1) @ v)


def transposed_chain(x, w, v, u):
    """Each product reads the one before it transposed, or in another shape."""
    y = F.relu(x @ w).transpose(1, 2)
    z = F.gelu(y.reshape(-1, 32) @ v)
    return F.silu(z.view(2, -1, 24).transpose(1, 2) @ u)


@pytest.mark.parametrize("run, shapes", [
    (two_products, [(2, 8, 16), (16, 24), (24, 40), (24,)]),
    (rotated_heads, [(2, 127, 96), (96, 256), (127, 64), (127, 64), (128, 24)]),
    (transposed_chain, [(2, 32, 16), (16, 40), (32, 24), (40, 16)]),
])  # fmt: skip
@pytest.mark.parametrize("is_left", [False, True])
def test_what_is_started_is_what_the_graph_asks_for(choices, monkeypatch, run, shapes, is_left):
    begun, insert = [], rewrite._Rewriter.insert

    def inserted(self, kernel):
        begun.append(ahead._start.cache_info().misses)
        return insert(self, kernel)

    monkeypatch.setattr(rewrite._Rewriter, "insert", inserted)
    if is_left:
        choices[0].update(silu={"how": [], "grounds": [], "left": LEFT})
    report = fuse(captured_on_gpu(run, *shapes), OPTIONS, only_faster=True)
    assert begun[0] == ahead._start.cache_info().misses == len(begun) >= 2
    assert len(report.kernels) < len(begun) if is_left else len(report.kernels) == len(begun)


def test_what_cannot_be_told_ahead_is_compiled_in_turn(graph, choices, monkeypatch, caplog):
    def add(*_):
        raise RuntimeError("no such shape")

    monkeypatch.setattr(rewrite.Expected, "add", add)
    report = fuse(graph, OPTIONS, only_faster=True)
    assert len(report.kernels) == len(choices[1]) == 2
    assert "no such shape" in caplog.text


def padded_product(x, w):
    """As Inductor writes it, of 16x20 by 20x24."""
    return F.silu(F.pad(x, (0, 4)) @ F.pad(w, (0, 0, 0, 4)))


@pytest.mark.parametrize("run, is_left", [(padded_product, True),
                                          (lambda x, w: F.silu(x @ w), False)])  # fmt: skip
def test_padding_counts_where_the_framework_pads(choices, run, is_left):
    with FakeTensorMode(allow_non_fake_inputs=True):
        x, w = (torch.empty(*shape, device="cuda", dtype=torch.bfloat16)
                for shape in ((16, 20), (20, 24)))  # fmt: skip
    graph = capture(run, x, w, inductor=True).graph
    left = {"code": "framework_is_faster_padded", "why": "16.3 us with padded operands, 25.0."}
    choices[0].update(silu={"how": [], "grounds": [], "left": left})
    report = fuse(graph, OPTIONS, only_faster=True)
    assert num_kernels(graph) == (0 if is_left else 1)
    assert report.reasons() == ({"framework_is_faster": 1} if is_left else {})
    assert sum(name == "aten.constant_pad_nd.default" for name in targets(graph)) == 2 * is_left


@pytest.mark.parametrize("options, only_faster",
                         [({**OPTIONS, "tune": "off"}, True), (OPTIONS, False)])  # fmt: skip
def test_nothing_is_waited_for_where_all_is_to_be_fused(graph, choices, options, only_faster):
    choices[0].update(gelu={"how": [], "grounds": [], "left": LEFT})
    report = fuse(graph, options, only_faster)
    assert len(report.kernels) == 2 and [kernel.how for kernel in report.kernels] == ["", ""]


def test_what_could_not_be_measured_is_fused(graph, monkeypatch):
    def choice(*_):
        raise ahead._native.UnavailableError("no GPU")

    monkeypatch.setattr(ahead._native, "choice", choice)
    ahead._start.cache_clear()
    report = fuse(graph, OPTIONS, only_faster=True)
    ahead._start.cache_clear()
    assert num_kernels(graph) == len(report.kernels) == 2
