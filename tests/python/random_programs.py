"""Random programs of small tensors: their graphs by epifuse's kernels, beside eager PyTorch.

    python3 tests/python/random_programs.py [--seed 1] [--count 1000] [--train] [--symbols]
                                            [--compiled] [--device cuda]

Products in any order, of matrices and of many, of groups, of 8-bit floats and of integers, and
convolutions, with work, norms, gates, sums, views, lookups and conversions around them
(random_steps.py, random_convolutions.py). The graph of each, with `--train` that of its results and
of the gradients of their mean squares, is fused as for a Hopper GPU and runs; no compiler of
PyTorch's has a part in it, but with `--compiled`, by which torch.compile runs the graph with our
backend (seconds each). With `--symbols` the number of rows is a symbol, and one graph runs with
several. A program is wrong where a result is further from
float64's than 0.02 and 4 times as far as eager PyTorch's, and failed where something raises. The
exit code is 1 if any is. Those that are not finite in eager PyTorch, or that PyTorch refuses, are
left out.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import torch
from close import distance, wide
from hopper import for_hopper
from random_convolutions import Convolutions
from random_steps import INT8, MOST_OF_INT8, Elementwise, Products, Tensor, Views, to
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic, ShapeEnv, StatelessSymbolicContext)  # fmt: skip

import epifuse.torch
from epifuse import _native
from epifuse.torch import narrow_weights, split_products, unharmed
from epifuse.torch.inductor import FusionPass, MasksPass
from epifuse.torch.report import Report
from epifuse.torch.split_products import multiply_in_two_parts
from epifuse.torch.upcast_products import multiply_before_upcasts

unharmed.FAULTS = ()  # they are what is looked for
narrow_weights.DEVICES = ("cpu", "cuda")
split_products._FEWEST = split_products._FEWEST_OF_EACH = 1
OPTIONS = {"numerics": "fast", "tf32": False, "tune": "off", "only_faster": False}
MOST_ERROR, MOST_OF_EAGERS, LEAST = 0.02, 4, 1e-4
TOKENS = (80, 112, 176)  # multiples of 16, and no size of another dim
FINE = ("right", "left out")


class Program(Products, Elementwise, Views, Convolutions):
    """What one seed draws. `tokens`: rows of its first inputs; those of 80, 112 and 176 draw the
    same steps. `train`: all of it has gradients."""

    def __init__(self, seed: int, train: bool = False, tokens: int = 0) -> None:
        super().__init__(seed, tokens)
        self.call = self.step if train else self.run
        flat, most = self.chance(0.5), 3
        for _ in range(self.random.randint(1, most)):
            lead = [] if flat or self.chance(0.5) else [self.random.randint(1, most)]
            rows = tokens or self.size()
            self.made.append(self.input(*lead, rows, self.size()))
        draws = [self.product] * 30 + [self.unary] * 16 + [self.binary] * 14 + [self.broadcast] * 6
        draws += [self.norm] * 5 + [self.affine] * 2 + [self.half] * 5 + [self.half_of_rows] * 2
        draws += [self.joined] * 4 + [self.turned] * 4 + [self.cast] * 3 + [self.reshaped] * 2
        draws += [self.summed] * 3 + [self.taken] * 3 + [self.masked, self.put, self.padded]
        draws += [self.batched] * 10 + [self.linear] * 6 + [self.attention] * 2
        draws += [self.merged] * 6 + [self.experts] * 2
        draws += [self.patched, self.pointed] * 2 + [self.along] * 3
        if not flat:
            draws += [self.heads] * 4 + [self.stacked, self.repeated]
        if not train:
            draws += [self.scaled] * 4 + [self.of_integers] * 2 + [self.narrow_weights] * 3
        for _ in range(self.random.randint(4, 22)):
            self.random.choice(draws)()
        read = {operand for tensor in self.made for operand in tensor.operands}
        self.results = [tensor for tensor in self.made if tensor.step is not None
                        and (tensor not in read or self.chance(0.15))]  # fmt: skip

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
            return sum(to(each, torch.float32).square().mean() for each in results), results

        gradients, results = torch.func.grad(loss, tuple(range(len(places))), has_aux=True)(
            *(given[i] for i in places))  # fmt: skip
        return [*results, *gradients]

    def given(self, device: str) -> list[torch.Tensor]:
        """The same values each time."""
        generator = torch.Generator().manual_seed(0)

        def values(of: Tensor) -> torch.Tensor:
            if of.dtype in (torch.int64, INT8):
                return torch.randint(of.rows or MOST_OF_INT8, of.shape, generator=generator)
            return torch.randn(*of.shape, generator=generator) * of.shape[-1] ** -0.5

        return [values(tensor).to(device, tensor.dtype) for tensor in self.inputs]


class LeftOut(Exception):
    """PyTorch refuses a program, or has to compile it for its sizes."""


def traced(call: Callable[..., Any], given: list[Any]) -> fx.GraphModule:
    """The graph as Inductor gets it."""
    from torch._inductor.decomposition import select_decomp_table

    functional = torch.func.functionalize(call)
    is_fake = isinstance(given[0], torch._subclasses.FakeTensor)
    mode = "real" if is_fake else "fake"
    module = make_fx(functional, select_decomp_table(), mode)(*given)
    module.graph.eliminate_dead_code()
    return module


def traced_with_symbols(programs: list[Program], device: str) -> fx.GraphModule:
    """The graph of the first one, with symbols where the programs' sizes differ. Raises LeftOut."""
    shapes = [[(len(tensor.shape), tensor.dtype) for tensor in each.made] for each in programs]
    if any(each != shapes[0] for each in shapes):
        raise LeftOut
    environment = ShapeEnv()
    mode = FakeTensorMode(shape_env=environment, static_shapes=False)

    def fake(value: torch.Tensor, ours: Any, others: Any, name: str) -> torch.Tensor:
        sizes = [DimDynamic.STATIC if a == b else DimDynamic.DUCK
                 for a, b in zip(ours.shape, others.shape, strict=True)]  # fmt: skip
        return mode.from_tensor(value, symbolic_context=StatelessSymbolicContext(sizes),
                                source=torch._dynamo.source.ConstantSource(name))

    first, second = programs[0], programs[-1]
    inputs = zip(first.given(device), first.inputs, second.inputs, strict=True)
    fakes = [fake(*each, f"x{i}") for i, each in enumerate(inputs)]
    with mode:
        try:
            module = traced(first.call, fakes)
        except Exception as error:  # of PyTorch's own tracing
            raise LeftOut from error
    if any(size.is_number for size in environment.replacements.values()):
        raise LeftOut
    for each in programs:
        try:
            module(*each.given(device))
        except RuntimeError as error:
            raise LeftOut from error
    return module


