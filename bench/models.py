"""Times whole models by epifuse, Inductor and eager PyTorch, and adds the rows (suite `torch`).

    python3 bench/models.py bench/results/h200.json [--contenders ...] [--filter bert] [--commit C]
    python3 bench/models.py bench/results/cpu_torch.json --device cpu
    python3 bench/models.py bench/results/h200.json --suite train   (see training.py)
    python3 bench/models.py bench/results/h200.json --suite backward   (see gradients.py)
    python3 bench/models.py bench/results/h200.json --suite scaled   (see scaled.py)

Forward passes with random weights, without gradients. `us` is the median over rounds of calls that
take turns, on GPUs after a flush of the L2; `ratio` is over `baseline` (inductor; of steps of
decoding inductor-cudagraphs), `ratio_sustained` the same for calls back to back, on GPUs only.
`rel_error` is to the same weights in float32 (0 where there is none). `compile_s`: from the call of
torch.compile to the first result, without Inductor's caches, after something else has been
compiled.
"""

import argparse
import copy
import datetime
import json
import pathlib
import statistics
import time
from dataclasses import dataclass

import gradients
import scaled
import torch
import torch._dynamo.config
import torch._inductor.config
import torch._inductor.utils
import torch.nn.functional as F
import training
from contenders import add, interleaved, sustained, turns, write
from networks import (
    BertFfn, Llama, bert, decoding, minilm, quantised_by_rows, qwen3_moe,
    with_narrow_weights)  # fmt: skip
from torch import nn
from torch._dynamo.utils import counters

import epifuse.torch

BASELINE = "inductor"
GRAPHS = ("inductor-cudagraphs", "epifuse-cudagraphs")


@dataclass(frozen=True)
class Point:
    workload: str
    make: object
    batch: int
    length: int
    width: int
    inner: int
    device: str = "cuda"
    dtype: str = "bf16"
    contenders: tuple = ()  # its own, the baseline first
    quantised: object = None  # the model, made of one in `dtype`
    has_float32: bool = True

    @property
    def text(self):
        return f"{self.workload}_{self.batch}x{self.length}"


def decoding_points(workload, *sizes, quantised=None):
    """One token more for each of several rows, by CUDA graphs."""
    return [Point(workload, lambda batch=batch: decoding(batch, *sizes), batch, 1, *sizes[:2],
                  contenders=GRAPHS, quantised=quantised) for batch in (1, 16, 64)]  # fmt: skip


def with_weights_in(dtype):
    return lambda model: with_narrow_weights(model, dtype)


DTYPES = {"bf16": torch.bfloat16, "f32": torch.float32}
POINTS = [
    Point("llama3_8b_4_layers", Llama, 1, 8192, 4096, 14336),
    Point("llama3_8b_4_layers", Llama, 4, 2048, 4096, 14336),
    Point("llama3_8b_4_layers", Llama, 64, 1, 4096, 14336),
    # Beside those that the host holds up, who comes behind one of them would wait for it too.
    Point("llama3_8b_4_layers", Llama, 64, 1, 4096, 14336, contenders=GRAPHS),
    Point("bert_large", bert, 32, 512, 1024, 4096),
    Point("qwen3_moe_2_layers", qwen3_moe, 4, 1024, 2048, 768, has_float32=False),
    Point("llama3_8b_4_layers_e4m3", Llama, 1, 8192, 4096, 14336, quantised=quantised_by_rows),
    *decoding_points("decoding_llama_1b_4_layers", 2048, 8192, 32, 8),
    *decoding_points("decoding_qwen2_7b_4_layers", 3584, 18944, 28, 4, True),
    *decoding_points("decoding_llama3_8b_4_layers_i8_weights", 4096, 14336, 32, 8,
                     quantised=with_weights_in(torch.int8)),
    *decoding_points("decoding_llama3_8b_4_layers_e4m3_weights", 4096, 14336, 32, 8,
                     quantised=with_weights_in(torch.float8_e4m3fn)),
    *(Point("llama3_8b_4_layers_e4m3_weights", Llama, 1, length, 4096, 14336, contenders=GRAPHS,
            quantised=with_weights_in(torch.float8_e4m3fn)) for length in (256, 1024)),
    *(Point(workload, make, batch, length, width, inner, "cpu", dtype)
      for dtype in DTYPES
      for workload, make, width, inner in (("bert_base_ffn", BertFfn, 768, 3072),
                                           ("minilm", minilm, 384, 1536))
      for batch, length in ((1, 16), (1, 128), (8, 128))),
]  # fmt: skip

EPIFUSE = {"backend": epifuse.torch.backend}
COMPILERS = {
    "eager": None,
    "inductor": {},
    "inductor-cudagraphs": {"mode": "reduce-overhead"},
    "inductor-max-autotune": {"mode": "max-autotune"},
    "epifuse": EPIFUSE,
    "epifuse-cudagraphs": {**EPIFUSE, "mode": "reduce-overhead"},
    "epifuse-max-autotune": {**EPIFUSE, "mode": "max-autotune"},
}


