"""FX graphs for tests of the importer, and what eager PyTorch computes for each of their nodes."""

from __future__ import annotations

import pathlib
import subprocess
from collections.abc import Callable
from typing import Any

import epi_reference
import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

from epifuse.torch.importer import Imported, import_graph

COMMAND = pathlib.Path(__file__).resolve().parents[2] / "build/release/bin/epifuse"


def capture(
    function: Callable[..., Any],
    *args: Any,
    dynamic: bool = False,
    inductor: bool = False,
    whole: bool = False,
) -> fx.GraphModule:
    """The aten graph of a function; `whole` keeps linear, matmul and the like in one piece."""
    table = {}
    if inductor:
        from torch._inductor.decomposition import select_decomp_table

        table = select_decomp_table()
    mode = "symbolic" if dynamic else "fake"
    traced = make_fx(function, decomposition_table=table, tracing_mode=mode, pre_dispatch=whole)
    module = traced(*args)
    module.graph.eliminate_dead_code()
    return module


class _Recorder(fx.Interpreter):
    """Runs a graph and keeps what each node gives, in float64 if asked for."""

    def __init__(self, module: fx.GraphModule, wide: bool) -> None:
        super().__init__(module)
        self.wide = wide
        self.results: dict[fx.Node, Any] = {}

    def _widen(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            return value.double()
        return value

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        self.results[n] = self._widen(result) if self.wide else result
        return self.results[n]

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if not self.wide:
            return super().call_function(target, args, kwargs)

        def dtype(value: Any) -> Any:
            is_float = isinstance(value, torch.dtype) and value.is_floating_point
            return torch.float64 if is_float else value

        args = tuple(map(dtype, args))
        kwargs = {key: dtype(value) for key, value in kwargs.items()}
        if str(target) in ("aten.mm.dtype", "aten.bmm.dtype"):
            return args[0] @ args[1]
        if str(target) in ("aten.addmm.dtype", "aten.baddbmm.dtype"):
            return args[0] + args[1] @ args[2]
        return super().call_function(target, args, kwargs)


def record(module: fx.GraphModule, args: tuple[Any, ...], wide: bool) -> dict[fx.Node, Any]:
    """What each node of a graph gives for these arguments."""
    recorder = _Recorder(module, wide)
    with torch.no_grad():
        recorder.run(*args)
    return recorder.results


def assert_parses(text: str) -> None:
    """The compiler reads the text, and prints the same types."""
    if COMMAND.exists():
        arguments = [COMMAND, "explain", "/dev/stdin", "--target", "cpu"]
        done = subprocess.run(arguments, input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr + text


def compare(
    function: Callable[..., Any],
    *args: Any,
    wide: bool = True,
    exact: bool = True,
    tolerance: float = 0.0,
    runs: list[tuple[Any, ...]] = (),
    **how: Any,
) -> Imported:
    """Imports a function and checks every value of the text against eager: if `wide` in float64, if
    `exact` in the dtypes of the function. `tolerance` counts units in the last place."""
    module = capture(function, *args, **how)
    imported = import_graph(module.graph)
    assert imported.text is not None, imported.refused
    assert_parses(imported.text)
    for given in [args, *runs]:
        if wide:
            _compare(imported, record(module, given, wide=True), exact=False, tolerance=0)
        if exact:
            _compare(imported, record(module, given, wide=False), exact=True, tolerance=tolerance)
    return imported


def _compare(
    imported: Imported, eager: dict[fx.Node, Any], exact: bool, tolerance: float
) -> None:
    inputs = set(epi_reference.parse(imported.text).inputs)
    given = {name: eager[node] for name, node in imported.names.items() if name in inputs}
    for name in inputs - given.keys():
        given[name] = torch.zeros(_size(name.removeprefix("size_"), eager))
    got = epi_reference.run(imported.text, given, exact)
    for name, node in imported.names.items():
        if name not in inputs:
            check(name, got[name], eager[node], exact, tolerance)


def _size(symbol: str, eager: dict[fx.Node, Any]) -> int:
    """What a symbol of the text was in a run."""
    for node, result in eager.items():
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and isinstance(result, torch.Tensor):
            for size, known in zip(value.shape, result.shape):
                if str(size) == symbol:
                    return known
    raise AssertionError(f"nothing has the size {symbol}")


def check(
    name: str, got: torch.Tensor, expected: torch.Tensor, exact: bool, tolerance: float
) -> None:
    """One value: equal but for `tolerance` units in the last place, or 1e-12 in float64."""
    assert got.shape == expected.shape, name
    if expected.dtype == torch.bool:
        assert torch.equal(got, expected), name
        return
    unit = torch.finfo(expected.dtype).eps if exact else 1e-12
    torch.testing.assert_close(
        got.double(),
        expected.double(),
        rtol=unit * tolerance if exact else unit,
        atol=2e-6 * bool(tolerance) if exact else unit,
        equal_nan=True,
        msg=lambda text: f"{name}: {text}",
    )
