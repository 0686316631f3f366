"""What became of a graph: the kernels made, and what was left out and why."""

import json
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True)
class Kernel:
    """A product and the work around it, as one kernel."""

    name: str  # "matmul_bias_gelu_erf"
    epilogue: str  # its ops, in order: "bias+gelu_erf"
    nodes: tuple[str, ...]  # of the FX graph, that it took in
    outputs: tuple[str, ...]  # FX nodes whose values it stores
    graph: str  # its `.epi` text


@dataclass(frozen=True)
class LeftOut:
    """An FX node that no kernel took in: a stable code, and one sentence."""

    node: str
    code: str
    why: str


@dataclass
class Report:
    """Of one or more FX graphs, in the order in which they were compiled."""

    kernels: list[Kernel] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)

    def extend(self, other: "Report") -> None:
        """Adds what became of another graph."""
        self.kernels += other.kernels
        self.left_out += other.left_out

    def json(self) -> str:
        """All of it as JSON."""
        return json.dumps(asdict(self), indent=2)

    def __str__(self) -> str:
        lines = [f"{len(self.kernels)} kernels"]
        for kernel in self.kernels:
            lines.append(f"  {kernel.name}: {' '.join(kernel.nodes)} -> "
                         f"{' '.join(kernel.outputs)}")
        lines.append(f"{len(self.left_out)} nodes left out")
        lines += [f"  {node.node}: {node.why} ({node.code})" for node in self.left_out]
        return "\n".join(lines)
