"""Measures PyTorch contenders at the points of a results file and adds their rows to it.

    python3 bench/contenders.py bench/results/h200.json [--suite dense] [--seconds 300] [--again]

For every epifuse row with baseline `cublas`: eager PyTorch and torch.compile max-autotune of the
same expression, launches alternated with the bare product in one run, L2 flushed before each.
Points that have rows of this PyTorch on this device are skipped, so that several short runs finish
the list; the order takes one point of each epilogue before a second one of any.
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

KEYS = ("suite", "workload", "m", "n", "k", "groups", "dtype", "epilogue", "numerics", "contender",
        "baseline")
WARM_UP = 0.15  # seconds

ACTIVATIONS = {
    "silu": F.silu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "gelu_erf": F.gelu,
    "relu": F.relu,
}



def swiglu_oai(gate, up):
    gate, up = gate.clamp(max=7.0), up.clamp(min=-7.0, max=7.0)
    return gate * torch.sigmoid(gate * 1.702) * (up + 1)


GATES = {
    "swiglu": lambda gate, up: F.silu(gate) * up,
    "geglu_erf": lambda gate, up: F.gelu(gate) * up,
    "geglu_tanh": lambda gate, up: F.gelu(gate, approximate="tanh") * up,
    "reglu": lambda gate, up: F.relu(gate) * up,
    "glu": lambda gate, up: torch.sigmoid(gate) * up,
    "swiglu_oai": swiglu_oai,
}

ALPHA = 0.125  # the word `alpha`


def apply_steps(steps, activations, y, b, s, r):
    """An epilogue's steps on a product; with `preact` also what is activated first."""
    z = None
    for step in steps:
        if step in activations:
            z = y if z is None else z
            y = activations[step](y)
        elif step == "alpha":
            y = y * ALPHA
        elif step == "bias":
            y = y + b
        elif step == "scale":
            y = y * s
        elif step == "residual":
            y = y + r
        elif step not in ("identity", "preact"):
            raise ValueError(f"no expression for the epilogue step {step!r}")
    return (y, z) if "preact" in steps else y


def expression(epilogue):
    """The function of (x, w, b, s, r) that an epilogue's name spells; (y, z) with `preact`."""
    steps = epilogue.split("+")

    def run(x, w, b, s, r):
        fused_bias = "bias" in steps and steps[0] == "bias"
        y = F.linear(x, w, b if fused_bias else None)
        return apply_steps(steps[fused_bias:], ACTIVATIONS, y, b, s, r)

    return run


def gate_and_up(products, layout):
    """Of two products, or of the columns of one."""
    if layout.startswith("separate"):
        return products
    if layout.startswith("halves"):
        return products[0].chunk(2, -1)
    return products[0][..., ::2], products[0][..., 1::2]


def gated_expression(epilogue, layout):
    """The function of (x, weights, biases) of a point of suite `gated`; (y, z..) with `preact`.

    `layout` is "halves", "interleaved" or "separate", and " nn" where weights are [K, N].
    """
    words, nn = epilogue.split("+"), layout.endswith(" nn")
    (gate,) = (GATES[word] for word in words if word in GATES)

    def run(x, weights, biases):
        products = [x @ (w if nn else w.t()) for w in weights]
        if "bias" in words:
            products = [h + b for h, b in zip(products, biases, strict=True)]
        y = gate(*gate_and_up(products, layout))
        return (y, *products) if "preact" in words else y

    return run


