"""The forms of `bench/random_forms.py`: what a point of each draws, reads and computes.

A point is a dict of sizes and words. `draw(random)` makes one, `operands(point, tensors)` its
tensors, `program(point)` the function of them. Sizes are logarithmically uniform, most of them
multiples of 8, those of experts' columns mostly of 64.
"""

import math

import torch
import torch.nn.functional as F
from contenders import ACTIVATIONS, GATES, gate_and_up
from random_torch import DTYPES
from scaled import E4M3, LARGEST, by_blocks, by_rows, by_squares, scale_of

ALL_ACTIVATIONS = {**ACTIVATIONS, "none": lambda x: x, "relu2": lambda x: F.relu(x).square()}
MOST_WEIGHTS = 3e9  # bytes, of experts


class Tensors:
    """Random tensors of one device; the same for the same calls."""

    def __init__(self, device, dtype=torch.bfloat16):
        self.device, self.dtype = device, dtype
        self.generator = torch.Generator(device).manual_seed(1)

    def normal(self, *shape):
        made = torch.randn(*shape, device=self.device, generator=self.generator)
        return made.to(self.dtype)

    def weights(self, *shape, k):
        return self.normal(*shape) * k**-0.5

    def uniform(self, *shape):
        return torch.rand(*shape, device=self.device, generator=self.generator)

    def bytes(self, *shape):
        return torch.randint(-127, 128, shape, device=self.device, generator=self.generator,
                             dtype=torch.int8)  # fmt: skip


