"""What explain says of models: a summary first, a line for each product, what repeats folded."""

import json

import pytest
import torch
from test_backend import Mlp
from torch import nn
from torch.nn import functional as F

import epifuse.torch
from epifuse import BadInputError
from epifuse.torch.call import fused
from epifuse.torch.entries import LeftOut, OnHopper, Product
from epifuse.torch.explanation import _AsCompiled
from epifuse.torch.report import Report
from epifuse.torch.rewrite import _with_node_names

pytestmark = pytest.mark.usefixtures("fresh")


class Stack(nn.Module):
    def __init__(self, depth=3, dtype=torch.bfloat16):
        super().__init__()
        self.layers = nn.ModuleList(Mlp(dtype=dtype) for _ in range(depth))
        self.head = nn.Linear(64, 16, bias=False, dtype=dtype)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return torch.softmax(self.head(x), -1)


def explained(model, *args, **kwargs):
    with torch.no_grad():
        return epifuse.torch.explain(model, *args, **kwargs)


def rows(count=7):
    return torch.randn(count, 64, dtype=torch.bfloat16)


def test_the_summary_comes_first_and_layers_fold():
    lines = str(explained(Stack(), rows())).splitlines()
    assert lines[0] == "6 kernels; 1 product left to PyTorch: nothing to fuse."
    assert lines[1] == ("This is the plan for the CPU. On a Hopper GPU it would be 6 kernels, with "
                        "1 product left to cuBLAS: nothing to fuse.")
    up, down = lines[3:5]
    assert up.startswith("  layers.[0 to 2].up: matmul_bias_gelu_erf, 7x128x64 bfloat16, "
                         "test_backend.py:")
    assert down.startswith("  layers.[0 to 2].down: matmul_bias_residual, 7x64x128 bfloat16, ")
    assert up.endswith(", 3 times") and down.endswith(", 3 times")
    assert lines[6].startswith("  1 product, nothing_to_fuse: There is no work on this product ")
    assert lines[7].startswith("    head: 7x16x64 bfloat16, test_explain.py:")


def test_the_report_as_data():
    report = explained(Stack(depth=1), rows())
    up, down = (kernel.products[0] for kernel in report.kernels)
    assert (up.module, up.sizes, up.dtype, up.device, up.backward) == (
        "layers.0.up", "7x128x64", "bfloat16", "cpu", False)
    with open(up.file) as source:
        assert "self.up(" in source.read().splitlines()[up.line - 1]
    assert down.module == "layers.0.down"
    assert [left.product.module for left in report.products_left] == ["head"]
    assert report.reasons() == {"nothing_to_fuse": 1}
    assert report.to_dict() == json.loads(json.dumps(report.to_dict()), object_hook=_tuples)
    assert report.to_dict()["on_hopper"] == {"kernels": 2,
                                             "products_left": {"nothing_to_fuse": 1}}


def _tuples(data):
    return {key: tuple(value) if isinstance(value, list) and key in ("nodes", "outputs", "products")
            else value for key, value in data.items()}  # fmt: skip


def test_each_product_is_in_a_kernel_or_left_out():
    report = explained(Stack(dtype=torch.float32), torch.randn(7, 64))
    in_kernels = [product.node for kernel in report.kernels for product in kernel.products]
    left = [each.node for each in report.products_left]
    assert len(in_kernels) + len(left) == 7 == len({*in_kernels, *left})


