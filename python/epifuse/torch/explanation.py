"""explain(model, *args): what the backend makes of a model, without compiling the rest."""

from typing import Any

import torch

from epifuse.torch import inductor
from epifuse.torch.report import Report

_MOST_COMPILED = 1000  # of one function: a program that explains again and again is no error


def _run_as_graph(graph: torch.fx.GraphModule, inputs: list[Any], **ignored: Any) -> Any:
    from functorch.compile import make_boxed_func

    return make_boxed_func(graph.forward)


def explain(model: Any, *args: Any, numerics: str = "fast", tf32: bool | None = None,
            only_faster: bool | None = None, **kwargs: Any) -> Report:
    """Runs `model(*args, **kwargs)` once and reports which nodes became kernels and which did not.

    The report has `.kernels` and `.left_out`; print it, or take `.json()`. Nothing is compiled but
    our own kernels. `numerics`, `tf32` and `only_faster` are the options of `enable`.
    """
    report = Report()

    def compile_graph(graph: torch.fx.GraphModule, inputs: list[Any], **rest: Any) -> Any:
        from torch._inductor import config

        options: dict[str, Any] = {"numerics": numerics, "tf32": tf32}
        if only_faster is not None:
            options["only_faster"] = only_faster
        fusion = inductor.FusionPass(options, None, report)
        with config.patch(cpp_wrapper=rest.get("cpp_wrapper", config.cpp_wrapper)):
            fusion(graph.graph)
        graph.recompile()
        return _run_as_graph(graph, inputs)

    def run(graph: torch.fx.GraphModule, inputs: list[Any], **rest: Any) -> Any:
        from torch._functorch import config as autograd_config
        from torch._inductor import config
        from torch._inductor.compile_fx import compile_fx

        inductor.op.load()
        with autograd_config.patch(enable_autograd_cache=False), config.patch(
                force_disable_caches=True):  # what is taken from a cache is not seen
            return compile_fx(graph, inputs, inner_compile=compile_graph)

    # What was compiled before stays: Dynamo keeps it by backend, and this one is new in each call.
    with torch._dynamo.config.patch(recompile_limit=_MOST_COMPILED):
        torch.compile(model, backend=run)(*args, **kwargs)
    return report
