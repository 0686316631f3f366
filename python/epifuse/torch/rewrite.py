"""Puts kernels into an FX graph: each becomes one call of the op."""

import json
import logging
import operator
import re
from collections import Counter
from dataclasses import replace
from typing import Any

import torch
from torch.fx import Graph, Node

from epifuse import _native
from epifuse.torch import (compared, conversions, convolutions, integers, maxima, nodes, origin,
                           repeated)
from epifuse.torch.ahead import compile_ahead
from epifuse.torch.aten import PRODUCTS
from epifuse.torch.call import fused
from epifuse.torch.entries import Kernel, LeftOut, OnHopper
from epifuse.torch.equal_work import merge_equal_work
from epifuse.torch.expected import Expected, shape_to_read, text_of
from epifuse.torch.importer import Imported, import_graph
from epifuse.torch.in_place import copies_over_inputs, write_in_place
from epifuse.torch.layout import RESHAPES
from epifuse.torch.memory import is_needed_in_memory, is_unstored, is_view, sums_both_ways
from epifuse.torch.narrow_weights import products_of_narrow_weights
from epifuse.torch.padding import PADDED, put_back, without_padding
from epifuse.torch.report import Report
from epifuse.torch.transposed import write_transposed

log = logging.getLogger("epifuse.torch")


def _symbolic_sizes(graph: Graph) -> dict[Any, Node]:
    sizes: dict[Any, Node] = {}
    for node in graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt):
            sizes.setdefault(value.node.expr, node)
    return sizes


_NO_LISTS = "Inductor's C++ wrapper cannot call ops of others that return lists of tensors."


def _is_called_from_cpp() -> bool:
    """Whether C++ calls ops that is compiled here and now, not ahead of time."""
    from torch._inductor import config
    from torch._inductor.virtualized import V

    return config.cpp_wrapper and V.aot_compilation is not True


class _NoSize(Exception):
    """A shape with more sizes that no node has than a reshape can find itself."""


class _Left(Exception):
    """A kernel that the framework is faster without: a code and one sentence."""


def _how(choice: dict[str, Any]) -> str:
    steps = zip(choice.get("how", ()), choice.get("grounds", ()))
    return "; ".join(": ".join(filter(None, step)) for step in steps)


def _as_seen_by_others(node: Node) -> Node:
    """For a tensor of four dims its view in other dims, where that is there: before a convolution
    Inductor takes dim 1 for channels where such a tensor has several readers, and lays it last."""
    if node.op != "call_function" or node.meta["val"].dim() != 4:
        return node
    for user in node.users:
        is_reshape = str(user.target) in RESHAPES and user.all_input_nodes == [node]
        if is_reshape and user.meta["val"].dim() != 4:
            node.append(user)
            return user
    return node


