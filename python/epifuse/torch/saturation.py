"""Bounds before a cast to e4m3 that the cast keeps by itself.

    cast(clamp(x, -448, 448), e4m3)  ->  cast(x, e4m3)

On GPUs with an instruction for it Triton's cast saturates (github.com/pytorch/ao/issues/1912):
infinities become 448, NaN stays. Inductor takes three instructions for each bound, as NaN has to
stay there too, and passes that quantise spend much of their time on them
(docs/gotchas-hopper.md, "fp8").
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Graph, Node

from epifuse.torch.emitter import bind, tensor_of
from epifuse.torch.rows import CASTS

_E4M3 = torch.float8_e4m3fn
_LARGEST = torch.finfo(_E4M3).max
# The names of the bounds of x below and above.
_BOUNDS = {"aten.clamp.default": ("min", "max"), "aten.clamp_min.default": ("min", None),
           "aten.clamp_max.default": (None, "max"),
           "aten.hardtanh.default": ("min_val", "max_val")}  # fmt: skip


def triton_saturates(device: torch.device) -> bool:
    """Whether Triton casts to e4m3 by the instruction that saturates: by code of its own, or not at
    all, where GPUs have none (before Ada, 8.9)."""
    from torch._inductor import config

    if device.type != "cuda" or getattr(config, "cuda_backend", "triton") != "triton":
        return False
    return torch.version.hip is None and torch.cuda.get_device_capability(device) >= (8, 9)


def _is_kept(bound: Any, sign: int) -> bool:
    """Whether a bound above (1) or below (-1) is none, or a number that e4m3 does not exceed."""
    return bound is None or isinstance(bound, (int, float)) and sign * bound >= _LARGEST


def _within(node: Node) -> Node:
    """What a node bounds by no more than a cast does; the node itself if it does something else."""
    if str(node.target) not in _BOUNDS:
        return node
    arguments = bind(node)
    low, high = map(arguments.get, _BOUNDS[str(node.target)])
    value = tensor_of(arguments["self"])
    is_plain = value is not None and value.dtype == torch.float32
    return arguments["self"] if is_plain and _is_kept(low, -1) and _is_kept(high, 1) else node


def without_bounds_of_casts(
    graph: Graph, saturates: Callable[[torch.device], bool] = triton_saturates
) -> None:
    """Takes them out of what Inductor computes, in place."""
    for cast in list(graph.nodes):
        value = tensor_of(cast)
        is_cast = str(cast.target) in CASTS and value is not None and value.dtype == _E4M3
        if not is_cast or not saturates(value.device):
            continue
        while (inner := _within(bounded := cast.args[0])) is not bounded:
            cast.replace_input_with(bounded, inner)
            if not bounded.users:
                graph.erase_node(bounded)
