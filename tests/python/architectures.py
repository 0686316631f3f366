"""Small models of all architectures of transformers: by epifuse, eager PyTorch and plain Inductor.

    python3 tests/python/architectures.py [--device cuda] [--train] [--only clip] [--seconds 600]

Every kernel that can be fused is (`epifuse.only_faster` is off). Results, and with `--train` the
gradients of their mean square, are compared with float64's. Where ours are further away than 1.5
times eager PyTorch's, plain Inductor's are computed, too, and eager PyTorch's of weights that are
rounded otherwise: a router may send a token elsewhere for that. A model is wrong where ours are
further than 1.5 times all of those, and failed where ours alone raises. What is off by rounding
alone is measured by the largest gradient. Memory that nobody has written holds NaN, on CPUs
-1.7e38. The exit code is 1 if a model is wrong, failed or ended its process. It needs no GPU, but
on two cores a model takes half a minute.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import os
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import close
import small_models
import torch
from close import in_float64, tensors, wide

import epifuse.torch

Values = dict[str, torch.Tensor]
MOST_OF_OTHERS = 1.5  # times their distance
TOLERANCE = {"result": 1e-5, "gradient": 1e-2}
ROUNDING = 1e-3  # of the largest gradient, which the smallest are rounding beside
MOST_PARAMETERS = 60e6
SHAKES = 8  # sets of weights that are rounded otherwise
FILLED = [(256, 1 << 19), (32, 1 << 25)]  # blocks, and bytes of each: of both of PyTorch's pools
BAD = ("wrong", "failed", "ended its process")


def values_of(model: torch.nn.Module, call: Callable[..., Any], kwargs: dict[str, Any],
              train: bool) -> Values:
    """Results by number, and gradients by the names of parameters. Nothing is dropped out."""
    model.zero_grad()
    with torch.set_grad_enabled(train):
        results = tensors(to_tuple(call(**kwargs)))
    values = {f"result {i}": result.detach() for i, result in enumerate(results)}
    first = next((result for result in results if result.requires_grad), None)
    if first is None:
        return values
    first.float().square().mean().backward()
    gradients = {f"gradient of {name}": parameter.grad.clone()
                 for name, parameter in model.named_parameters() if parameter.grad is not None}
    return {**values, **gradients}


def to_tuple(result: Any) -> Any:
    return result.to_tuple() if hasattr(result, "to_tuple") else result


def kind_of(name: str) -> str:
    return name.split(" ")[0]


def distance(got: torch.Tensor, exact: torch.Tensor, least: float = 0.0) -> float:
    """Root mean square of the difference over that of the exact value, or over `least`; of integers
    the part that differs. Infinite where a number is not finite that should be."""
    if got.shape != exact.shape:
        return float("inf")
    if not exact.is_floating_point():
        return float((got != exact).double().mean()) if exact.numel() else 0.0
    finite = exact.isfinite()
    if not got[finite].isfinite().all():
        return float("inf")
    if not finite.any():
        return 0.0
    return close.distance(got[finite], exact[finite], max(least, 1e-30))


def distances(got: Values, exact: Values) -> dict[str, float]:
    """Of each value. One that is missing is infinitely far away, but a gradient of zeros."""
    norms = {name: float(value.double().square().mean().sqrt()) for name, value in exact.items()
             if kind_of(name) == "gradient"}
    least = ROUNDING * max(norms.values(), default=0.0)
    zeros = {name: torch.zeros_like(value) for name, value in exact.items()
             if kind_of(name) == "gradient"}
    given = {**zeros, **got}
    return {name: distance(given[name], value, least if name in norms else 0.0)
            if name in given else float("inf") for name, value in exact.items()}


def further(ours: dict[str, float], others: dict[str, float]) -> list[str]:
    """Values that ours has further away than others have."""
    return [name for name, far in ours.items()
            if far > MOST_OF_OTHERS * others[name] + TOLERANCE[kind_of(name)]]


def fill_free_memory(device: str) -> None:
    """What is allocated next on a GPU holds NaN, so that what nobody wrote shows. On a CPU workers
    have MALLOC_PERTURB_ for that."""
    if device == "cuda":
        torch.cuda.empty_cache()
        _blocks = [torch.full((size,), 255, dtype=torch.uint8, device=device)
                   for count, size in FILLED for _ in range(count)]


def by_epifuse(model: torch.nn.Module) -> Callable[..., Any]:
    return torch.compile(model, backend=epifuse.torch.backend,
                         options={"epifuse.only_faster": False})


def by_inductor(model: torch.nn.Module) -> Callable[..., Any]:
    return torch.compile(model)


def exact_values(model: torch.nn.Module, kwargs: dict[str, Any], train: bool) -> Values:
    """In float64, or in float32 where the model has code that float64 does not suit."""
    for dtype in (torch.float64, torch.float32):
        with contextlib.suppress(RuntimeError, ValueError, TypeError):
            other = in_float64(model).to(dtype)
            return values_of(other, other, {k: wide(v, dtype) for k, v in kwargs.items()}, train)
    raise RuntimeError("the model runs neither in float64 nor in float32")


def shake(model: torch.nn.Module, seed: int) -> torch.nn.Module:
    """A copy of which some weights are one step of their dtype away."""
    out = copy.deepcopy(model)
    random = torch.Generator().manual_seed(seed)
    for parameter in out.parameters():
        off = torch.rand(parameter.shape, generator=random) - 0.5
        factor = 1 + torch.finfo(parameter.dtype).eps * off.to(parameter.device).double()
        parameter.data.copy_(parameter.data.double() * factor)
    return out


def distances_when_shaken(model: torch.nn.Module, kwargs: dict[str, Any], train: bool,
                          exact: Values) -> dict[str, float]:
    """The largest of eager PyTorch's, over some sets of weights that are rounded otherwise."""
    out = dict.fromkeys(exact, 0.0)
    for seed in range(SHAKES):
        shaken = shake(model, seed)
        far = distances(values_of(shaken, shaken, kwargs, train), exact)
        out = {name: max(most, far[name]) for name, most in out.items()}
    return out


