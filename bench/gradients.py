"""Suite `backward` of `bench/models.py`: single products of backward passes.

`us`, `ratio`, `ratio_sustained`: as of forward passes. `rel_error`: the largest of any result, to
float32. `kernels`: those of the GPU in a call. `wide_tensors`: tensors of [M, N] in float32 that
the compiled code allocates.
"""

import re
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from contenders import interleaved, sustained, turns
from torch._inductor.utils import run_and_get_code
from torch.autograd import DeviceType

aten = torch.ops.aten


def gelu_and_bias(dy, w, h):
    """What comes back through a gelu, and the gradient of the bias before it."""
    dx = aten.gelu_backward(dy @ w.t(), h)
    return dx, dx.sum(0)


def swiglu(dy, w, gate, up):
    """What comes back through SwiGLU to both of its products."""
    dy = dy @ w.t()
    return aten.silu_backward(dy * up, gate), dy * F.silu(gate)


@dataclass(frozen=True)
class Product:
    workload: str
    run: object
    fulls: int  # how many tensors of [M, N] it reads
    m: int
    n: int
    k: int

    def operands(self, device):
        random = lambda *shape: torch.randn(*shape, device=device).bfloat16()
        w = random(self.n, self.k) * self.k**-0.5
        return [random(self.m, self.k), w, *(random(self.m, self.n) for _ in range(self.fulls))]


POINTS = [
    Product("gelu+bias", gelu_and_bias, 1, 8192, 4096, 1024),
    Product("swiglu", swiglu, 2, 8192, 14336, 4096),
]


def wide_tensors(codes, shape):
    """How many tensors of a shape in float32 the code of a graph allocates."""
    made = rf"empty_strided\w*\(\({shape[0]}, {shape[1]}\), \(\d+, \d+\), torch\.float32\)"
    return sum(len(re.findall(made, code)) for code in codes)


def kernels_of(call, device):
    """How many kernels a GPU runs in a call; None on others."""
    if device != "cuda":
        return None
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        call()
        torch.cuda.synchronize()
    return sum(event.device_type == DeviceType.CUDA and not event.name.startswith("Mem")
               for event in profile.events())


def error_of(results, exact):
    return max(((y.float() - z).norm() / z.norm()).item()
               for y, z in zip(results, exact, strict=True))  # fmt: skip


def measure(point, compilers, names, device):
    """For each contender what its row has beyond the point."""
    torch.manual_seed(0)
    given = point.operands(device)
    exact = point.run(*(x.float() for x in given))
    found, calls = {}, {}
    for name in names:
        torch.compiler.reset()
        options = compilers[name]
        run = point.run if options is None else torch.compile(point.run, **options)
        results, codes = run_and_get_code(run, *given)
        calls[name] = lambda run=run: run(*given)
        found[name] = {"rel_error": error_of(results, exact),
                       "kernels": kernels_of(calls[name], device),
                       "wide_tensors": wide_tensors(codes, (point.m, point.n))}  # fmt: skip
    us, back_to_back = (interleaved(calls), sustained(calls)) if device == "cuda" else \
        (turns(calls), {})  # fmt: skip
    for name in names:
        found[name] |= {"us": us[name], "sustained_us": back_to_back.get(name)}
    return found


def run(compilers, baseline, arguments, keep):
    """All points that are asked for."""
    names = list(dict.fromkeys([baseline, *(arguments.contenders or ["epifuse"])]))
    for point in POINTS:
        if arguments.filter not in point.workload:
            continue
        with torch.no_grad():
            found = measure(point, compilers, names, arguments.device)
        its = found[baseline]
        for name, own in found.items():
            ratio, after = own["us"] / its["us"], own["sustained_us"]
            back_to_back = after and after / its["sustained_us"]
            keep(suite="backward", workload=point.workload, m=point.m, n=point.n, k=point.k,
                 epilogue=f"{point.workload} backward", contender=name, baseline=baseline,
                 ratio=ratio, ratio_sustained=back_to_back, **own)  # fmt: skip
            print(f"{point.workload:12} {name:12} {own['us']:9.1f} us  ratio {ratio:.3f}  "
                  f"sustained {back_to_back or 0:.3f}  error {own['rel_error']:.1e}  kernels "
                  f"{own['kernels']}  [M, N] in float32 {own['wide_tensors']}", flush=True)
