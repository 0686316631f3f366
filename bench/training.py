"""Suite `train` of `bench/models.py`: steps of training, forward, backward and AdamW.

`us` and `ratio`: each step is waited for, contenders by turns; `sustained_us`, `ratio_sustained`:
steps back to back. `rel_error`: of all gradients, to the same weights in float32 (0 where there is
none). Of the GPU's kernels in a step, by torch.profiler: `products_us`, `loops_us` (Inductor's
elementwise kernels and reductions), `attention_us`, `optimizer_us`, `others_us`; of the loops those
directly before or behind a product, `beside_us`.
"""

import copy
import statistics
import time
from dataclasses import dataclass

import torch
import torch._dynamo.config
import torch.nn.functional as F
from contenders import sustained
from networks import BertLayer, Llama, LlamaLayer, qwen3_moe
from torch import nn
from torch.autograd import DeviceType

ROUNDS = 12

# Words in kernels' names; the first class that fits.
CLASSES = {
    "loops": ("triton_",),
    "attention": ("flash", "fmha", "attention", "sdpa"),
    "optimizer": ("multi_tensor", "adam"),
    "products": ("gemm", "few_rows", "side_by_side", "cutlass", "nvjet", "cublas", "splitk"),
    "others": ("",),
}


class Experts(nn.Module):
    """A mixture of experts as transformers has it: SwiGLU by groups of rows."""

    def __init__(self, width, inner, num_experts, top_k):
        super().__init__()
        self.top_k = top_k
        self.router = nn.Linear(width, num_experts, bias=False)
        weight = lambda n, k: nn.Parameter(torch.randn(num_experts, n, k) * k**-0.5)
        self.up, self.down = weight(2 * inner, width), weight(width, inner)

    def forward(self, x):
        tokens = x.flatten(0, 1)
        chosen = torch.topk(torch.softmax(self.router(tokens).float(), -1), self.top_k, -1)
        weights = (chosen.values / chosen.values.sum(-1, keepdim=True)).to(x.dtype)
        ids, order = torch.sort(chosen.indices.reshape(-1))
        num_experts = self.up.shape[0]
        counts = torch.histc(ids.float(), bins=num_experts, min=0, max=num_experts - 1)
        ends = torch.cumsum(counts, 0, dtype=torch.int32)
        rows = tokens[order // self.top_k]
        gate, up = F.grouped_mm(rows, self.up.transpose(1, 2), offs=ends).chunk(2, -1)
        y = F.grouped_mm(F.silu(gate) * up, self.down.transpose(1, 2), offs=ends)
        y = y * weights.reshape(-1)[order].unsqueeze(-1)
        place = torch.empty_like(order)
        place[order] = torch.arange(order.shape[0], device=x.device)
        return y[place].view(-1, self.top_k, x.shape[-1]).sum(1).view_as(x)


@dataclass(frozen=True)
class Step:
    workload: str
    make: object
    batch: int
    length: int
    width: int
    inner: int
    has_float32: bool = True

    @property
    def text(self):
        return f"{self.workload}_{self.batch}x{self.length}"


class Vit(BertLayer):
    """Norms before the products."""

    def forward(self, x):
        split = lambda y: y.view(*y.shape[:2], self.heads, -1).transpose(1, 2)
        y = self.norm1(x)
        q, k, v = split(self.q(y)), split(self.k(y)), split(self.v(y))
        y = F.scaled_dot_product_attention(q, k, v)
        x = x + self.o(y.transpose(1, 2).reshape(x.shape))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class MoeLayer(LlamaLayer):
    def __init__(self):
        super().__init__(2048, 64, 32, 4)
        self.experts = Experts(2048, 768, 64, 8)
        self.gate = self.up = self.down = None

    def mlp(self, y):
        return self.experts(y)


def layers_of(layer, num):
    return lambda: nn.Sequential(*(layer() for _ in range(num)))


def llama():
    return Llama([LlamaLayer(2048, 8192, 32, 8) for _ in range(4)], 64)


def moe():
    return Llama([MoeLayer() for _ in range(2)], 64)


POINTS = [
    Step("bert_large_6_layers", layers_of(BertLayer, 6), 16, 512, 1024, 4096),
    Step("llama_1b_4_layers", llama, 4, 2048, 2048, 8192),
    Step("vit_large_6_layers", layers_of(Vit, 6), 64, 196, 1024, 4096),
    Step("qwen3_moe_2_layers", moe, 4, 1024, 2048, 768, has_float32=False),
    Step("qwen3_moe_transformers_2_layers", qwen3_moe, 4, 1024, 2048, 768, has_float32=False),
]


def stepper(model, run, x, way):
    """A step of training, as a call."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=x.is_cuda)

    def step():
        optimizer.zero_grad(set_to_none=True)
        run(x).backward(way)
        optimizer.step()

    return step


def gradients(model, run, x, way):
    model.zero_grad(set_to_none=True)
    run(x).backward(way)
    return torch.cat([parameter.grad.flatten().float() for parameter in model.parameters()])


def waited_for(steps, synchronize):
    """Median microseconds of each, by turns."""
    times = {name: [] for name in steps}
    for _ in range(ROUNDS):
        for name, step in steps.items():
            synchronize()
            begin = time.perf_counter()
            step()
            synchronize()
            times[name].append((time.perf_counter() - begin) * 1e6)
    return {name: statistics.median(each) for name, each in times.items()}


def class_of(kernel):
    name = kernel.lower()
    return next(key for key, words in CLASSES.items() if any(word in name for word in words))


def beside_products(kernels):
    """Of names and times, in order, the time of loops with a product next to them."""
    classes = [class_of(name) for name, _ in kernels]
    neighbours = zip([None, *classes], [*classes[1:], None])
    return sum(us for (_, us), own, others in zip(kernels, classes, neighbours)
               if own == "loops" and "products" in others)  # fmt: skip


def kernel_times(step, rounds=3):
    """Microseconds of the GPU's kernels in a step, by class."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(rounds):
            step()
        torch.cuda.synchronize()
    times = dict.fromkeys(CLASSES, 0.0)
    for event in profile.key_averages():
        times[class_of(event.key)] += event.self_device_time_total / rounds
    on_device = [event for event in profile.events() if event.device_type == DeviceType.CUDA]
    in_order = sorted(on_device, key=lambda event: event.time_range.start)
    times["beside"] = beside_products(
        [(event.name, event.time_range.elapsed_us()) for event in in_order]) / rounds
    return {f"{key}_us": time for key, time in times.items()}


def measure(point, compilers, names, device="cuda"):
    """For each contender what its row has beyond the point."""
    synchronize = torch.cuda.synchronize if device == "cuda" else (lambda: None)
    torch.manual_seed(0)
    with torch.device(device):
        first = point.make().bfloat16()
    x, way = (torch.randn(point.batch, point.length, point.width, device=device).bfloat16()
              for _ in range(2))
    x.requires_grad_()
    exact = None
    if point.has_float32:
        wide = copy.deepcopy(first).float()
        exact = gradients(wide, wide, x.detach().float().requires_grad_(), way.float())
        del wide
    found, steps = {name: {"rel_error": 0.0} for name in names}, {}
    for name in names:
        model = copy.deepcopy(first)
        options = compilers[name]
        begin = time.perf_counter()
        run = model if options is None else torch.compile(model, **options)
        got = gradients(model, run, x, way)
        synchronize()
        found[name]["compile_s"] = time.perf_counter() - begin
        if exact is not None:
            found[name]["rel_error"] = ((got - exact).norm() / exact.norm()).item()
        del got
        steps[name] = stepper(model, run, x, way)
        steps[name]()
        print(f"{point.text} {name}: first result after {found[name]['compile_s']:.1f} s",
              flush=True)
    us = waited_for(steps, synchronize)
    us_sustained = sustained(steps) if device == "cuda" else {}
    for name in names:
        found[name] |= {"us": us[name], "sustained_us": us_sustained.get(name, 0.0)}
        found[name] |= kernel_times(steps[name]) if device == "cuda" else {}
    return found


def add_point(point, compilers, names, baseline, keep, device="cuda"):
    """Measures a point, and gives each row to `keep`."""
    found = measure(point, compilers, names, device)
    for name in names:
        own, its = found[name], found[baseline]
        ratio = own["us"] / its["us"]
        back_to_back = own["sustained_us"] / its["sustained_us"] if its["sustained_us"] else None
        keep(suite="train", workload=point.text, m=point.batch * point.length, n=point.inner,
             k=point.width, epilogue="step", contender=name, baseline=baseline, ratio=ratio,
             ratio_sustained=back_to_back, **own)  # fmt: skip
        text = "  ".join(f"{key[:-3]} {value:.0f}" for key, value in own.items()
                         if key.endswith("_us"))  # fmt: skip
        print(f"{point.text:28} {name:12} {own['us']:9.0f} us  ratio {ratio:.3f}  sustained "
              f"{back_to_back or 0:.3f}  error {own['rel_error']:.1e}  {text}", flush=True)


def run(compilers, baseline, arguments, keep):
    """All points that are asked for."""
    names = list(dict.fromkeys([baseline, *(arguments.contenders or ["epifuse"])]))
    for point in POINTS:
        if arguments.filter in point.text:
            torch._dynamo.config.recompile_limit = 8 * len(names)
            try:
                add_point(point, compilers, names, baseline, keep, arguments.device)
            except ModuleNotFoundError as missing:  # a package that only some points need
                print(f"{point.text}: not measured: {missing}", flush=True)
            torch.compiler.reset()
            torch.cuda.empty_cache()
