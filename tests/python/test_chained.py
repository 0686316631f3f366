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


def left_to_the_program(x, w, v):
    h = (x @ x.mT * 0.01).mean(0)
    return torch.relu(torch.nn.functional.linear(h, w)) + v


def test_a_sum_of_columns_that_the_program_computes_itself_is_a_row_of_the_next_product():
    args = [torch.randn(16, 64).half().as_strided((16, 64), (0, 1)),
            torch.randn(128, 16).half(), torch.randn(128).half()]  # fmt: skip
    report = epifuse.torch.explain(left_to_the_program, *args, only_faster=False)
    assert len(report.kernels) == 1, str(report)
    compiled = torch.compile(left_to_the_program, backend=epifuse.torch.backend)
    torch.testing.assert_close(compiled(*args), left_to_the_program(*args), rtol=4e-3, atol=4e-3)


def columns_of_work_on_operands(x, w, z):
    pairs = torch.where(z > 0, z * 2, z.exp()).view(-1, 2)
    return (x @ w).squeeze(0) + pairs[:, 0] + pairs[:, 1]


def test_columns_that_the_program_takes_of_what_it_computes_itself():
    args = [torch.randn(1, 4), torch.randn(4, 8), torch.randn(16)]
    report = epifuse.torch.explain(columns_of_work_on_operands, *args, only_faster=False)
    assert len(report.kernels) == 1, str(report)
    compiled = torch.compile(columns_of_work_on_operands, backend=epifuse.torch.backend)
    torch.testing.assert_close(compiled(*args), columns_of_work_on_operands(*args))
