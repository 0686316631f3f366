"""Random programs of several forms by epifuse, beside plain Inductor, in CUDA graphs.

    python3 bench/random_forms.py --seed 1 --count 24 [--form gated scaled] [--only TEXT]
    python3 bench/random_forms.py --count 2 --dry-run

Gates, products of 8-bit floats and integers with scales, groups of rows, several products, those
of one operand among them, and steps of training (bench/forms.py), which `bench/random_torch.py`
does not draw. All points are compiled first, in as many processes as there are cores. Then one
process measures them: both contenders' CUDA graphs take turns, the L2 flushed before each. A point
counts as slower where it takes more than 1.03 of Inductor's time and 2 us more, and as wrong where
its results are further from eager PyTorch's than 0.02 of them and 1.5 times as far as Inductor's.
The exit code is 1 if any is wrong. What PyTorch itself refuses is named and left out. `--dry-run`
runs on the CPU, at small sizes, to see that all forms run.
"""

import argparse
import functools
import random
import sys
import tempfile
import time

import torch
from contenders import captured, interleaved, turns
from forms import FORMS, Tensors
from random_torch import (
    DTYPES,
    MOST_ERROR,
    Measured,
    add_options,
    compile_all,
    how,
    own_caches,
    summary,
)

import epifuse.torch
from epifuse.torch.report import Report

SMALL = {"m": 7, "n": 128, "k": 128, "experts": 4}  # of a dry run
MOST_OF_INDUCTORS = 1.5  # times its error


def text(point):
    named = ("seed", "kind", "m", "n", "k")
    words = [f"{key}={value}" for key, value in point.items() if key not in named]
    shape = f"{point['m']}x{point['n']}x{point['k']}"
    return " ".join([point["kind"], point["seed"], shape, *words])


def points_of(options):
    points = []
    for kind in options.form:
        for i in range(options.count):
            drawn = FORMS[kind].draw(random.Random(f"{kind} {options.seed} {i}"))
            points.append({"kind": kind, "seed": f"{options.seed}.{i}", **drawn})
    if options.dry_run:
        for point in points:
            small = {key: most for key, most in SMALL.items() if key in point}
            point.update({key: min(point[key], most) for key, most in small.items()})
    return [point for point in points if options.only in text(point)]


def flat(results):
    if torch.is_tensor(results):
        return [results]
    return [each for part in results for each in flat(part)]


def call_of(run, point, args):
    """All results as a call; of a step of training with the gradients of its operands."""
    if point["kind"] != "trained":
        return lambda: flat(run(*args))
    leaves, gradient = args
    wanted = [each for each in leaves if each is not None]

    def step():
        y = run(*leaves)
        gradients = torch.autograd.grad(y, wanted, gradient, allow_unused=True)
        return [y.detach(), *(each for each in gradients if each is not None)]

    return step


def both(program, call_of, device, fresh, **arguments):
    """Both contenders' calls after a first one of each, eager's, and our report. `call_of` makes
    one of a program; `arguments` are torch.compile's. `fresh`: as in random_torch.py."""
    report, options = Report(), {"epifuse.only_faster": device == "cuda"}
    if fresh:
        options["fx_graph_cache"] = False
    backend = functools.partial(epifuse.torch.backend, report=report)
    ours = torch.compile(program, backend=backend, options=options, **arguments)
    calls = {"inductor": call_of(torch.compile(program, **arguments)), "epifuse": call_of(ours)}
    calls["inductor"]()
    with torch._functorch.config.patch(enable_autograd_cache=not fresh):
        calls["epifuse"]()
    return calls, call_of(program), report


def compiled(point, device, fresh=False):
    """Of a point what `both` gives."""
    torch.compiler.reset()
    form = FORMS[point["kind"]]
    args = form.operands(point, Tensors(device, DTYPES[point.get("dtype", "bf16")]))
    return both(form.program(point), lambda run: call_of(run, point, args), device, fresh,
                dynamic=False, fullgraph=True)  # fmt: skip


def those_that_compile(compiled, points, text, device, jobs, folder):
    """Others are named."""
    errors = compile_all(compiled, points, device, jobs, folder)
    for point, error in zip(points, errors, strict=True):
        if error:
            print(f"{text(point)}: not compiled, {error.splitlines()[0]}", flush=True)
    return [point for point, error in zip(points, errors, strict=True) if not error]


def error_of(results, exact):
    """The largest of all results, relative to those of `exact`."""
    errors = []
    for got, expected in zip(results, exact, strict=True):
        got, expected = got.double(), expected.double()
        errors.append(((got - expected).norm() / expected.norm().clamp(min=1e-30)).item())
    return torch.tensor(errors).max().item()  # NaN where any is


def is_right(error, inductors):
    return error <= max(MOST_ERROR, MOST_OF_INDUCTORS * inductors)


def measure(point, contenders, device, rounds, error_of=error_of, how=how):
    """The point, and whether its results are right. `contenders`: what `both` gives."""
    calls, eager, report = contenders
    exact = [each.clone() for each in eager()]
    errors = {name: error_of(call(), exact) for name, call in calls.items()}
    if device == "cuda":
        us = interleaved({name: captured(call) for name, call in calls.items()}, rounds)
        torch.cuda.empty_cache()
    else:
        us = turns(calls, seconds=0.02, least=1)
    measured = Measured(point, us["epifuse"], us["inductor"], how(report), errors["epifuse"])
    return measured, is_right(errors["epifuse"], errors["inductor"])


def measure_all(points, measure, text, seconds, unsuited=()):
    """All that were measured by `measure(point)`, and whether all are right. Those at which it
    raises what is `unsuited` are named and left out."""
    begin, all_measured, are_right = time.perf_counter(), [], True
    for point in points:
        if time.perf_counter() - begin > seconds:
            print("the time was over before all points were measured")
            break
        try:
            measured, right = measure(point)
        except unsuited as error:
            print(f"{text(point)}: not measured, {str(error).splitlines()[0]}", flush=True)
            continue
        all_measured.append(measured)
        are_right = are_right and right
        print(f"{text(point)}: {measured.us:.1f} us, Inductor {measured.inductor_us:.1f}, "
              f"ratio {measured.ratio:.3f}, error {measured.error:.1e}"
              f"{'' if right else ' WRONG'}, {measured.how}", flush=True)  # fmt: skip
    return all_measured, are_right


def run(options, folder):
    device = "cpu" if options.dry_run else "cuda"
    points = those_that_compile(compiled, points_of(options), text, device, options.jobs, folder)
    all_measured, are_right = measure_all(
        points,
        lambda point: measure(point, compiled(point, device, fresh=True), device, options.rounds),
        text, options.seconds)  # fmt: skip
    for kind in options.form:
        of_kind = [each for each in all_measured if each.point["kind"] == kind]
        if of_kind:
            print(f"{kind}: " + "\n".join(summary(of_kind, text)))
    return 0 if are_right else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--form", nargs="+", choices=list(FORMS), default=list(FORMS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=24, help="points of each form")
    parser.add_argument("--only", default="", help="only points whose text has this")
    add_options(parser, rounds=24, seconds=300)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        own_caches(folder)
        sys.exit(run(options, folder))


if __name__ == "__main__":
    main()
