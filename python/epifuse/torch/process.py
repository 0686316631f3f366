"""What this process compiled, ran and left out: stats(), and the log of reports."""

import json
import logging
import threading
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from epifuse import _native
from epifuse.torch.summary import counted

log = logging.getLogger("epifuse.torch")


@dataclass(frozen=True)
class KernelStats:
    """One kernel: its calls, and what it took to compile."""

    name: str  # "matmul_bias_gelu_erf"; "kernel" before its first call
    graph: str  # its `.epi` text
    options: str  # numerics, target: as JSON
    calls: int  # replays of CUDA graphs are none
    programs: int  # one for each way in which inputs lie
    binaries: int  # that the run-time compiler made; those from a cache do not count
    compile_seconds: float  # of planning, and of the run-time compiler, summed over its threads


@dataclass(frozen=True)
class Stats:
    """What happened in this process since it started, or since `reset_stats`."""

    graphs: int = 0  # with products, compiled or loaded from Inductor's cache
    kernels: tuple[KernelStats, ...] = ()  # those of most calls first
    fallbacks: dict[str, int] = field(default_factory=dict)  # products left out, by code

    @property
    def calls(self) -> int:
        """Of all kernels."""
        return sum(kernel.calls for kernel in self.kernels)

    @property
    def compile_seconds(self) -> float:
        """Of all kernels."""
        return sum(kernel.compile_seconds for kernel in self.kernels)

    def to_dict(self) -> dict[str, Any]:
        """All of it, as dictionaries and lists."""
        return {**asdict(self), "calls": self.calls, "compile_seconds": self.compile_seconds}

    def json(self) -> str:
        """All of it as JSON."""
        return json.dumps(self.to_dict(), indent=2)

    def __str__(self) -> str:
        lines = [f"graphs: {self.graphs}; kernels: {len(self.kernels)}; calls: {self.calls}; "
                 f"seconds of compiling: {self.compile_seconds:.2f}"]
        lines += [f"  {each.name}: {counted(each.calls, 'call')}, {each.compile_seconds:.2f} s"
                  for each in self.kernels]
        lines.append(f"products left out: {sum(self.fallbacks.values())}")
        lines += [f"  {code}: {count}" for code, count in self.fallbacks.items()]
        return "\n".join(lines)


_COUNTED = ("calls", "programs", "binaries", "compile_seconds")


class _Process:
    """The counts of this process. Those of kernels are kept by the core, which starts at 0."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.graphs = 0
        self.fallbacks: Counter[str] = Counter()
        self.said: Counter[str] = Counter()  # reports of code that is still to be loaded
        self.before: dict[tuple[str, str], dict[str, Any]] = {}  # kernels at the last reset

    def add(self, reasons: dict[str, int]) -> None:
        with self.lock:
            self.graphs += 1
            self.fallbacks.update(reasons)

    def say_later(self, text: str) -> None:
        with self.lock:
            self.said[text] += 1

    def has_said(self, text: str) -> bool:
        """Whether the pass has said it in this process, once for each time."""
        with self.lock:
            known = self.said[text] > 0
            self.said[text] -= known
            return known


_process = _Process()


def compiled(text: str, reasons: dict[str, int], code_says_it: bool) -> None:
    """The pass has fused a graph. `code_says_it`: whether its code will call `loaded`."""
    log.info("%s", text)
    _process.add(reasons)
    if code_says_it:
        _process.say_later(text)


def loaded(text: str, reasons: dict[str, int]) -> None:
    """Code of Inductor's is loaded. Where it comes from a cache, nobody has said its report."""
    if _process.has_said(text):
        return
    log.info("from Inductor's cache: %s", text)
    _process.add(reasons)


def _kernels() -> dict[tuple[str, str], dict[str, Any]]:
    return {(each["graph"], each["options"]): each for each in _native.stats()}


def stats() -> Stats:
    """Kernels, calls, products left out and compile times of this process.

    Counting costs a kernel's call one addition. Code that runs without this package is not seen.
    """
    kernels = []
    for key, now in _kernels().items():
        before = _process.before.get(key, {})
        kernels.append(KernelStats(
            **{**now, **{name: now[name] - before.get(name, 0) for name in _COUNTED}}))
    kernels.sort(key=lambda kernel: (-kernel.calls, kernel.name, kernel.graph))
    with _process.lock:
        return Stats(_process.graphs, tuple(kernels), dict(_process.fallbacks))


def reset_stats() -> None:
    """Lets `stats` count from 0 again. Kernels stay."""
    kernels = _kernels()
    with _process.lock:
        _process.graphs = 0
        _process.fallbacks.clear()
        _process.before = kernels
