"""Groups of rows: ours against PyTorch's bare products in one run; rows of suite `grouped`.

    python3 bench/experts.py bench/results/h200.json [--commit HASH] [--filter TEXT]

Needs a PyTorch of CUDA, and EPIFUSE_LIBRARY_PATH. A point is a graph of `.epi` text with tensors of
random numbers. `grouped_mm` is `torch._grouped_mm` bare on the same groups, `bmm` is `torch.bmm`
bare where all groups are equal, `copy` a copy of the weights on the device: its time stands for
that of reading and writing them, so half of it for reading them alone. A point has a row
for each of these that it names; launches alternate with the L2 flushed, then blocks run back to
back.
Our results are compared with float64, some rows of each group, before they are timed.
"""

import argparse
import datetime
import json
import pathlib
import random
from dataclasses import dataclass, field

import torch
from contenders import add, interleaved, sustained, write

from epifuse import _native
from epifuse.torch.dtypes import ALL

ROWS_CHECKED = 8  # of each group
LIMIT = 0.01  # of the relative error of bf16 results


@dataclass
class Point:
    workload: str
    counts: list[int]
    n: int  # of the result
    k: int
    epilogue: str  # words: bias, swiglu, swiglu_oai, gather, put, preact
    layout: str = "nk"  # of the weights: "nk" or "kn"; of a gate by turns where it is swiglu_oai
    baselines: tuple[str, ...] = ("grouped_mm",)
    words: list[str] = field(init=False)

    def __post_init__(self):
        self.words = self.epilogue.split("+")

    @property
    def is_gated(self):
        return any(word.startswith("swiglu") for word in self.words)


def tokens_of_experts(seed):
    """Of 128 experts, 8 to 64 tokens each."""
    generator = random.Random(seed)
    return [generator.randint(8, 64) for _ in range(128)]


EVEN, UNEVEN = [1024] * 8, [1, 0, 4000, 37, 0, 1500, 129, 2525]
NEARLY_EVEN = [300, 210, 256, 190, 280, 301, 255, 256]
POINTS = [
    Point("even", EVEN, 2048, 2048, "bias+swiglu_oai", baselines=("bmm", "grouped_mm")),
    Point("even", EVEN, 2048, 2048, "bias+swiglu_oai+preact", baselines=("bmm", "grouped_mm")),
    Point("even nn", EVEN, 2048, 2048, "bias+swiglu_oai", "kn", ("bmm", "grouped_mm")),
    Point("uneven", UNEVEN, 2048, 2048, "bias+swiglu_oai"),
    Point("uneven", UNEVEN, 2048, 2048, "bias+swiglu_oai+preact"),
    Point("uneven", UNEVEN, 2048, 2048, "gather+swiglu"),
    Point("uneven", UNEVEN, 2048, 2048, "put"),
    Point("qwen3_30b_experts", tokens_of_experts(1), 768, 2048, "swiglu",
          baselines=("copy", "grouped_mm")),
    Point("qwen3_30b_experts", tokens_of_experts(1), 768, 2048, "gather+swiglu",
          baselines=("copy", "grouped_mm")),
    Point("qwen3_30b_experts", tokens_of_experts(1), 2048, 768, "put",
          baselines=("copy", "grouped_mm")),
    Point("gpt_oss_experts", tokens_of_experts(2), 2880, 2880, "bias+swiglu_oai", "kn",
          ("copy", "grouped_mm")),
    Point("gpt_oss_experts", tokens_of_experts(2), 2880, 2880, "gather+bias+swiglu_oai+preact",
          "kn", ("copy", "grouped_mm")),
    Point("mixtral_experts", NEARLY_EVEN, 14336, 4096, "gather+swiglu"),
    Point("mixtral_experts", NEARLY_EVEN, 4096, 14336, "put"),
]  # fmt: skip


