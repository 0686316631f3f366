"""What PyTorch asks of an op: fake tensors, opcheck, autocast, inference mode, export."""

import os
import subprocess
import sys

import pytest
import torch
from test_backend import Mlp, compiled

import epifuse.torch
from epifuse.torch import op

pytestmark = pytest.mark.usefixtures("fresh")

TEXT = ("graph kernel(x0: bf16[d0, d1], x1: bf16[d1, d2], x2: bf16[d2]) {\n"
        "  t0 = matmul x0, x1\n  t1 = add t0, x2\n  t2 = relu t1\n  return t2 as y0, t1 as y1\n}\n")
OPTIONS = '{"target":"cpu"}'


def operands(m=5, n=32, k=64):
    x, w, b = torch.randn(m, k), torch.randn(n, k), torch.randn(n)
    return [x.bfloat16(), w.bfloat16().t(), b.bfloat16()]


def test_opcheck():
    torch.library.opcheck(op.load(), (operands(), TEXT, OPTIONS))


def test_fake_sizes_and_strides():
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode() as mode:
        fakes = [mode.from_tensor(tensor) for tensor in operands()]
        results = op.load()(fakes, TEXT, OPTIONS)
    assert [(tuple(r.shape), r.stride(), r.dtype) for r in results] == [
        ((5, 32), (32, 1), torch.bfloat16)] * 2


def test_by_ctypes_gives_the_same():
    from epifuse.torch import op_by_ctypes

    inputs = operands()
    for ours, theirs in zip(op_by_ctypes._fused(inputs, TEXT, OPTIONS),
                            op.load()(inputs, TEXT, OPTIONS)):
        assert torch.equal(ours, theirs)


def test_autocast_and_inference_mode():
    model = Mlp(dtype=torch.float32).eval()
    x = torch.randn(9, 64)
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        report = epifuse.torch.explain(model, x)
        got, eager = compiled(model)(x), model(x)
    assert len(report.kernels) == 2 and got.dtype == eager.dtype
    torch.testing.assert_close(got, eager, rtol=0.02, atol=0.02)


def test_export_and_ahead_of_time_inductor(tmp_path):
    from torch._inductor import aoti_compile_and_package, aoti_load_package

    model = Mlp().eval().requires_grad_(False)
    x = torch.randn(16, 64, dtype=torch.bfloat16)
    with torch.no_grad():
        exported = torch.export.export(model, (x,))
        with epifuse.torch.enabled():
            path = aoti_compile_and_package(exported, package_path=str(tmp_path / "model.pt2"))
        got, eager = aoti_load_package(path)(x), model(x)
    torch.testing.assert_close(got, eager, rtol=0.02, atol=0.02)


def test_compiled_code_from_inductors_cache_runs_in_a_new_process(tmp_path):
    program = (
        "import torch\nimport epifuse.torch\nfrom test_backend import Mlp, compiled\n"
        "torch.manual_seed(0)\nmodel = Mlp().eval().requires_grad_(False)\n"
        "x = torch.randn(8, 64).bfloat16()\nprint(compiled(model)(x).float().sum().item())\n"
        "from torch._dynamo.utils import counters\n"
        "print(counters['inductor']['fxgraph_cache_hit'])\n")
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path),
                   "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])}
    runs = [subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True,
                           text=True, check=True).stdout.split() for _ in range(2)]
    assert runs[0][0] == runs[1][0]
    assert runs[0][1] == "0" and runs[1][1] == "1"


def test_float64_is_left_alone():
    report = epifuse.torch.explain(lambda x: torch.relu(x @ x), torch.randn(8, 8).double())
    assert not report.kernels and {node.code for node in report.left_out} <= {"dtype"}
