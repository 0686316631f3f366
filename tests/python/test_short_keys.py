"""Sorts of a router's choice: by narrow keys, and equal to eager's."""

import pytest
import torch
from fx_capture import capture

from epifuse.torch import short_keys

TOKENS, TOP_K = 600, 8  # just more than are sorted in one block


def chosen(scores):
    return torch.topk(scores, TOP_K, -1)[1].reshape(-1)


def of_a_router(scores):
    ids, order = torch.sort(chosen(scores), stable=True)
    return ids, order, ids.float()


def narrower(scores):
    ids, order = torch.sort(chosen(scores).int(), stable=True)
    return order, ids + 1


def places_alone(scores):
    return (torch.sort(chosen(scores), stable=True)[1],)


def keys_of(function, scores, device="cpu"):
    """The dtypes that are sorted; what the graph gives stays as it is."""
    module = capture(function, scores, inductor=True)
    short_keys.sort_by_short_keys(module.graph, device)
    module.graph.lint()
    module.recompile()
    for got, expected in zip(module(scores), function(scores), strict=True):
        assert got.dtype == expected.dtype and torch.equal(got, expected)
    return [node.args[0].meta["val"].dtype for node in module.graph.nodes
            if str(node.target) in ("aten.sort.default", "aten.sort.stable")]  # fmt: skip


def scores(num_experts, num_tokens=TOKENS):
    torch.manual_seed(0)
    return torch.randn(num_tokens, num_experts)


@pytest.mark.parametrize("function", [of_a_router, narrower, places_alone])
@pytest.mark.parametrize(("num_experts", "dtype"), [(64, torch.uint8), (256, torch.uint8),
                                                    (257, torch.int16)])  # fmt: skip
def test_a_routers_choice_is_sorted_by_short_keys(function, num_experts, dtype):
    assert keys_of(function, scores(num_experts)) == [dtype]


def other_numbers(scores):
    return torch.sort(chosen(scores) * 1000, stable=True)


def by_rows(scores):
    return torch.sort(torch.topk(scores, TOP_K, -1)[1], stable=True)


def scores_themselves(scores):
    return torch.sort(torch.topk(scores, TOP_K, -1)[0].reshape(-1), stable=True)


@pytest.mark.parametrize("function", [other_numbers, by_rows])
def test_other_integers_are_sorted_as_they_are(function):
    assert keys_of(function, scores(64)) == [torch.int64]


def test_floats_are_sorted_as_they_are():
    assert keys_of(scores_themselves, scores(64)) == [torch.float32]


def test_few_numbers_are_sorted_as_they_are():
    assert keys_of(of_a_router, scores(64, 512)) == [torch.int64]


def test_on_cpus_they_are_sorted_as_they_are():
    assert keys_of(of_a_router, scores(64), "cuda") == [torch.int64]
