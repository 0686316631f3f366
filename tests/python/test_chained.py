"""A kernel that reads what another one has stored in another shape than the program's."""

import pytest
import torch

import epifuse.torch

pytestmark = pytest.mark.usefixtures("fresh")


def function(x, w, v, u):
    top = (x @ w).amax(0)
    return top @ v * torch.sigmoid(top @ u), top


def test_a_maximum_of_columns_is_a_row_of_the_next_product():
    args = [torch.randn(*shape) for shape in ((8, 4), (4, 2), (2, 26), (2, 26))]
    report = epifuse.torch.explain(function, *args, only_faster=False)
    assert len(report.kernels) == 2, str(report)
    compiled = torch.compile(function, backend=epifuse.torch.backend)
    torch.testing.assert_close(compiled(*args), function(*args), rtol=1e-5, atol=1e-5)
