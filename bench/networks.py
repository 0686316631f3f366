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


class NarrowLinear(nn.Module):
    """A linear layer whose weights are kept in 8 bits, with a scale of each column of the result:
    as torchao's Int8WeightOnlyConfig and Float8WeightOnlyConfig multiply."""

    def __init__(self, linear, dtype):
        super().__init__()
        most = 127 if dtype == torch.int8 else torch.finfo(dtype).max
        w = linear.weight.float()
        scale = w.abs().amax(1, keepdim=True) / most
        q = w / scale
        self.register_buffer("weight", (q.round() if dtype == torch.int8 else q).to(dtype))
        self.register_buffer("scale", scale)
        self.bias = linear.bias

    def forward(self, x):
        if self.weight.dtype == torch.int8:
            y = F.linear(x, self.weight.to(x.dtype)) * self.scale.to(x.dtype).flatten()
            return y if self.bias is None else y + self.bias
        return F.linear(x, (self.weight.float() * self.scale).to(x.dtype), self.bias)


def with_narrow_weights(model, dtype):
    """The model with the weights of its linear layers in that dtype of 8 bits."""
    for module in list(model.modules()):
        for name, child in module.named_children():
            if isinstance(child, nn.Linear):
                setattr(module, name, NarrowLinear(child, dtype))
    return model


class DitLayer(nn.Module):
    """Of a diffusion transformer: shift, scale and gate are made of what steers it."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.steer = nn.Linear(width, 6 * width)
        self.norms = nn.ModuleList(nn.LayerNorm(width, elementwise_affine=False) for _ in range(2))

    def forward(self, x, steer):
        shift, scale, gate, *of_mlp = self.steer(F.silu(steer))[:, None].chunk(6, -1)
        y = self.norms[0](x) * (1 + scale) + shift
        q, k, v = self.qkv(y).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = x + gate * self.o(y)
        shift, scale, gate = of_mlp
        y = self.norms[1](x) * (1 + scale) + shift
        return x + gate * self.down(F.gelu(self.up(y), approximate="tanh"))


class Dit(nn.Module):
    def __init__(self, layers=2, width=1152, heads=16):
        super().__init__()
        self.layers = nn.ModuleList(DitLayer(width, heads) for _ in range(layers))

    def forward(self, x, steer):
        for layer in self.layers:
            x = layer(x, steer)
        return x


def dit():
    """At the width of DiT-XL, 256 patches; a model and what it reads."""
    return Dit(), {"x": torch.randn(16, 256, 1152), "steer": torch.randn(16, 1152)}


class MixerLayer(nn.Module):
    """Products over patches and over channels in turn."""

    def __init__(self, width, patches):
        super().__init__()
        mlp = lambda n, inner: nn.Sequential(nn.Linear(n, inner), nn.GELU(), nn.Linear(inner, n))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.over_patches, self.over_channels = mlp(patches, width // 2), mlp(width, 4 * width)

    def forward(self, x):
        x = x + self.over_patches(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
        return x + self.over_channels(self.norms[1](x))


def mixer(width=768, patches=196):
    """MLP-Mixer's base."""
    model = nn.Sequential(*(MixerLayer(width, patches) for _ in range(2)))
    return model, {"input": torch.randn(32, patches, width)}


class UnetBlock(nn.Module):
    """Of a latent diffusion model: attention over pixels, then over a text, and a gated MLP."""

    def __init__(self, width, of_text, heads):
        super().__init__()
        self.heads = heads
        linear = lambda k: nn.Linear(k, width, bias=False)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.own = nn.ModuleList(linear(width) for _ in range(3))
        self.cross = nn.ModuleList(linear(k) for k in (width, of_text, of_text))
        self.outs = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.gate, self.down = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)
        self.first, self.last = nn.Conv2d(width, width, 1), nn.Conv2d(width, width, 1)

    def attend(self, layers, x, y):
        split = lambda z: z.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        q, k, v = (split(layer(z)) for layer, z in zip(layers, (x, y, y), strict=True))
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)

    def forward(self, image, text):
        x = self.first(image).flatten(2).transpose(1, 2)
        y = self.norms[0](x)
        x = x + self.outs[0](self.attend(self.own, y, y))
        x = x + self.outs[1](self.attend(self.cross, self.norms[1](x), text))
        y, gate = self.gate(self.norms[2](x)).chunk(2, -1)
        x = x + self.down(y * F.gelu(gate))
        return image + self.last(x.transpose(1, 2).reshape(image.shape))


def unet_block(width=640, of_text=768):
    """Of Stable Diffusion, at 32 x 32 pixels."""
    given = {"image": torch.randn(4, width, 32, 32), "text": torch.randn(4, 77, of_text)}
    return UnetBlock(width, of_text, heads=10), given
