"""Networks that `bench/models.py` and `bench/training.py` time, with random weights."""

import torch
import torch.nn.functional as F
from torch import nn


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

    def __init__(self, width=4096, inner=14336, heads=32, kv_heads=8, has_bias=False):
        super().__init__()
        linear = lambda k, n, bias=False: nn.Linear(k, n, bias=bias)
        self.heads, self.kv_heads, self.size = heads, kv_heads, width // heads
        self.norm1, self.norm2 = RmsNorm(width), RmsNorm(width)
        self.q, self.o = linear(width, width, has_bias), linear(width, width)
        self.k, self.v = (linear(width, kv_heads * self.size, has_bias) for _ in range(2))
        self.gate, self.up = linear(width, inner), linear(width, inner)
        self.down = linear(inner, width)

    def forward(self, x, cos, sin):
        batch, length, _ = x.shape
        split = lambda y, heads: y.view(batch, length, heads, self.size).transpose(1, 2)
        y = self.norm1(x)
        q, k = split(self.q(y), self.heads), split(self.k(y), self.kv_heads)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        v = split(self.v(y), self.kv_heads)
        y = self.attend(q, k, v)
        x = x + self.o(y.transpose(1, 2).reshape(batch, length, -1))
        return x + self.mlp(self.norm2(x))

    def attend(self, q, k, v):
        is_causal = q.shape[2] > 1
        return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal, enable_gqa=True)

    def mlp(self, y):
        return self.down(F.silu(self.gate(y)) * self.up(y))


class DecodingLayer(LlamaLayer):
    """The same for one token more a row, behind those whose keys and values are kept."""

    def __init__(self, batch, kept, *sizes):
        super().__init__(*sizes)
        shape = batch, self.kv_heads, kept + 1, self.size
        self.register_buffer("keys", torch.randn(shape))
        self.register_buffer("values", torch.randn(shape))

    def attend(self, q, k, v):
        self.keys[:, :, -1:] = k
        self.values[:, :, -1:] = v
        return F.scaled_dot_product_attention(q, self.keys, self.values, enable_gqa=True)


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


def decoding(batch, *sizes, layers=4, kept=512):
    """A step of decoding: sizes are those of LlamaLayer."""
    layers = [DecodingLayer(batch, kept, *sizes) for _ in range(layers)]
    return Llama(layers, layers[0].size)


class OfStates(nn.Module):
    """A model of transformers without its embedding of tokens."""

    def __init__(self, model):
        super().__init__()
        model.embed_tokens = None
        self.model = model

    def forward(self, x):
        return self.model(inputs_embeds=x, use_cache=False).last_hidden_state


def qwen3_moe(layers=2, width=2048, inner=768, experts=64, heads=32, size=128):
    """Qwen3-MoE as transformers has it, its experts by `grouped_mm`."""
    from transformers import Qwen3MoeConfig, Qwen3MoeModel

    config = Qwen3MoeConfig(
        vocab_size=16, hidden_size=width, intermediate_size=inner, moe_intermediate_size=inner,
        num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=heads // 8,
        head_dim=size, num_experts=experts, num_experts_per_tok=8,
        experts_implementation="grouped_mm")  # fmt: skip
    return OfStates(Qwen3MoeModel(config))


def quantised_by_rows(model):
    """Its linear layers in e4m3 by torchao, a scale for each row of what they read."""
    from torchao.quantization import Float8DynamicActivationFloat8WeightConfig, PerRow, quantize_

    quantize_(model, Float8DynamicActivationFloat8WeightConfig(granularity=PerRow()))
    return model