def test_a_gate_is_one_line_of_two_modules():
    class Gate(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = nn.Linear(64, 32, bias=False, dtype=torch.bfloat16)
            self.up = nn.Linear(64, 32, bias=False, dtype=torch.bfloat16)

        def forward(self, x):
            return F.silu(self.gate(x)) * self.up(x)

    text = str(explained(nn.Sequential(Gate()), rows()))
    assert "  0.gate + up: matmul_" in text


def test_functions_have_lines_and_the_backward_is_marked():
    weight = torch.randn(64, 64, requires_grad=True)

    def f(x):
        return (torch.relu(x @ weight) @ weight).square().sum()

    x = torch.randn(7, 64, requires_grad=True)
    report = epifuse.torch.explain(lambda x: f(x).backward(), x)
    text = str(report)
    assert "mm: matmul_relu, 7x64x64 float32, test_explain.py:" in text
    backward = [each.product for each in report.products_left if each.product.backward]
    assert len(backward) == 2 and "(backward)" in text


def test_options_are_those_of_torch_compile():
    model, x = Stack(depth=1, dtype=torch.float32), torch.randn(7, 64)
    options = {"epifuse.numerics": "exact", "max_autotune": False, "epifuse.only_faster": False}
    assert len(explained(model, x, options=options).kernels) == 2
    with pytest.raises(BadInputError, match="expected numerics once, got 'fast' and options="):
        explained(model, x, options=options, numerics="fast")
    with pytest.raises(Exception, match="expected options among .*, got typo"):
        explained(model, x, options={"epifuse.typo": 1})
    with pytest.raises(Exception, match="no_such_option"):
        explained(model, x, options={"no_such_option": 1})


def test_options_reach_the_kernels():
    model, x = Mlp().eval().requires_grad_(False), torch.randn(128, 64, dtype=torch.bfloat16)
    left = explained(model, x, options={"epifuse.only_faster": True}).reasons()
    assert left == {"framework_is_faster": 2} and explained(model, x).reasons() == {}


def test_the_users_own_pass_runs_in_explain():
    from torch._inductor import config

    graphs = []
    with config.patch(post_grad_custom_pre_pass=graphs.append):
        explained(Stack(depth=1), rows())
    assert len(graphs) == 1


def product(node, device="cuda", module=""):
    return Product(node, module, "", 0, "8x8x8", "float16", device, False)


def test_reasons_are_grouped_with_counts():
    left = [LeftOut(f"mm_{i}", "nothing_to_fuse", f"There is no work on mm_{i}.",
                    product(f"mm_{i}", module=f"blocks.{i}.q")) for i in (0, 1, 2, 5)]  # fmt: skip
    left += [LeftOut("mm_9", "dtype", "mm_9 computes with f64.", product("mm_9"))]
    left += [LeftOut(f"sum_{i}", "op_not_known", f"op{i} is not known.") for i in range(8)]
    left += [LeftOut(f"mul_{i}", "view_of_result", f"mul_{i} reads mm_{i} through a view.")
             for i in (0, 1, 2)]  # fmt: skip
    text = str(Report([], left, OnHopper(1, {})))
    assert text.splitlines() == [
        "0 kernels; 5 products left to cuBLAS: 4 nothing to fuse, 1 dtype.",
        "This is the plan for the CPU. On a Hopper GPU it would be 1 kernel.",
        "Products left out:",
        "  4 products, nothing_to_fuse: There is no work on this product.",
        "    blocks.[0 to 2, 5].q: 8x8x8 float16, 4 times",
        "  1 product, dtype: This product computes with f64.",
        "    mm_9: 8x8x8 float16",
        "Other work left to Inductor:",
        *[f"  1 node, op_not_known: op{i} is not known. (sum_{i})" for i in range(3)],
        "  5 more nodes, op_not_known",
        "  3 nodes, view_of_result: This reads mm_0 through a view. (mul_0 and 2 more)",
    ]


def test_names_that_are_words_of_a_sentence_stay_words():
    left = [LeftOut("index", "op_not_known", "aten.index.Tensor takes rows by an index of index.")]
    assert "aten.index.Tensor takes rows by an index of this. (index)" in str(Report([], left))


def test_an_op_of_several_steps_is_not_left_out_for_itself():
    w = torch.randn(64, 64)
    report = explained(lambda x: (x @ w).t() ** 3.0 @ w[:7], torch.randn(7, 64))
    (cube,) = [each for each in report.left_out if each.product is None]
    assert cube.code == "view_of_result"
    assert cube.why.count(cube.node) == 1


def test_reasons_name_nodes_where_plans_have_values_of_their_own():
    graph = torch.fx.Graph()
    node_of = {name: graph.placeholder(name) for name in ("permute_1", "convert")}
    sentence = "y is computed from {}, which has {}, which is outside of the kernel."
    assert _with_node_names(sentence.format("permute_1_copy", "convert_wide0"), node_of) == (
        sentence.format("permute_1", "convert"))


def test_a_model_without_products_says_so():
    assert str(explained(torch.relu, rows())) == "0 kernels; no matrix product was seen."


def test_branches_are_graphs_too():
    up, down = nn.Linear(64, 64).bfloat16(), nn.Linear(64, 64).bfloat16()

    def function(x):
        return torch.cond(x.sum() > 0, lambda x: F.gelu(up(x)), lambda x: F.relu(down(x)), (x,))

    with torch.no_grad():
        report = explained(function, rows())
    assert [kernel.epilogue for kernel in report.kernels] == ["bias+gelu_erf", "bias+relu"]
    assert [product.module for kernel in report.kernels for product in kernel.products] == [
        "up", "down"]


def test_results_lie_as_those_of_compiled_code():
    text = "graph g(x: f32[3, 5, 4], w: f32[4, 6]) {\n  y = matmul x, w\n  return y\n}\n"
    x, w = torch.randn(3, 5, 4), torch.randn(4, 6)
    asked = torch.empty(5, 3, 6).transpose(0, 1)  # rows of all matrices by turns
    graph = torch.fx.Graph()
    call = graph.call_function(fused, ([graph.placeholder("x"), graph.placeholder("w")], text,
                                       '{"target": "cpu"}'))
    call.meta["val"] = [asked]
    graph.output(call)
    (result,) = _AsCompiled(torch.fx.GraphModule({}, graph)).run(x, w)
    assert result.stride() == asked.stride()
    assert torch.allclose(result, x @ w, atol=1e-5)