def compiled(name, model, x):
    """The model by one contender and how long its first result took, caches empty."""
    if COMPILERS[name] is None:
        return model, 0.0
    torch._inductor.utils.clear_caches()  # a reset would compile again what came before
    synchronize(x)
    begin = time.perf_counter()
    run = torch.compile(model, **COMPILERS[name])
    run(x)
    synchronize(x)
    return run, time.perf_counter() - begin


def synchronize(x):
    if x.is_cuda:
        torch.cuda.synchronize()


def prepared(point):
    """A model with random weights, what it reads, and its result in float32."""
    torch.manual_seed(0)
    dtype = DTYPES[point.dtype]
    with torch.device(point.device):
        model = point.make().to(dtype).eval().requires_grad_(False)
        x = torch.randn(point.batch, point.length, point.width).to(dtype)
    exact = copy.deepcopy(model).float()(x.float()) if point.has_float32 else None
    return point.quantised(model) if point.quantised else model, x, exact


def measure(point, names, rounds):
    model, x, exact = prepared(point)
    runs, samples = {}, {name: [] for name in names}
    for _ in range(rounds):
        torch.compiler.reset()
        for name in names:
            runs[name], took = compiled(name, model, x)
            samples[name].append(took)
            print(f"{point.text} {name}: first result after {took:.1f} s", flush=True)
    seconds = {name: statistics.median(took) for name, took in samples.items()}
    calls = {name: (lambda run=run: run(x)) for name, run in runs.items()}
    if point.device == "cuda":
        us, us_sustained = interleaved(calls), sustained(calls)
    else:
        us, us_sustained = turns(calls), None
    errors = {name: ((run(x).float() - exact).norm() / exact.norm()).item() if point.has_float32
              else 0.0 for name, run in runs.items()}  # fmt: skip
    return us, us_sustained, errors, seconds


def row_of(arguments, **own):
    """A row, with what all rows of a run share."""
    on_cpu = arguments.device == "cpu"
    device = cpu_name() if on_cpu else torch.cuda.get_device_name()
    return {
        "suite": "torch", "groups": 1, "dtype": "bf16", "numerics": f"torch {torch.__version__}",
        "device": device, "driver": "" if on_cpu else str(torch.version.cuda),
        "commit": arguments.commit, "date": datetime.date.today().isoformat(),
        "command": f"python3 bench/models.py {arguments.file.name}" + " --device cpu" * on_cpu
                   + f" --suite {arguments.suite}" * (arguments.suite != "torch"),
        **own,
    }  # fmt: skip


def cpu_name():
    return f"{torch.get_num_threads()} threads, {torch.backends.cpu.get_cpu_capability()}"


def add_point(rows, point, names, arguments):
    names = list(point.contenders) or names
    baseline = point.contenders[0] if point.contenders else BASELINE
    counters.clear()
    us, us_sustained, errors, seconds = measure(point, names, arguments.compile_rounds)
    skipped = counters["inductor"]["cudagraph_skips"]
    if point.contenders == GRAPHS and skipped:
        print(f"{point.text}: not measured, {skipped} graphs were not captured", flush=True)
        return
    for name in names:
        row = row_of(
            arguments, workload=point.text, dtype=point.dtype,
            m=point.batch * point.length, n=point.inner, k=point.width, epilogue="forward",
            contender=name, us=us[name], baseline=baseline, ratio=us[name] / us[baseline],
            ratio_sustained=us_sustained and us_sustained[name] / us_sustained[baseline],
            rel_error=errors[name], compile_s=seconds[name])  # fmt: skip
        add(rows, row)
        sustained_text = f"  sustained {row['ratio_sustained']:.3f}" if us_sustained else ""
        print(f"{row['workload']:28} {row['dtype']:4} {name:22} "
              f"{row['us']:10.1f} us  ratio {row['ratio']:.3f}{sustained_text}"
              f"  compile {row['compile_s']:.1f} s  "
              f"error {row['rel_error']:.1e}", flush=True)


class Chain(nn.Module):
    """Layers of one fused kernel each, too small for the GPU to be what takes the time."""

    def __init__(self, layers, width, activation):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.activation = activation

    def forward(self, x):
        for layer in self.layers:
            x = self.activation(layer(x))
        return x


def host_us(run):
    """Median over rounds of what a call takes where nobody waits for the GPU."""
    times = []
    for _ in range(20):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(50):
            run()
        times.append((time.perf_counter() - begin) / 50 * 1e6)
    return statistics.median(times)


def layer_cost(rows, arguments):
    """Host microseconds of a layer in compiled code: the slope between 16 and 64 of them."""
    x = torch.randn(16, 64, device="cuda").to(torch.bfloat16)
    few, many = 16, 64
    for name in ("inductor", "epifuse"):
        took = {}
        for layers in (few, many):
            model = Chain(layers, 64, F.gelu).cuda().to(torch.bfloat16).eval().requires_grad_(False)
            run = torch.compile(model, **COMPILERS[name])
            run(x)
            took[layers] = host_us(lambda: run(x))
        us = (took[many] - took[few]) / (many - few)
        print(f"one fused layer in compiled code: {name} {us:.1f} us", flush=True)
        add(rows, row_of(
            arguments, workload="layer", m=16, n=64, k=64, contender=name, us=us,
            epilogue="bias+gelu_erf", baseline="", ratio=0.0, ratio_sustained=0.0,
            rel_error=0.0))  # fmt: skip


