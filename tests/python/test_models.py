"""Models of Hugging Face, small and with random weights: results, kernels, what was left out."""

import pytest
import torch
from close import assert_no_further_than_eager
from torch import nn

import epifuse.torch

pytestmark = pytest.mark.usefixtures("fresh")

transformers = pytest.importorskip("transformers")

_SMALL = {"hidden_size": 64, "intermediate_size": 160, "num_attention_heads": 4,
          "num_hidden_layers": 2, "vocab_size": 128}


def _llama():
    config = transformers.LlamaConfig(**_SMALL, num_key_value_heads=2)
    return transformers.LlamaModel(config), {"use_cache": False}


def _qwen():
    config = transformers.Qwen2Config(**_SMALL, num_key_value_heads=2)
    return transformers.Qwen2Model(config), {"use_cache": False}


def _bert():
    return transformers.BertModel(transformers.BertConfig(**_SMALL)), {}


def _gpt2():
    config = transformers.GPT2Config(n_embd=64, n_layer=2, n_head=4, vocab_size=128)
    return transformers.GPT2Model(config), {"use_cache": False}


def _mixtral():
    config = transformers.MixtralConfig(**_SMALL, num_key_value_heads=2, num_local_experts=4,
                                        experts_implementation="eager")
    return transformers.MixtralModel(config), {"use_cache": False}


class _Pixels(nn.Module):
    """A ViT that makes its pixels from the same integers that the others take as tokens."""

    def __init__(self):
        super().__init__()
        small = {key: value for key, value in _SMALL.items() if key != "vocab_size"}
        config = transformers.ViTConfig(**small, image_size=32, patch_size=8)
        self.vit = transformers.ViTModel(config, add_pooling_layer=False)

    def forward(self, ids):
        pixels = ids.to(self.vit.dtype)[:, :1, None, None] / 128
        return self.vit((pixels * torch.ones_like(pixels).expand(-1, 3, 32, 32)).sin())


def _vit():
    return _Pixels(), {}


# Epilogues of one layer, in order; GPT-2's and Mixtral's are asserted as they come.
_LAYERS = {
    "llama": (_llama, ["residual", "swiglu", "residual"]),
    "qwen": (_qwen, ["bias"] * 3 + ["residual", "swiglu", "residual"]),
    "bert": (_bert, ["bias"] * 3 + ["bias+residual", "bias+gelu_erf", "bias+residual"]),
    "vit": (_vit, ["bias"] * 3 + ["bias+residual", "bias+gelu_erf", "bias+residual"]),
    "gpt2": (_gpt2, ["bias", "bias+residual", "bias+gelu_tanh", "bias+residual"]),
    "mixtral": (_mixtral, ["residual"]),  # its experts break the graph: one layer is seen
}


@pytest.mark.parametrize("name", _LAYERS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_model(name, dtype):
    if name == "mixtral" and dtype == torch.float32:
        pytest.skip("slow to compile, and the same graph")
    make, layer = _LAYERS[name]
    model, kwargs = make()
    model = model.to(dtype).eval()
    ids = torch.randint(0, 128, (2, 16))
    with torch.no_grad():
        report = epifuse.torch.explain(model, ids, **kwargs)
    num_layers = 1 if name == "mixtral" else 2
    epilogues = [kernel.epilogue for kernel in report.kernels]
    for epilogue in set(layer):
        assert epilogues.count(epilogue) >= num_layers * layer.count(epilogue), str(report)
    compiled = torch.compile(model, backend=epifuse.torch.backend)
    assert_no_further_than_eager(model, compiled, (ids,), kwargs, slack=1.25)


# Mixtures of experts as groups of rows: beside _SMALL, and the two kernels of a layer.
_EXPERTS = {
    "Mixtral": ({"num_local_experts": 4}, ["swiglu", "col_scale"]),
    "GptOss": ({"num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 16},
               ["bias+swiglu_oai", "bias+col_scale"]),
    "Qwen3Moe": ({"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32},
                 ["swiglu", "col_scale"]),
}  # fmt: skip


@pytest.mark.parametrize("name", _EXPERTS)
def test_experts_are_two_kernels(name):
    more, layer = _EXPERTS[name]
    config = getattr(transformers, f"{name}Config")(
        **_SMALL, **more, num_key_value_heads=2, experts_implementation="grouped_mm")
    model = getattr(transformers, f"{name}Model")(config).bfloat16().eval()
    ids = torch.randint(0, 128, (2, 16))
    with torch.no_grad():
        report = epifuse.torch.explain(model, ids, use_cache=False, only_faster=False)
    of_groups = [kernel for kernel in report.kernels if "grouped" in kernel.graph]
    assert [kernel.epilogue for kernel in of_groups] == 2 * layer, str(report)
    assert all("take_rows" in kernel.graph for kernel in of_groups[::2])
    assert all("put_rows" in kernel.graph for kernel in of_groups[1::2])
