"""explain(model, *args): what the backend makes of a model, without compiling the rest."""

from collections.abc import Iterator
from typing import Any

import torch

from epifuse import _native
from epifuse.torch import inductor
from epifuse.torch.call import fused
from epifuse.torch.layout import empty_in_order, order_before_last
from epifuse.torch.report import Report

_MOST_COMPILED = 1000  # of one function: a program that explains again and again is no error


class _AsCompiled(torch.fx.Interpreter):
    """Runs a graph whose kernels' results lie as they do where Inductor compiles it."""

    def run_node(self, n: torch.fx.Node) -> Any:
        results = super().run_node(n)
        if n.target is not fused:
            return results
        orders = map(order_before_last, n.meta["val"])
        return [each if order is None else empty_in_order(each, order).copy_(each)
                for each, order in zip(results, orders)]  # fmt: skip


def _run_as_graph(graph: torch.fx.GraphModule, inputs: list[Any], **ignored: Any) -> Any:
    from functorch.compile import make_boxed_func

    return make_boxed_func(_AsCompiled(graph).run)


def _inner_graphs(graph: torch.fx.GraphModule) -> Iterator[torch.fx.GraphModule]:
    """Graphs that a graph calls, such as the branches of torch.cond, innermost first."""
    names = dict.fromkeys(node.target for node in graph.graph.find_nodes(op="get_attr"))
    for name in names:
        inner = getattr(graph, str(name), None)
        if isinstance(inner, torch.fx.GraphModule):
            yield from _inner_graphs(inner)
            yield inner


def _own_options(options: dict[str, Any] | None, given: dict[str, Any]) -> dict[str, Any]:
    """Ours: those named as arguments, and those of `options` as torch.compile has them."""
    own = inductor.own_of(options)
    for name, value in given.items():
        if value is None:
            continue
        if name in own:
            raise _native.BadInputError(
                f"expected {name} once, got {value!r} and options={{'epifuse.{name}': "
                f"{own[name]!r}}}")
        own[name] = value
    return own


def explain(model: Any, *args: Any, numerics: str | None = None, tf32: bool | None = None,
            only_faster: bool | None = None, options: dict[str, Any] | None = None,
            **kwargs: Any) -> Report:
    """Runs `model(*args, **kwargs)` once and reports which nodes became kernels and which did not.

    Print the report, or take its `.kernels`, `.left_out`, `.to_dict()`. Nothing is compiled but our
    own kernels. `options` are those of torch.compile, of Inductor too; `numerics`, `tf32` and
    `only_faster` are short for its "epifuse.numerics" and so on. On a CPU the report also says what
    a Hopper GPU would make of the model.
    """
    report = Report()
    own = _own_options(options, {"numerics": numerics, "tf32": tf32, "only_faster": only_faster})
    patches = inductor.with_masks_pass(inductor.patches_of(None, options), own)

    def compile_graph(graph: torch.fx.GraphModule, inputs: list[Any], **rest: Any) -> Any:
        from torch._inductor import config

        before = inductor.users_pass(config.post_grad_custom_pre_pass)
        fusion = inductor.FusionPass(own, before, report, asks_hopper=True)
        with config.patch(cpp_wrapper=rest.get("cpp_wrapper", config.cpp_wrapper)):
            for each in [*_inner_graphs(graph), graph]:
                fusion(each.graph)
                each.recompile()
        return _run_as_graph(graph, inputs)

    def run(graph: torch.fx.GraphModule, inputs: list[Any], **rest: Any) -> Any:
        from torch._functorch import config as autograd_config
        from torch._inductor import config
        from torch._inductor.compile_fx import compile_fx

        inductor.op.load()
        with autograd_config.patch(enable_autograd_cache=False), config.patch(
                force_disable_caches=True):  # what is taken from a cache is not seen
            return compile_fx(graph, inputs, inner_compile=compile_graph, config_patches=patches)

    # What was compiled before stays: Dynamo keeps it by backend, and this one is new in each call.
    with torch._dynamo.config.patch(recompile_limit=_MOST_COMPILED):
        torch.compile(model, backend=run)(*args, **kwargs)
    return report
