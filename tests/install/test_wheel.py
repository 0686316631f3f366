"""The installed package, where PyTorch finds it by itself: run by tests/python/run."""

import importlib.metadata
import os
import subprocess
import sys

import torch

import epifuse


def test_metadata():
    assert importlib.metadata.version("epifuse") == epifuse.version() == epifuse.__version__
    assert not hasattr(epifuse, "__nothing__")


def test_the_library_is_the_wheels():
    from epifuse import _native

    assert "site-packages" in str(_native.library_path(_native.LIBRARY))


def test_the_backend_is_registered():
    entries = importlib.metadata.entry_points(group="torch_dynamo_backends")
    assert [entry.value for entry in entries if entry.name == "epifuse"] == [
        "epifuse.torch:backend"
    ]
    assert "epifuse" in torch.compiler.list_backends()


def test_compile_by_name():
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU())
    x = torch.randn(8, 64)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(model, backend="epifuse")(x), model(x),
                                   rtol=1e-3, atol=1e-4)


def test_the_environment_installs_the_pass():
    program = ("import torch\nfrom torch._inductor import config\n"
               "print(type(config.post_grad_custom_pre_pass).__name__)")
    for flag, expected in (("1", "FusionPass"), ("0", "NoneType")):
        environment = {**os.environ, "EPIFUSE_TORCH": flag}
        done = subprocess.run([sys.executable, "-c", program], env=environment, text=True,
                              capture_output=True, check=True)
        assert done.stdout.split()[-1] == expected
