"""Code that Inductor generates: it calls kernels without the dispatcher, wherever tensors lie."""

import time

import pytest
import torch
from test_backend import Mlp, compiled
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

import epifuse.torch
from epifuse import BadInputError

pytestmark = pytest.mark.usefixtures("fresh")


def generated(model, *args, **kwargs):
    """The result, and the code that Inductor wrote."""
    from torch._inductor.utils import run_and_get_code

    torch._dynamo.reset()
    result, (code, *_) = run_and_get_code(compiled(model, **kwargs), *args)
    return result, code


@pytest.mark.parametrize("dynamic", [False, True])
def test_generated_code_calls_the_kernel_itself(dynamic):
    model, x = Mlp().eval().requires_grad_(False), torch.randn(4, 64, dtype=torch.bfloat16)
    got, code = generated(model, x, dynamic=dynamic)
    assert "torch.ops.epifuse" not in code and code.count("epifuse_launcher(") == 2
    assert "epifuse_matmul_bias_gelu_erf" in code
    torch.testing.assert_close(got, model(x), rtol=0.02, atol=0.02)


def test_generated_code_has_a_kernel_once_for_all_its_calls():
    layer = Mlp().eval().requires_grad_(False)
    x = torch.randn(4, 64, dtype=torch.bfloat16)
    _, code = generated(nn.Sequential(layer, layer, layer), x)
    assert code.count("epifuse_launcher(") == 2


def test_kernels_of_several_results():
    def model(x, w):
        h = x @ w
        return torch.relu(h), h

    x, w = torch.randn(8, 64), torch.randn(64, 32)
    got, code = generated(model, x, w)
    assert "torch.ops.epifuse" not in code and "[1].data_ptr()" in code
    for result, expected in zip(got, model(x, w)):
        torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)


def test_what_kernels_view_is_laid_where_eager_has_it():
    def model(heads, w, v):  # computed with heads before rows, and read by rows
        rows = (heads.transpose(1, 2) * 0.5).transpose(1, 2).reshape(80, 64)
        return torch.relu(rows @ w), rows.t() @ v

    given = torch.randn(2, 40, 4, 16), torch.randn(64, 32), torch.randn(80, 32)
    got, code = generated(model, *given)
    assert code.count(" = empty_strided_cpu(") == 3  # the rows, and two results
    for result, expected in zip(got, model(*given)):
        torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)


def test_results_take_memory_that_is_free():
    model = nn.Sequential(*(nn.Linear(64, 64) for _ in range(5))).eval().requires_grad_(False)
    x = torch.randn(4, 64)
    got, code = generated(lambda x: torch.relu(model(x)), x)
    assert code.count("empty_strided_cpu((4, 64)") == 2
    torch.testing.assert_close(got, torch.relu(model(x)), rtol=1e-4, atol=1e-4)


def test_generated_code_reads_views_where_they_lie():
    storage = torch.randn(70, 200)

    def model(x, storage):
        w, b, r = storage[3:67, 5:133], storage[1, 7:135], storage[10:14, 20:148]
        y = torch.relu(x @ w + b)
        return y, torch.tanh(x @ w) + r, y.sum(0)

    x = torch.randn(8, 64)[::2]
    got, code = generated(model, x, storage)
    assert "torch.ops.epifuse" not in code and ".data_ptr() + " in code
    for result, expected in zip(got, model(x, storage)):
        torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("sign", [1, -1])
def test_kernels_of_branches(sign):
    w, v, x = torch.randn(64, 64), torch.randn(64, 64), sign * torch.rand(8, 64)

    def model(x):
        y = torch.cond(x.sum() > 0, lambda x: torch.tanh(x @ w) + torch.relu(x @ v),
                       lambda x: torch.sigmoid(x @ w) * 2, (x,))
        return torch.tanh(y @ w)

    got, code = generated(model, x)
    assert "torch.ops.epifuse" not in code and code.count("epifuse_launcher(") >= 3
    torch.testing.assert_close(got, model(x), rtol=1e-4, atol=1e-4)


