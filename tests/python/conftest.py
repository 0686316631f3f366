"""What tests of whole programs share."""

import pytest
import torch


@pytest.fixture
def fresh():
    """Nothing compiled before, nothing left behind, the same random numbers."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()
