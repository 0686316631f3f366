"""Random products in PyTorch by epifuse, beside plain Inductor in one process (suite `random`).

    python3 bench/random_torch.py --cli dist/gpu/bin/epifuse --seed 1 --count 60 [--results FILE]
    python3 bench/random_torch.py --cli build/release/bin/epifuse --count 4 --dry-run

The points are those of `epifuse bench --grid random --list`. They are compiled first, in as many
processes as there are cores, so that Inductor's code and our kernels are in their caches. Then one
process measures point after point: both compile, and epifuse measures its ways to run the product;
calls of both take turns, in 16 bits, on tensors that stay, the L2 flushed before each. A point
counts as slower where it takes more than 1.03 of Inductor's time and 2 us more. `--dry-run` runs on
the CPU, at sizes of at most 64, to see that all points run.
"""

import argparse
import datetime
import functools
import json
import math
import multiprocessing
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from contenders import ACTIVATIONS, add, apply_steps, interleaved, turns, write

import epifuse.torch
from epifuse.torch.report import Report

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16}
ALL_ACTIVATIONS = {**ACTIVATIONS, "softplus": F.softplus}
LINEAR = ("alpha", "bias", "scale", "residual", "preact")
SLOWER, SLOWER_US = 1.03, 2.0
MOST_ERROR = 0.02  # relative, of results in 16 bits
CHECKED_ROWS, DRY_SIZE = 64, 64
FLUSHES = 3  # cover what a call costs the host


@dataclass
class Measured:
    """A point, microseconds of both, and how ours ran."""

    point: dict
    us: float
    inductor_us: float
    how: str
    error: float

    @property
    def ratio(self):
        return self.us / self.inductor_us

    @property
    def is_slower(self):
        return self.ratio > SLOWER and self.us - self.inductor_us > SLOWER_US


def text(point):
    batch = f"{point['groups']}x" * (point["groups"] > 1)
    return (f"{point['workload']} {batch}{point['m']}x{point['n']}x{point['k']} {point['dtype']} "
            f"{point['epilogue']}")


def expression(point):
    """The function of (x, w, b, s, r) that the point names, as a program would write it."""
    words, layout = point["epilogue"].split("+"), point["layout"].split()
    unknown = set(words) - set(LINEAR) - set(ALL_ACTIVATIONS)
    if unknown:
        raise ValueError(f"no expression for the epilogue step {unknown.pop()!r}")
    is_linear = words[0] == "bias" and "nn" not in layout and point["groups"] == 1

    def run(x, w, b, s, r):
        x = x.mT if "xm" in layout else x
        if is_linear:
            y = F.linear(x, w, b)
        else:
            y = x @ (w if "nn" in layout else w.mT)
        return apply_steps(words[is_linear:], ALL_ACTIVATIONS, y, b, s, r)

    return run


def operands(point, device):
    """x, w, b, s and r of the point, None where its epilogue does not name them."""
    m, n, k, batch = (point[key] for key in ("m", "n", "k", "groups"))
    words, layout = point["epilogue"].split("+"), point["layout"].split()
    generator = torch.Generator(device).manual_seed(1)

    def random(*shape):
        made = torch.randn(*shape, device=device, generator=generator)
        return made.to(DTYPES[point["dtype"]])

    many = lambda *shape: (batch, *shape) if batch > 1 else shape
    x = random(*many(k, m) if "xm" in layout else many(m, k))
    w = random(*many(k, n) if "nn" in layout else many(n, k)) * k**-0.5
    b, s = (random(n) if word in words else None for word in ("bias", "scale"))
    return x, w, b, s, random(*many(m, n)) if "residual" in words else None


def first(results):
    return results[0] if isinstance(results, tuple) else results


def error_of(point, result, args):
    """Relative to float64, of the first rows."""
    rows = slice(CHECKED_ROWS)
    x, *rest, r = args
    x = x[..., rows] if "xm" in point["layout"].split() else x[..., rows, :]
    r = None if r is None else r[..., rows, :]
    few = (None if each is None else each.double() for each in (x, *rest, r))
    exact = first(expression(point)(*few))
    return ((first(result)[..., rows, :].double() - exact).norm() / exact.norm()).item()


def how(report):
    """How ours runs: its kernels, and the products that Inductor has."""
    parts = [getattr(kernel, "how", "") or kernel.name for kernel in report.kernels]
    parts += [f"Inductor: {each.why}" for each in report.products_left]
    return "; ".join(parts)


@torch.no_grad()
def compiled(point, device, fresh=False):
    """Both contenders with their arguments and our report, after a first call of each.

    `fresh`: ours without Inductor's cache, whose code measures nothing.
    """
    torch.compiler.reset()
    args, run, report = operands(point, device), expression(point), Report()
    backend = functools.partial(epifuse.torch.backend, report=report)
    options = {"epifuse.only_faster": device == "cuda"}
    if fresh:
        options["fx_graph_cache"] = False
    plain = torch.compile(run, dynamic=False, fullgraph=True)
    ours = torch.compile(run, dynamic=False, fullgraph=True, backend=backend, options=options)
    plain(*args)
    with torch._functorch.config.patch(enable_autograd_cache=not fresh):
        ours(*args)
    return {"inductor": plain, "epifuse": ours}, args, report


def compile_ahead(point, compiled, device):
    """In a process of its own: fills the caches. What went wrong, if anything."""
    try:
        compiled(point, device)
        if device == "cuda":
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
    except Exception as error:  # noqa: BLE001: the caller says of which point
        return f"{type(error).__name__}: {error}"
    return ""


