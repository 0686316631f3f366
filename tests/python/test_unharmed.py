"""Where a pass of ours fails, the program runs as without it, and the report says so."""

import logging

import pytest
import torch
from torch.nn import functional as F

import epifuse.torch
from epifuse.torch import inductor, unharmed

pytestmark = pytest.mark.usefixtures("fresh")


def layer(x, w, b):
    return F.gelu(x @ w + b), x.sum(0)


def fails_half_way(graph, *options):
    """As a pass that has taken a part of the graph apart."""
    sums = next(node for node in graph.nodes if "sum" in str(node.target))
    sums.replace_all_uses_with(sums.args[0])
    graph.erase_node(sums)
    graph.call_function(torch.ops.aten.neg.default, (next(iter(graph.nodes)),))
    raise KeyError("mm_1")


@pytest.fixture
def failing(monkeypatch):
    monkeypatch.setattr(unharmed, "FAULTS", (Exception,))
    monkeypatch.setattr(inductor, "fuse", fails_half_way)
    with torch._inductor.config.patch(force_disable_caches=True):
        yield


def given():
    return torch.randn(40, 24), torch.randn(24, 48), torch.randn(48)


def test_the_program_runs_as_it_was(failing, caplog):
    x, w, b = given()
    with caplog.at_level(logging.WARNING, "epifuse.torch"):
        results = torch.compile(layer, backend=epifuse.torch.backend)(x, w, b)
    for ours, eager in zip(results, layer(x, w, b), strict=True):
        torch.testing.assert_close(ours, eager)
    assert "fault of epifuse" in caplog.text and "KeyError" in caplog.text


def test_so_does_a_step_of_training(failing):
    weights = [each.requires_grad_() for each in given()[1:]]
    x = given()[0]
    ours = torch.compile(layer, backend=epifuse.torch.backend)(x, *weights)[0]
    got = torch.autograd.grad(ours.square().sum(), weights)
    wanted = torch.autograd.grad(layer(x, *weights)[0].square().sum(), weights)
    for a, b in zip(got, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_the_report_says_so_of_each_product(failing):
    report = epifuse.torch.explain(layer, *given())
    assert not report.kernels and report.reasons() == {"failed": 1}
    assert "KeyError: 'mm_1'" in report.products_left[0].why


def test_other_tests_see_faults():
    assert unharmed.FAULTS == ()
