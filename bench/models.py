"""Times whole models by epifuse, Inductor and eager PyTorch, and adds the rows (suite `torch`).

    python3 bench/models.py bench/results/h200.json [--contenders ...] [--filter bert] [--commit C]
    python3 bench/models.py bench/results/cpu_torch.json --device cpu
    python3 bench/models.py bench/results/h200.json --suite train   (see training.py)

Forward passes with random weights, without gradients. `us` is the median over rounds of calls that
take turns, on GPUs after a flush of the L2; `ratio` is over `baseline` (inductor),
`ratio_sustained` the same for calls back to back, on GPUs only. `rel_error` is to the same weights
in float32. `compile_s`: from the call of torch.compile to the first result, without Inductor's
caches, after something else has been compiled.
"""

import argparse
import copy
import datetime
import json
import pathlib
import statistics
import time
from dataclasses import dataclass

import torch
import torch._dynamo.config
import torch._inductor.config
import torch._inductor.utils
import torch.nn.functional as F
import training
from contenders import add, interleaved, sustained, turns, write
from torch import nn

import epifuse.torch

BASELINE = "inductor"


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        wide = x.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)
        return self.weight * wide.to(x.dtype)


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


class LlamaLayer(nn.Module):
    """A layer of Llama 3 8B: 32 heads of 128, 8 of them for keys and values, SwiGLU."""

    def __init__(self, width=4096, inner=14336, heads=32, kv_heads=8):
        super().__init__()
        linear = lambda k, n: nn.Linear(k, n, bias=False)
        self.heads, self.kv_heads, self.size = heads, kv_heads, width // heads
        self.norm1, self.norm2 = RmsNorm(width), RmsNorm(width)
        self.q, self.o = linear(width, width), linear(width, width)
        self.k, self.v = (linear(width, kv_heads * self.size) for _ in range(2))
        self.gate, self.up = linear(width, inner), linear(width, inner)
        self.down = linear(inner, width)

    def forward(self, x, cos, sin):
        batch, length, _ = x.shape
        split = lambda y, heads: y.view(batch, length, heads, self.size).transpose(1, 2)
        y = self.norm1(x)
        q, k = split(self.q(y), self.heads), split(self.k(y), self.kv_heads)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        v = split(self.v(y), self.kv_heads)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=length > 1, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).reshape(batch, length, -1))
        return x + self.mlp(self.norm2(x))

    def mlp(self, y):
        return self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, layers=None, size=128):
        super().__init__()
        self.layers = nn.ModuleList(layers or (LlamaLayer() for _ in range(4)))
        self.size = size

    def forward(self, x):
        place = torch.arange(x.shape[1], device=x.device, dtype=torch.float32)
        step = torch.arange(0, self.size, 2, device=x.device, dtype=torch.float32)
        angle = place[:, None] * (500000.0 ** (-step / self.size))[None, :]
        angle = torch.cat((angle, angle), -1)
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return x


class BertLayer(nn.Module):
    """A layer of BERT-large: 16 heads of 64, gelu, norms behind the residuals."""

    def __init__(self, width=1024, inner=4096, heads=16):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x):
        split = lambda y: y.view(*y.shape[:2], self.heads, -1).transpose(1, 2)
        y = F.scaled_dot_product_attention(split(self.q(x)), split(self.k(x)), split(self.v(x)))
        x = self.norm1(x + self.o(y.transpose(1, 2).reshape(x.shape)))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class BertFfn(nn.Module):
    """The second half of a layer of BERT-base."""

    def __init__(self, width=768, inner=3072):
        super().__init__()
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        return self.norm(x + self.down(F.gelu(self.up(x))))


def bert(layers=24, **sizes):
    return nn.Sequential(*(BertLayer(**sizes) for _ in range(layers)))


def minilm():
    return bert(6, width=384, inner=1536, heads=12)


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

    @property
    def text(self):
        return f"{self.workload}_{self.batch}x{self.length}"


DTYPES = {"bf16": torch.bfloat16, "f32": torch.float32}
POINTS = [
    Point("llama3_8b_4_layers", Llama, 1, 8192, 4096, 14336),
    Point("llama3_8b_4_layers", Llama, 4, 2048, 4096, 14336),
    Point("llama3_8b_4_layers", Llama, 64, 1, 4096, 14336),
    Point("bert_large", bert, 32, 512, 1024, 4096),
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


def measure(point, names, rounds):
    torch.manual_seed(0)
    model = point.make().to(point.device, DTYPES[point.dtype]).eval().requires_grad_(False)
    x = torch.randn(point.batch, point.length, point.width, device=point.device)
    x = x.to(DTYPES[point.dtype])
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
    exact = copy.deepcopy(model).float()(x.float())
    errors = {name: ((run(x).float() - exact).norm() / exact.norm()).item()
              for name, run in runs.items()}
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
                   + " --suite train" * (arguments.suite == "train"),
        **own,
    }  # fmt: skip


def cpu_name():
    return f"{torch.get_num_threads()} threads, {torch.backends.cpu.get_cpu_capability()}"


def add_point(rows, point, names, arguments):
    us, us_sustained, errors, seconds = measure(point, names, arguments.compile_rounds)
    for name in names:
        row = row_of(
            arguments, workload=point.text, dtype=point.dtype,
            m=point.batch * point.length, n=point.inner, k=point.width, epilogue="forward",
            contender=name, us=us[name], baseline=BASELINE, ratio=us[name] / us[BASELINE],
            ratio_sustained=us_sustained and us_sustained[name] / us_sustained[BASELINE],
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
        call_cost(rows, arguments)
        layer_cost(rows, arguments)
        moving_cost(rows, arguments)
    for point in [] if arguments.only_host else POINTS:
        if point.device == arguments.device and arguments.filter in point.text:
            add_point(rows, point, names, arguments)
            write(arguments.file, rows)
            torch.compiler.reset()
            torch.cuda.empty_cache()


def train(rows, arguments):
    def keep(**own):
        add(rows, row_of(arguments, **own))
        write(arguments.file, rows)

    training.run((Llama, LlamaLayer, BertLayer), COMPILERS, BASELINE, arguments, keep)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--contenders", nargs="*", choices=list(COMPILERS),
                        help="all of them; on CPUs: epifuse")
    parser.add_argument("--filter", default="", help="only points whose text has this")
    parser.add_argument("--compile-rounds", type=int, default=1,
                        help="how often each compiles, by turns: compile_s is the median")
    parser.add_argument("--suite", choices=("torch", "train"), default="torch")
    parser.add_argument("--only-host", action="store_true",
                        help="only what layers and calls cost the host")
    parser.add_argument("--commit", default="")
    arguments = parser.parse_args()
    rows = json.loads(arguments.file.read_text()) if arguments.file.exists() else []
    torch._inductor.config.force_disable_caches = True
    start_inductor(arguments.device)
    with torch.set_grad_enabled(arguments.suite == "train"):
        (train if arguments.suite == "train" else forward)(rows, arguments)
    write(arguments.file, rows)


if __name__ == "__main__":
    main()
