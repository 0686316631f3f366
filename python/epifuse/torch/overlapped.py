"""How Inductor's own kernels are launched where CUDA graphs replay them.

A step of decoding has small ones between the products, each of which takes less time than its
launch. Small ones that stand side by side become one launch. And each may be started while the
kernel in front of it still runs, as ours are: it waits for that before all else, and then lets the
next one start. Inductor can do that itself (`triton.enable_pdl`), but waits later, and not where it
takes memory again that the kernel in front reads. To let the next one start before it waits makes
kernels of many small blocks crowd where no others run (docs/gotchas-pytorch.md).
"""

import functools
import secrets
from typing import Any

import torch
from torch._inductor import custom_graph_pass

# Elements: more take longer than a launch by themselves.
_MOST_ELEMENTS = 1 << 19
_MOST_TOGETHER = 8


class LaunchPass(getattr(custom_graph_pass, "CustomSchedulerPass", object)):  # type: ignore[misc]
    """Changes nodes of Inductor's scheduler behind its fusions, after the pass that the user may
    have put there."""

    def __init__(self, before: Any, before_id: Any = None) -> None:
        self.before = before
        self.before_id = before_id

    def __call__(self, nodes: list[Any]) -> list[Any]:
        from torch._inductor import config

        if self.before is not None:
            nodes = self.before(nodes)
        if not config.triton.cudagraphs or not nodes or torch.version.hip:
            return nodes
        nodes = side_by_side(nodes)
        overlap(nodes)
        return nodes

    def uuid(self) -> Any:
        """What caches know it by, beside the hash of all sources that FusionPass gives: another
        each time where nothing is known of the user's pass, as Inductor does not ask for more."""
        is_unknown = self.before is not None and self.before_id is None
        return ["epifuse.launches", secrets.token_hex() if is_unknown else self.before_id]


def side_by_side(nodes: list[Any]) -> list[Any]:
    """Neighbours that are small and need nothing of each other as one node."""
    out: list[Any] = []
    group: list[Any] = []

    def close() -> None:
        out.extend([_one_of(group)] if len(group) > 1 else group)
        group.clear()

    for node in nodes:
        if not _is_small(node):
            close()
            out.append(node)
            continue
        if len(group) == _MOST_TOGETHER or (group and not _suits(node, group)):
            close()
        group.append(node)
    close()
    return out


def _is_small(node: Any) -> bool:
    from torch._inductor import scheduler

    if not isinstance(node, (scheduler.SchedulerNode, scheduler.FusedSchedulerNode)):
        return False
    if not scheduler.ForeachKernelSchedulerNode.combinable_nodes([node]) or node.is_reduction():
        return False
    device, sizes = node.group
    if device.type != "cuda":  # on CPUs sizes are tuples
        return False
    numel = sizes[0]
    is_known = isinstance(numel, int) or numel.is_number
    return is_known and numel <= _MOST_ELEMENTS


def _suits(node: Any, group: list[Any]) -> bool:
    names = {name for other in group for name in other.get_operation_names()}
    buffers = {name for other in group for name in other.get_buffer_names()}
    return (node.get_device() == group[0].get_device() and not names & set(node.ancestors)
            and not any(dep.name in buffers for dep in node.unmet_dependencies))


def _one_of(group: list[Any]) -> Any:
    from torch._inductor import config
    from torch._inductor.scheduler import ForeachKernelSchedulerNode

    scheduler = group[0].scheduler
    node = ForeachKernelSchedulerNode(scheduler, list(group), use_custom_partition_algo=True,
                                      enable_autotune=config.combo_kernels_autotune > 0)
    scheduler.name_to_fused_node.update({each.get_name(): node for each in node.get_nodes()})
    return node


def overlap(nodes: list[Any]) -> None:
    """Makes the kernels that will be written for these nodes start early."""
    from torch._inductor import config
    from torch._inductor.codegen.triton import TritonKernel

    if not hasattr(TritonKernel, "_filter_pdl") or not hasattr(config.triton, "enable_pdl"):
        return
    scheduler = nodes[0].scheduler
    for device in {node.get_device() for node in nodes}:
        if device is None or device.type != "cuda":
            continue
        if torch.cuda.get_device_capability(device)[0] < 9:  # GPUs that start kernels early
            continue
        writer = getattr(scheduler.get_backend(device), "_triton_scheduling", None)
        if getattr(writer, "kernel_type", None) is not TritonKernel:
            continue
        writer.kernel_type = _overlapped(TritonKernel)
        writer.codegen_combo_kernel = functools.partial(_write_combined,
                                                        writer.codegen_combo_kernel)


def _write_combined(write: Any, node: Any) -> Any:
    """Launches of several nodes ask Inductor's config alone."""
    from torch._inductor import config

    with config.patch({"triton.enable_pdl": True}):
        return write(node)


@functools.cache
def _overlapped(kernel: Any) -> Any:
    class Overlapped(kernel):  # type: ignore[misc]
        """A kernel that waits for the one in front and then lets the next one start."""

        @staticmethod
        def _enable_pdl_codegen() -> bool:
            return True

        def _handle_pdl_before_access(self, *arguments: Any, **named: Any) -> None:
            pass

        def _handle_pdl_after_load(self, *arguments: Any, **named: Any) -> None:
            pass

        def _filter_pdl(self, code: Any) -> None:
            meta = getattr(self, "triton_meta", None) or {}
            if meta.get("launch_cooperative_grid"):  # all its blocks run at once
                meta["launch_pdl"] = False
                return
            first = [self.GDC_WAIT, self.GDC_LAUNCH]
            if code._lines[:2] != first:
                code._lines[:0] = first

    return Overlapped