def graph_of(point):
    """The text of a point's graph; inputs in the order of `tensors_of`."""
    words, n, k = point.words, point.n, point.k
    columns = 2 * n if point.is_gated else n
    shape, form = (f"{columns}, {k}", "w^T") if point.layout == "nk" else (f"{k}, {columns}", "w")
    inputs = [f"x: bf16[{'S' if 'gather' in words else 'T'}, {k}]", f"w: bf16[G, {shape}]",
              "ends: i32[G]"]  # fmt: skip
    inputs += [f"b: bf16[G, {columns}]"] if "bias" in words else []
    inputs += ["token: i64[T]"] if "gather" in words else []
    inputs += ["place: i64[T]"] if "put" in words else []
    lines = ["xt = take_rows x, token"] if "gather" in words else []
    lines += [f"h0 = grouped_matmul {'xt' if 'gather' in words else 'x'}, {form}, ends"]
    h = "h0"
    if "bias" in words:
        lines += [f"bt = repeat_rows b, ends [T, {columns}]", "h = add h0, bt"]
        h = "h"
    results = [h] if "preact" in words else []
    if "swiglu" in words:
        lines += [f"g = slice {h} [:, :{n}]", f"u = slice {h} [:, {n}:]", "s = silu g",
                  "y = mul s, u"]  # fmt: skip
    elif "swiglu_oai" in words:
        lines += [f"g0 = slice {h} [:, ::2]", f"u0 = slice {h} [:, 1::2]", "g = min g0, 7",
                  "u = clamp u0, -7, 7", "a = mul g, 1.702", "s = sigmoid a", "gs = mul g, s",
                  "u1 = add u, 1", "y = mul gs, u1"]  # fmt: skip
    else:
        lines += [f"y = put_rows h0, place [T, {n}]"]
    body = "\n".join("  " + line for line in lines)
    returned = ", ".join([*results, "y"])
    return f"graph experts({', '.join(inputs)}) {{\n{body}\n  return {returned}\n}}\n"


