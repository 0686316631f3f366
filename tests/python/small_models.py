"""Small models, with random weights, of any architecture of transformers, and what they read."""

from __future__ import annotations

import contextlib
import inspect
from typing import Any

import torch
import transformers

# What configurations call their sizes, and what these are to be.
_WIDTH, _INNER, _HEADS = 128, 344, 4
_SIZES = {
    _WIDTH: "hidden_size d_model n_embd embed_dim dim hidden_dim embedding_size projection_dim "
            "word_embed_proj_dim lru_width",
    _INNER: "intermediate_size d_ff ffn_dim n_inner encoder_ffn_dim decoder_ffn_dim "
            "ffn_hidden_size d_inner",
    96: "moe_intermediate_size shared_expert_intermediate_size expert_ffn_hidden_size",
    2: "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers depth "
       "num_decoder_layers num_encoder_layers num_key_value_heads num_kv_heads top_k moe_topk "
       "num_experts_per_tok type_vocab_size",
    _HEADS: "num_attention_heads n_head n_heads num_heads encoder_attention_heads "
            "decoder_attention_heads num_local_experts num_experts n_routed_experts "
            "moe_num_experts",
    _WIDTH // _HEADS: "head_dim d_kv d_head qk_nope_head_dim qk_rope_head_dim v_head_dim "
                      "kv_lora_rank num_buckets",
    48: "q_lora_rank",
    64: "qk_head_dim image_size",
    512: "vocab_size",
    256: "max_position_embeddings n_positions",
    16: "patch_size sliding_window",
    1: "n_group topk_group first_k_dense_replace n_shared_experts",
    0: "pad_token_id",
}  # fmt: skip
_SMALL = {name: size for size, names in _SIZES.items() for name in names.split()}
_TOKENS = ("bos_token_id", "eos_token_id", "decoder_start_token_id", "image_token_id",
           "video_token_id")  # fmt: skip


def names() -> list[str]:
    """All architectures that transformers makes models of."""
    return sorted(transformers.models.auto.modeling_auto.MODEL_MAPPING_NAMES)


def _shrink(config: Any) -> None:
    for name, value in list(vars(config).items()):
        if isinstance(value, transformers.PretrainedConfig):
            _shrink(value)
        elif name == "layer_types" and isinstance(value, list):
            config.layer_types = value[:2]
        elif type(value) is int and (name in _SMALL or name in _TOKENS):
            with contextlib.suppress(ValueError, TypeError, AttributeError):
                setattr(config, name, _SMALL.get(name, 1))
    config.use_cache = False


def _config(name: str) -> Any:
    """By the arguments that its class has, else by what it is with none."""
    kind = transformers.CONFIG_MAPPING[name]
    given = {key: size for key, size in _SMALL.items() if key in inspect.signature(kind).parameters}
    try:
        config = kind(**given)
        parts = [part for part in vars(config).values()
                 if isinstance(part, transformers.PretrainedConfig)]
    except Exception:  # sizes that do not go together, checked in as many ways as there are models
        config = kind()
        parts = [config]
    for part in parts:
        _shrink(part)
    config.use_cache = False
    return config


def make(name: str) -> torch.nn.Module:
    """The same weights each time. Raises what transformers does where the sizes do not suit it."""
    torch.manual_seed(0)
    return transformers.AutoModel.from_config(_config(name))


def inputs(model: Any, device: str, batch: int = 2, length: int = 40) -> dict[str, Any]:
    """Tokens, pixels or sound, in the model's dtype: what its forward() is called with."""
    random = torch.Generator().manual_seed(1)

    def floats(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=random).to(device, model.dtype)

    accepts, main = inspect.signature(model.forward).parameters, model.main_input_name
    config = model.config
    ids = torch.randint(2, _SMALL["vocab_size"], (batch, length), generator=random).to(device)
    out: dict[str, Any] = {}
    if "input_ids" in accepts:
        out["input_ids"] = ids
    is_of_both = "pixel_values" in accepts and hasattr(config, "logit_scale_init_value")
    if main == "pixel_values" or is_of_both:
        vision = getattr(config, "vision_config", config)
        size = getattr(vision, "image_size", _SMALL["image_size"])
        sides = (size, size) if isinstance(size, int) else tuple(size)
        out["pixel_values"] = floats(batch, getattr(vision, "num_channels", 3), *sides)
    if main == "input_values":
        out["input_values"] = floats(batch, 8000)
    if main == "input_features":
        bins = getattr(config, "num_mel_bins", getattr(config, "feature_projection_input_dim", 80))
        is_of_whisper = hasattr(getattr(model, "encoder", model), "conv1")
        out["input_features"] = (floats(batch, bins, 2 * config.max_source_positions)
                                 if is_of_whisper else floats(batch, 100, bins))
    if "decoder_input_ids" in accepts:
        out["decoder_input_ids"] = ids[:, : length // 2]
    if "bbox" in accepts and main == "input_ids":
        out["bbox"] = torch.zeros(batch, length, 4, dtype=torch.long, device=device)
    if "use_cache" in accepts:
        out["use_cache"] = False
    return out
