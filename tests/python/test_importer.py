"""What of an FX graph becomes text, and what the text says of it."""

import re
import time

import epi_reference
import pytest
import torch
from fx_capture import assert_parses, capture, compare
from torch import nn
from torch.nn import functional as F

from epifuse.torch.importer import import_graph

aten = torch.ops.aten


def whole_numbers(*shape, dtype=torch.bfloat16):
    """Small integers: their products are exact in any order of addition."""
    torch.manual_seed(sum(shape))
    return torch.randint(-3, 4, shape).to(dtype)


X, W, B = whole_numbers(6, 8), whole_numbers(8, 10), whole_numbers(10) / 4
Q, K = whole_numbers(2, 3, 4, 8), whole_numbers(2, 3, 8, 5)


def body(text):
    """The statements and outputs."""
    return re.sub(r"\n\s+", "\n", text.partition(") {")[2]).strip().removesuffix("\n}")


# --- products -------------------------------------------------------------------------------------

PRODUCTS = {
    "mm": (lambda x, w: x @ w, X, W),
    "addmm": (torch.addmm, B, X, W),
    "addmm row": (torch.addmm, B[None], X, W),
    "addmm column": (torch.addmm, whole_numbers(6, 1), X, W),
    "addmm one": (torch.addmm, whole_numbers(1)[0], X, W),
    "addmm full": (torch.addmm, whole_numbers(6, 10), X, W),
    "addmm scaled": (lambda b, x, w: torch.addmm(b, x, w, alpha=0.5, beta=0.25), B, X, W),
    "addmm beta 0": (lambda b, x, w: torch.addmm(b, x, w, beta=0), B * torch.nan, X, W),
    "addmm scaled, beta 0": (lambda b, x, w: torch.addmm(b, x, w, alpha=0.5, beta=0), B, X, W),
    "bmm": (torch.bmm, Q[0], K[0]),
    "baddbmm": (lambda b, x, y: torch.baddbmm(b, x, y, alpha=0.5), whole_numbers(3, 4, 5), Q[0],
                K[0]),
    "matmul 4 dims": (torch.matmul, Q, K),
    "matmul shared": (torch.matmul, Q, K[0, 0]),
    "matmul broadcast": (torch.matmul, Q[:, :1], K[:1]),
    "linear": (F.linear, X, W.t().contiguous()),
    "linear bias": (F.linear, X, W.t().contiguous(), B),
    "linear 3 dims": (F.linear, whole_numbers(2, 3, 8), W.t().contiguous(), B),
    "chain": (lambda x, w, v: (x @ w).relu() @ v, X, W, whole_numbers(10, 4)),
}  # fmt: skip


