"""Suite `scaled` of `bench/models.py`: products of 8-bit floats with scales, and MLPs of them.

All calls are CUDA graphs. `baseline` is `scaled_mm`: the bare products by `torch._scaled_mm`, of an
MLP both of them (gate and up as one) without what quantises their operands. `rows`: a scale for
each row of both operands. `blocks`: one for 1x128 elements of the first and for 128x128 of the
second. `few rows` are over PyTorch's product with one scale a tensor.
`promoted`: sums that are promoted to float32, PyTorch's without fast accumulation. An MLP is that
of Llama 3 8B and quantises what its products read. `us`, `ratio`, `ratio_sustained`: as of forward
passes. `rel_error`: to the same program by eager PyTorch.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from contenders import captured, interleaved, sustained, turns

E4M3, LARGEST, BLOCK = torch.float8_e4m3fn, 448.0, 128
BASELINE = "scaled_mm"


def scale_of(largest):
    return (largest / LARGEST).clamp(min=1e-12)


def by_rows(x):
    """Values in 8 bits, and a scale [rows, 1]."""
    scale = scale_of(x.float().abs().amax(-1, keepdim=True))
    return (x.float() / scale).clamp(-LARGEST, LARGEST).to(E4M3), scale


def by_blocks(x):
    """Values in 8 bits, and a scale for each 128 columns of a row, which lie as columns."""
    blocks = x.float().unflatten(-1, (-1, BLOCK))
    scale = scale_of(blocks.abs().amax(-1, keepdim=True))
    q = (blocks / scale).clamp(-LARGEST, LARGEST).to(E4M3).flatten(-2)
    return q, scale.squeeze(-1).t().contiguous().t()


def by_squares(w):
    """Values in 8 bits, and a scale for each 128 x 128 of them."""
    squares = w.float().unflatten(0, (-1, BLOCK)).unflatten(-1, (-1, BLOCK))
    scale = scale_of(squares.abs().amax((1, 3), keepdim=True))
    q = (squares / scale).clamp(-LARGEST, LARGEST).to(E4M3)
    return q.flatten(2).flatten(0, 1), scale.squeeze(3).squeeze(1)


def product(x, sx, w, sw, fast=True):
    """x [M, K] by w [N, K] in bf16. PyTorch has no fast sums of products with scales of blocks."""
    fast = fast and sx.shape[1:] in ((), (1,))
    return torch._scaled_mm(x, w.t(), sx, sw.t(), out_dtype=torch.bfloat16, use_fast_accum=fast)


def promoted(x, sx, w, sw):
    return product(x, sx, w, sw, fast=False)


def relu(x, sx, w, sw):
    return F.relu(promoted(x, sx, w, sw))


def bare(x, sx, w, sw, *_):
    return product(x, sx, w, sw)


def bare_by_tensors(x, sx, w, sw):
    one = torch.ones((), device=x.device)
    return lambda: product(x, one, w, one)


def silu(x, sx, w, sw, b):
    return F.silu(product(x, sx, w, sw) + b)


def gelu(x, sx, w, sw, b):
    return F.gelu(product(x, sx, w, sw) + b)


def swiglu(x, sx, w, sw):
    """Gate and up are halves of w."""
    (gate, up), (of_gate, of_up) = w.chunk(2), sw.chunk(2)
    return F.silu(product(x, sx, gate, of_gate)) * product(x, sx, up, of_up)


def swiglu_in_blocks(x, sx, w, sw):
    return by_blocks(swiglu(x, sx, w, sw))


def mlp_by(quantise):
    def mlp(x, w, sw, down, of_down):
        h = swiglu(*quantise(x), w, sw)
        return product(*quantise(h), down, of_down)

    return mlp


@dataclass(frozen=True)
class Point:
    workload: str
    epilogue: str
    m: int
    n: int
    k: int
    run: object
    bare: object = bare
    inner: int = 0  # of an MLP, whose n and k are its width
    contenders: tuple = ("epifuse",)

    @property
    def is_by_blocks(self):
        return self.workload.endswith("blocks")

    def operands(self, device):
        """Quantised, but for what an MLP reads; a bias where the program reads one."""
        random = lambda *shape: torch.randn(*shape, device=device).bfloat16()
        weights = lambda n, k: (by_squares if self.is_by_blocks else by_rows)(random(n, k) / k**0.5)
        if self.inner:
            return [random(self.m, self.k), *weights(2 * self.inner, self.k),
                    *weights(self.n, self.inner)]  # fmt: skip
        gates = 2 if self.epilogue.startswith("swiglu") else 1
        given = [*self.quantise(random(self.m, self.k)), *weights(gates * self.n, self.k)]
        return [*given, random(self.n)] if "bias" in self.epilogue else given

    def quantise(self, x):
        return (by_blocks if self.is_by_blocks else by_rows)(x)

    def baseline(self, given):
        """A call of the bare products, on operands that are there."""
        if not self.inner:
            call = self.bare(*given)
            return call if callable(call) else lambda: self.bare(*given)
        x, w, sw, down, of_down = given
        q, sx = self.quantise(x)
        h, sh = self.quantise(swiglu(q, sx, w, sw))
        return lambda: (product(q, sx, w, sw), product(h, sh, down, of_down))


SIZES = [(4096, 4096, 4096), (8192, 8192, 8192), (8192, 14336, 4096), (8192, 4096, 14336)]
SIZES_OF_BLOCKS = [*SIZES[:3], (4096, 7168, 16384)]
IDENTITY = "identity"
ALL = ("epifuse", "inductor")


def mlp(form, tokens):
    quantise = by_blocks if form == "blocks" else by_rows
    return Point(f"llama3_8b_mlp {form}", "mlp", tokens, 4096, 4096, mlp_by(quantise), inner=14336,
                 contenders=ALL)  # fmt: skip


POINTS = [
    *(Point("rows", IDENTITY, *size, product) for size in SIZES),
    *(Point("rows", "bias+silu", *size, silu) for size in SIZES),
    *(Point("rows", "bias+gelu_erf", *size, gelu) for size in SIZES),
    *(Point("rows promoted", IDENTITY, *size, promoted, promoted) for size in SIZES[:2]),
    Point("few rows", IDENTITY, 16, 14336, 4096, product, bare_by_tensors),
    Point("few rows", IDENTITY, 16, 4096, 14336, product, bare_by_tensors),
    *(Point("blocks", IDENTITY, *size, product) for size in SIZES_OF_BLOCKS),
    *(Point("blocks", "relu", *size, relu) for size in SIZES_OF_BLOCKS),
    Point("blocks", "swiglu+blocks", 8192, 14336, 4096, swiglu_in_blocks),
    *(mlp(form, tokens) for form in ("rows", "blocks") for tokens in (8192, 2048, 64)),
]


def compiled(point, options):
    """The program by a compiler; a bare product is ours too, where most are left to the vendor."""
    if options and point.epilogue == IDENTITY:
        options = {**options, "options": {"epifuse.only_faster": False}}
    return torch.compile(point.run, **options)


def widened(result):
    """A quantised result as the values that it stands for."""
    if not isinstance(result, tuple):
        return result.float()
    q, scale = result
    return (q.float().unflatten(-1, (-1, BLOCK)) * scale.unsqueeze(-1)).flatten(-2)


def measure(point, compilers, device):
    """Microseconds, those back to back and the error of each contender."""
    torch.manual_seed(0)
    given = point.operands(device)
    exact = widened(point.run(*given))
    errors, calls = {BASELINE: 0.0}, {BASELINE: point.baseline(given)}
    for name in point.contenders:
        torch.compiler.reset()
        run = compiled(point, compilers[name])
        errors[name] = ((widened(run(*given)) - exact).norm() / exact.norm()).item()
        calls[name] = lambda run=run: run(*given)
    if device != "cuda":
        return turns(calls, 0.1), {}, errors
    calls = {name: captured(call) for name, call in calls.items()}
    return interleaved(calls), sustained(calls), errors


def run(compilers, _, arguments, keep):
    """All points that are asked for."""
    for point in POINTS:
        if arguments.filter not in f"{point.workload} {point.epilogue} {point.m}":
            continue
        with torch.no_grad():
            us, back_to_back, errors = measure(point, compilers, arguments.device)
        for name, took in us.items():
            ratio = took / us[BASELINE]
            after = back_to_back.get(name, 0.0) / back_to_back.get(BASELINE, 1.0)
            keep(suite="scaled", workload=point.workload, m=point.m, n=point.inner or point.n,
                 k=point.k, dtype="e4m3", epilogue=point.epilogue, contender=name,
                 baseline=BASELINE, us=took, ratio=ratio, ratio_sustained=after,
                 rel_error=errors[name])  # fmt: skip
            print(f"{point.workload:22} {point.m:5}x{point.inner or point.n:5}x{point.k:5} "
                  f"{point.epilogue:14} {name:10} {took:9.1f} us  ratio {ratio:.3f}  sustained "
                  f"{after:.3f}  error {errors[name]:.1e}", flush=True)
        torch.cuda.empty_cache()
