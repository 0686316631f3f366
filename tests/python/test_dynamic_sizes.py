"""Sizes that change from call to call, beside work that kernels leave out."""

import re

import torch
from fx_capture import capture

from epifuse.torch import rewrite
from epifuse.torch.importer import import_graph


def every_other_row(x, w):
    h = torch.relu(x @ w)
    return h[::2] * 2  # (M + 1) // 2 rows: no slice of the language


def test_sizes_of_what_is_left_out_are_not_asked_for():
    module = capture(every_other_row, torch.randn(6, 8), torch.randn(8, 8), dynamic=True)
    imported = import_graph(module.graph)
    assert imported.likely_sizes
    for name in imported.likely_sizes:
        assert re.search(rf"\b{name}\b", imported.text), name
    options = {"numerics": "fast", "tf32": False}
    assert rewrite.fuse(module.graph, options, only_faster=False).kernels
