"""What tests of whole programs share."""

import pytest
import torch

from epifuse.torch import inductor

# What becomes a kernel must not depend on how fast sizes as small as those of tests are.
inductor.OPTIONS["only_faster"] = False


@pytest.fixture
def fresh():
    """Nothing compiled before, nothing left behind, the same random numbers."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()