class _Rewriter:
    def __init__(self, graph: Graph, imported: Imported, options: str, waits: bool) -> None:
        self.graph = graph
        self.imported = imported
        self.options = options
        self.waits = waits  # for what is measured of a kernel, which may be to leave it out
        self.sizes = _symbolic_sizes(graph)
        self.node_of = imported.nodes_of_values()
        self.results: set[Node] = set()  # of kernels, and views of them

    def call(self, target: Any, arguments: tuple[Any, ...], name: str | None = None) -> Node:
        return nodes.call(self.graph, target, arguments, name)

    def shape_argument(self, shape: tuple[Any, ...]) -> list[Any]:
        """A shape as an argument: integers, and nodes where a size is symbolic; one may be -1."""
        argument: list[Any] = []
        for size in shape:
            if isinstance(size, int):
                argument.append(size)
            else:
                argument.append(self.sizes.get(size.node.expr, -1))
        if argument.count(-1) > 1:
            raise _NoSize
        return argument

    def input(self, tensor: dict[str, Any], shape: list[int] | None) -> Node:
        node = self.imported.names[tensor["value"]]
        if shape is None:
            return node
        return self.call(torch.ops.aten.reshape.default, (_as_seen_by_others(node), shape))

    def input_shape(self, tensor: dict[str, Any]) -> list[int] | None:
        """What the kernel reshapes an input to: one size may be -1. Raises _NoSize."""
        name = tensor["value"]
        sizes = shape_to_read(tensor, self.imported.shapes.get(name),
                              self.imported.names[name].meta["val"])
        if sizes is not None and sizes.count(-1) > 1:
            raise _NoSize
        return sizes

    def start(self, kernels: list[dict[str, Any]]) -> None:
        """Starts to compile and measure kernels, before any of them is waited for. A kernel whose
        inputs cannot be told yet starts when its turn comes."""
        if not self.waits:
            return
        expected = Expected(self.imported)
        try:
            for kernel in kernels:
                inputs = expected.inputs(kernel)
                if inputs is not None:
                    compile_ahead(kernel["graph"], self.options, inputs)
                    expected.add(kernel, self.options, inputs)
        except (RuntimeError, ValueError) as error:
            log.warning("not all kernels are compiled at once: %s", error)

    def choice(self, kernel: dict[str, Any], inputs: list[Node]) -> dict[str, Any]:
        """What runs go by, as far as it is known. Raises _Left."""
        values = [node.meta["val"] for node in inputs]
        started = compile_ahead(kernel["graph"], self.options, values)
        if started is None or not self.waits:
            return {}
        choice = started.result()
        left = choice.get("left")
        pads = any(self.node_of[value].meta.get(PADDED) for value in kernel["values"])
        if left and (pads or left["code"] != "framework_is_faster_padded"):
            raise _Left("framework_is_faster", left["why"])
        return choice

    def insert(self, kernel: dict[str, Any]) -> Kernel:
        """Puts a kernel behind its inputs and makes everyone read its results.

        Raises _NoSize and _Left, and leaves the graph as it was.
        """
        outputs = [self.imported.names[tensor["value"]] for tensor in kernel["outputs"]]
        shapes = [self.shape_argument(tuple(node.meta["val"].shape)) for node in outputs]
        input_shapes = list(map(self.input_shape, kernel["inputs"]))
        names = {self.imported.names[tensor["value"]] for tensor in kernel["inputs"]}
        last = [node for node in self.graph.nodes if node in names][-1]
        taken = dict.fromkeys(self.node_of[value] for value in kernel["values"])
        description = Kernel(kernel["name"], kernel["epilogue"],
                             tuple(node.name for node in taken),
                             tuple(node.name for node in outputs), kernel["graph"],
                             tuple(origin.product(node) for node in taken
                                   if origin.is_product(node)))
        with self.graph.inserting_after(last):
            place = self.graph.call_function(operator.pos, (last,))
        with self.graph.inserting_before(place):
            inputs = list(map(self.input, kernel["inputs"], input_shapes))
            try:
                description = replace(description, how=_how(self.choice(kernel, inputs)))
            except _Left:
                self.graph.erase_node(place)
                for node in reversed(dict.fromkeys(inputs)):
                    if node not in names:
                        self.graph.erase_node(node)
                raise
            text = text_of(kernel, outputs[0].meta["val"])
            call = self.call(fused, (inputs, text, self.options), f"epifuse_{kernel['name']}")
            for index, (node, shape) in enumerate(zip(outputs, shapes)):
                stored = result = self.call(operator.getitem, (call, index))
                order = kernel["outputs"][index].get("order")
                if order is not None:
                    result = self.call(torch.ops.aten.permute.default, (result, order))
                if result.meta["val"].shape != node.meta["val"].shape:
                    result = self.call(torch.ops.aten.reshape.default, (result, shape))
                self.results.update((stored, result))
                node.replace_all_uses_with(result)
                result.meta = {**node.meta, "val": result.meta["val"]}
                self.replace(node, result)
                value = kernel["outputs"][index]["value"]
                if value in self.imported.stored:  # later kernels read it as it is in memory
                    self.imported.names[value] = stored
        self.graph.erase_node(place)
        self.erase(list(taken))
        return description

    def replace(self, node: Node, result: Node) -> None:
        for name, known in self.imported.names.items():
            if known is node:
                self.imported.names[name] = result

    def erase(self, nodes: list[Node]) -> None:
        """Erases nodes that nobody reads any more, and the views on the way. What kernels store
        stays: kernels that come later may read it for a value that is equal."""
        open_nodes = list(nodes)
        while open_nodes:
            node = open_nodes.pop()
            if node._erased or node in self.results:
                continue
            open_nodes += [user for user in node.users if is_view(user) and not user.users]
            if not node.users:
                open_nodes += [arg for arg in node.all_input_nodes if arg in nodes or is_view(arg)]
                self.graph.erase_node(node)