def captured(call):
    """A call that replays a CUDA graph of one."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def interleaved(runs, rounds=30, flushes=1):
    """Median microseconds of each, launches alternated in rotating order, L2 flushed.

    As `epifuse bench` does it: under load for a while first, as the clock falls with the load. The
    host queues a call while the flushes run; more of them cover a longer call.
    """
    flush = torch.empty(256 << 20, dtype=torch.int8, device="cuda")
    names = list(runs)
    events = {name: [] for name in names}
    begin = time.perf_counter()
    while time.perf_counter() - begin < WARM_UP:
        for name in names:
            runs[name]()
        torch.cuda.synchronize()
    for i in range(rounds):
        for j in range(len(names)):
            name = names[(i + j) % len(names)]
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            for _ in range(flushes):
                flush.zero_()
            start.record()
            runs[name]()
            end.record()
            events[name].append((start, end))
    torch.cuda.synchronize()
    return {k: statistics.median(a.elapsed_time(b) * 1e3 for a, b in v) for k, v in events.items()}


def turns(calls, seconds=2.0, least=15):
    """Median microseconds of each on the CPU, `least` calls or more in rotating order."""
    names, times = list(calls), {name: [] for name in calls}
    begin, i = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds or i < least:
        for j in range(len(names)):
            name = names[(i + j) % len(names)]
            start = time.perf_counter()
            calls[name]()
            times[name].append(time.perf_counter() - start)
        i += 1
    return {name: statistics.median(each) * 1e6 for name, each in times.items()}


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


def random(*shape):
    return torch.randn(*shape, device="cuda").to(torch.bfloat16)


def operands(m, n, k, epilogue):
    """The expression, its arguments, the same of 64 rows in float64, and w as [k, n]."""
    x, w, b, s, r = random(m, k), random(n, k) * k**-0.5, random(n), random(n), random(m, n)
    few = [t.double() for t in (x[:64], w, b, s, r[:64])]
    return expression(epilogue), (x, w, b, s, r), few, w.t()


def gated_operands(m, n, k, epilogue, layout):
    """The same of a gate; w is all columns of both products."""
    count = 2 if layout.startswith("separate") else 1
    columns, nn = 2 * n // count, layout.endswith(" nn")
    x = random(m, k)
    weights = [random(k, columns) if nn else random(columns, k) for _ in range(count)]
    weights, biases = [w * k**-0.5 for w in weights], [random(columns) for _ in range(count)]
    few = (x[:64].double(), [w.double() for w in weights], [b.double() for b in biases])
    joined = torch.cat(weights, 1) if nn else torch.cat(weights).t()
    return gated_expression(epilogue, layout), (x, weights, biases), few, joined


def measure(point):
    sizes = [point[key] for key in ("m", "n", "k", "epilogue")]
    layout = point["workload"].partition(" ")[2]
    is_gated = point["suite"] == "gated"
    run, args, few, w = gated_operands(*sizes, layout) if is_gated else operands(*sizes)
    compiled = torch.compile(run, mode="max-autotune-no-cudagraphs", fullgraph=True)
    first = lambda results: results[0] if isinstance(results, tuple) else results
    result, exact = first(compiled(*args)), first(run(*few))
    error = ((result[:64].double() - exact).norm() / exact.norm()).item()
    out = torch.empty(sizes[0], w.shape[1], device="cuda", dtype=torch.bfloat16)
    runs = {
        "cublas": lambda: torch.mm(args[0], w, out=out),
        "eager": lambda: run(*args),
        "inductor-max-autotune": lambda: compiled(*args),
    }
    return interleaved(runs), sustained(runs), error


def point_key(row):
    return tuple(row[key] for key in ("suite", "workload", "m", "n", "k", "epilogue"))


def points(rows, suite):
    """One epifuse row for each point: the first of each epilogue, then the second of each, ..."""
    seen, num_of_epilogue, order = set(), {}, []
    for row in rows:
        if row["contender"] != "epifuse" or row["baseline"] != "cublas":
            continue
        if suite not in ("", row["suite"]) or row["suite"] == "fp8" or point_key(row) in seen:
            continue
        seen.add(point_key(row))
        turn = num_of_epilogue[row["epilogue"]] = num_of_epilogue.get(row["epilogue"], 0) + 1
        order.append((row["suite"] != "dense", turn, len(order), row))
    return [row for *_, row in sorted(order, key=lambda each: each[:3])]


def is_measured(rows, point, numerics):
    """Whether rows of this PyTorch stand beside the point, from the same device and driver."""
    same = ("device", "driver")
    return any(
        row["contender"] == "inductor-max-autotune" and row["numerics"] == numerics
        and point_key(row) == point_key(point) and all(row[key] == point[key] for key in same)
        for row in rows)


def write(path, rows):
    texts = (json.dumps(row, sort_keys=True, separators=(",", ":")) for row in rows)
    lines = ",\n".join("  " + text for text in texts)
    path.write_text(f"[\n{lines}\n]\n")


def add(rows, row):
    for i, old in enumerate(rows):
        if all(old[key] == row[key] for key in KEYS):
            rows[i] = row
            return
    rows.append(row)


def add_point(rows, point, numerics, command):
    us, us_sustained, error = measure(point)
    shared = {key: value for key, value in point.items() if key not in ("config", "expected_us")}
    for contender in ("eager", "inductor-max-autotune"):
        row = dict(shared, contender=contender, numerics=numerics,
                   us=us[contender], ratio=us[contender] / us["cublas"],
                   ratio_sustained=us_sustained[contender] / us_sustained["cublas"],
                   rel_error=error, date=datetime.date.today().isoformat(),
                   command=command)
        add(rows, row)
        print(f"{point['m']}x{point['n']}x{point['k']} {point['epilogue']:30} {contender:22} "
              f"{row['ratio']:.3f} sustained {row['ratio_sustained']:.3f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--suite", default="", help="only this one; all, dense first, without it")
    parser.add_argument("--seconds", type=float, default=300, help="start no point after this long")
    parser.add_argument("--again", action="store_true", help="also points that have rows already")
    options = parser.parse_args()
    rows = json.loads(options.file.read_text())
    numerics = f"torch {torch.__version__}"
    command = f"python3 bench/contenders.py {options.file.name}"
    wanted = [point for point in points(rows, options.suite)
              if options.again or not is_measured(rows, point, numerics)]
    started = time.time()
    num_done = 0
    for point in wanted:
        if time.time() - started > options.seconds:
            break
        add_point(rows, point, numerics, command)
        write(options.file, rows)
        num_done += 1
        torch.compiler.reset()
    seconds = (time.time() - started) / max(num_done, 1)
    print(f"{num_done} points measured, {seconds:.0f} s each; {len(wanted) - num_done} left",
          file=sys.stderr)


if __name__ == "__main__":
    main()
