"""How far a result may be from float64: no further than eager, in the model's own dtype."""

import copy
from typing import Any

import torch


def tensors(value: Any) -> list[torch.Tensor]:
    """The tensors of a model's result, in order."""
    leaves = torch.utils._pytree.tree_leaves(value)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def in_float64(model: torch.nn.Module) -> torch.nn.Module:
    """The same model, with its weights as they are, computing in float64."""
    return copy.deepcopy(model).double()


def wide(value: Any, dtype: torch.dtype = torch.float64) -> Any:
    """A tensor of floats in that dtype, and anything else as it is."""
    is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.to(dtype) if is_float else value


def distance(got: torch.Tensor, reference: torch.Tensor, least: float = 1e-30) -> float:
    """Root mean square of the difference, over that of the reference, or over `least` if larger."""
    got, reference = got.double(), reference.double()
    scale = reference.square().mean().sqrt().clamp_min(least)
    return float((got - reference).square().mean().sqrt() / scale)


def assert_no_further_than_eager(model: torch.nn.Module, compiled: Any, args: tuple[Any, ...],
                                 kwargs: dict[str, Any] | None = None,
                                 slack: float = 1.1) -> None:
    """The compiled model is as near to float64 as eager is, up to rounding luck."""
    kwargs = kwargs or {}

    with torch.no_grad():
        got = tensors(compiled(*args, **kwargs))
        eager = tensors(model(*args, **kwargs))
        reference = tensors(in_float64(model)(*[wide(a) for a in args],
                                              **{k: wide(v) for k, v in kwargs.items()}))
    assert len(got) == len(eager) == len(reference)
    for ours, theirs, exact in zip(got, eager, reference):
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        assert ours.stride() == theirs.stride()
        if not exact.is_floating_point():
            assert torch.equal(ours, theirs)
            continue
        assert torch.isfinite(ours).all()
        assert distance(ours, exact) <= slack * distance(theirs, exact) + 1e-7
