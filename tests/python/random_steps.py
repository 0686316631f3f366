"""What random programs (random_programs.py) are made of: each method draws a step."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional as F

SIZES, ODD_SIZES = (16, 24, 32, 48), (1, 7, 17, 33, 40)
E4M3, INT8, FLOAT64 = torch.float8_e4m3fn, torch.int8, torch.float64
MOST_OF_E4M3, MOST_OF_INT8, STATIC_SCALE = 448, 127, 0.02
ACTIVATIONS = (
    F.relu, F.silu, F.gelu, lambda x: F.gelu(x, approximate="tanh"), torch.tanh, torch.sigmoid,
    torch.neg, torch.abs, lambda x: F.relu(x).square(), lambda x: x * 0.125, lambda x: x + 1,
    lambda x: x.clamp(-1, 1), F.softplus, lambda x: torch.where(x > 0, x, x * 0.1))  # fmt: skip
NORMS = (
    lambda x: x.softmax(-1), lambda x: F.layer_norm(x, x.shape[-1:]),
    lambda x: F.rms_norm(x, x.shape[-1:]), lambda x: x / (x.abs().amax(-1, keepdim=True) + 1),
    lambda x: x / (x.abs().amax() + 1), lambda x: x - x.mean(0, keepdim=True),
    lambda x: x * x.mean(-1, keepdim=True), lambda x: x.cumsum(-1) * 0.1,
    lambda x: to(to(x, torch.float32).softmax(-1), x.dtype))  # fmt: skip
HALVES = (
    lambda x: x.chunk(2, -1)[0], lambda x: x.chunk(2, -1)[1], lambda x: x[..., ::2],
    lambda x: x[..., 1::2], lambda x: F.silu(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1])  # fmt: skip
HALVES_OF_ROWS = (
    lambda x: x[..., : x.shape[-2] // 2, :], lambda x: x[..., x.shape[-2] // 2 :, :],
    lambda x: x[..., ::2, :])  # fmt: skip
BINARY = (torch.add, torch.mul, torch.sub, torch.maximum)
REDUCTIONS = (torch.sum, torch.mean, torch.amax)


def to(x: Any, dtype: torch.dtype) -> Any:
    """In that dtype, but where the program is computed in float64."""
    return x if x.dtype == FLOAT64 else x.to(dtype)


@dataclass(frozen=True, eq=False)
class Tensor:
    """An input, or what a step makes of others."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    rows: int = 0  # of what an input of indices looks up
    step: Callable[..., Any] | None = None
    operands: tuple[Tensor, ...] = ()


def is_matrix(tensor: Tensor) -> bool:
    return len(tensor.shape) == 2


class Drawn:
    """What a program has so far."""

    def __init__(self, seed: int, tokens: int = 0) -> None:
        self.random = random.Random(seed)
        self.tokens = tokens
        self.dtype = self.random.choice([torch.bfloat16] * 4 + [torch.float16])
        sizes = ODD_SIZES if self.random.random() < 0.15 and not tokens else SIZES
        self.sizes = self.random.sample(sizes, 2) if self.random.random() < 0.5 else sizes
        self.inputs: list[Tensor] = []
        self.made: list[Tensor] = []
        self.multiplied: Tensor | None = None

    def size(self) -> int:
        return self.random.choice(self.sizes)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def input(self, *shape: int, dtype: torch.dtype | None = None, rows: int = 0) -> Tensor:
        self.inputs.append(Tensor(shape, dtype or self.dtype, rows))
        return self.inputs[-1]

    def make(self, step: Callable[..., Any], shape: tuple[int, ...], *operands: Tensor,
             dtype: torch.dtype | None = None) -> None:  # fmt: skip
        dtype = dtype or operands[0].dtype
        self.made.append(Tensor(shape, dtype, step=step, operands=operands))

    def any(self, fits: Callable[[Tensor], bool] = lambda tensor: True) -> Tensor | None:
        """The latest one half of the time; None: there is none."""
        those = [tensor for tensor in self.made if fits(tensor)]
        if not those:
            return None
        return those[-1] if self.chance(0.5) else self.random.choice(those)

    def matrix(self, fits: Callable[[Tensor], bool] = lambda tensor: True) -> Tensor | None:
        return self.any(lambda tensor: is_matrix(tensor) and fits(tensor))


