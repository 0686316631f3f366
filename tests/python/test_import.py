"""What `import epifuse.torch` does in a fresh process: register the op, and little else."""

import os
import subprocess
import sys

import torch

import epifuse.torch
from epifuse import _native

MOST_SECONDS = 0.5  # about 0.01 is usual; Inductor alone takes more than 1


def run_python(program, *arguments, **environment):
    """The words that a program of a new process prints."""
    done = subprocess.run([sys.executable, "-c", program, *arguments], text=True,
                          env={**os.environ, **environment}, capture_output=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


LOAD = """
import sys
import torch
import epifuse.torch
from torch._inductor import aoti_load_package
torch.manual_seed(1)
x = torch.randn(16, 64, dtype=torch.bfloat16)
torch.save(aoti_load_package(sys.argv[1])(x), sys.argv[2])
"""


def test_a_package_of_aotinductor_loads_after_the_import(tmp_path):
    from torch._inductor import aoti_compile_and_package

    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU()).eval().bfloat16()
    torch.manual_seed(1)
    x = torch.randn(16, 64, dtype=torch.bfloat16)
    package, result = str(tmp_path / "model.pt2"), str(tmp_path / "result.pt")
    with torch.no_grad():
        with epifuse.torch.enabled():
            aoti_compile_and_package(torch.export.export(model, (x,)), package_path=package)
        run_python(LOAD, package, result)
        assert b"epifuse::fused" in (tmp_path / "model.pt2").read_bytes()
        torch.testing.assert_close(torch.load(result), model(x), rtol=0.02, atol=0.02)


def test_the_import_registers_the_op_and_costs_little():
    program = ("import sys, time, torch\nstart = time.perf_counter()\nimport epifuse.torch\n"
               "print(time.perf_counter() - start, 'torch._inductor.compile_fx' in sys.modules)\n"
               "print(torch.ops.epifuse.fused.default)")
    runs = [run_python(program) for _ in range(2)]
    assert min(float(run[0]) for run in runs) < MOST_SECONDS
    assert all(run[1:] == ["False", "epifuse.fused.default"] for run in runs)


def test_without_the_libraries_the_import_succeeds_and_the_use_says_why(tmp_path):
    program = ("import epifuse._native as native, pathlib\n"
               "native.library_path = lambda name: pathlib.Path('/nowhere', name)\n"
               "import epifuse.torch\n"
               "try: epifuse.torch.enable()\n"
               "except native.UnavailableError as error: print(error)\n")
    assert str(_native.LIBRARY) in " ".join(run_python(program))


def test_public_names():
    assert set(epifuse.torch.__all__) <= set(dir(epifuse.torch))
    for name in epifuse.torch.__all__:
        assert getattr(epifuse.torch, name).__doc__
    assert not hasattr(epifuse.torch, "nothing")
