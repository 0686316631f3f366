"""What tests of whole programs share."""

import pytest
import torch
from hopper import for_hopper

from epifuse import _native
from epifuse.torch import inductor, unharmed

# A fault is raised, rather than the program left as it was.
unharmed.FAULTS = ()
# What becomes a kernel must not depend on how fast sizes as small as those of tests are.
inductor.OPTIONS["only_faster"] = False


@pytest.fixture
def fresh():
    """Nothing compiled before, nothing left behind, the same random numbers."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


@pytest.fixture
def own_reports(monkeypatch):
    """What becomes kernels, graph after graph."""
    found, fuse = [], inductor.fuse
    monkeypatch.setattr(inductor, "fuse", lambda *given: found.append(fuse(*given)) or found[-1])
    with torch._inductor.config.patch(force_disable_caches=True):
        yield found


@pytest.fixture
def on_hopper(monkeypatch):
    """Kernels as for a Hopper GPU."""
    monkeypatch.setattr(_native, "fusions", for_hopper(_native.fusions))


@pytest.fixture
def reports(own_reports, on_hopper):
    """What becomes kernels, as a Hopper GPU would have it."""
    return own_reports
