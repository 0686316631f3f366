"""What runs before and after: the kernels of a transformer block by Inductor and by epifuse, timed.

    python3 examples/pytorch_kernels.py [--tokens 4096] [--width 1024] [--device cuda]
"""

import argparse

import torch
import torch.nn.functional as F
from torch import nn

import epifuse.torch


class Block(nn.Module):
    """The MLP of a transformer: norm, up, gelu, down, residual."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))


def kernels(run, x: torch.Tensor, rounds: int = 20) -> list[tuple[str, float]]:
    """Names and microseconds a call of what the device (or the CPU) ran."""
    is_cuda = x.is_cuda
    activities = [torch.profiler.ProfilerActivity.CPU]
    if is_cuda:
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    for _ in range(3):
        run(x)
    with torch.profiler.profile(activities=activities) as profile:
        for _ in range(rounds):
            run(x)
        if is_cuda:
            torch.cuda.synchronize()
    rows = []
    for event in profile.key_averages():
        total = event.self_device_time_total if is_cuda else event.self_cpu_time_total
        is_kernel = event.device_type == torch.autograd.DeviceType.CUDA if is_cuda else True
        if is_kernel and total / rounds >= 1:
            rows.append((event.key, total / rounds))
    return sorted(rows, key=lambda row: -row[1])


def table(title: str, rows: list[tuple[str, float]]) -> None:
    """Prints what ran, the longest first, and the sum."""
    print(f"\n{title}: {sum(us for _, us in rows):.1f} us")
    for name, us in rows[:12]:
        print(f"  {us:10.1f} us  {name[:90]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    model = Block(arguments.width).to(arguments.device, torch.bfloat16).eval()
    x = torch.randn(arguments.tokens, arguments.width).to(arguments.device, torch.bfloat16)
    with torch.no_grad():
        print(epifuse.torch.explain(model, x))
        table("Inductor", kernels(torch.compile(model), x))
        torch.compiler.reset()
        table("epifuse", kernels(torch.compile(model, backend=epifuse.torch.backend), x))


if __name__ == "__main__":
    main()
