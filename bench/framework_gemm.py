"""Times the CPU kernels beside PyTorch's product and loops; prints src/tune/framework_gemm.def.

    python3 bench/framework_gemm.py [--rows 128]

A row has the dtype, m, n, k and two ratios, our time over PyTorch's: with only a bias behind the
product, which PyTorch's product adds itself, and with more (the geometric mean of bias and erf
gelu, bias and residual, and silu). Medians of calls that take turns, on all threads.
"""

import argparse
import math
import statistics

import torch
import torch.nn.functional as F
from contenders import turns

from epifuse.torch import op

SIZES = [(384, 384), (1536, 384), (384, 1536), (3072, 768), (768, 3072), (4096, 4096)]
ROWS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
LARGEST = 4e9  # products of m, n and k; larger ones are as these
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def epilogues(x, w, b, r):
    """Of each: the kernel's operands and body, and the same in PyTorch."""
    return {
        "bias": ([x, w, b], "y = add h, b", lambda: torch.addmm(b, x, w)),
        "gelu": ([x, w, b], "t = add h, b\n  y = gelu_erf t",
                 lambda: F.gelu(torch.addmm(b, x, w))),
        "residual": ([x, w, b, r], "t = add h, b\n  y = add t, r",
                     lambda: torch.addmm(b, x, w) + r),
        "silu": ([x, w], "y = silu h", lambda: F.silu(torch.mm(x, w))),
    }  # fmt: skip


def text(dtype, operands, body):
    shapes = ("[M, K]", "[K, N]", "[N]", "[M, N]")
    declared = ", ".join(f"{name}: {dtype}{shape}"
                         for name, shape, _ in zip("xwbr", shapes, operands))
    return f"graph kernel({declared}) {{\n  h = matmul x, w\n  {body}\n  return y\n}}\n"


def ratio(ours, theirs):
    """The median time of the first over that of the second."""
    for run in (ours, theirs) * 3:
        run()
    us = turns({"ours": ours, "theirs": theirs}, seconds=0.15)
    return us["ours"] / us["theirs"]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="*", default=ROWS)
    rows = parser.parse_args().rows
    fused = op.load()
    for dtype, torch_dtype in DTYPES.items():
        for n, k in SIZES:
            for m in rows:
                if m * n * k > LARGEST:
                    continue
                x, w, b, r = (torch.randn(*shape).to(torch_dtype)
                              for shape in ((m, k), (n, k), (n,), (m, n)))
                ratios = []
                for operands, body, theirs in epilogues(x, w.t(), b, r).values():
                    graph = text(dtype, operands, body)
                    ratios.append(ratio(lambda: fused(operands, graph, '{"target":"cpu"}'), theirs))
                more = math.exp(statistics.mean(map(math.log, ratios[1:])))
                print(f"EPIFUSE_FRAMEWORK_GEMM({dtype:>4}, {m:4}, {n:4}, {k:4}, {ratios[0]:.2f}, "
                      f"{more:.2f})", flush=True)


if __name__ == "__main__":
    main()
