"""epifuse for PyTorch: torch.compile(model, backend="epifuse"), or a pass inside Inductor.

The import registers the op, so that packages of AOTInductor load. All else waits until it is asked
for: Inductor takes a second to import.
"""

import importlib
from typing import TYPE_CHECKING, Any

from epifuse.torch import op

if TYPE_CHECKING:
    from epifuse.torch.entries import Kernel, LeftOut, Product
    from epifuse.torch.explanation import explain
    from epifuse.torch.inductor import backend, disable, enable, enabled
    from epifuse.torch.process import KernelStats, Stats, reset_stats, stats
    from epifuse.torch.report import Report

__all__ = ["Kernel", "KernelStats", "LeftOut", "Product", "Report", "Stats", "backend", "disable",
           "enable", "enabled", "explain", "reset_stats", "stats"]  # fmt: skip

_MODULES = {
    "entries": ("Kernel", "LeftOut", "Product"),
    "explanation": ("explain",),
    "inductor": ("backend", "disable", "enable", "enabled"),
    "process": ("KernelStats", "Stats", "reset_stats", "stats"),
    "report": ("Report",),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name == module:
            return importlib.import_module(f"{__name__}.{module}")
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


op.load_if_there()