def tensors_of(point):
    num_rows, groups = sum(point.counts), len(point.counts)
    columns = point.n * (2 if point.is_gated else 1)

    def normal(*shape, scale=1.0):
        return (torch.randn(*shape, device="cuda") * scale).to(torch.bfloat16)

    num_tokens = max(num_rows // 4, 1) if "gather" in point.words else num_rows
    w = [normal(columns, point.k, scale=point.k**-0.5) for _ in range(groups)]
    tensors = {"x": normal(num_tokens, point.k), "w": torch.stack(w)}
    if point.layout == "kn":
        tensors["w"] = tensors["w"].transpose(1, 2).contiguous()
    tensors["ends"] = torch.tensor(point.counts, device="cuda").cumsum(0).to(torch.int32)
    if "bias" in point.words:
        tensors["b"] = normal(groups, columns)
    if "gather" in point.words:
        tensors["token"] = torch.randint(num_tokens, (num_rows,), device="cuda")
    if "put" in point.words:
        tensors["place"] = torch.randperm(num_rows, device="cuda")
    outputs = [torch.full((num_rows, columns), torch.nan, device="cuda", dtype=torch.bfloat16)
               ] if "preact" in point.words else []  # fmt: skip
    outputs.append(torch.full((num_rows, point.n), torch.nan, device="cuda", dtype=torch.bfloat16))
    return tensors, outputs


def ours(point, tensors, outputs):
    """Our kernel as a callable on these tensors."""
    options = json.dumps({"target": "cuda"})
    kernel = _native.kernel(graph_of(point), options)

    def described(values):
        described = [_native.Tensor.of(t.data_ptr(), ALL[t.dtype], t.shape, t.stride())
                     for t in values]  # fmt: skip
        return (_native.Tensor * len(described))(*described), described

    inputs, kept = described(tensors.values())
    results, also_kept = described(outputs)

    def run(kept=(kept, also_kept)):
        stream = torch.cuda.current_stream().cuda_stream
        _native.check(_native.library().epifuse_run(kernel, inputs, results, stream))

    return run


def exactly(point, tensors, first, last, group):
    """Results of some rows of a group in float64."""
    x = tensors["x"]
    x = x[tensors["token"][first:last]] if "gather" in point.words else x[first:last]
    w = tensors["w"][group].double()
    h = x.double() @ (w.t() if point.layout == "nk" else w)
    h = h + tensors["b"][group].double() if "bias" in point.words else h
    if "swiglu" in point.words:
        g, u = h.chunk(2, -1)
        y = torch.nn.functional.silu(g) * u
    elif "swiglu_oai" in point.words:
        g, u = h[:, ::2].clamp(max=7), h[:, 1::2].clamp(-7, 7)
        y = g * torch.sigmoid(1.702 * g) * (u + 1)
    else:
        y = h
    return [h, y] if "preact" in point.words else [y]


def error_of(point, tensors, outputs):
    """The largest relative error of a result, some rows of each group compared."""
    first, differences, squares = 0, [0.0] * len(outputs), [0.0] * len(outputs)
    for group, count in enumerate(point.counts):
        for start in sorted({first, max(first + count - ROWS_CHECKED, first)}):
            last = min(start + ROWS_CHECKED, first + count)
            for i, exact in enumerate(exactly(point, tensors, start, last, group)):
                rows = tensors["place"][start:last] if "put" in point.words else slice(start, last)
                got = outputs[i][rows].double()
                differences[i] += (got - exact).square().sum().item()
                squares[i] += exact.square().sum().item()
        first += count
    return max((d / s) ** 0.5 for d, s in zip(differences, squares, strict=True))


def baselines_of(point, tensors):
    w = tensors["w"].transpose(1, 2) if point.layout == "nk" else tensors["w"]
    num_rows, groups = sum(point.counts), len(point.counts)
    x = torch.randn(num_rows, point.k, device="cuda").to(torch.bfloat16)
    out = {}
    if "bmm" in point.baselines:
        rows = x.view(groups, point.counts[0], point.k)
        result = torch.empty(groups, point.counts[0], w.shape[2], device="cuda", dtype=x.dtype)
        out["bmm"] = lambda: torch.bmm(rows, w, out=result)
    if "grouped_mm" in point.baselines:
        out["grouped_mm"] = lambda: torch._grouped_mm(x, w, offs=tensors["ends"])
    if "copy" in point.baselines:
        target = torch.empty_like(tensors["w"])
        out["copy"] = lambda: target.copy_(tensors["w"])
    return out


def measure(point):
    tensors, outputs = tensors_of(point)
    run = ours(point, tensors, outputs)
    run()
    error = error_of(point, tensors, outputs)
    if not error < LIMIT:
        raise SystemExit(f"{point.workload} {point.epilogue}: relative error {error:.2e}")
    runs = {"epifuse": run, **baselines_of(point, tensors)}
    return interleaved(runs), sustained(runs, 0.4), error


def rows_of(point, us, us_sustained, error, shared):
    for baseline in point.baselines:
        yield dict(
            shared, suite="grouped", workload=point.workload, m=sum(point.counts), n=point.n,
            k=point.k, groups=len(point.counts), dtype="bf16", epilogue=point.epilogue,
            numerics="fast", contender="epifuse", us=us["epifuse"], baseline=baseline,
            ratio=us["epifuse"] / us[baseline],
            ratio_sustained=us_sustained["epifuse"] / us_sustained[baseline],
            rel_error=error, config="")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--commit", default="")
    parser.add_argument("--filter", default="", help="only points whose text has this")
    options = parser.parse_args()
    rows = json.loads(options.file.read_text()) if options.file.exists() else []
    shared = {"device": torch.cuda.get_device_name(), "driver": str(torch.version.cuda),
              "commit": options.commit, "command": f"python3 bench/experts.py {options.file.name}",
              "date": datetime.date.today().isoformat()}  # fmt: skip
    for point in POINTS:
        text = f"{point.workload} {sum(point.counts)}x{point.n}x{point.k} {point.epilogue}"
        if options.filter not in text:
            continue
        for row in rows_of(point, *measure(point), shared):
            add(rows, row)
            print(f"{text:60} {row['us']:8.1f} us  / {row['baseline']:10} {row['ratio']:.3f} "
                  f"sustained {row['ratio_sustained']:.3f}  rel. error {row['rel_error']:.1e}",
                  flush=True)  # fmt: skip
        write(options.file, rows)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
