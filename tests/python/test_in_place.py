"""Sums in place beside other results: each call's results stay as they were returned."""

import re

import pytest
import torch
from torch._inductor.utils import run_and_get_code

import epifuse.torch

ROWS, WIDTH, COLUMNS = 16, 128, 256

pytestmark = pytest.mark.usefixtures("fresh")


def compiled(function):
    return torch.compile(function, backend=epifuse.torch.backend)


def itself(acc, x, w):
    y = acc + x @ w
    acc.copy_(y)
    return y


def clone(acc, x, w):
    acc.addmm_(x, w)
    return acc.clone()


def transposed(acc, x, w):
    y = torch.addmm(acc, x, w)
    acc.copy_(y)
    return y.t()


def flat(acc, x, w):
    y = acc + x @ w
    acc.copy_(y)
    return y.view(-1), y.sum(0)


def part_of_view(acc, x, w):
    y = acc + x @ w
    acc.copy_(y)
    return [each.squeeze(0) for each in y.unsqueeze(0).chunk(2, 1)]


def twice(acc, x, w):
    y = acc + x @ w
    acc.copy_(y)
    acc.addmm_(x, w)
    return y


def scattered(acc, x, w):
    y = acc + x @ w
    acc.copy_(y)
    return y.index_put((torch.arange(3),), y.new_zeros(3, COLUMNS))


def operands(kind=torch.float32):
    x, w = torch.randn(ROWS, WIDTH) / 16, torch.randn(WIDTH, COLUMNS) / 16
    return torch.zeros(ROWS, COLUMNS, dtype=kind), x.to(kind), w.to(kind)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("function",
                         [itself, clone, transposed, flat, part_of_view, twice, scattered])
def test_results_are_no_memory_of_the_sum(function, dtype):
    acc, x, w = operands(dtype)
    eager, run = acc.clone(), compiled(function)
    got = [torch.utils._pytree.tree_leaves(run(acc, x, w)) for _ in range(3)]
    wanted = [torch.utils._pytree.tree_leaves(function(eager, x, w)) for _ in range(3)]
    for mine, theirs in zip(sum(got, []), sum(wanted, []), strict=True):
        assert mine.untyped_storage().data_ptr() != acc.untyped_storage().data_ptr()
        torch.testing.assert_close(mine, theirs, rtol=2**-6, atol=2**-6)
    torch.testing.assert_close(acc, eager, rtol=2**-6, atol=2**-6)


def test_a_sum_that_is_saved_is_no_memory_of_the_input():
    def step(acc, x, w, p):
        y = acc + x @ w
        acc.copy_(y)
        return (y * p).sum()

    gradients = []
    for run in (compiled(step), step):
        torch.manual_seed(0)
        p = torch.ones(COLUMNS, requires_grad=True)
        acc, x, w = operands()
        loss = run(acc, x, w, p)
        acc.zero_()
        loss.backward()
        gradients.append(p.grad)
    torch.testing.assert_close(*gradients)


def test_inputs_that_overlap():
    def step(acc, rows, w):
        acc.add_(rows @ w)
        return rows * 2

    torch.manual_seed(0)
    memory, w = torch.randn(ROWS, WIDTH), torch.randn(WIDTH, WIDTH) / 16
    eager = memory.clone()
    got = compiled(step)(memory, memory[:], w)
    torch.testing.assert_close(got, step(eager, eager[:], w))
    torch.testing.assert_close(memory, eager)


def returns_it(acc, x, w):
    return acc.addmm_(x, w)


def reads_it(acc, x, w):
    y = acc + x @ w
    acc.copy_(y)
    return y.t() @ x, y.view(2, -1).square().sum(1)


def adds_it_elsewhere(acc, x, w):
    acc += x @ w
    return acc.view(-1) + 1


@pytest.mark.parametrize("function", [returns_it, reads_it, adds_it_elsewhere])
def test_what_is_computed_of_a_sum_leaves_it_in_place(function):
    acc, x, w = operands()
    eager = acc.clone()
    got, (code,) = run_and_get_code(compiled(function), acc, x, w)
    assert ".copy_(" not in code
    (call,) = [line for line in code.splitlines() if "epifuse_matmul" in line and "(0, " in line
               and "residual" in line]  # fmt: skip
    names = re.findall(r"(\w+)\.data_ptr\(\)", call)
    assert names.count(names[-1]) == 2 and names[-1].startswith("arg")
    for mine, theirs in zip(torch.utils._pytree.tree_leaves(got),
                            torch.utils._pytree.tree_leaves(function(eager, x, w)), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=2**-6, atol=2**-6)
    torch.testing.assert_close(acc, eager)
