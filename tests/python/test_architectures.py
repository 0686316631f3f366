"""The check of all architectures of transformers: what it makes, and what it calls wrong."""

import pathlib
import subprocess
import sys

import pytest
import torch

pytest.importorskip("transformers")

import architectures
import small_models


@pytest.mark.parametrize("name", ["clip", "qwen3_moe", "t5", "vit", "whisper"])
def test_a_small_model_is_made_and_reads_what_is_given(name):
    model = small_models.make(name).eval()
    assert 1e4 < sum(each.numel() for each in model.parameters()) < 2e7
    with torch.no_grad():
        values = architectures.values_of(model, model, small_models.inputs(model, "cpu"), False)
    assert values and all(each.isfinite().all() for each in values.values())
    again = small_models.make(name)
    assert all(map(torch.equal, model.parameters(), again.parameters()))


def test_far_is_what_others_are_not():
    exact = {"result 0": torch.tensor([3.0, 4.0]), "result 1": torch.tensor([1, 2, 3, 4]),
             "gradient of a": torch.tensor([100.0]), "gradient of b": torch.tensor([1e-9])}
    got = {"result 0": torch.tensor([3.0, 4.5]), "result 1": torch.tensor([1, 2, 3, 5]),
           "gradient of a": torch.tensor([100.5]), "gradient of b": torch.tensor([1e-3])}
    far = architectures.distances(got, exact)
    assert far == pytest.approx({"result 0": 0.1, "result 1": 0.25, "gradient of a": 0.005,
                                 "gradient of b": 0.01}, rel=1e-3)  # fmt: skip
    assert architectures.further(far, dict.fromkeys(far, 0.0)) == ["result 0", "result 1"]
    assert architectures.further(far, {**far, "result 0": 0.07}) == []


def test_what_is_not_finite_or_not_there_is_infinitely_far_but_where_it_should_be():
    nan = torch.tensor([float("nan"), 1.0])
    assert architectures.distances({"result 0": nan}, {"result 0": nan}) == {"result 0": 0.0}
    assert architectures.distance(nan, torch.ones(2)) == float("inf")
    assert architectures.distance(torch.ones(3), torch.ones(2)) == float("inf")
    exact = {"result 0": torch.ones(1), "gradient of a": torch.zeros(2)}
    assert architectures.distances({}, exact) == {"result 0": float("inf"), "gradient of a": 0.0}


def _off_by(factor):
    return lambda model: lambda **kwargs: {
        key: value * factor for key, value in model(**kwargs).items()}


class _Router(torch.nn.Module):
    """Sends each row to one of two weights, whichever of their products is larger."""

    def __init__(self, gap):
        super().__init__()
        self.gate = torch.nn.Parameter(torch.tensor([1.75, 1.75 * (1 + gap)]))
        self.weight = torch.nn.Parameter(torch.tensor([1.75, -1.75]))

    def forward(self, x):
        return x * self.weight[(x * self.gate).argmax(-1)]


def test_rounding_moves_what_a_router_chooses_and_little_else():
    def far(model):
        model = model.to(torch.bfloat16)
        exact = {"result 0": model(x).detach().double()}
        return architectures.distances_when_shaken(model, {"x": x}, False, exact)["result 0"]

    x = torch.full((64, 1), 1.0, dtype=torch.bfloat16)
    assert far(_Router(gap=0.5)) == pytest.approx(2**-7 / 1.75, rel=0.01)  # one step of a weight
    assert far(_Router(gap=2**-7)) == pytest.approx(2.0, rel=0.01)


def test_weights_are_shaken_by_one_step_at_most_and_in_the_same_way_each_time():
    torch.manual_seed(0)
    model = torch.nn.Linear(64, 64, dtype=torch.bfloat16)
    kept = model.weight.clone()
    shaken, again = architectures.shake(model, 3).weight, architectures.shake(model, 3).weight
    steps = (shaken.view(torch.int16).int() - kept.view(torch.int16).int()).abs()
    assert steps.max() == 1 and 0.1 < steps.double().mean() < 0.4
    assert torch.equal(shaken, again) and torch.equal(model.weight, kept)
    assert not torch.equal(shaken, architectures.shake(model, 4).weight)


@pytest.mark.usefixtures("fresh")
def test_a_model_is_right_wrong_or_fails(monkeypatch):
    def compare(compiled_by):
        return architectures.compare("albert", "cpu", True, compiled_by)

    assert compare(architectures.by_epifuse) == {"verdict": "right", "about": ""}
    monkeypatch.setattr(architectures, "by_inductor", lambda model: model)
    wrong = compare(_off_by(1.125))
    assert wrong["verdict"] == "wrong" and wrong["about"].startswith("result 0: ours 1.25e-01")
    failed = compare(lambda model: lambda **kwargs: int("no number"))
    assert failed["verdict"] == "failed" and "no number" in failed["about"]
    none = architectures.compare("no such model", "cpu", False)
    assert none["verdict"] == "not built"


def test_workers_answer_for_each_model():
    done = subprocess.run([sys.executable, pathlib.Path(architectures.__file__), "--jobs", "1",
                           "--only", "no such model", "nor this"], check=False,
                          capture_output=True, text=True)  # fmt: skip
    assert done.stdout == "2 not built\n" and done.returncode == 0, done.stderr


def test_a_worker_that_ends_or_is_slow_is_replaced(monkeypatch):
    code = """import sys, time
for line in sys.stdin:
    if line == "slow\\n": time.sleep(60)
    if line == "ends\\n": sys.exit(3)
    print('{"verdict": "right", "about": ""}', flush=True)
"""
    options = architectures.options_of(["--jobs", "1", "--most-seconds", "2"])
    pool = architectures.Pool(options, ["ends", "fine", "slow", "fine too"])
    monkeypatch.setattr(pool, "start", lambda index: subprocess.Popen(
        [sys.executable, "-c", code], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
    pool.run()
    assert {name: result["verdict"] for name, result in pool.results.items()} == {
        "ends": "ended its process", "fine": "right", "slow": "too slow", "fine too": "right"}
