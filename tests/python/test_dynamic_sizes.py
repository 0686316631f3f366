"""Sizes that change from call to call, beside work that kernels leave out."""

import re

import pytest
import torch
from fx_capture import capture

import epifuse.torch
from epifuse.torch.importer import import_graph


def every_other_row(x, w):
    h = torch.relu(x @ w)
    return h, h[::2] * 2  # (M + 1) // 2 rows: no slice of the language


def test_sizes_of_what_is_left_out_are_not_asked_for():
    module = capture(every_other_row, torch.randn(6, 8), torch.randn(8, 8), dynamic=True)
    imported = import_graph(module.graph)
    assert imported.likely_sizes
    for name in imported.likely_sizes:
        assert re.search(rf"\b{name}\b", imported.text), name


@pytest.mark.usefixtures("fresh")
def test_a_product_is_a_kernel_beside_a_slice_that_is_left_out():
    x = torch.randn(6, 8)
    torch._dynamo.mark_dynamic(x, 0)
    report = epifuse.torch.explain(every_other_row, x, torch.randn(8, 8), only_faster=False)
    assert len(report.kernels) == 1, str(report)
