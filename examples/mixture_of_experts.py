"""A block of experts in PyTorch, router included: one kernel for gate and up, one for down.

    python3 examples/mixture_of_experts.py [--style mixtral|gpt-oss] [--tokens 512] [--device cuda]

Prints what became a kernel, how far results are from eager ones, and the times of Inductor and
epifuse.
"""

import argparse
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn

import epifuse.torch


def swiglu(h: torch.Tensor) -> torch.Tensor:
    """Of Mixtral: gate and up are halves."""
    gate, up = h.chunk(2, -1)
    return F.silu(gate) * up


def swiglu_oai(h: torch.Tensor) -> torch.Tensor:
    """Of gpt-oss: gate and up by turns, both limited."""
    gate, up = h[..., ::2].clamp(max=7.0), h[..., 1::2].clamp(min=-7.0, max=7.0)
    return (up + 1) * (gate * torch.sigmoid(gate * 1.702))


STYLES = {  # experts, of which a token has so many; width, inner width; gate, biases
    "mixtral": (8, 2, 1024, 3584, swiglu, False),
    "gpt-oss": (32, 4, 720, 720, swiglu_oai, True),
}


class Experts(nn.Module):
    """x [tokens, width] -> [tokens, width]; weights as [experts, K, N]."""

    def __init__(self, style: str) -> None:
        super().__init__()
        count, self.top_k, width, inner, self.gate, has_bias = STYLES[style]
        self.router = nn.Linear(width, count)
        self.up = nn.Parameter(torch.randn(count, width, 2 * inner) / width**0.5)
        self.down = nn.Parameter(torch.randn(count, inner, width) / inner**0.5)
        self.up_bias = nn.Parameter(torch.randn(count, 2 * inner)) if has_bias else None
        self.down_bias = nn.Parameter(torch.randn(count, width)) if has_bias else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chosen = torch.topk(self.router(x), self.top_k, -1)
        weights = torch.softmax(chosen.values, -1)
        expert, order = torch.sort(chosen.indices.reshape(-1))  # rows by expert
        count = self.up.shape[0]
        sizes = torch.histc(expert.float(), bins=count, min=0, max=count - 1)
        ends = torch.cumsum(sizes, 0, dtype=torch.int32)
        h = F.grouped_mm(x[order // self.top_k], self.up, offs=ends)
        h = h if self.up_bias is None else h + self.up_bias[expert]
        y = F.grouped_mm(self.gate(h), self.down, offs=ends)
        y = y if self.down_bias is None else y + self.down_bias[expert]
        y = y * weights.reshape(-1)[order].unsqueeze(-1)
        place = torch.empty_like(order)  # where each row of x's order is now
        place[order] = torch.arange(order.shape[0], device=x.device)
        return y[place].view(x.shape[0], self.top_k, -1).sum(1)


def milliseconds(run, x: torch.Tensor, rounds: int = 20) -> float:
    """Median of calls, each waited for."""
    times = []
    for _ in range(rounds + 3):
        start = time.perf_counter()
        run(x)
        if x.is_cuda:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times[3:]) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--style", choices=STYLES, default="mixtral")
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    model = Experts(arguments.style).to(arguments.device, torch.bfloat16).requires_grad_(False)
    x = torch.randn(arguments.tokens, model.router.in_features).to(model.up)
    print(epifuse.torch.explain(model, x))
    theirs = torch.compile(model)
    theirs_ms = milliseconds(theirs, x)
    torch.compiler.reset()
    ours = torch.compile(model, backend=epifuse.torch.backend)
    eager = model(x)
    apart = (ours(x).double() - eager.double()).norm() / eager.double().norm()
    print(f"\nfrom eager: {apart:.1e} of its norm; Inductor {theirs_ms:.3f} ms, "
          f"epifuse {milliseconds(ours, x):.3f} ms")


if __name__ == "__main__":
    main()
