"""Random programs of small tensors: their graphs by epifuse's kernels, beside eager PyTorch.

    python3 tests/python/random_programs.py [--seed 1] [--count 1000] [--train] [--device cuda]

Products in any order, with work, norms, gates, sums, views, lookups and conversions around them.
The graph of each, with `--train` that of its results and of the gradients of their mean squares, is
fused as for a Hopper GPU and runs; no compiler of PyTorch's has a part in it. A program is wrong
where a result is further from float64's than 0.02 and 4 times as far as eager PyTorch's, and failed
where something raises. The exit code is 1 if any is. Those that are not finite in eager PyTorch, or
that PyTorch refuses in float64, are left out.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from close import distance
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F

from epifuse import _native
from epifuse.torch.rewrite import fuse

SIZES = (16, 24, 32, 48)
OPTIONS = {"numerics": "fast", "tf32": False, "tune": "off"}
MOST_ERROR, MOST_OF_EAGERS, LEAST = 0.02, 4, 1e-4
ACTIVATIONS = (
    F.relu, F.silu, F.gelu, lambda x: F.gelu(x, approximate="tanh"), torch.tanh, torch.sigmoid,
    torch.neg, torch.abs, lambda x: F.relu(x).square(), lambda x: x * 0.125, lambda x: x + 1,
    lambda x: x.clamp(-1, 1), F.softplus)  # fmt: skip
NORMS = (
    lambda x: x.softmax(-1), lambda x: F.layer_norm(x, x.shape[-1:]),
    lambda x: F.rms_norm(x, x.shape[-1:]), lambda x: x / (x.abs().amax(-1, keepdim=True) + 1),
    lambda x: x - x.mean(0, keepdim=True))  # fmt: skip
BINARY = (torch.add, torch.mul, torch.sub, torch.maximum)


@dataclass(frozen=True, eq=False)
class Tensor:
    """An input, or what a step makes of others."""

    shape: tuple[int, int]
    dtype: torch.dtype
    rows: int = 0  # of what an input of indices looks up
    step: Callable[..., Any] | None = None
    operands: tuple[Tensor, ...] = ()


class Program:
    """What one seed draws."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.dtype = self.random.choice([torch.bfloat16] * 4 + [torch.float16])
        self.sizes = self.random.sample(SIZES, 2) if self.random.random() < 0.5 else SIZES
        self.inputs: list[Tensor] = []
        self.made: list[Tensor] = [self.input(self.size(), self.size())
                                   for _ in range(self.random.randint(1, 3))]  # fmt: skip
        self.multiplied: Tensor | None = None
        draws = [self.product] * 36 + [self.unary] * 16 + [self.binary] * 14 + [self.broadcast] * 6
        draws += [self.norm] * 5 + [self.half] * 5 + [self.joined] * 4 + [self.turned] * 4
        draws += [self.cast] * 3 + [self.reshaped] * 2 + [self.summed] * 2 + [self.taken] * 3
        for _ in range(self.random.randint(4, 22)):
            self.random.choice(draws)()
        read = {operand for tensor in self.made for operand in tensor.operands}
        self.results = [tensor for tensor in self.made if tensor.step is not None
                        and (tensor not in read or self.random.random() < 0.15)]  # fmt: skip

    def size(self) -> int:
        return self.random.choice(self.sizes)

    def input(self, rows: int, columns: int, dtype: Any = None, taken: int = 0) -> Tensor:
        self.inputs.append(Tensor((rows, columns), dtype or self.dtype, taken))
        return self.inputs[-1]

    def make(self, step: Callable[..., Any], shape: tuple[int, int], *operands: Tensor,
             dtype: torch.dtype | None = None) -> None:  # fmt: skip
        dtype = dtype or operands[0].dtype
        self.made.append(Tensor(shape, dtype, step=step, operands=operands))

    def any(self, fits: Callable[[Tensor], bool] = lambda tensor: True) -> Tensor | None:
        """The latest one half of the time."""
        those = [tensor for tensor in self.made if fits(tensor)]
        if not those:
            return None
        return those[-1] if self.random.random() < 0.5 else self.random.choice(those)

    def product(self) -> None:
        """Often of what was multiplied before, sometimes by what was made."""
        a = self.multiplied if self.random.random() < 0.45 else None
        a = a or self.any(lambda tensor: tensor.dtype == self.dtype)
        if a is None:
            return
        self.multiplied = a
        turns, by_rows = self.random.random() < 0.12, self.random.random() < 0.7
        m, k = a.shape[::-1] if turns else a.shape
        b = None
        if self.random.random() < 0.25:
            b = self.any(lambda tensor: tensor.dtype == self.dtype and k == tensor.shape[by_rows])
        n = self.size() if b is None else b.shape[not by_rows]
        b = b or (self.input(n, k) if by_rows else self.input(k, n))

        def step(x: Any, w: Any, *bias: Any) -> Any:
            x, w = x.t() if turns else x, w.t() if by_rows else w
            return torch.addmm(bias[0][0], x, w) if bias else x @ w

        bias = (self.input(1, n),) if self.random.random() < 0.4 else ()
        self.make(step, (m, n), a, b, *bias)

    def unary(self) -> None:
        x = self.any()
        self.make(self.random.choice(ACTIVATIONS), x.shape, x)

    def norm(self) -> None:
        x = self.any()
        self.make(self.random.choice(NORMS), x.shape, x)

    def binary(self) -> None:
        x = self.any()
        y = self.any(lambda tensor: tensor.shape == x.shape)
        self.make(self.random.choice(BINARY), x.shape, x, y,
                  dtype=torch.promote_types(x.dtype, y.dtype))  # fmt: skip

    def broadcast(self) -> None:
        x, dtype = self.any(), self.random.choice([self.dtype, torch.float32])
        shape = (1, x.shape[1]) if self.random.random() < 0.5 else (x.shape[0], 1)
        self.make(self.random.choice(BINARY[:2]), x.shape, x, self.input(*shape, dtype),
                  dtype=torch.promote_types(x.dtype, dtype))  # fmt: skip

    def half(self) -> None:
        """Of the columns, or a gate of both."""
        x = self.any(lambda tensor: tensor.shape[1] % 16 == 0)
        if x is not None:
            step = self.random.choice([
                lambda x: x.chunk(2, -1)[0], lambda x: x.chunk(2, -1)[1], lambda x: x[:, ::2],
                lambda x: F.silu(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1]])  # fmt: skip
            self.make(step, (x.shape[0], x.shape[1] // 2), x)

    def joined(self) -> None:
        x = self.any()
        y = self.any(lambda y: y.shape[0] == x.shape[0] and y.dtype == x.dtype)
        self.make(lambda x, y: torch.cat((x, y), -1), (x.shape[0], x.shape[1] + y.shape[1]), x, y)

    def turned(self) -> None:
        x = self.any()
        self.make(lambda x: x.t(), x.shape[::-1], x)

    def cast(self) -> None:
        x, dtype = self.any(), self.random.choice([self.dtype, torch.float32])
        self.make(lambda x: x.to(dtype), x.shape, x, dtype=dtype)

    def reshaped(self) -> None:
        x = self.any(lambda tensor: tensor.shape[1] % 8 == 0)
        if x is not None:
            turns = (lambda x: x.transpose(0, 1)) if self.random.random() < 0.5 else lambda x: x
            m, k = x.shape
            self.make(lambda x: turns(x.reshape(m, k // 8, 8)).reshape(-1, 8), (m * k // 8, 8), x)

    def summed(self) -> None:
        x = self.any()
        self.make(lambda x: x.sum(0, keepdim=True) * 0.1, (1, x.shape[1]), x)

    def taken(self) -> None:
        x = self.any()
        index = self.input(x.shape[0], 1, torch.int64, x.shape[0])
        self.make(lambda x, index: x[index[:, 0]], x.shape, x, index)

    def run(self, *given: Any) -> list[Any]:
        """The results, of the values of the inputs."""
        known = dict(zip(self.inputs, given, strict=True))
        for tensor in self.made:
            if tensor.step is not None:
                known[tensor] = tensor.step(*(known[operand] for operand in tensor.operands))
        return [known[tensor] for tensor in self.results]

    def step(self, *given: Any) -> list[Any]:
        """The same, and the gradients of their mean squares."""
        places = [i for i, tensor in enumerate(self.inputs) if not tensor.rows]

        def loss(*own: Any) -> tuple[Any, Any]:
            known = dict(zip(places, own, strict=True))
            results = self.run(*(known.get(i, each) for i, each in enumerate(given)))
            return sum(each.float().square().mean() for each in results), results

        gradients, results = torch.func.grad(loss, tuple(range(len(places))), has_aux=True)(
            *(given[i] for i in places))  # fmt: skip
        return [*results, *gradients]

    def given(self, device: str) -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(0)
        values = (torch.randint(tensor.rows, tensor.shape, generator=generator) if tensor.rows
                  else torch.randn(*tensor.shape, generator=generator) * tensor.shape[1]**-0.5
                  for tensor in self.inputs)  # fmt: skip
        return [value.to(device, tensor.dtype)
                for value, tensor in zip(values, self.inputs, strict=True)]


def check(seed: int, train: bool, device: str = "cpu") -> str:
    """"right", "left out", or what is wrong."""
    from torch._inductor.decomposition import select_decomp_table

    program = Program(seed)
    call, given = program.step if train else program.run, program.given(device)
    try:
        exact = call(*(x.double() if x.is_floating_point() else x for x in given))
    except RuntimeError:
        return "left out"  # dtypes that differ where one was converted
    eager = call(*given)
    if not all(each.isfinite().all() for each in eager):
        return "left out"
    traced = make_fx(torch.func.functionalize(call), select_decomp_table(), "fake")(*given)
    traced.graph.eliminate_dead_code()
    report = fuse(traced.graph, dict(OPTIONS), only_faster=False)
    traced.graph.lint()
    traced.recompile()
    with torch.no_grad():
        got = traced(*given)
    for i, (ours, theirs, each) in enumerate(zip(got, eager, exact, strict=True)):
        away, eagers = (distance(x, each, LEAST) for x in (ours, theirs))
        is_alike = ours.shape == theirs.shape and ours.dtype == theirs.dtype
        if not is_alike or not away <= max(MOST_ERROR, MOST_OF_EAGERS * eagers):
            names = [kernel.name for kernel in report.kernels]
            return f"result {i}: {away:.1e} away, eager {eagers:.1e}, by {names}"
    return "right"


def as_for_hopper() -> None:
    """Finds kernels as for a Hopper GPU, whatever runs them."""
    fusions = _native.fusions
    _native.fusions = lambda text, asked: fusions(text, {**asked, "target": "sm_90a"})


def verdicts(seeds: range, train: bool, device: str) -> Iterator[tuple[int, str]]:
    for seed in seeds:
        try:
            yield seed, check(seed, train, device)
        except Exception as error:  # noqa: BLE001
            yield seed, f"{type(error).__name__}: {error}".splitlines()[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1, help="of the first program")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--train", action="store_true", help="gradients, too")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options = parser.parse_args()
    as_for_hopper()
    counts: Counter[str] = Counter()
    seeds = range(options.seed, options.seed + options.count)
    for seed, verdict in verdicts(seeds, options.train, options.device):
        counts[verdict if verdict in ("right", "left out") else "bad"] += 1
        if verdict not in ("right", "left out"):
            print(f"{seed}: {verdict}", flush=True)
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    return 1 if counts["bad"] else 0


if __name__ == "__main__":
    sys.exit(main())