def moving_cost(rows, arguments):
    """Suite `host`: microseconds of a layer with the tensors of the call before, or with others."""
    kept = []  # inputs that are held take memory, so that all that a call allocates moves too
    for layers in (16, 48):
        x = torch.randn(256, 256, device="cuda").to(torch.bfloat16)
        model = Chain(layers, 256, F.silu).cuda().to(torch.bfloat16).eval().requires_grad_(False)
        for name in ("inductor", "epifuse"):
            run = torch.compile(model, **COMPILERS[name])
            run(x)

            def moved(run=run, x=x):
                kept.append(torch.empty_like(x))
                run(kept[-1])

            for workload, call in ((f"torch_layers_{layers}", lambda run=run, x=x: run(x)),
                                   (f"torch_layers_{layers}_moved", moved)):
                us = host_us(call) / layers
                kept.clear()
                print(f"{workload}: {name} {us:.1f} us a layer", flush=True)
                add(rows, row_of(
                    arguments, suite="host", workload=workload, m=256, n=256, k=256,
                    contender=name, us=us, epilogue="bias+silu", baseline="", ratio=0.0,
                    ratio_sustained=0.0, rel_error=0.0))  # fmt: skip


def call_cost(rows, arguments):
    """Host microseconds of one call of the op from Python, outside of graphs."""
    from epifuse.torch import op

    text = ("graph kernel(x0: bf16[d0, d1], x1: bf16[d1, d2], x2: bf16[d2]) {\n"
            "  t0 = matmul x0, x1\n  t1 = add t0, x2\n  t2 = gelu_erf t1\n  return t2 as y0\n}\n")
    fused = op.load()
    x = torch.randn(16, 64, device="cuda").to(torch.bfloat16)
    w, b = x.new_zeros(32, 64).t(), x.new_zeros(32)
    call = lambda: fused([x, w, b], text, '{"target":"cuda"}')
    other = lambda: torch.addmm(b, x, w)
    times = {}
    for name, run in (("epifuse", call), ("eager", other)):
        times[name] = host_us(run)
        print(f"one call from Python: {name} {times[name]:.1f} us", flush=True)
        add(rows, row_of(
            arguments, workload="call", m=16, n=32, k=64, contender=name, us=times[name],
            epilogue="bias+gelu_erf" if name == "epifuse" else "bias", baseline="", ratio=0.0,
            ratio_sustained=0.0, rel_error=0.0))  # fmt: skip


def start_inductor(device):
    """Compiles something, so that no contender pays for what all need."""
    torch.compile(nn.Linear(64, 64).to(device))(torch.randn(8, 64, device=device))


def forward(rows, arguments):
    """Suite `torch`, and what layers and calls cost the host."""
    usual = ["epifuse"] if arguments.device == "cpu" else list(COMPILERS)
    contenders = usual if arguments.contenders is None else arguments.contenders
    names = list(dict.fromkeys(["eager", BASELINE, *contenders]))
    # All compile the same code.
    torch._dynamo.config.recompile_limit = 2 * len(names) * arguments.compile_rounds
    if arguments.device == "cuda":
        for cost in () if arguments.filter else (call_cost, layer_cost, moving_cost):
            cost(rows, arguments)
    for point in [] if arguments.only_host else POINTS:
        if point.device == arguments.device and arguments.filter in point.text:
            try:
                add_point(rows, point, names, arguments)
            except ModuleNotFoundError as missing:  # a package that only some points need
                print(f"{point.text}: not measured: {missing}", flush=True)
            write(arguments.file, rows)
            torch.compiler.reset()
            torch.cuda.empty_cache()


def other_suite(rows, arguments):
    """One of those that have a file of their own."""
    def keep(**own):
        add(rows, row_of(arguments, **own))
        write(arguments.file, rows)

    suite = {"train": training, "backward": gradients, "scaled": scaled}[arguments.suite]
    suite.run(COMPILERS, BASELINE, arguments, keep)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--contenders", nargs="*", choices=list(COMPILERS),
                        help="all of them; on CPUs: epifuse")
    parser.add_argument("--filter", default="",
                        help="only points whose text has this, without the host's costs")
    parser.add_argument("--compile-rounds", type=int, default=1,
                        help="how often each compiles, by turns: compile_s is the median")
    parser.add_argument("--suite", default="torch",
                        choices=("torch", "train", "backward", "scaled"))
    parser.add_argument("--only-host", action="store_true",
                        help="only what layers and calls cost the host")
    parser.add_argument("--commit", default="")
    arguments = parser.parse_args()
    rows = json.loads(arguments.file.read_text()) if arguments.file.exists() else []
    torch._inductor.config.force_disable_caches = True
    start_inductor(arguments.device)
    with torch.set_grad_enabled(arguments.suite == "train"):
        (forward if arguments.suite == "torch" else other_suite)(rows, arguments)
    write(arguments.file, rows)


if __name__ == "__main__":
    main()
