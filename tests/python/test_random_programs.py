"""Random programs by kernels of all that can be fused, beside eager PyTorch's results."""

import pytest
import random_programs
import torch
from random_programs import FINE, TOKENS, Program
from random_steps import Tensor
from torch.nn import functional as F

from epifuse import _native

pytestmark = pytest.mark.usefixtures("reports")


@pytest.mark.parametrize("symbols", [False, True])
@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("first", range(0, 30, 10))
def test_results_are_eagers(first, train, symbols):
    found = list(random_programs.verdicts(range(first, first + 10), train, "cpu", symbols))
    assert [each for each in found if each[1] not in FINE] == []
    assert sum(verdict == "right" for _, verdict in found) >= (6 if symbols else 9)


@pytest.mark.parametrize("symbols", [False, True])
def test_results_of_torch_compile_are_eagers(symbols):
    found = list(random_programs.verdicts(range(40, 42), False, "cpu", symbols, True))
    assert [each for each in found if each[1] not in FINE] == []
    assert "right" in {verdict for _, verdict in found}


def test_a_seed_draws_the_same_program_each_time():
    x, y = Program(5), Program(5)
    assert [tensor.shape for tensor in x.made] == [tensor.shape for tensor in y.made]
    assert [tensor.shape for tensor in x.made] != [tensor.shape for tensor in Program(6).made]
    for ours, same in zip(x.run(*x.given("cpu")), y.run(*y.given("cpu")), strict=True):
        torch.testing.assert_close(ours, same, rtol=0, atol=0, equal_nan=True)


def test_other_numbers_of_rows_draw_the_same_steps():
    programs = [Program(7, tokens=tokens) for tokens in TOKENS]
    kinds = [[(tensor.dtype, len(tensor.shape)) for tensor in each.made] for each in programs]
    assert kinds[0] == kinds[1] == kinds[2]
    assert len({each.made[0].shape for each in programs}) == len(TOKENS)


def test_what_is_wrong_is_found(monkeypatch):
    fuse = random_programs.fuse

    def halved(graph):
        report = fuse(graph)
        output = next(node for node in graph.nodes if node.op == "output")
        with graph.inserting_before(output):
            half = graph.call_function(torch.ops.aten.mul.Scalar, (output.args[0][0], 0.5))
        output.args = ([half, *output.args[0][1:]],)
        return report

    monkeypatch.setattr(random_programs, "fuse", halved)
    assert random_programs.check(5, False).startswith("result 0: ")


class Twice(Program):
    """Two results that are equal, so that their gradients are. A kernel computes with the first
    one's what another one's adds."""

    def __init__(self):
        super().__init__(0, train=True)
        self.inputs = [Tensor((32, 32), torch.bfloat16) for _ in range(4)]

    def run(self, x, w, c, v):
        h = torch.addmm(c[0], x, w)
        first, (gate, up) = torch.neg(h), torch.addmm(c[1], x, v).chunk(2, -1)
        return first, first @ v, F.softplus(h), torch.neg(h), F.silu(gate) * up


def test_a_value_that_is_equal_to_a_stored_one_is_read_from_there(monkeypatch):
    monkeypatch.setattr(random_programs, "Program", lambda *drawn: Twice())
    assert random_programs.check(0, train=True) == "right"


def test_kernels_are_found_as_for_hopper():
    text = "graph g(x: bf16[64, 64], w: bf16[64, 64], v: bf16[64, 64]) {\n" \
           "  y = matmul x, w\n  z = matmul x, v\n  return y, z\n}\n"  # fmt: skip
    found = _native.fusions(text, {"target": "cpu", "in_memory": ["y", "z"]})
    assert [kernel["name"] for kernel in found["kernels"]] == ["matmul_side_by_side"]