def compare(name: str, device: str, train: bool,
            compiled_by: Callable[[torch.nn.Module], Callable[..., Any]] = by_epifuse,
            ) -> dict[str, Any]:
    """A verdict, and what it is about: `right`, `as Inductor`, `as rounding` where other weights
    move eager's values as far, `not built`, or one of BAD."""
    try:
        with torch.device("meta"):
            count = sum(each.numel() for each in small_models.make(name).parameters())
        if count > MOST_PARAMETERS:
            return {"verdict": "not built", "about": f"{count / 1e6:.0f} million parameters"}
        model = small_models.make(name).to(device, torch.bfloat16).eval()
        kwargs = small_models.inputs(model, device)
        eager = values_of(model, model, kwargs, train)
        exact = exact_values(model, kwargs, train)
    except Exception as error:  # whatever transformers raises where small sizes do not suit it
        return {"verdict": "not built", "about": repr(error)[:200]}
    theirs = distances(eager, exact)
    fill_free_memory(device)
    try:
        ours = distances(values_of(model, compiled_by(model), kwargs, train), exact)
        far = further(ours, theirs)
        raised = ""
    except Exception as error:  # whatever compiling raises
        ours, far, raised = {}, [], repr(error)[:300]
    if not far and not raised:
        return {"verdict": "right", "about": ""}
    torch._dynamo.reset()
    try:
        inductor = distances(values_of(model, by_inductor(model), kwargs, train), exact)
    except Exception as error:
        return {"verdict": "as Inductor", "about": repr(error)[:200]}
    if raised:
        return {"verdict": "failed", "about": raised}
    verdict, wrong = "as Inductor", further({each: ours[each] for each in far}, inductor)
    if wrong:
        shaken = distances_when_shaken(model, kwargs, train, exact)
        wrong = further({each: ours[each] for each in wrong}, shaken)
        verdict = "wrong" if wrong else "as rounding"
    about = [f"{each}: ours {ours[each]:.2e}, eager {theirs[each]:.2e}, Inductor "
             f"{inductor[each]:.2e}" for each in (wrong or far)[:4]]
    return {"verdict": verdict, "about": "; ".join(about)}


def work(options: argparse.Namespace) -> None:
    """Reads names of models, and prints a line of JSON for each."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what models print
    for line in sys.stdin:
        torch._dynamo.reset()
        print(json.dumps(compare(line.strip(), options.device, options.train)), file=answers,
              flush=True)


class Pool:
    """Workers that take one model after another; one that is too slow is replaced."""

    def __init__(self, options: argparse.Namespace, names: list[str]) -> None:
        self.options = options
        self.left = names
        self.until = time.monotonic() + options.seconds
        self.results: dict[str, dict[str, Any]] = {}
        self.lock = threading.Lock()

    def run(self) -> None:
        threads = [threading.Thread(target=self.serve, args=(i,)) for i in range(self.options.jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def start(self, index: int) -> subprocess.Popen[str]:
        command = [sys.executable, __file__, "--worker", "--device", self.options.device]
        gpus = max(torch.cuda.device_count(), 1)
        given = os.environ | {"HF_HUB_OFFLINE": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1",
                              "MALLOC_PERTURB_": "1"}  # memory begins as 0xfe: -1.7e38
        if self.options.device == "cuda":
            given["CUDA_VISIBLE_DEVICES"] = str(index % gpus)
        return subprocess.Popen(command + ["--train"] * self.options.train, env=given, text=True,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL)

    def take(self) -> str | None:
        with self.lock:
            is_over = time.monotonic() > self.until - self.options.most_seconds / 4
            return None if is_over or not self.left else self.left.pop(0)

    def serve(self, index: int) -> None:
        worker = None
        while name := self.take():
            worker = worker or self.start(index)
            seconds = min(self.options.most_seconds, self.until - time.monotonic())
            slow = threading.Timer(max(seconds, 1), worker.kill)
            slow.start()
            with contextlib.suppress(BrokenPipeError):
                worker.stdin.write(name + "\n")
                worker.stdin.flush()
            answer = worker.stdout.readline()
            is_slow = not slow.is_alive()
            slow.cancel()
            if not answer:
                worker = worker.wait() and None
            self.results[name] = (
                json.loads(answer) if answer else
                {"verdict": "too slow" if is_slow else "ended its process", "about": ""})
        if worker:
            worker.kill()


def options_of(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--train", action="store_true", help="gradients, too")
    parser.add_argument("--only", nargs="+", help="these architectures")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=3600, help="of all")
    parser.add_argument("--most-seconds", type=float, default=150, help="of a model")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(words)


def main() -> int:
    options = options_of()
    if options.worker:
        work(options)
        return 0
    names = options.only or small_models.names()
    pool = Pool(options, list(names))
    pool.run()
    for name, result in sorted(pool.results.items()):
        if result["verdict"] in (*BAD, "as Inductor", "as rounding"):
            print(f"{name}: {result['verdict']}. {result['about']}")
    counts = Counter(result["verdict"] for result in pool.results.values())
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()) +
          (f", {len(pool.left)} not begun" if pool.left else ""))
    return int(any(counts[verdict] for verdict in BAD))


if __name__ == "__main__":
    sys.exit(main())