def test_code_in_cpp_is_inductors_alone():
    model, x = Mlp().eval().requires_grad_(False), torch.randn(4, 64, dtype=torch.bfloat16)
    got, code = generated(model, x, options={"cpp_wrapper": True})
    with torch._inductor.config.patch(cpp_wrapper=True):
        report = epifuse.torch.explain(model, x)
    assert not report.kernels and {node.code for node in report.left_out} == {"cpp_wrapper"}
    assert "epifuse" not in code
    torch.testing.assert_close(got, model(x), rtol=0.02, atol=0.02)


def test_views_as_other_dtypes_go_by_the_op():
    def model(x, w):
        return torch.relu(x @ w.view(torch.bfloat16))

    x = torch.randn(4, 64, dtype=torch.bfloat16)
    w = torch.randn(64, 32, dtype=torch.bfloat16).view(torch.float16)
    got, _ = generated(model, x, w)
    torch.testing.assert_close(got, model(x, w), rtol=0.02, atol=0.02)


def test_the_profiler_names_kernels():
    model, x = Mlp().eval().requires_grad_(False), torch.randn(4, 64, dtype=torch.bfloat16)
    run = compiled(model)
    run(x)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        got = run(x)
    names = [event.name for event in profile.events() if event.name.startswith("epifuse")]
    assert names == ["epifuse_matmul_bias_gelu_erf", "epifuse_matmul_bias_residual"]
    torch.testing.assert_close(got, model(x), rtol=0.02, atol=0.02)


def test_launchers_raise_what_the_core_does():
    from epifuse.torch.launch import launcher

    graph = "graph g(x: f32[M, 4], w: f32[4, 3]) {\n  y = matmul x, w\n  return y\n}\n"
    x, w, y = torch.randn(2, 4), torch.randn(4, 3), torch.empty(2, 3)
    launch = launcher("g", graph, '{"target": "cpu"}')
    head = (x.data_ptr(), 2, 4, 4, 1, w.data_ptr(), 4, 3, 3, 1, y.data_ptr())
    launch(0, *head, 2, 3, 3, 1)
    torch.testing.assert_close(y, x @ w)
    with pytest.raises(BadInputError, match=r"output 'y' is declared f32\[M, 3\]: got \[5, 3\]"):
        launch(0, *head, 5, 3, 3, 1)


def test_launchers_take_tensors_that_move():
    from epifuse.torch.launch import launcher

    graph = "graph moving(x: f32[M, 4], w: f32[4, 3]) {\n  y = matmul x, w\n  return y\n}\n"
    launch = launcher("moving", graph, '{"target": "cpu"}')
    kept = []  # so that no two calls share an address
    for rows in [2, 2, 2, 5, 2, 5, 5, 2]:
        x, w, y = torch.randn(rows, 4), torch.randn(4, 3), torch.empty(rows, 3)
        head = (x.data_ptr(), rows, 4, 4, 1, w.data_ptr(), 4, 3, 3, 1)
        launch(0, *head, y.data_ptr(), rows, 3, 3, 1)
        torch.testing.assert_close(y, x @ w)
        kept += [x, w, y]


def test_the_code_of_a_kernel_waits_for_what_was_started_ahead(monkeypatch):
    from epifuse.torch import ahead, launch

    graph = "graph waits(x: f32[M, N]) {\n  y = neg x\n  return y\n}\n"
    options = '{"target":"cpu"}'
    seen = []

    def choice(text, *_):
        time.sleep(0.2)
        seen.append(text)
        return {"how": ["ping-pong"]}

    monkeypatch.setattr(ahead._native, "choice", choice)
    with FakeTensorMode(allow_non_fake_inputs=True):
        x = torch.empty(4, 8, device="cuda")
    started = ahead.compile_ahead(graph, options, [x])
    assert ahead.compile_ahead(graph, options, [x]) is started  # a layer that is alike
    assert not seen
    launch.launcher("waits", graph, options)
    assert seen == [graph] and started.result() == {"how": ["ping-pong"]}
    assert (graph, options) not in ahead._started