class Products(Drawn):
    def product(self) -> None:
        """Often of what was multiplied before, sometimes by what was made."""
        a = self.multiplied if self.chance(0.45) else None
        a = a or self.matrix(lambda tensor: tensor.dtype == self.dtype)
        if a is None:
            return
        self.multiplied = a
        turns, by_rows = self.chance(0.12), self.chance(0.7)
        m, k = a.shape[::-1] if turns else a.shape
        b = None
        if self.chance(0.25):
            b = self.matrix(lambda y: y.dtype == self.dtype and k == y.shape[by_rows])
        n = self.size() if b is None else b.shape[not by_rows]
        b = b or (self.input(n, k) if by_rows else self.input(k, n))

        def step(x: Any, w: Any, *bias: Any) -> Any:
            x, w = x.t() if turns else x, w.t() if by_rows else w
            return torch.addmm(bias[0][0], x, w) if bias else x @ w

        bias = (self.input(1, n),) if self.chance(0.4) else ()
        self.make(step, (m, n), a, b, *bias)

    def several(self) -> Tensor | None:
        """Matrices that are multiplied."""
        return self.any(lambda x: not is_matrix(x) and x.dtype == self.dtype)

    def batched(self) -> None:
        """By as many others, by one, or by one for each head."""
        x = self.several()
        if x is None:
            return
        (*lead, m, k), by_rows = x.shape, self.chance(0.5)

        def fits(y: Tensor) -> bool:
            return (y.dtype == self.dtype and y.shape[:-2] == tuple(lead) and len(y.shape) > 2
                    and y.shape[-1 if by_rows else -2] == k)  # fmt: skip

        y = self.any(fits) if self.chance(0.6) else None
        if y is None:
            leads = (lead, lead, [1] * len(lead), [1, *lead[1:]], lead[1:])
            n = self.size()
            y = self.input(*self.random.choice(leads), *((n, k) if by_rows else (k, n)))
        n = y.shape[-2 if by_rows else -1]
        c = ()
        if len(lead) == 1 and y.shape[:-2] == (lead[0],) and not self.tokens and self.chance(0.3):
            c = (self.input(self.random.choice([1, lead[0]]), self.random.choice([1, m]), n),)

        in_float32 = self.random.choice(["both", "softmax", *[""] * 4]) if not c else ""

        def step(x: Any, y: Any, *c: Any) -> Any:
            y, dtype = y.mT if by_rows else y, x.dtype
            if in_float32:  # as PyTorch's attention without a fused kernel
                x, y = to(x, torch.float32), to(y, torch.float32) * 0.5
                return to((torch.softmax(x, -1) if in_float32 == "softmax" else x) @ y, dtype)
            return torch.baddbmm(c[0], x, y) if c else x @ y

        self.make(step, (*lead, m, n), x, y, *c)

    def linear(self) -> None:
        x = self.several()
        if x is None:
            return
        n = self.size()
        given = [self.input(n, x.shape[-1])] + [self.input(n)] * self.chance(0.5)
        sums = len(given) == 1 and self.chance(0.3)
        step = (lambda x, w: torch.einsum("...k,nk->...n", x, w)) if sums else F.linear
        self.make(step, (*x.shape[:-1], n), x, *given)

    def attention(self) -> None:
        x = self.any(lambda x: len(x.shape) == 4 and x.dtype == self.dtype)
        if x is not None:
            y, v = (self.any(lambda y: y.shape == x.shape and y.dtype == x.dtype)
                    for _ in range(2))  # fmt: skip
            mask = self.input(1, 1, x.shape[2], x.shape[2])
            self.make(lambda x, y, v, mask: torch.softmax(x @ y.mT * 0.3 + mask, -1) @ v, x.shape,
                      x, y, v, mask)

    def experts(self) -> None:
        """Groups of rows, some of them empty."""
        x = self.matrix(lambda x: x.dtype == torch.bfloat16 == self.dtype and x.shape[1] % 8 == 0)
        if x is None or self.tokens:
            return
        (m, k), groups, n, by_rows = x.shape, self.random.choice([2, 3]), 128, self.chance(0.5)
        ends = sorted(self.random.randint(0, m) for _ in range(groups - 1)) + [m]

        def step(x: Any, w: Any) -> Any:
            w = w.mT if by_rows else w
            if x.dtype != FLOAT64:
                at = torch.tensor(ends, dtype=torch.int32, device=x.device)
                return F.grouped_mm(x.contiguous(), w, offs=at)  # as CUDA has it
            starts = [0, *ends]
            return torch.cat([x[first:end] @ each for first, end, each in zip(starts, ends, w)])

        w = self.input(groups, *((n, k) if by_rows else (k, n)))
        self.make(step, (m, n), x, w)

    def scaled(self) -> None:
        """By 8-bit floats, with scales of rows or of tensors."""
        x = self.matrix(lambda x: x.shape[1] % 16 == 0)
        if x is None:
            return
        (m, k), n = x.shape, self.random.choice((16, 32, 48))
        kind, fast = self.random.choice(["rows", "tensor", "static"]), self.chance(0.5)

        def step(x: Any, w: Any, by: Any) -> Any:
            by_rows = kind == "rows"
            most = x.abs().amax(-1, keepdim=True) if by_rows else x.abs().amax()
            scale = to(most.clamp_min(1e-12) / MOST_OF_E4M3, torch.float32)
            if kind == "static":
                scale = torch.full_like(scale, STATIC_SCALE)
            by = by.abs() + 0.1 if by_rows else by.abs().amax() + 0.1
            q = (to(x, torch.float32) / scale).clamp(-MOST_OF_E4M3, MOST_OF_E4M3)
            if x.dtype == FLOAT64:
                return q @ w.t() * scale * by
            return torch._scaled_mm(q.to(E4M3), w.t(), scale, by, out_dtype=torch.bfloat16,
                                    use_fast_accum=fast)

        self.make(step, (m, n), x, self.input(n, k, dtype=E4M3),
                  self.input(1, n, dtype=torch.float32), dtype=torch.bfloat16)

    def narrow_weights(self) -> None:
        """Kept in 8 bits, and converted to multiply."""
        x = self.matrix()
        if x is None:
            return
        (m, k), n = x.shape, self.random.choice((8, 24, 33))
        dtype = self.random.choice((INT8, E4M3))
        is_scaled_first, by_columns = self.chance(0.5), self.chance(0.7)

        def step(x: Any, w: Any, by: Any) -> Any:
            by = (by if by_columns else by[:1]) * 0.02
            if is_scaled_first:
                return x @ to(to(w, torch.float32) * by, x.dtype).t()
            return x @ to(w, x.dtype).t() * to(by.view(-1), x.dtype)

        self.make(step, (m, n), x, self.input(n, k, dtype=dtype),
                  self.input(n, 1, dtype=torch.float32), dtype=x.dtype)

    def of_integers(self) -> None:
        x = self.matrix(lambda x: x.shape[1] % 8 == 0 and x.shape[0] > 16)
        if x is None:
            return
        (m, k), n = x.shape, self.random.choice((16, 24, 48))

        def step(x: Any, w: Any, by: Any) -> Any:
            scale = x.abs().amax(-1, keepdim=True).clamp_min(1e-5) / MOST_OF_INT8
            if x.dtype == FLOAT64:
                return x / scale @ w.double().t() * scale * by * 0.01
            q = (x.float() / scale.float()).round().clamp(-MOST_OF_INT8, MOST_OF_INT8).to(INT8)
            return (torch._int_mm(q, w.t()).float() * scale.float() * by * 0.01).to(self.dtype)

        self.make(step, (m, n), x, self.input(n, k, dtype=INT8),
                  self.input(n, dtype=torch.float32), dtype=self.dtype)


