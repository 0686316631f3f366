"""Kernels as for a Hopper GPU, whatever runs them."""

from collections.abc import Callable
from typing import Any


def for_hopper(fusions: Callable[..., Any]) -> Callable[..., Any]:
    """What `_native.fusions` is there."""
    return lambda text, asked: fusions(text, {**asked, "target": "sm_90a"})
