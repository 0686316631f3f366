"""`bench/other_models.py`: models of two layers and what they read, errors, steps of training."""

import math
import pathlib
import sys

import pytest
import torch

transformers = pytest.importorskip("transformers")

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench"))
import other_models  # noqa: E402
from other_models import MODELS, WRITTEN_OUT, built, call_of, config_of, error_of  # noqa: E402


def num_layers(config):
    return {value for key, value in vars(config).items() if key in other_models.LAYERS}


@pytest.mark.parametrize("name", ["bert", "gpt2", "olmoe", "whisper", "t5", "gemma3_text"])
def test_configurations_have_two_layers_and_few_words(name):
    config = config_of(name)
    assert num_layers(config) == {2}
    assert config.vocab_size <= 4096
    assert len(getattr(config, "layer_types", None) or [0, 0]) == 2


def test_stages_have_two_layers_each_and_towers_too():
    assert config_of("swin").depths == [2, 2, 2, 2]
    both = config_of("clip")
    assert num_layers(both.text_config) == num_layers(both.vision_config) == {2}


def test_all_architectures_are_known():
    assert set(MODELS) <= set(transformers.CONFIG_MAPPING)
    assert not set(MODELS) & set(WRITTEN_OUT)


@pytest.mark.parametrize("name, shape", [
    ("electra", (32, 128, 256)), ("vit", (32, 197, 768)), ("segformer", (8, 256, 7, 7)),
    ("wav2vec2", (4, 499, 768)), ("clip", (16, 16)), ("dit", (16, 256, 1152)),
    ("mixer", (32, 196, 768)), ("unet_block", (4, 640, 32, 32)),
])  # fmt: skip
def test_models_read_what_is_made_for_them(name, shape):
    model, given = built(name, "meta")
    (first, *_) = call_of(model, model, given, train=False)()
    assert tuple(first.shape) == shape and first.dtype == torch.bfloat16


@pytest.mark.parametrize("name, tokens, shape", [
    ("electra", 256, (2, 128, 256)), ("electra", 100, (1, 100, 256)),
    ("electra", 10**6, (32, 128, 256)), ("vit", 600, (2, 197, 768)), ("vit", 1, (1, 197, 768)),
])  # fmt: skip
def test_models_may_read_fewer_tokens(name, tokens, shape):
    model, given = built(name, "meta", tokens)
    assert tuple(model(**given)[0].shape) == shape


def test_a_step_of_training_gives_results_and_gradients():
    model = torch.nn.Linear(3, 2, bias=False)
    x = torch.tensor([[1.0, 2.0, 3.0]])
    y, gradient = call_of(model, model, {"input": x}, train=True)()
    assert not y.requires_grad
    torch.testing.assert_close(gradient, y.reshape(2, 1) * x)  # of the mean of two squares


class Branches(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = (torch.nn.Linear(3, 2, bias=False) for _ in range(2))

    def forward(self, x):
        return self.first(x), self.second(x).detach()


def test_weights_without_a_part_in_the_first_result_have_zeros(fresh):
    model, x = Branches(), {"x": torch.ones(4, 3)}
    steps = [call_of(run, model, x, train=True)() for run in (model, torch.compile(model))]
    for step in steps:
        assert len(step) == 4 and step[2].norm() > 0
        torch.testing.assert_close(step[3], torch.zeros(2, 3))


def test_the_smallest_gradients_are_rounding_beside_the_largest():
    exact = [torch.tensor([3.0, 4.0]), torch.tensor([0.0, 1e-6])]
    assert error_of([exact[0], torch.tensor([0.0, 1e-3])], exact) == pytest.approx(0.2, rel=0.01)
    assert error_of([torch.tensor([3.0, 4.5]), exact[1]], exact) == pytest.approx(0.1)
    assert error_of(exact, exact) == 0.0
    assert math.isnan(error_of([exact[0], torch.tensor([0.0, float("nan")])], exact))
