"""Layers of well-known models, small, as their training steps have them."""

import torch
from torch import nn
from torch.nn import functional as F

WIDTH, INNER, HEADS = 64, 128, 4


def linear(k, n, bias=True):
    return nn.Linear(k, n, bias=bias)


def attention(q, k, v, heads):
    """Of [B, S, N] tensors, which are split into heads and joined again."""
    split = lambda y: y.unflatten(-1, (heads, -1)).transpose(1, 2)
    y = F.scaled_dot_product_attention(split(q), split(k), split(v), is_causal=True)
    return y.transpose(1, 2).flatten(-2)


class Bert(nn.Module):
    """gelu, norms behind the residuals, dropout."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.q, self.k, self.v, self.o = (linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = linear(WIDTH, INNER), linear(INNER, WIDTH)
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        y = self.o(attention(self.q(x), self.k(x), self.v(x), HEADS))
        x = self.norm1(x + self.dropout(y))
        return self.norm2(x + self.dropout(self.down(F.gelu(self.up(x)))))


class Vit(Bert):
    """The same with norms before the products."""

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.o(attention(self.q(y), self.k(y), self.v(y), HEADS))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Esm(Vit):
    """The same with queries that are scaled as heads."""

    def forward(self, x):
        y = self.norm1(x)
        heads = self.q(y).unflatten(-1, (HEADS, -1)).transpose(1, 2)
        q = (heads * (WIDTH // HEADS) ** -0.5).transpose(1, 2).flatten(-2)
        x = x + self.o(attention(q, self.k(y), self.v(y), HEADS))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class RmsNorm(nn.Module):
    def __init__(self, width=WIDTH):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        wide = x if x.dtype == torch.float64 else x.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)
        return self.weight * wide.to(x.dtype)


def rotated(x, heads):
    """Rotary positions."""
    x = x.unflatten(-1, (heads, -1))
    half = x.shape[-1] // 2
    place = torch.arange(x.shape[1], device=x.device)[:, None, None] / 8
    angle = torch.cat((place, place * 0.5), -1).repeat_interleave(half, -1)
    turned = torch.cat((-x[..., half:], x[..., :half]), -1)
    return (x * angle.cos().to(x.dtype) + turned * angle.sin().to(x.dtype)).flatten(-2)


class Llama(nn.Module):
    """SwiGLU, rotary positions, no biases."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = RmsNorm(), RmsNorm()
        self.q, self.k, self.v, self.o = (linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.gate, self.up = (linear(WIDTH, INNER, bias=False) for _ in range(2))
        self.down = linear(INNER, WIDTH, bias=False)

    def forward(self, x):
        y = self.norm1(x)
        q, k = rotated(self.q(y), HEADS), rotated(self.k(y), HEADS)
        x = x + self.o(attention(q, k, self.v(y), HEADS))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Autocast(nn.Module):
    """A layer in float32 whose products are bf16."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        with torch.autocast(x.device.type, torch.bfloat16, enabled=x.dtype != torch.float64):
            return self.layer(x)