@pytest.mark.parametrize("whole", [False, True], ids=["decomposed", "whole"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=["bf16", "f32"])
@pytest.mark.parametrize("case", PRODUCTS.values(), ids=PRODUCTS.keys())
def test_products(case, dtype, whole):
    function, *args = case
    imported = compare(function, *(arg.to(dtype) for arg in args), whole=whole)
    assert not imported.refused


@pytest.mark.skipif(not hasattr(aten.mm, "dtype"), reason="no products with another dtype")
@pytest.mark.parametrize(("function", "args"), [
    (lambda x, w: aten.mm.dtype(x, w, torch.float32), (X, W)),
    (lambda x, w: aten.bmm.dtype(x, w, torch.float32), (Q[0], K[0])),
])  # fmt: skip
def test_products_with_a_result_of_f32(function, args):
    imported = compare(function, *args, exact=False)  # the CPU has no such product
    assert " -> f32" in imported.text


def test_text_of_addmm():
    imported = import_graph(capture(torch.addmm, B, X, W).graph)
    assert imported.text == """graph fx(arg0_1: bf16[10],
         arg1_1: bf16[6, 8],
         arg2_1: bf16[8, 10]) {
  addmm_product = matmul arg1_1, arg2_1 -> f32
  addmm_cast = cast arg0_1 -> f32
  addmm_add = add addmm_product, addmm_cast
  addmm = cast addmm_add -> bf16
  return addmm
}
"""
    assert imported.whole == [["addmm_product", "addmm_cast", "addmm_add", "addmm"]]
    assert list(imported.names) == ["arg1_1", "arg2_1", "arg0_1", "addmm"]
    assert imported.after == {}


@pytest.mark.parametrize(("function", "args", "code"), [
    (torch.mm, (X.double(), W.double()), "dtype"),
    (torch.mm, (X.long(), W.long()), "dtype"),
    (aten._int_mm.default, (whole_numbers(32, 32).to(torch.int8),
                            whole_numbers(32, 32).to(torch.int8)), "int_mm"),
    (lambda b, x, w: torch.addmm(b, x, w, alpha=0), (B, X, W), "scalar_operand"),
    (lambda x, w: torch.addmm(torch.zeros((), dtype=torch.bfloat16), x, w, beta=1e40), (X, W),
     "scalar_operand"),
])  # fmt: skip
def test_products_that_stay_with_the_host(function, args, code):
    imported = import_graph(capture(function, *args).graph)
    assert imported.text is None
    assert [each.code for each in imported.refused] == [code]


def test_nothing_without_a_product():
    imported = import_graph(capture(lambda x: F.gelu(x) + 1, X).graph)
    assert imported.text is None
    assert not imported.refused


# --- what is imported -----------------------------------------------------------------------------


def test_what_depends_on_a_product_and_the_work_on_what_it_reads():
    def function(x, w, b):
        return torch.relu(x @ w + b.exp()) * torch.sigmoid(b), torch.tanh(b)

    imported = compare(function, X, W, B, exact=False)
    assert body(imported.text) == """mm = matmul x_1, w_1
exp_ = exp b_1
add_ = add mm, exp_
relu_ = relu add_
sigmoid_ = sigmoid b_1
mul_ = mul relu_, sigmoid_
return mul_"""


def test_dead_code_is_not_imported():
    def function(x, w):
        h = x @ w
        return h + 1

    module = capture(function, X, W)
    product = next(node for node in module.graph.nodes if node.target is aten.mm.default)
    with module.graph.inserting_after(product):
        dead = module.graph.call_function(aten.neg.default, (product,))
        dead.meta["val"] = product.meta["val"]
    assert "neg" not in body(import_graph(module.graph).text)


def test_outputs_are_what_others_read():
    def function(x, w):
        h = x @ w
        g = torch.relu(h)
        view = g.view(2, 3, 10)
        return torch.softmax(view, -1), h.t(), g * 2

    imported = compare(function, X, W, exact=False)
    outputs = epi_reference.parse(imported.text).outputs
    assert outputs == ["mm", "relu_", "mul_"]
    assert [(str(each.node.target), each.code) for each in imported.refused] == [
        ("aten._softmax.default", "op_not_known")
    ]


def test_inputs_that_depend_on_results():
    def function(x, w, v):
        h = torch.relu(x @ w)
        scale = h.mean(-1, keepdim=True)
        g = (h * scale) @ v
        return g / g.std(-1, keepdim=True) + scale

    imported = compare(function, X, W, whole_numbers(10, 4), exact=False)
    assert imported.after == {"mean": ["relu_"], "std": ["mm_1"]}


def test_names_are_identifiers():
    module = capture(lambda x, w: x @ w + 1, X, W)
    for node, name in zip(module.graph.nodes, ["a.b", "0 day", "select", "graph", "return"]):
        node.name = name
    imported = import_graph(module.graph)
    assert_parses(imported.text)
    assert list(imported.names) == ["a_b", "_0_day", "select_", "graph_"]


def test_inplace_update_of_an_input_reads_the_result():
    module = capture(lambda x, w, y: torch.relu(x @ w) + y, X, W, whole_numbers(6, 10))
    *_, result, output = module.graph.nodes
    with module.graph.inserting_before(output):
        copy = module.graph.call_function(aten.copy_.default, (result.args[1], result.args[0]))
        copy.meta["val"] = result.meta["val"]
    imported = import_graph(module.graph)
    assert epi_reference.parse(imported.text).outputs == ["relu_", "add_"]


# --- views ----------------------------------------------------------------------------------------

H = whole_numbers(6, 12)
VIEWS = {
    "reshape": (lambda h: h.view(2, 3, 12).relu(), "reshape mm [2, 3, 12]"),
    "permute": (lambda h: h.view(2, 3, 12).permute(1, 2, 0).relu(), "transpose view [1, 2, 0]"),
    "t": (lambda h: h.t().relu(), "transpose mm [1, 0]"),
    "transpose": (lambda h: h.view(2, 3, 12).transpose(-1, 0).relu(), "[2, 1, 0]"),
    "unsqueeze": (lambda h: h.unsqueeze(1).relu(), "reshape mm [6, 1, 12]"),
    "squeeze": (lambda h: h.unsqueeze(1).squeeze(1).relu(), "reshape unsqueeze [6, 12]"),
    "expand": (lambda h: h.unsqueeze(1).expand(6, 4, 12).relu(), "broadcast unsqueeze [6, 4, 12]"),
    "slice": (lambda h: h[:, 2:7].relu(), "slice mm [:, 2:7]"),
    "slice from end": (lambda h: h[:, -5:-2].relu(), "slice mm [:, 7:10]"),
    "slice step": (lambda h: h[:, 1::3].relu(), "slice mm [:, 1:11:3]"),
    "slice long step": (lambda h: h[1::4, ::7].relu(), "[1:6:4, :]"),
    "select": (lambda h: h[2].relu(), "slice mm [2:3, :]"),
    "select from end": (lambda h: h[..., -1].relu(), "slice mm [:, 11:12]"),
    "split": (lambda h: h.split(5, 1)[2].relu() + h.split(5, 1)[0][:, :2], "slice mm [:, 10:12]"),
    "split_with_sizes": (lambda h: h.split([3, 9], 1)[1].relu(), "slice mm [:, 3:12]"),
    "chunk": (lambda h: h.chunk(2, -1)[0].sigmoid() * h.chunk(2, -1)[1], "slice mm [:, 6:12]"),
    "unbind": (lambda h: h.unbind(0)[4].relu(), "slice mm [4:5, :]"),
    "flatten": (lambda h: h.flatten().relu(), "reshape mm [72]"),
    "copy": (lambda h: h.clone().relu(), "relu mm"),
    "copy of columns": (lambda h: h[:, :6].contiguous().relu(), "relu slice_"),
    "detach": (lambda h: h.detach().relu(), "relu mm"),
}  # fmt: skip


@pytest.mark.parametrize("inductor", [False, True], ids=["plain", "inductor"])
@pytest.mark.parametrize(("function", "expected"), VIEWS.values(), ids=VIEWS.keys())
def test_views(function, expected, inductor):
    eye = torch.eye(12, dtype=torch.bfloat16)
    imported = compare(lambda h, eye: function(h @ eye), H, eye, inductor=inductor, tolerance=1.01)
    assert inductor or expected in imported.text
    assert not imported.refused


def test_views_of_inputs_are_inputs():
    def function(x, w):
        return x.view(2, 3, 8)[1] @ w.t()[:, 2:]

    imported = compare(function, X, whole_numbers(10, 8))
    assert body(imported.text) == "mm = matmul select_, slice_1\nreturn mm"
    assert [str(node.target) for node in imported.names.values()][:2] == [
        "aten.select.int", "aten.slice.Tensor"]  # fmt: skip


def test_a_view_that_moves_memory_stays_with_the_host():
    def function(x, w, v):
        heads = (x @ w).view(3, 2, 2, 5).transpose(1, 2).reshape(6, 10)
        return heads @ v

    imported = compare(function, X, W, whole_numbers(10, 4))
    assert [each.code for each in imported.refused] == ["layout"]
    assert list(imported.after.values()) == [["mm"]]


# --- sizes ----------------------------------------------------------------------------------------


def test_symbolic_sizes():
    def function(x, w, r):
        b, s, k = x.shape
        h = (x.reshape(b * s, k) @ w).view(b, s, -1)
        left, right = (h.transpose(1, 2) * 2 + r).split([3, w.shape[1] - 3], 1)
        return torch.relu(left) * right[:, :3]

    x, w = whole_numbers(3, 5, 8), whole_numbers(8, 8)
    imported = compare(function, x, w, whole_numbers(5), dynamic=True,
                       runs=[(whole_numbers(4, 7, 8), w, whole_numbers(7))])  # fmt: skip
    assert not imported.refused
    assert re.search(r"bf16\[s\d+\*s\d+, \w+\]", imported.text)
    assert "size_s" in imported.text  # only the product of two sizes is the size of an input
    assert not any(name.startswith("size_") for name in imported.names)


def test_sizes_that_are_no_polynomials():
    def function(x, w):
        half = x.shape[0] // 2
        return torch.relu(x[:half] @ w) + 1

    imported = compare(function, X, W, dynamic=True, runs=[(whole_numbers(9, 8), W)])
    assert re.search(r"\[n\d+, ", imported.text)


def test_slices_with_symbolic_sizes():
    def function(x, w):
        h = x @ w
        return h[1:].relu() + h[:-1] * h[2:3]

    compare(function, X, W, dynamic=True, runs=[(whole_numbers(9, 8), W)])


def test_slices_that_start_at_symbolic_sizes():
    def function(x, w, y):
        n = y.shape[0]
        return (x @ w)[:, n:].relu() + (x @ w)[n:, n:].sum()

    imported = compare(function, X, W, whole_numbers(3), dynamic=True)
    assert re.search(r"slice mm \[:, s\d+:s\d+\]", imported.text)


def test_sizes_that_only_a_run_tells():
    def function(x, w):
        rows = x[x[:, 0] > 0]
        return torch.relu(rows @ w).unsqueeze(1).clone().flatten() * 2

    imported = compare(function, X, W, dynamic=True)
    assert re.search(r"\[u\d+, ", imported.text)
    assert not imported.refused


def test_a_shape_that_does_not_provably_fit():
    def function(x, w, y):
        return (x[: x.shape[0] // 2] @ w).view(-1) + y

    module = capture(function, X, W, whole_numbers(30), dynamic=True)
    imported = import_graph(module.graph)
    assert_parses(imported.text)


# --- real models ----------------------------------------------------------------------------------


class Seen(Exception):
    """Ends a compilation when its graph was seen."""


def post_grad_import(model, *args, dynamic=None, **kwargs):
    """What is imported of the first graph that Inductor compiles of a model."""
    import torch._inductor.config as config

    imports = []

    def look(graph):
        imports.append(import_graph(graph))
        raise Seen

    torch._dynamo.reset()
    with config.patch(post_grad_custom_pre_pass=look, fx_graph_cache=False), torch.no_grad():
        with pytest.raises(Exception, match="Seen"):
            torch.compile(model, dynamic=dynamic)(*args, **kwargs)
    return imports[0]


def computed(imported):
    """The overloads of the imported nodes, counted."""
    inputs = epi_reference.parse(imported.text).inputs
    targets = [str(node.target) for name, node in imported.names.items() if name not in inputs]
    return {target: targets.count(target) for target in targets}


SMALL = {"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4,
         "intermediate_size": 128, "vocab_size": 100}  # fmt: skip


def test_bert():
    transformers = pytest.importorskip("transformers")
    model = transformers.BertModel(transformers.BertConfig(**SMALL)).bfloat16().eval()
    imported = post_grad_import(model, torch.randint(0, 100, (2, 16)), use_cache=False)
    assert_parses(imported.text)
    counts = computed(imported)
    assert counts["aten.addmm.default"] == 7
    assert counts["aten.erf.default"] == counts["aten.tanh.default"] == 1
    assert counts["aten.sub.Tensor"] == 2  # the layer norms that follow a product
    assert {each.code for each in imported.refused} == {"op_not_known"}
    assert sorted(str(each.node.target).split(".")[1] for each in imported.refused)[1:] == [
        "var_mean", "var_mean"]  # fmt: skip


@pytest.mark.parametrize("dynamic", [False, True])
def test_llama(dynamic):
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(**SMALL, num_key_value_heads=2)
    model = transformers.LlamaModel(config).bfloat16().eval()
    ids = torch.randint(0, 100, (2, 16))
    imported = post_grad_import(model, ids, dynamic=dynamic, use_cache=False)
    assert_parses(imported.text)
    counts = computed(imported)
    assert counts["aten.mm.default"] == 7
    assert counts["aten.exp.default"] == 1  # silu, decomposed
    assert bool(re.search(r"s\d+\*s\d+", imported.text)) == dynamic


def test_training():
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16), nn.ReLU())
    import torch._inductor.config as config

    imports = []
    torch._dynamo.reset()
    look = lambda graph: imports.append(import_graph(graph))  # noqa: E731
    with config.patch(post_grad_custom_pre_pass=look, fx_graph_cache=False):
        torch.compile(model)(torch.randn(8, 16)).sum().backward()
    assert len(imports) == 2
    for imported in imports:
        assert_parses(imported.text)


def test_a_deep_graph_takes_little_time():
    def function(x, w):
        for _ in range(300):
            h = F.gelu(x @ w)
            x = x + h / h.std(-1, keepdim=True)
        return x

    module = capture(function, whole_numbers(6, 8), whole_numbers(8, 8))
    begin = time.perf_counter()
    imported = import_graph(module.graph)
    assert time.perf_counter() - begin < 5
    assert sum(map(len, imported.after.values())) < 2000