def _target(imported: Imported) -> str:
    """`cuda` where any tensor is there: numbers beside it may still be on the host."""
    kinds = {node.meta["val"].device.type for node in imported.names.values()}
    return "cuda" if "cuda" in kinds else "cpu"


def _put(kernel: dict[str, Any], rewriter: _Rewriter, report: Report) -> list[tuple[str, str, str]]:
    """Puts a kernel into the graph and the report, or where that is left to the framework those
    that its products have apart. What is left out and why."""
    try:
        report.kernels.append(rewriter.insert(kernel))
        return []
    except _Left as left:
        has_own = {value for each in kernel["apart"] for value in each["values"]}
        left_out = [(value, *left.args) for value in kernel["values"]
                    if value not in has_own and origin.is_product(rewriter.node_of[value])]
        for each in kernel["apart"]:
            left_out += _put(each, rewriter, report)
        return left_out
    except _NoSize:
        return [(tensor["value"], "symbolic_shape", "No node of the graph has a size that the "
                 "result needs.") for tensor in kernel["outputs"]]


def _on_one_device(kernel: dict[str, Any], imported: Imported) -> bool:
    devices = {imported.names[tensor["value"]].meta["val"].device for tensor in kernel["inputs"]}
    return len(devices) == 1


def _request(imported: Imported, options: dict[str, Any]) -> dict[str, Any]:
    in_memory = [name for name, node in imported.names.items() if is_needed_in_memory(node)]
    unstored = [name for name in imported.inputs if is_unstored(imported.names[name])]
    return {**options, "whole": imported.whole, "after": imported.after, "in_memory": in_memory,
            "unstored": unstored, "likely_sizes": imported.likely_sizes,
            "sums_both_ways": options["target"] != "cpu" and sums_both_ways()}  # fmt: skip


def _products_left_out(imported: Imported, code: str, why: str) -> list[LeftOut]:
    """All products, for one reason."""
    return [LeftOut(node.name, code, why) for node in imported.names.values()
            if str(node.target) in PRODUCTS]


def fuse(graph: Graph, options: dict[str, Any], only_faster: bool,
         asks_hopper: bool = False) -> Report:
    """Fuses what pays in a functional aten graph, in place.

    `options`: "numerics", "tf32" and "tune", and `only_faster`, as in epifuse_fusions
    (epifuse/c.h). On GPUs `only_faster` leaves out what is measured to be faster without a kernel;
    it is waited for. What cannot be fused stays as it is, and the report says why. `asks_hopper`:
    whether the report of a graph for the CPU says what a Hopper GPU would make of it.
    """
    compared.find(graph)
    convolved = convolutions.as_products(graph, only_faster)
    unpadded, over_inputs = without_padding(graph), copies_over_inputs(graph)
    floats = integers.as_floats(graph)
    maxima.without_indices(graph)
    largest = maxima.by_rows(graph)
    tables = repeated.by_halves(graph)
    products = origin.products(graph)
    report = _fuse(graph, options, only_faster, asks_hopper)
    report.left_out = [replace(each, product=products.get(each.node)) for each in report.left_out]
    report.left_out = maxima.put_back(largest, report.left_out)
    report.left_out = convolutions.put_back(convolved, report.left_out)
    repeated.put_back(graph, tables)
    integers.put_back(graph, floats)
    stands_for = {each.product_name: each.name for each in floats}
    report.kernels = [_with_names(kernel, stands_for) for kernel in report.kernels]
    names = {**put_back(graph, unpadded), **stands_for}
    report.left_out = [replace(each, node=names.get(each.node, each.node))
                       for each in report.left_out]
    if report.kernels or names:
        _sort(graph)
        gone = write_in_place(graph, over_inputs) | write_transposed(graph)
        report.left_out = [each for each in report.left_out if each.node not in gone]
    return report