class Elementwise(Drawn):
    def unary(self) -> None:
        x = self.any()
        self.make(self.random.choice(ACTIVATIONS), x.shape, x)

    def norm(self) -> None:
        x = self.any()
        self.make(self.random.choice(NORMS), x.shape, x)

    def affine(self) -> None:
        x = self.any()
        given = [self.input(x.shape[-1], dtype=x.dtype) for _ in range(self.random.choice([1, 2]))]
        norm = F.layer_norm if len(given) == 2 else F.rms_norm
        self.make(lambda x, *of: norm(x, x.shape[-1:], *of), x.shape, x, *given)

    def binary(self) -> None:
        x = self.any()

        def fits(y: Tensor) -> bool:
            sizes = zip(x.shape[::-1], y.shape[::-1])
            return len(y.shape) <= len(x.shape) and all(b in (a, 1) for a, b in sizes)

        y = self.any(fits)
        pair = (x, y) if self.chance(0.7) else (y, x)
        self.make(self.random.choice(BINARY), x.shape, *pair,
                  dtype=torch.promote_types(x.dtype, y.dtype))  # fmt: skip

    def broadcast(self) -> None:
        x, dtype = self.any(), self.random.choice([self.dtype, torch.float32])
        one = [1] * len(x.shape)
        shape = self.random.choice([(*one[1:], x.shape[-1]), (*x.shape[:-1], 1), (x.shape[-1],),
                                    (1,), (x.shape[0], *one[1:])])  # fmt: skip
        self.make(self.random.choice(BINARY[:2]), x.shape, x, self.input(*shape, dtype=dtype),
                  dtype=torch.promote_types(x.dtype, dtype))  # fmt: skip

    def cast(self) -> None:
        x, dtype = self.any(), self.random.choice([self.dtype, torch.float32])
        self.make(lambda x: to(x, dtype), x.shape, x, dtype=dtype)

    def masked(self) -> None:
        x = self.any()
        mask = self.input(*x.shape[-2:])
        self.make(lambda x, mask: x.masked_fill(mask > 0, -1.0), x.shape, x, mask)

    def summed(self) -> None:
        x, reduce = self.any(), self.random.choice(REDUCTIONS)
        dim = self.random.choice([0, -1, -2])
        shape = list(x.shape)
        shape[dim] = 1
        self.make(lambda x: reduce(x, dim, keepdim=True) * 0.1, tuple(shape), x)


