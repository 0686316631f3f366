"""Sums into rows that a permutation tells apart: looked up, and equal to what eager sums."""

import pytest
import torch
from fx_capture import capture

from epifuse.torch.permutations import without_sums_into_permuted_rows

ROWS, TOP_K, WIDTH = 24, 4, 5


def orders(ids):
    """The order of some numbers, and the place of each in it."""
    order = torch.sort(ids)[1]
    return order, torch.empty_like(order).index_put((order,), torch.arange(order.shape[0]))


def summed(rows, index, x, start=0.0):
    return torch.full((rows, *x.shape[1:]), start).index_put((index,), x, accumulate=True)


def sums_of(graph):
    return [node for node in graph.nodes if "index_put" in str(node.target)
            and len(node.args) > 3 and node.args[3]]  # fmt: skip


def sums_left(function, *args, dynamic=False):
    """How many sums into rows remain of a function, which still gives what it gave."""
    module = capture(function, *args, dynamic=dynamic, inductor=True)
    assert sums_of(module.graph)
    without_sums_into_permuted_rows(module.graph)
    module.graph.lint()
    module.recompile()
    got, expected = module(*args), function(*args)
    assert got.dtype == expected.dtype and torch.equal(got, expected)
    return len(sums_of(module.graph))


def into_places(x, ids):
    return summed(ROWS, orders(ids)[1], x)


def into_order(x, ids):
    order, place = orders(ids)
    return summed(ROWS, order, x) + place[0]


def into_tokens(x, ids):
    order, place = orders(ids)
    return summed(ROWS // TOP_K, order // TOP_K, x) + place[0]


@pytest.fixture
def numbers():
    """Small integers as floats, so that sums are exact in any order; ids with equals among them."""
    torch.manual_seed(0)
    return torch.randint(-8, 8, (ROWS, WIDTH)).float(), torch.randint(0, 6, (ROWS,))


@pytest.mark.parametrize("function", [into_places, into_order, into_tokens])
@pytest.mark.parametrize("width", [WIDTH, None])
def test_rows_of_a_permutation_are_looked_up(numbers, function, width):
    x, ids = numbers
    assert sums_left(function, x if width else x[:, 0], ids) == 0


def test_any_number_of_rows(numbers):
    def function(x, ids):
        order, place = orders(ids)
        return summed(x.shape[0], place, x)

    assert sums_left(function, *numbers, dynamic=True) == 0


def no_permutation(x, ids):
    return summed(ROWS, ids, x)


def inverse_of_no_permutation(x, ids):
    return summed(ROWS, torch.zeros_like(ids).index_put((ids,), torch.arange(ROWS)), x)


def more_rows_than_there_are(x, ids):
    return summed(ROWS + 1, orders(ids)[1], x)


def more_tokens_than_there_are(x, ids):
    order, place = orders(ids)
    return summed(ROWS, order // TOP_K, x) + place[0]


def places_in_parts(x, ids):
    return summed(ROWS // TOP_K, orders(ids)[1] // TOP_K, x)


def onto_ones(x, ids):
    return summed(ROWS, orders(ids)[1], x, 1.0)


def one_row_for_all(x, ids):
    return summed(ROWS, orders(ids)[1], x[:1])


def of_many_sorts(x, ids):
    order = torch.sort(ids.view(-1, TOP_K))[1].view(-1)
    place = torch.zeros_like(order).index_put((order,), torch.arange(ROWS))
    return summed(ROWS, order, x) + place[0]


@pytest.mark.parametrize("function", [
    no_permutation, inverse_of_no_permutation, more_rows_than_there_are, more_tokens_than_there_are,
    places_in_parts, onto_ones, one_row_for_all, of_many_sorts])  # fmt: skip
def test_other_sums_stay(numbers, function):
    assert sums_left(function, *numbers) == 1
