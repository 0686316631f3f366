"""What views of a graph do to the order of dims."""

import pytest
import torch
from fx_capture import capture

from epifuse.torch.layout import swaps

aten = torch.ops.aten
VIEWS = {
    "permute": (lambda x: x.permute(0, 2, 1), 3, True),
    "permute_from_behind": (lambda x: aten.permute.default(x, [0, -1, -2]), 3, True),
    "permute_of_a_matrix": (lambda x: aten.permute.default(x, [-1, 0]), 2, True),
    "transpose": (lambda x: x.transpose(2, 1), 3, True),
    "transpose_from_behind": (lambda x: aten.transpose.int(x, -2, -1), 3, True),
    "t": (lambda x: x.t(), 2, True),
    "t_of_a_vector": (lambda x: aten.t.default(x), 1, False),
    "nothing": (lambda x: aten.permute.default(x, [0, -1]), 2, False),
    "twice_the_same": (lambda x: aten.transpose.int(x, 1, -1), 2, False),
    "others": (lambda x: x.permute(1, 0, 2), 3, False),
    "all": (lambda x: x.permute(2, 1, 0), 3, False),
    "no_view": (lambda x: x.neg(), 2, False),
}


@pytest.mark.parametrize("name", VIEWS)
def test_what_exchanges_the_last_two_dims(name):
    view, rank, is_swap = VIEWS[name]
    graph = capture(view, torch.randn([3, 4, 5][:rank])).graph
    given, *_, made = (node for node in graph.nodes if node.op != "output")
    assert swaps(made) == is_swap and not swaps(given) and not swaps(2)