class Views(Drawn):
    def half(self) -> None:
        """Of the columns, or a gate of both."""
        x = self.any(lambda x: x.shape[-1] % 16 == 0)
        if x is not None:
            self.make(self.random.choice(HALVES), (*x.shape[:-1], x.shape[-1] // 2), x)

    def half_of_rows(self) -> None:
        x = self.any(lambda x: x.shape[-2] % 2 == 0)
        if x is not None:
            shape = (*x.shape[:-2], x.shape[-2] // 2, x.shape[-1])
            self.make(self.random.choice(HALVES_OF_ROWS), shape, x)

    def joined(self) -> None:
        x = self.any()
        y = self.any(lambda y: y.shape[:-1] == x.shape[:-1] and y.dtype == x.dtype)
        shape = (*x.shape[:-1], x.shape[-1] + y.shape[-1])
        self.make(lambda x, y: torch.cat((x, y), -1), shape, x, y)

    def stacked(self) -> None:
        x = self.matrix()
        if x is not None:
            y = self.matrix(lambda y: y.shape == x.shape and y.dtype == x.dtype)
            self.make(lambda x, y: torch.stack((x, y)), (2, *x.shape), x, y)

    def repeated(self) -> None:
        x, times = self.matrix(), self.random.choice([2, 3])
        if x is not None:
            self.make(lambda x: x[None].expand(times, *x.shape), (times, *x.shape), x)

    def turned(self) -> None:
        x = self.any()
        order = list(range(len(x.shape)))
        self.random.shuffle(order)
        self.make(lambda x: x.permute(order), tuple(x.shape[dim] for dim in order), x)

    def padded(self) -> None:
        x = self.any()
        self.make(lambda x: F.pad(x, (0, 8)), (*x.shape[:-1], x.shape[-1] + 8), x)

    def reshaped(self) -> None:
        x = self.matrix(lambda x: x.shape[1] % 8 == 0)
        if x is not None:
            turns = (lambda x: x.transpose(0, 1)) if self.chance(0.5) else lambda x: x
            m, k = x.shape
            self.make(lambda x: turns(x.reshape(x.shape[0], x.shape[1] // 8, 8)).reshape(-1, 8),
                      (m * k // 8, 8), x)  # fmt: skip

    def heads(self) -> None:
        """Matrices of a matrix: of its rows, or of rows and heads."""
        x = self.matrix(lambda x: x.shape[1] % 16 == 0)
        if x is None:
            return
        m, n = x.shape
        b = self.random.choice([b for b in (1, 2, 3, 4) if m % b == 0])
        h = self.random.choice([2, n // 8])
        if self.chance(0.3):
            self.make(lambda x: x.reshape(b, x.shape[0] // b, n), (b, m // b, n), x)
            return
        self.make(lambda x: x.reshape(b, x.shape[0] // b, h, x.shape[1] // h).transpose(1, 2),
                  (b, h, m // b, n // h), x)

    def merged(self) -> None:
        x = self.any(lambda x: not is_matrix(x))
        if x is None:
            return
        if len(x.shape) == 3:
            self.make(lambda x: x.flatten(0, 1), (x.shape[0] * x.shape[1], x.shape[2]), x)
            return
        b, h, s, d = x.shape
        self.make(lambda x: x.transpose(1, 2).flatten(2).flatten(0, 1), (b * s, h * d), x)

    def taken(self) -> None:
        x = self.matrix()
        if x is not None:
            index = self.input(x.shape[0], 1, dtype=torch.int64, rows=x.shape[0])
            self.make(lambda x, index: x[index[:, 0]], x.shape, x, index)

    def put(self) -> None:
        x = self.matrix()
        if x is not None:
            index = self.input(x.shape[0], 1, dtype=torch.int64, rows=x.shape[0])
            self.make(lambda x, index: torch.zeros_like(x).index_add(0, index[:, 0], x), x.shape,
                      x, index)