def compile_all(compiled, points, device, jobs, folder):
    """What went wrong, of each point. `compiled(point, device)` is of a module, to be named."""
    begin = time.perf_counter()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, max(len(points), 1)), mp_context=context) as pool:
        ahead = functools.partial(compile_ahead, compiled=compiled, device=device)
        errors = list(pool.map(ahead, points))
    # Choices that were measured beside others that compiled are measured again.
    shutil.rmtree(pathlib.Path(folder) / "epifuse" / "tuned", ignore_errors=True)
    print(f"{len(points)} points compiled in {time.perf_counter() - begin:.0f} s", flush=True)
    return errors


def measure(point, device, rounds):
    runs, args, report = compiled(point, device, fresh=True)
    error = error_of(point, runs["epifuse"](*args), args)
    calls = {name: functools.partial(run, *args) for name, run in runs.items()}
    if device == "cuda":
        us = interleaved(calls, rounds, flushes=FLUSHES)
        torch.cuda.empty_cache()
    else:
        us = turns(calls, seconds=0.05)
    return Measured(point, us["epifuse"], us["inductor"], how(report), error)


def summary(all_measured, text=text):
    """Lines about all points together; `text` names one."""
    ratios = sorted(each.ratio for each in all_measured)
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    p95 = ratios[min(len(ratios) - 1, math.ceil(0.95 * len(ratios)) - 1)]
    slower = [each for each in all_measured if each.is_slower]
    lines = [f"{len(ratios)} points: geometric mean {mean:.3f}, 95th percentile {p95:.3f}, "
             f"worst {ratios[-1]:.3f}; {len(slower)} slower by more than 3 % and 2 us"]
    lines += [f"  slower: {text(each.point)}: {each.us:.1f} us, Inductor {each.inductor_us:.1f}, "
              f"{each.how}" for each in sorted(slower, key=lambda each: -each.ratio)]
    return lines


def rows_of(measured, options):
    point = {key: value for key, value in measured.point.items() if key != "layout"}
    shared = {
        **point, "numerics": f"torch {torch.__version__}", "baseline": "inductor",
        "ratio_sustained": 0.0, "device": torch.cuda.get_device_name(),
        "driver": str(torch.version.cuda), "commit": options.commit,
        "date": datetime.date.today().isoformat(),
        "command": f"python3 bench/random_torch.py --seed {options.seed} --count {options.count}",
    }  # fmt: skip
    return [{**shared, "contender": "epifuse", "us": measured.us, "ratio": measured.ratio,
             "rel_error": measured.error, "config": measured.how}]


def points_of(options):
    words = [options.cli, "bench", "--grid", "random", "--seed", str(options.seed), "--count",
             str(options.count), "--list", "--json"]
    points = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)
    if options.dry_run:
        for point in points:
            point.update({key: min(point[key], DRY_SIZE) for key in "mnk"})
    return [point for point in points if options.filter in text(point)]


def own_caches(folder):
    """Caches of this run, for this process and those it starts. Never the caller's: choices that
    are there would be followed, also those that were measured beside others that compiled."""
    os.environ["EPIFUSE_CACHE"] = f"{folder}/epifuse"
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{folder}/inductor"
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # the points are what runs in parallel


def add_options(parser, rounds, seconds):
    """Those of all programs that measure what was compiled ahead."""
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)),
                        help="processes that compile")
    parser.add_argument("--seconds", type=float, default=seconds,
                        help="measure nothing more after this long")
    parser.add_argument("--dry-run", action="store_true", help="on the CPU, to see that all run")


def run(options, folder):
    device = "cpu" if options.dry_run else "cuda"
    begin = time.perf_counter()
    points = points_of(options)
    errors = compile_all(compiled, points, device, options.jobs, folder)
    for point, error in zip(points, errors, strict=True):
        if error:
            print(f"not compiled ahead: {text(point)}: {error}", file=sys.stderr)
    rows = []
    if options.results is not None and options.results.exists():
        rows = json.loads(options.results.read_text())
    all_measured, is_right = [], True
    for point in points:
        if time.perf_counter() - begin > options.seconds:
            print(f"{len(points) - len(all_measured)} points left when the time was over")
            break
        measured = measure(point, device, options.rounds)
        all_measured.append(measured)
        print(f"{text(point):60} {measured.us:9.1f} us  inductor {measured.inductor_us:9.1f}  "
              f"ratio {measured.ratio:.3f}  {measured.how}", flush=True)
        if measured.error > MOST_ERROR or math.isnan(measured.error):
            is_right = False
            print(f"{text(point)}: wrong result, relative error {measured.error:.1e}",
                  file=sys.stderr)
        if options.results is not None:
            for row in rows_of(measured, options):
                add(rows, row)
            write(options.results, rows)
    print("\n".join(summary(all_measured)))
    if options.choices is not None:
        subprocess.run([options.cli, "tune", "--export", options.choices], check=True)
    print(f"{time.perf_counter() - begin:.0f} s in all")
    return 0 if is_right else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cli", default="epifuse", help="the command that names the points")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--filter", default="", help="only points whose text has this")
    parser.add_argument("--results", type=pathlib.Path, help="file that takes the rows")
    parser.add_argument("--commit", default="", help="what was measured, for the rows")
    parser.add_argument("--choices", help="file that takes the choices that were measured")
    add_options(parser, rounds=30, seconds=110)
    options = parser.parse_args()
    if options.dry_run:
        options.results = None
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        own_caches(folder)
        sys.exit(run(options, folder))


if __name__ == "__main__":
    main()