def _with_names(kernel: Kernel, names: dict[str, str]) -> Kernel:
    products = tuple(replace(each, node=names.get(each.node, each.node))
                     for each in kernel.products)
    return replace(kernel, nodes=tuple(names.get(node, node) for node in kernel.nodes),
                   products=products)


def _on_hopper(imported: Imported, request: dict[str, Any]) -> OnHopper | None:
    """None beside a GPU of another kind. Planning needs no GPU."""
    asked = {**request, "target": "cuda", "only_faster": False}
    try:
        found = _native.fusions(imported.text or "", asked)
    except (_native.UnavailableError, _native.BadInputError):
        return None
    left = {refused.node.name: refused.code for refused in imported.refused
            if origin.is_product(refused.node)}
    node_of = imported.nodes_of_values()
    for entry in found["left_out"]:
        node = node_of.get(entry["value"])
        if node is not None and origin.is_product(node):
            left[node.name] = entry["code"]
    return OnHopper(len(found["kernels"]), dict(Counter(left.values())))


def _fuse(graph: Graph, options: dict[str, Any], only_faster: bool, asks_hopper: bool) -> Report:
    report = Report()
    merge_equal_work(graph)
    narrow = products_of_narrow_weights(graph, options["numerics"] == "exact")
    imported = import_graph(graph, narrow)
    imported.names.update(imported.stored)  # what kernels store for nodes
    report.left_out += [LeftOut(refused.node.name, refused.code, refused.why)
                        for refused in imported.refused]
    if imported.text is None:
        return report
    if _is_called_from_cpp():
        report.left_out += _products_left_out(imported, "cpp_wrapper", _NO_LISTS)
        return report
    options = {"target": _target(imported), **options}
    if options["target"] == "cpu":
        options.pop("tune", None)  # there is nothing to choose
    try:
        request = {**_request(imported, options), "only_faster": only_faster}
        found = _native.fusions(imported.text, request)
        if asks_hopper and options["target"] == "cpu":
            report.on_hopper = _on_hopper(imported, request)
    except _native.Error as error:  # the program runs without us, and says why
        code = "unavailable" if isinstance(error, _native.UnavailableError) else "failed"
        log.warning("nothing is fused: %s", error)
        report.left_out += _products_left_out(imported, code, str(error))
        return report
    read = [refused.node for refused in imported.refused if refused.node.users]
    waits = only_faster and options.get("tune", "off") != "off"
    rewriter = _Rewriter(graph, imported, json.dumps(options, separators=(",", ":")), waits)
    left_out = [(entry["value"], entry["code"], entry["why"]) for entry in found["left_out"]]
    kernels = conversions.with_operands(graph, found["kernels"], imported)
    left_out += conversions.left_out(found["kernels"], kernels)
    rewriter.start([kernel for kernel in kernels if _on_one_device(kernel, imported)])
    for kernel in kernels:
        if _on_one_device(kernel, imported):
            left_out += _put(kernel, rewriter, report)
        else:
            left_out += [(tensor["value"], "device", "The operands are on several devices.")
                         for tensor in kernel["outputs"]]
    # Rows that kernels alone read, which look them up themselves.
    looked_up = {node.name for node in read if not node.users}
    report.left_out = [each for each in report.left_out if each.node not in looked_up]
    named = {}
    for value, code, why in left_out:
        if value in rewriter.node_of:
            name = rewriter.node_of[value].name
            if code == "operand_left_out" and name in named:
                continue  # of several ops of one node the first one tells why
            named[name] = LeftOut(name, code, _with_node_names(why, rewriter.node_of))
    report.left_out += named.values()
    return report


def _with_node_names(sentence: str, node_of: dict[str, Node]) -> str:
    """The sentence with the graph's names, which may be other words in the language (`sub_`). What
    a plan adds has the name of what it is made of (`sub_copy`)."""

    def name(word: re.Match[str]) -> str:
        node = node_of.get(word[0]) or node_of.get(word[0].rpartition("_")[0])
        return word[0] if node is None else node.name

    return re.sub(r"[A-Za-z_]\w*", name, sentence)


def _sort(graph: Graph) -> None:
    from torch._inductor.pattern_matcher import stable_topological_sort

    stable_topological_sort(graph)
    graph.eliminate_dead_code()  # what passes of the core gave other names is not erased yet
    graph.lint()
