"""Measures PyTorch contenders at the points of a results file and adds their rows to it.

    python3 bench/contenders.py bench/results/h200.json [--suite dense] [--seconds 300]

For every epifuse row with baseline `cublas`: eager PyTorch and torch.compile max-autotune of the same
expression, launches alternated with the bare product in one run, L2 flushed before each.
"""

import argparse
import datetime
import json
import pathlib
import statistics
import sys
import time

import torch
import torch.nn.functional as F

KEYS = ("suite", "workload", "m", "n", "k", "groups", "dtype", "epilogue", "numerics", "contender")

ACTIVATIONS = {
    "silu": F.silu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "gelu_erf": F.gelu,
}


def expression(epilogue):
    """The function of (x, w, b, r) that an epilogue's name spells."""
    steps = epilogue.split("+")

    def run(x, w, b, r):
        y = F.linear(x, w, b if "bias" in steps else None)
        for step in steps:
            if step in ACTIVATIONS:
                y = ACTIVATIONS[step](y)
            elif step == "residual":
                y = y + r
        return y

    return run


def interleaved(runs, rounds=30):
    """Median microseconds of each, launches alternated in rotating order, L2 flushed before each."""
    flush = torch.empty(256 << 20, dtype=torch.int8, device="cuda")
    names = list(runs)
    events = {name: [] for name in names}
    for name in names * 3:
        runs[name]()
    torch.cuda.synchronize()
    for i in range(rounds):
        for j in range(len(names)):
            name = names[(i + j) % len(names)]
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            flush.zero_()
            start.record()
            runs[name]()
            end.record()
            events[name].append((start, end))
    torch.cuda.synchronize()
    return {k: statistics.median(a.elapsed_time(b) * 1e3 for a, b in v) for k, v in events.items()}


def sustained(runs, seconds=0.8):
    """Microseconds of each in a block of `seconds` back to back."""
    out = {}
    for name, run in runs.items():
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(10):
            run()
        end.record()
        torch.cuda.synchronize()
        count = max(10, int(seconds * 1e3 / (start.elapsed_time(end) / 10)))
        start.record()
        for _ in range(count):
            run()
        end.record()
        torch.cuda.synchronize()
        out[name] = start.elapsed_time(end) * 1e3 / count
    return out


def measure(m, n, k, epilogue):
    x, w = torch.randn(m, k, device="cuda"), torch.randn(n, k, device="cuda") * k**-0.5
    b, r = torch.randn(n, device="cuda"), torch.randn(m, n, device="cuda")
    x, w, b, r = (t.to(torch.bfloat16) for t in (x, w, b, r))
    run = expression(epilogue)
    compiled = torch.compile(run, mode="max-autotune-no-cudagraphs", fullgraph=True)
    result = compiled(x, w, b, r)
    rows = slice(0, 64)
    exact = run(x[rows].double(), w.double(), b.double(), r[rows].double())
    error = ((result[rows].double() - exact).norm() / exact.norm()).item()
    out = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    runs = {
        "cublas": lambda: torch.mm(x, w.t(), out=out),
        "eager": lambda: run(x, w, b, r),
        "inductor-max-autotune": lambda: compiled(x, w, b, r),
    }
    return interleaved(runs), sustained(runs), error


def points(rows, suite):
    seen = set()
    for row in rows:
        if row["suite"] != suite or row["contender"] != "epifuse" or row["baseline"] != "cublas":
            continue
        point = tuple(row[key] for key in ("workload", "m", "n", "k", "epilogue"))
        if point not in seen:
            seen.add(point)
            yield row


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--suite", default="dense")
    parser.add_argument("--seconds", type=float, default=300, help="start no point after this long")
    options = parser.parse_args()
    rows = json.loads(options.file.read_text())
    started = time.time()
    for point in list(points(rows, options.suite)):
        if time.time() - started > options.seconds:
            print("out of time: the remaining points keep their old rows", file=sys.stderr)
            break
        us, us_sustained, error = measure(*(point[key] for key in ("m", "n", "k", "epilogue")))
        for contender in ("eager", "inductor-max-autotune"):
            row = dict(point, contender=contender, numerics=f"torch {torch.__version__}",
                       us=us[contender], ratio=us[contender] / us["cublas"],
                       ratio_sustained=us_sustained[contender] / us_sustained["cublas"],
                       rel_error=error, date=datetime.date.today().isoformat(),
                       command=" ".join(["python3", *sys.argv]))
            same = [i for i, old in enumerate(rows) if all(old[k] == row[k] for k in KEYS)]
            if same:
                rows[same[0]] = row
            else:
                rows.append(row)
            print(f"{point['m']}x{point['n']}x{point['k']} {point['epilogue']:18} {contender:22} "
                  f"{row['ratio']:.3f} sustained {row['ratio_sustained']:.3f}", flush=True)
        lines = ",\n".join("  " + json.dumps(row, sort_keys=True) for row in rows)
        options.file.write_text(f"[\n{lines}\n]\n")
        torch.compiler.reset()


if __name__ == "__main__":
    main()