def size(random, least, most, unit):
    drawn = int(2 ** random.uniform(math.log2(least), math.log2(most)))
    return max(unit, drawn // unit * unit)


def sizes(random, units, least, most, flops):
    """m, n and k of a product of at most so many operations."""
    while True:
        m, n, k = (size(random, *each) for each in zip(least, most, units, strict=True))
        if 2 * m * n * k < flops:
            return {"m": m, "n": n, "k": k}


def mostly(random, usual, other, part=0.75):
    return usual if random.random() < part else other


class Gated:
    """Gates of two products, or of two halves of one, or of its columns by turns."""

    def draw(random):
        units = (1, mostly(random, 8, 1), mostly(random, 8, 1))
        return {
            **sizes(random, units, (1, 64, 64), (9000, 12000, 12000), 6e11),
            "dtype": mostly(random, "bf16", "f16", 0.67),
            "gate": random.choice(["swiglu", "swiglu", "geglu_erf", "geglu_tanh", "reglu", "glu"]),
            "layout": random.choice(["separate", "halves", "halves", "interleaved"]),
            "along": mostly(random, "k", "n", 0.67),
            "bias": random.random() < 0.3,
            "more": random.choice(["", "", "preact", "residual", "scale"]),
        }

    def operands(p, tensors):
        count = 2 if p["layout"] == "separate" else 1
        columns = 2 * p["n"] // count
        shape = (columns, p["k"]) if p["along"] == "k" else (p["k"], columns)
        weights = [tensors.weights(*shape, k=p["k"]) for _ in range(count)]
        biases = [tensors.normal(columns) if p["bias"] else None for _ in range(count)]
        more = tensors.normal(*((p["m"], p["n"]) if p["more"] == "residual" else (p["n"],)))
        return tensors.normal(p["m"], p["k"]), weights, biases, more

    def program(p):
        gate = GATES[p["gate"]]

        def run(x, weights, biases, more):
            products = [F.linear(x, w if p["along"] == "k" else w.t(), b)
                        for w, b in zip(weights, biases, strict=True)]  # fmt: skip
            y = gate(*gate_and_up(products, p["layout"]))
            if p["more"] == "residual":
                y = y + more
            elif p["more"] == "scale":
                y = y * more
            return (y, *products) if p["more"] == "preact" else y

        return run


def by_tensor(x, scale):
    return (x.float() / scale).clamp(-LARGEST, LARGEST).to(E4M3)


class Scaled:
    """Products of 8-bit floats with scales of tensors, rows or blocks, and what quantises their
    operands and results."""

    def draw(random):
        scales = random.choice(["rows", "rows", "tensor", "blocks"])
        # cuBLASLt takes scales of blocks in fours along K.
        units, least = ((1, 128, 512), 512) if scales == "blocks" else ((1, 16, 16), 128)
        return {
            **sizes(random, units, (1, 128, least), (9000, 12000, 12000), 1.2e12),
            "scales": scales,
            "act": random.choice(["none", "none", "silu", "gelu_erf", "relu", "relu2"]),
            "bias": random.random() < 0.4,
            "residual": random.random() < 0.3,
            "fast": random.random() < 0.7 and scales != "blocks",
            "result": random.choice(["bf16", "bf16", "rows", "blocks", "static"]),
            "gated": random.random() < 0.25,
            "quantised": random.random() < 0.6,
        }

    def operands(p, tensors):
        x = tensors.normal(p["m"], p["k"])
        w = tensors.weights((2 if p["gated"] else 1) * p["n"], p["k"], k=p["k"])
        static = torch.tensor(0.02, device=x.device)
        if p["scales"] == "tensor":
            of_w, of_x = (scale_of(each.float().abs().max()) for each in (w, x))
            w = by_tensor(w, of_w)
            x = by_tensor(x, of_x) if p["quantised"] else x
        else:
            w, of_w = (by_squares if p["scales"] == "blocks" else by_rows)(w)
            x, of_x = quantised(p, x) if p["quantised"] else (x, None)
        bias = tensors.normal(w.shape[0]) if p["bias"] else None
        residual = tensors.normal(p["m"], p["n"]) if p["residual"] else None
        return x, of_x, w, of_w, bias, residual, static

    def program(p):
        act = ALL_ACTIVATIONS[p["act"]]

        def run(x, of_x, w, of_w, bias, residual, static):
            if not p["quantised"]:
                by_one = p["scales"] == "tensor"
                x, of_x = (by_tensor(x, of_x), of_x) if by_one else quantised(p, x)
            y = torch._scaled_mm(x, w.t(), of_x, of_w.t(), out_dtype=torch.bfloat16,
                                 use_fast_accum=p["fast"])  # fmt: skip
            y = y if bias is None else y + bias
            if p["gated"]:
                gate, up = y.chunk(2, -1)
                y = act(gate) * up
            else:
                y = act(y)
            y = y if residual is None else y + residual
            if p["result"] == "rows":
                return by_rows(y)
            if p["result"] == "blocks" and p["n"] % 128 == 0:
                return by_blocks(y)
            return by_tensor(y, static) if p["result"] == "static" else y

        return run


def quantised(p, x):
    return (by_blocks if p["scales"] == "blocks" else by_rows)(x)


class Grouped:
    """Products of groups of rows, and what mixtures of experts have around them."""

    def draw(random):
        unit = mostly(random, 64, 8, 0.8)
        point = sizes(random, (1, unit, unit), (16, 128, 128), (16000, 4096, 4096), 4e11)
        experts = random.choice([4, 8, 16, 32, 64])
        while experts * point["n"] * point["k"] * 2 > MOST_WEIGHTS:
            experts //= 2
        return {
            **point,
            "experts": experts,
            "form": random.choice(["plain", "gate", "gate", "gather", "put", "bias"]),
            "along": mostly(random, "k", "n", 0.67),
            "act": random.choice(["silu", "gelu_erf"]),
            "skewed": random.random() < 0.3,
        }

    def operands(p, tensors):
        m, k, experts = p["m"], p["k"], p["experts"]
        columns = p["n"] * (2 if p["form"] in ("gate", "gather") else 1)
        shape = (columns, k) if p["along"] == "k" else (k, columns)
        chosen = tensors.uniform(m) ** (3 if p["skewed"] else 1) * experts
        ids = chosen.long().clamp(max=experts - 1).sort().values
        ends = torch.searchsorted(ids, torch.arange(1, experts + 1, device=ids.device))
        order = tensors.uniform(m).argsort()
        return (tensors.normal(m, k), tensors.weights(experts, *shape, k=k), ends.int(), order,
                tensors.normal(experts, columns), ids, tensors.uniform(m, 1))  # fmt: skip

    def program(p):
        act, form = ALL_ACTIVATIONS[p["act"]], p["form"]

        def run(x, w, ends, order, biases, ids, probabilities):
            x = x[order] if form == "gather" else x
            y = F.grouped_mm(x, w.mT if p["along"] == "k" else w, offs=ends)
            if form in ("gate", "gather"):
                gate, up = y.chunk(2, -1)
                return act(gate) * up
            if form == "bias":
                return act(y + biases[ids])
            if form == "put":
                place = torch.empty_like(order)
                place[order] = torch.arange(order.shape[0], device=order.device)
                return (y * probabilities.to(y.dtype))[place]
            return y

        return run


class Int8:
    """Products of int8 with scales of rows and columns."""

    def draw(random):
        return {
            **sizes(random, (1, 16, 16), (17, 128, 128), (9000, 12000, 12000), 1.2e12),
            "act": random.choice(["none", "silu", "gelu_erf", "relu"]),
            "bias": random.random() < 0.4,
            "residual": random.random() < 0.3,
            "along": mostly(random, "k", "n", 0.67),
        }

    def operands(p, tensors):
        m, n, k = p["m"], p["n"], p["k"]
        w = tensors.bytes(*((n, k) if p["along"] == "k" else (k, n)))
        bias = tensors.normal(n) if p["bias"] else None
        residual = tensors.normal(m, n) if p["residual"] else None
        of_x, of_w = tensors.uniform(m, 1) / k, tensors.uniform(n) / 64
        return tensors.bytes(m, k), w, of_x, of_w, bias, residual

    def program(p):
        act = ALL_ACTIVATIONS[p["act"]]

        def run(x, w, of_x, of_w, bias, residual):
            sums = torch._int_mm(x, w.t() if p["along"] == "k" else w)
            y = (sums.float() * of_x * of_w).to(torch.bfloat16)
            y = act(y if bias is None else y + bias)
            return y if residual is None else y + residual

        return run


class Chained:
    """Several products, or norms beside one."""

    def draw(random):
        return {
            **sizes(random, (1, 8, 8), (1, 128, 128), (9000, 8192, 8192), 3e11),
            "form": random.choice(["lora", "mlp", "norm", "qkv", "layer norm"]),
            "act": random.choice(["silu", "gelu_erf", "gelu_tanh", "relu", "relu2"]),
            "bias": random.random() < 0.4,
            "dtype": random.choice(list(DTYPES)),
            "rank": random.choice([8, 16, 64]),
        }

    def operands(p, tensors):
        m, n, k = p["m"], p["n"], p["k"]
        bias = lambda columns: tensors.normal(columns) if p["bias"] else None
        x, w, b = tensors.normal(m, k), tensors.weights(n, k, k=k), bias(n)
        if p["form"] == "lora":
            return x, w, b, tensors.weights(p["rank"], k, k=k), tensors.normal(n, p["rank"])
        if p["form"] == "mlp":
            return x, w, b, tensors.weights(k, n, k=n), bias(k)
        if p["form"] == "norm":
            return x, w, b, tensors.normal(k), tensors.normal(m, n)
        if p["form"] == "qkv":
            few = max(n // 4 // 8 * 8, 8)
            return x, w, b, tensors.weights(few, k, k=k), tensors.weights(few, k, k=k)
        return x, w, b, tensors.normal(n), tensors.normal(n)

    def program(p):
        act = ALL_ACTIVATIONS[p["act"]]
        return {
            "lora": lambda x, w, b, a, c: F.linear(x, w, b) + 2 * F.linear(F.linear(x, a), c),
            "mlp": lambda x, w, b, v, c: x + F.linear(act(F.linear(x, w, b)), v, c),
            "norm": lambda x, w, b, g, r: act(F.linear(F.rms_norm(x, g.shape, g), w, b)) + r,
            "qkv": lambda x, w, b, u, v: (F.linear(x, w, b) / 8, F.linear(x, u), F.linear(x, v)),
            "layer norm": lambda x, w, b, g, c: F.layer_norm(act(F.linear(x, w, b)), g.shape, g, c),
        }[p["form"]]


class Shared:
    """Two to four products of one operand, as queries, keys and values are: alike, or all but
    one."""

    def draw(random):
        bits = mostly(random, 16, 8)
        unit = 16 if bits == 8 else mostly(random, 8, 1, 0.9)
        units = (1, unit, 16 if bits == 8 else 8)
        point = sizes(random, units, (1, 64, 128), (9000, 8192, 8192), 2e11)
        others = random.choice([1, 2, 2, 3])
        return {
            **point,
            "bits": bits,
            "parts": [1, *(random.choice([1, 2, 4, 8]) for _ in range(others))],
            "along": "k" if bits == 8 else mostly(random, "k", "n", 0.67),
            "bias": random.random() < 0.5,
            "act": random.choice(["none", "none", "none", "silu", "gelu_tanh"]),
            "odd": random.choice(["", "", "relu", "residual"]),
            "norm": bits == 16 and random.random() < 0.3,
            "dtype": "bf16" if bits == 8 else mostly(random, "bf16", "f16"),
        }

    def operands(p, tensors):
        m, k, eight = p["m"], p["k"], p["bits"] == 8
        unit = 16 if eight else 8 if p["n"] % 8 == 0 else 1
        columns = [max(p["n"] // part // unit * unit, unit) for part in p["parts"]]
        weights = [tensors.weights(*((n, k) if p["along"] == "k" else (k, n)), k=k)
                   for n in columns]  # fmt: skip
        biases = [tensors.normal(n) if p["bias"] else None for n in columns]
        scales = [None for _ in columns]
        if eight:
            weights, scales = zip(*(by_rows(w) for w in weights), strict=True)
        residual = tensors.normal(m, columns[0])
        return tensors.normal(m, k), tensors.normal(k), weights, scales, biases, residual

    def program(p):
        act = ALL_ACTIVATIONS[p["act"]]

        def run(x, g, weights, scales, biases, residual):
            if p["norm"]:
                x = F.rms_norm(x, g.shape, g)
            if p["bits"] == 8:
                x, of_x = by_rows(x)
            ys = []
            for w, of_w, b in zip(weights, scales, biases, strict=True):
                if p["bits"] == 8:
                    y = torch._scaled_mm(x, w.t(), of_x, of_w.t(), out_dtype=torch.bfloat16)
                    ys.append(act(y if b is None else y + b))
                else:
                    ys.append(act(F.linear(x, w if p["along"] == "k" else w.t(), b)))
            if p["odd"]:
                ys[0] = F.relu(ys[0]) if p["odd"] == "relu" else ys[0] + residual
            return ys

        return run


class Trained:
    """A step forward and backward, of all operands."""

    def draw(random):
        return {
            **sizes(random, (1, 8, 8), (256, 128, 128), (16000, 8192, 4096), 2e11),
            "form": random.choice(["mlp", "gate", "norm", "linear"]),
            "act": random.choice(["silu", "gelu_erf", "gelu_tanh", "relu", "relu2"]),
            "bias": random.random() < 0.5,
            "dtype": mostly(random, "bf16", "f16", 0.67),
        }

    def operands(p, tensors):
        m, n, k = p["m"], p["n"], p["k"]
        bias = lambda columns: tensors.normal(columns) if p["bias"] else None
        x, w = tensors.normal(m, k), tensors.weights(n, k, k=k)
        if p["form"] == "gate":
            own = tensors.weights(n, k, k=k), tensors.weights(k, n, k=n), bias(k)
        elif p["form"] == "mlp":
            own = bias(n), tensors.weights(k, n, k=n), bias(k)
        else:
            own = bias(n), tensors.normal(k), None
        result = tensors.normal(m, n if p["form"] in ("norm", "linear") else k)
        leaves = [None if each is None else each.detach().requires_grad_() for each in (x, w, *own)]
        return leaves, result

    def program(p):
        act = ALL_ACTIVATIONS[p["act"]]
        forward = {
            "mlp": lambda x, w, b, v, c: x + F.linear(act(F.linear(x, w, b)), v, c),
            "gate": lambda x, w, u, v, c: x + F.linear(act(F.linear(x, w)) * F.linear(x, u), v, c),
            "norm": lambda x, w, b, g, _: act(F.linear(F.rms_norm(x, g.shape, g), w, b)),
            "linear": lambda x, w, b, *_: act(F.linear(x, w, b)),
        }
        return forward[p["form"]]


FORMS = {"gated": Gated, "scaled": Scaled, "grouped": Grouped, "int8": Int8, "chained": Chained,
         "shared": Shared, "trained": Trained}  # fmt: skip