def difference(program: Program, run: Callable[..., Any], device: str) -> str:
    """What is wrong with what `run` gives; "": nothing is. Raises LeftOut."""
    given = program.given(device)
    try:
        exact = program.call(*(x if x.dtype == INT8 else wide(x) for x in given))
        eager = program.call(*given)
    except RuntimeError as error:
        raise LeftOut from error
    if not all(each.isfinite().all() for each in eager):
        raise LeftOut
    with torch.no_grad():
        got = run(*given)
    for i, (ours, theirs, each) in enumerate(zip(got, eager, exact, strict=True)):
        away, eagers = (distance(x, each, LEAST) for x in (ours, theirs))
        is_alike = ours.shape == theirs.shape and ours.dtype == theirs.dtype
        if not is_alike or not away <= max(MOST_ERROR, MOST_OF_EAGERS * eagers):
            return f"result {i}: {away:.1e} away, eager {eagers:.1e}"
    return ""


def fuse(graph: fx.Graph) -> Report:
    """All that epifuse does to a graph."""
    report = Report()
    MasksPass(None)(graph)
    for write in (multiply_before_upcasts, multiply_in_two_parts):
        write(graph, "cpu")  # as on a GPU
    FusionPass(OPTIONS, None, report)(graph)
    return report


def product_with_dtype(first: torch.Tensor, second: torch.Tensor,
                       dtype: torch.dtype) -> torch.Tensor:
    """mm and bmm with a dtype, which PyTorch has for GPUs alone."""
    return first.to(dtype) @ second.to(dtype)


def fused(module: fx.GraphModule) -> tuple[Callable[..., Any], Report]:
    """A graph by our kernels."""
    report = fuse(module.graph)
    for node in module.graph.nodes:
        if node.target is torch.ops.aten.view.default:  # Inductor's takes any strides
            node.target = torch.ops.aten.reshape.default
        if node.target in (torch.ops.aten.mm.dtype, torch.ops.aten.bmm.dtype):
            node.target = product_with_dtype
    module.graph.lint()
    module.recompile()
    return module, report


def compiled(module: fx.GraphModule, symbols: bool) -> Callable[..., Any]:
    """A graph by torch.compile."""
    for node in module.graph.nodes:
        node.meta.clear()  # tensors of a mode that is not Dynamo's
    module.recompile()
    torch._dynamo.reset()
    options = {f"epifuse.{key}": value for key, value in OPTIONS.items()}
    return torch.compile(module, backend=epifuse.torch.backend, dynamic=symbols, options=options)


def check(seed: int, train: bool, device: str = "cpu", symbols: bool = False,
          compiles: bool = False) -> str:
    """"right", "left out", or what is wrong."""
    programs = [Program(seed, train, tokens) for tokens in (TOKENS if symbols else [0])]
    try:
        if symbols:
            module = traced_with_symbols(programs, device)
        else:
            module = traced(programs[0].call, programs[0].given(device))
    except (LeftOut, RuntimeError):
        return "left out"
    if compiles:
        run, by = compiled(module, symbols), "torch.compile"
    else:
        run, report = fused(module)
        by = ", ".join(kernel.name for kernel in report.kernels)
    for program in programs:
        try:
            wrong = difference(program, run, device)
        except LeftOut:
            return "left out"
        if wrong:
            return f"{wrong}, by {by}"
    return "right"


def as_for_hopper() -> None:
    """Finds kernels as for a Hopper GPU, whatever runs them."""
    _native.fusions = for_hopper(_native.fusions)


def verdicts(seeds: range, *how: Any) -> Iterator[tuple[int, str]]:
    """Of each seed; `how`: as check() has it."""
    for seed in seeds:
        try:
            yield seed, check(seed, *how)
        except Exception as error:  # noqa: BLE001
            yield seed, f"{type(error).__name__}: {error}".splitlines()[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1, help="of the first program")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--train", action="store_true", help="gradients, too")
    parser.add_argument("--symbols", action="store_true", help="one graph for several sizes")
    parser.add_argument("--compiled", action="store_true", help="by torch.compile")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options = parser.parse_args()
    as_for_hopper()
    counts: Counter[str] = Counter()
    seeds = range(options.seed, options.seed + options.count)
    how = (options.train, options.device, options.symbols, options.compiled)
    for seed, verdict in verdicts(seeds, *how):
        counts[verdict if verdict in FINE else "bad"] += 1
        if verdict not in FINE:
            print(f"{seed}: {verdict}", flush=True)
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    return 1 if counts["bad"] else 0


if __name__ == "__main__":
    sys.exit(main())
