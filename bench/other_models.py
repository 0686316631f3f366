"""Models that nobody tuned for, by epifuse beside plain Inductor, in CUDA graphs.

    python3 bench/other_models.py [--only bert swin] [--train] [--tokens 256] [--seconds 500]
    python3 bench/other_models.py --only bert --dry-run

Two layers of models of transformers, and some that are written out (bench/networks.py): bf16,
random weights, the widths of their configurations or of a model in use, forward passes or, with
`--train`, those and gradients of the mean square of the first result. All are compiled first, in as
many processes as there are cores. Then one process measures model after model: both compile,
epifuse measures its kernels, and both contenders' CUDA graphs take turns, the L2 flushed before
each. A model counts as slower where it takes more than 1.03 of Inductor's time and 2 us more, and
as wrong where its results are further from eager PyTorch's than 0.02 of them and 1.5 times as far
as Inductor's. The exit code is 1 if any is wrong. What does not compile by plain Inductor, or does
not run in a CUDA graph, is named and left out. `--dry-run` runs on the CPU.
"""

import argparse
import functools
import inspect
import sys
import tempfile

import networks
import torch
import transformers
from random_forms import both, measure, measure_all, those_that_compile
from random_torch import add_options, own_caches, summary

LAYERS = {"num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers",
          "decoder_layers", "num_decoder_layers", "num_encoder_layers"}  # fmt: skip
NUM_LAYERS, MOST_WORDS, SAMPLES, TOKENS_OF_IMAGE = 2, 4096, 160000, 256
ROUNDING = 1e-3  # of the largest result or gradient, beside which the smallest are rounding


def size(batch, length=0, **config):
    """Samples, tokens of each, and what differs from the architecture's configuration."""
    return batch, length, config


def wide(width, inner, heads, kv_heads=0, **config):
    """The names that most decoders have."""
    return {"hidden_size": width, "intermediate_size": inner, "num_attention_heads": heads,
            "num_key_value_heads": kv_heads or heads, **config}  # fmt: skip


