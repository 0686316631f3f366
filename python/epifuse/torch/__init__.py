"""epifuse for PyTorch: torch.compile(model, backend="epifuse"), or a pass inside Inductor."""

from epifuse.torch.explanation import explain
from epifuse.torch.inductor import backend, disable, enable, enabled
from epifuse.torch.report import Kernel, LeftOut, Report

__all__ = ["Kernel", "LeftOut", "Report", "backend", "disable", "enable", "enabled", "explain"]