def of_whisper(width):
    sides = ("encoder", "decoder")
    return {"d_model": width, **{f"{side}_attention_heads": width // 64 for side in sides},
            **{f"{side}_ffn_dim": 4 * width for side in sides}}  # fmt: skip


BY_GROUPS = {"experts_implementation": "grouped_mm"}
MODELS = {
    "bert": size(16, 384), "modernbert": size(16, 500), "electra": size(32, 128),
    "distilbert": size(64, 100), "albert": size(4, 256),
    "roberta": size(8, 250, hidden_size=1024, intermediate_size=4096, num_attention_heads=16),
    "deberta-v2": size(8, 256, hidden_size=768, intermediate_size=3072, num_attention_heads=12),
    "esm": size(8, 300, hidden_size=1280, intermediate_size=5120, num_attention_heads=20,
                vocab_size=33, position_embedding_type="rotary", pad_token_id=1, mask_token_id=32),
    "gpt2": size(8, 512, n_embd=1024, n_head=16), "falcon": size(2, 512), "phi": size(4, 512),
    "gpt_neox": size(4, 700, hidden_size=2560, intermediate_size=10240, num_attention_heads=32),
    "opt": size(2, 1000, hidden_size=2048, ffn_dim=8192, num_attention_heads=32),
    "bloom": size(8, 333, hidden_size=1024, n_head=16), "phi3": size(2, 1024),
    "gemma": size(2, 1024), "gemma2": size(2, 777), "gemma3_text": size(2, 1024),
    "qwen2": size(4, 600, **wide(1536, 8960, 12, 2)),
    "qwen3": size(1, 2048, **wide(2560, 9728, 32, 8, head_dim=128)),
    "stablelm": size(2, 900), "starcoder2": size(2, 640), "glm": size(1, 1200),
    "olmo2": size(2, 1500, **wide(2048, 8192, 16)), "smollm3": size(4, 256),
    "granite": size(3, 512, **wide(2048, 8192, 32, 8)),
    "nemotron": size(2, 700, **wide(3072, 9216, 24, 8, head_dim=128)),
    "cohere2": size(1, 1024, **wide(4096, 14336, 32, 8)), "olmoe": size(2, 1024, **BY_GROUPS),
    "gpt_oss": size(2, 512, num_local_experts=16, **BY_GROUPS), "mamba2": size(2, 512),
    "vit": size(32), "beit": size(16), "swin": size(16), "swinv2": size(16), "convnext": size(16),
    "deit": size(64, hidden_size=384, intermediate_size=1536, num_attention_heads=6),
    "dinov2": size(16, hidden_size=1024, num_attention_heads=16), "segformer": size(8),
    "hiera": size(8), "clip": size(16, 77), "siglip": size(16, 64), "wav2vec2": size(4),
    "whisper": size(4, 100, **of_whisper(768)), "bart": size(8, 256), "m2m_100": size(4, 200),
    "t5": size(8, 400, d_model=768, d_ff=2048, num_heads=12, feed_forward_proj="gated-gelu"),
}  # fmt: skip
WRITTEN_OUT = {"dit": networks.dit, "mixer": networks.mixer, "unet_block": networks.unet_block}


def config_of(name):
    """Of two layers, or two a stage, and of few words."""
    config = transformers.CONFIG_MAPPING[name](**MODELS[name][-1])
    shrink(config)
    config.use_cache = False
    return config


def shrink(config):
    has_stages = isinstance(getattr(config, "depths", None), (list, tuple))
    for key, value in list(vars(config).items()):
        if isinstance(value, transformers.PretrainedConfig):
            shrink(value)
        elif key == "depths" and has_stages:
            config.depths = [NUM_LAYERS] * len(value)
        elif key == "layer_types" and isinstance(value, list):
            config.layer_types = value[:NUM_LAYERS]
        elif type(value) is int and key in LAYERS and not has_stages:
            setattr(config, key, NUM_LAYERS)
        elif key == "vocab_size":
            config.vocab_size = min(value, MOST_WORDS)
        elif key.endswith("_token_id") and type(value) is int and value >= MOST_WORDS:
            setattr(config, key, 1)


def fewer(batch, length, tokens):
    """Samples and tokens of each that are at most so many together; an image is taken for 256."""
    length = min(length, tokens)
    return min(batch, max(tokens // (length or TOKENS_OF_IMAGE), 1)), length


def inputs(name, model, device, tokens):
    """Tokens, pixels or sound: what the model's forward() is called with."""
    batch, length, _ = MODELS[name]
    if tokens:
        batch, length = fewer(batch, length, tokens)
    floats = lambda *shape: torch.randn(*shape, device=device, dtype=torch.bfloat16)
    accepts, config = inspect.signature(model.forward).parameters, model.config
    words = getattr(getattr(config, "text_config", config), "vocab_size", MOST_WORDS)
    ids = torch.randint(2, min(words, MOST_WORDS) - 1, (batch, max(length, 1)), device=device)
    out = {"use_cache": False} if "use_cache" in accepts else {}
    if "input_ids" in accepts:
        out["input_ids"] = ids
    if "decoder_input_ids" in accepts:
        out["decoder_input_ids"] = ids
    if "pixel_values" in accepts:
        vision = getattr(config, "vision_config", config)
        side = getattr(vision, "image_size", 224)
        sides = (side, side) if isinstance(side, int) else side
        out["pixel_values"] = floats(batch, getattr(vision, "num_channels", 3), *sides)
    if model.main_input_name == "input_values":
        out["input_values"] = floats(batch, SAMPLES)
    if model.main_input_name == "input_features":
        frames = 2 * config.max_source_positions
        out["input_features"] = floats(batch, config.num_mel_bins, frames)
    return out


def built(name, device, tokens=None):
    """A model with random weights, and what it reads by name."""
    torch.manual_seed(0)
    with torch.device(device):
        if name in WRITTEN_OUT:
            model, args = WRITTEN_OUT[name]()
            given = {key: arg.bfloat16() for key, arg in args.items()}
        else:
            model = transformers.AutoModel.from_config(config_of(name), dtype=torch.bfloat16)
            given = inputs(name, model, device, tokens)
    return model.to(torch.bfloat16).eval().requires_grad_(False), given


def flat(results):
    """All tensors of floating point."""
    if torch.is_tensor(results):
        return [results] if results.is_floating_point() else []
    parts = results.to_tuple() if hasattr(results, "to_tuple") else results
    return [each for part in parts for each in flat(part)] if isinstance(parts, tuple) else []


def call_of(run, model, given, train):
    """All results, and gradients of the weights where it trains: those of weights that have no part
    in the first result are zeros, as compiled programs have them."""
    if not train:

        def forward():
            with torch.no_grad():
                return flat(run(**given))

        return forward

    def step():
        model.zero_grad(set_to_none=True)
        results = flat(run(**given))
        first = next(each for each in results if each.requires_grad)
        first.float().square().mean().backward()
        gradients = [torch.zeros_like(weight) if weight.grad is None else weight.grad
                     for weight in model.parameters()]  # fmt: skip
        return [*(each.detach() for each in results), *gradients]

    return step


def compiled(name, device, fresh=False, train=False, tokens=None):
    """Of a model what random_forms.py's `both` gives."""
    torch.compiler.reset()
    model, given = built(name, device, tokens)
    model.requires_grad_(train)
    return both(model, lambda run: call_of(run, model, given, train), device, fresh)


def error_of(results, exact):
    """The largest of all, relative to `exact`."""
    norms = [each.double().norm() for each in exact]
    least = ROUNDING * max(norms)
    errors = [(got.double() - each.double()).norm() / max(norm, least)
              for got, each, norm in zip(results, exact, norms, strict=True)]  # fmt: skip
    return torch.stack(errors).max().item()  # NaN where any is


def how(report):
    return f"{len(report.kernels)} kernels of ours, {len(report.products_left)} products left"


def run(options, folder):
    device = "cpu" if options.dry_run else "cuda"
    make = functools.partial(compiled, train=options.train, tokens=options.tokens)
    names = those_that_compile(make, options.only, str, device, options.jobs, folder)
    all_measured, are_right = measure_all(
        names,
        lambda name: measure(name, make(name, device, fresh=True), device, options.rounds,
                             error_of, how),
        str, options.seconds, unsuited=RuntimeError)  # fmt: skip
    if all_measured:
        print("\n".join(summary(all_measured, str)))
    return 0 if are_right else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [*MODELS, *WRITTEN_OUT]
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="MODEL",
                        help=", ".join(names))
    parser.add_argument("--train", action="store_true", help="with gradients")
    parser.add_argument("--tokens", type=int, help="of all samples, at most; an image is 256")
    add_options(parser, rounds=24, seconds=500)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        own_caches(folder)
        sys.exit(run(options, folder))


if __name__ == "__main__":
    main()
