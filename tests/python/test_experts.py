"""Mixtures of experts under torch.compile: one kernel for gate and up, one for down."""

import pytest
import torch
from close import distance
from torch import nn
from torch._inductor.utils import run_and_get_code
from torch.nn import functional as F

import epifuse.torch
from epifuse.torch import inductor, process

pytestmark = pytest.mark.usefixtures("fresh")
if not hasattr(F, "grouped_mm"):
    pytest.skip("this PyTorch has no grouped_mm", allow_module_level=True)

WIDTH, INNER = 64, 48


def swiglu(h):
    gate, up = h.chunk(2, -1)
    return F.silu(gate) * up


def swiglu_oai(h):
    gate, up = h[..., ::2].clamp(max=7.0), h[..., 1::2].clamp(min=-7.0, max=7.0)
    return (up + 1) * (gate * torch.sigmoid(gate * 1.702))


class Experts(nn.Module):
    """Router, experts and the sum over a token's experts. `transposed`: weights are [G, K, N].

    Of those that the router chooses the first `num_experts` are here; the others are masked, as
    transformers 5.17 does also where there are none. None: all are here, and nothing is masked."""

    def __init__(self, num_experts, top_k, gate, bias, transposed, num_routed=None):
        super().__init__()
        self.top_k, self.gate, self.transposed = top_k, gate, transposed
        self.is_masked = num_routed is not None
        self.router = nn.Linear(WIDTH, num_routed or num_experts, dtype=torch.bfloat16)

        def weight(n, k):
            shape = (num_experts, k, n) if transposed else (num_experts, n, k)
            return nn.Parameter((torch.randn(shape) / k**0.5).bfloat16())

        def vector(n):
            return nn.Parameter(torch.randn(num_experts, n).bfloat16()) if bias else None

        self.up, self.up_bias = weight(2 * INNER, WIDTH), vector(2 * INNER)
        self.down, self.down_bias = weight(WIDTH, INNER), vector(WIDTH)

    def route(self, x):
        chosen = torch.topk(self.router(x), self.top_k, -1)
        return torch.softmax(chosen.values, -1), chosen.indices

    def linear(self, x, weight, bias, ends, ids):
        y = F.grouped_mm(x, weight if self.transposed else weight.transpose(-2, -1), offs=ends)
        return y if bias is None else y + bias[ids]

    def forward(self, x):
        weights, chosen = self.route(x)
        ids, order = torch.sort(chosen.reshape(-1))
        num_experts = self.up.shape[0]
        counts = torch.histc(ids.float(), bins=num_experts, min=0, max=num_experts - 1)
        ends = torch.cumsum(counts, 0, dtype=torch.int32)
        mask = (ids >= num_experts).unsqueeze(-1) if self.is_masked else None
        ids = ids.clamp(max=num_experts - 1) if self.is_masked else ids

        def masked(rows):
            return rows.masked_fill(mask, 0.0) if self.is_masked else rows

        rows = masked(x[order // self.top_k])
        h = masked(self.linear(rows, self.up, self.up_bias, ends, ids))
        y = masked(self.linear(self.gate(h), self.down, self.down_bias, ends, ids))
        y = y * weights.reshape(-1)[order].unsqueeze(-1)
        place = torch.empty_like(order)
        place[order] = torch.arange(order.shape[0], device=x.device)
        return y[place].view(x.shape[0], self.top_k, WIDTH).sum(1)

    def exactly(self, x):
        """In float64, token by token, with the router's choice."""
        weights, chosen = (each.double() for each in self.route(x))
        up, down = (w.double() if self.transposed else w.double().transpose(-2, -1)
                    for w in (self.up, self.down))  # fmt: skip
        rows = []
        for token in range(x.shape[0]):
            total = torch.zeros(WIDTH, dtype=torch.float64, device=x.device)
            for weight, expert in zip(weights[token], chosen[token].long()):
                if expert >= len(up):
                    continue
                h = x[token].double() @ up[expert]
                h = h if self.up_bias is None else h + self.up_bias[expert].double()
                y = self.gate(h) @ down[expert]
                y = y if self.down_bias is None else y + self.down_bias[expert].double()
                total += weight * y
            rows.append(total)
        return torch.stack(rows)


def check(model, x, *epilogues):
    report = epifuse.torch.explain(model, x)
    assert [k.epilogue for k in report.kernels if "grouped" in k.graph] == list(epilogues)
    run = torch.compile(model, backend=epifuse.torch.backend)
    assert_right(model, run, x)
    return run


def assert_right(model, run, x):
    with torch.no_grad():
        got, eager, exact = run(x), model(x), model.exactly(x)
    assert got.shape == eager.shape and got.dtype == eager.dtype
    assert distance(got, exact) <= 1.1 * distance(eager, exact) + 1e-7


@pytest.mark.parametrize("transposed", [False, True])
def test_mixtral(transposed):
    model = Experts(8, 2, swiglu, False, transposed).requires_grad_(False)
    check(model, torch.randn(37, WIDTH).bfloat16(), "swiglu", "col_scale")


@pytest.mark.parametrize("transposed", [False, True])
def test_gpt_oss(transposed):
    model = Experts(32, 4, swiglu_oai, True, transposed).requires_grad_(False)
    check(model, torch.randn(21, WIDTH).bfloat16(), "bias+swiglu_oai", "bias+col_scale")


def test_one_token():
    model = Experts(32, 4, swiglu_oai, True, True).requires_grad_(False)
    check(model, torch.randn(1, WIDTH).bfloat16(), "bias+swiglu_oai", "bias+col_scale")


def test_any_number_of_tokens():
    model = Experts(8, 2, swiglu, True, False).requires_grad_(False)
    run = torch.compile(model, backend=epifuse.torch.backend, dynamic=True)
    for num_tokens in (5, 64, 17, 130):
        assert_right(model, run, torch.randn(num_tokens, WIDTH).bfloat16())


def test_other_routing_each_call():
    model = Experts(8, 2, swiglu, True, False).requires_grad_(False)
    run = check(model, torch.randn(16, WIDTH).bfloat16(), "bias+swiglu", "bias+col_scale")
    one_expert = torch.randn(1, WIDTH).bfloat16().expand(16, WIDTH).contiguous()
    for x in (one_expert, torch.randn(16, WIDTH).bfloat16(), -one_expert):
        assert_right(model, run, x)


def test_masks_of_experts_that_no_router_chooses_are_no_work():
    model = Experts(8, 2, swiglu_oai, True, False, 8).requires_grad_(False)
    x = torch.randn(37, WIDTH).bfloat16()
    check(model, x, "bias+swiglu_oai", "bias+col_scale")
    kernels = epifuse.torch.explain(model, x).kernels
    up, down = (kernel for kernel in kernels if "grouped" in kernel.graph)
    assert "take_rows" in up.graph and "put_rows" in down.graph
    for kernel in (up, down):
        assert "repeat_rows" in kernel.graph and "bool" not in kernel.graph


@pytest.mark.parametrize("bias", [False, True])
def test_rows_of_experts_that_are_elsewhere_are_zero(bias):
    model = Experts(3, 2, swiglu, bias, False, 8).requires_grad_(False)
    x = torch.randn(64, WIDTH).bfloat16()
    prefix = "bias+" if bias else ""
    run = check(model, x, f"{prefix}swiglu", f"{prefix}col_scale")
    up, down = (kernel.graph for kernel in epifuse.torch.explain(model, x).kernels
                if "grouped" in kernel.graph)
    assert "take_rows" in up and "put_rows" in down
    assert not bias or ("repeat_rows" in up and "repeat_rows" in down)
    for _ in range(3):  # in memory that others have left
        torch.full((128, WIDTH), torch.nan).bfloat16()
        assert_right(model, run, x)


@pytest.mark.parametrize(("num_here", "num_routed"), [(8, None), (8, 8), (3, 8)])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("num_tokens", [24, 27])  # PyTorch multiplies rows of 16 bytes alone
@pytest.mark.parametrize("transposed", [True, False])
def test_gradients(num_here, num_routed, bias, num_tokens, transposed):
    model = Experts(num_here, 2, swiglu, bias, transposed, num_routed)
    x = torch.randn(num_tokens, WIDTH).bfloat16().requires_grad_()
    run = torch.compile(model, backend=epifuse.torch.backend)
    results = []
    for each in (run, model):
        model.zero_grad()
        x.grad = None
        each(x).float().square().mean().backward()
        results.append([x.grad, *(parameter.grad.clone() for parameter in model.parameters())])
    for ours, eager in zip(*results):
        assert distance(ours, eager) < 0.05


def test_gradients_where_scales_go_before_the_last_product(monkeypatch):
    kept = inductor.scale_rows_before_products
    graphs = []

    def moved(graph):
        graphs.append(str(graph))
        kept(graph, "cpu")
        graphs.append(str(graph))

    monkeypatch.setattr(inductor, "scale_rows_before_products", moved)
    with torch._inductor.config.patch(force_disable_caches=True):
        test_gradients(8, None, False, 24, True)
    before, after, *_ = graphs
    assert before != after


def test_gradients_of_rows_in_the_order_of_their_experts_are_looked_up():
    model = Experts(8, 2, swiglu, False, False)
    x = torch.randn(24, WIDTH).bfloat16().requires_grad_()
    run = torch.compile(model, backend=epifuse.torch.backend)

    def step():
        run(x).float().square().mean().backward()

    _, (forward, backward) = run_and_get_code(step)
    assert "grouped" in backward and "atomic_add" not in forward + backward


def test_rows_that_a_kernel_looks_up_are_not_left_out():
    def gathered(x, w, ends, index):
        return F.relu(F.grouped_mm(x[index], w, offs=ends))

    x, w = torch.randn(9, WIDTH).bfloat16(), torch.randn(3, WIDTH, INNER).bfloat16()
    ends, index = torch.tensor([4, 4, 12], dtype=torch.int32), torch.arange(12) % 5
    report = epifuse.torch.explain(gathered, x, w, ends, index)
    assert len(report.kernels) == 1 and "take_rows" in report.kernels[0].graph
    assert report.left_out == []


def test_rows_that_are_looked_up_and_stored_anyway_are_read_there():
    def gathered(x, w, ends, index):
        rows = x[index]
        return F.relu(F.grouped_mm(rows, w, offs=ends)), rows

    x, w = torch.randn(9, WIDTH).bfloat16(), torch.randn(3, WIDTH, INNER).bfloat16()
    args = x, w, torch.tensor([4, 4, 12], dtype=torch.int32), torch.arange(12) % 5
    report = epifuse.torch.explain(gathered, *args)
    assert len(report.kernels) == 1 and "take_rows" not in report.kernels[0].graph
    got, rows = torch.compile(gathered, backend=epifuse.torch.backend)(*args)
    assert torch.equal(rows, x[args[3]]) and distance(got, gathered(*args)[0]) < 1e-2


def looked_up(x, w, ends, index):
    return F.relu(F.grouped_mm(x, w, offs=ends))[index]


def not_from_a_router(x, w, bias, ends, ids):
    return F.relu(F.grouped_mm(x, w, offs=ends) + bias[ids])


def test_rows_that_are_looked_up_behind_a_product_stay_with_the_host():
    x, w = torch.randn(12, WIDTH).bfloat16(), torch.randn(3, WIDTH, INNER).bfloat16()
    ends, index = torch.tensor([4, 4, 12], dtype=torch.int32), torch.tensor([0, 11, 3, 3, -1])
    report = epifuse.torch.explain(looked_up, x, w, ends, index)
    assert [kernel.epilogue for kernel in report.kernels] == ["relu"]
    assert "index" in {each.node for each in report.left_out}
    got = torch.compile(looked_up, backend=epifuse.torch.backend)(x, w, ends, index)
    assert distance(got, looked_up(x, w, ends, index)) < 1e-2


def test_rows_by_an_index_of_unknown_origin_are_taken_as_it_says():
    x, w = torch.randn(12, WIDTH).bfloat16(), torch.randn(3, WIDTH, INNER).bfloat16()
    ends = torch.tensor([4, 4, 12], dtype=torch.int32)
    bias, ids = torch.randn(7, INNER).bfloat16(), torch.randint(-7, 7, (12,))
    args = (x, w, bias, ends, ids)
    report = epifuse.torch.explain(not_from_a_router, *args)
    assert len(report.kernels) == 1 and "take_rows" in report.kernels[0].graph
    got = torch.compile(not_from_a_router, backend=epifuse.torch.backend)(*args)
    assert distance(got, not_from_a_router(*args)) < 1e-2


ROWS = 100


def gradient(x, dy, ends):
    return F.grouped_mm(x.t(), dy, offs=ends)


def accumulated(x, dy, ends, total):
    return total + gradient(x, dy, ends).float() * 0.5


def widened(x, dy, ends):
    return gradient(F.silu(x), dy, ends).float()


def sums(x, dy, ends):
    """The gradient in float64; rows of no group are in no sum."""
    first, out = 0, []
    for end in ends.tolist():
        out.append(x[first:end].double().t() @ dy[first:end].double())
        first = end
    return torch.stack(out)


def operands(ends):
    x, dy = torch.randn(ROWS, WIDTH).bfloat16(), torch.randn(ROWS, INNER).bfloat16()
    ends = torch.tensor(ends, dtype=torch.int32)
    x[ends[-1]:] = torch.nan
    return x, dy, ends


@pytest.mark.parametrize("ends", [[100], [0, 40, 40, 97], [1, 64, 65, 100], [0, 0]])
def test_gradients_of_grouped_weights_are_added_to_those_there_are(ends):
    x, dy, ends = operands(ends)
    total = torch.randn(len(ends), WIDTH, INNER)
    report = epifuse.torch.explain(accumulated, x, dy, ends, total)
    assert [kernel.epilogue for kernel in report.kernels] == ["scale+residual"]
    assert "k_grouped_matmul" in report.kernels[0].graph
    got = torch.compile(accumulated, backend=epifuse.torch.backend)(x, dy, ends, total)
    assert distance(got, total.double() + sums(x, dy, ends) / 2) < 3e-3


def test_gradients_of_grouped_weights_in_float32_are_one_kernel():
    x, dy, ends = operands([0, 40, 40, 100])
    report = epifuse.torch.explain(widened, x, dy, ends)
    assert len(report.kernels) == 1 and "k_grouped_matmul" in report.kernels[0].graph
    got = torch.compile(widened, backend=epifuse.torch.backend)(x, dy, ends)
    assert distance(got, sums(F.silu(x.double()), dy, ends)) < 5e-3


def test_gradients_of_any_number_of_rows():
    run = torch.compile(accumulated, backend=epifuse.torch.backend, dynamic=True)
    x, dy, ends = operands([0, 40, 40, 100])
    total = torch.randn(len(ends), WIDTH, INNER)
    for num_rows in (100, 77, 41):
        ends = ends.clamp(max=num_rows)
        args = (x[:num_rows], dy[:num_rows], ends)
        assert distance(run(*args, total), total.double() + sums(*args) / 2) < 3e-3


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_of_grouped_weights_are_summed_in_place(dtype):
    def plus(x, dy, ends, total):
        total += gradient(x, dy, ends)

    x, dy, ends = operands([0, 40, 40, 97])
    total = torch.randn(len(ends), WIDTH, INNER).to(dtype)
    exact, place = total.double() + sums(x, dy, ends), total.data_ptr()
    _, (code,) = run_and_get_code(torch.compile(plus, backend=epifuse.torch.backend),
                                  x, dy, ends, total)  # fmt: skip
    assert "epifuse_" in code and ".copy_(" not in code and total.data_ptr() == place
    assert "cpp_fused" not in code and "empty_strided_cpu(" not in code.split("def call")[1]
    assert distance(total, exact) < 5e-3


class WideExperts(Experts):
    """Whose weights are in float32, and multiplied in bf16."""

    def linear(self, x, weight, bias, ends, ids):
        return super().linear(x, weight.bfloat16(), bias, ends, ids)


def test_gradients_of_weights_in_float32_are_the_kernels():
    model = WideExperts(8, 2, swiglu, False, True)
    model.up.data, model.down.data = model.up.data.float(), model.down.data.float()
    x = torch.randn(24, WIDTH).bfloat16()
    run, results = torch.compile(model, backend=epifuse.torch.backend), []
    process.reset_stats()
    for each in (run, model):
        model.zero_grad()
        each(x).float().square().mean().backward()
        results.append([model.up.grad, model.down.grad])
    graphs = [kernel.graph for kernel in process.stats().kernels if kernel.calls]
    assert sum("k_grouped_matmul" in graph for graph in graphs) == 2
    for ours, eager in zip(*results):
        assert ours.dtype == torch.float32 and distance(ours, eager) < 0.05


def test_gradients_of_grouped_weights_alone_are_left_alone():
    x, dy, ends = operands([0, 40, 40, 100])
    report = epifuse.torch.explain(gradient, x, dy, ends)
    assert not report.kernels and set(report.reasons()) == {"nothing_to_fuse"}


def test_groups_that_start_within_rows_are_left_alone():
    def of_rows(x, y, ends):
        return F.relu(F.grouped_mm(x, y, offs=ends))

    x, y = torch.randn(16, 32).bfloat16(), torch.randn(32, 24).bfloat16()
    ends = torch.tensor([16, 32], dtype=torch.int32)
    report = epifuse.torch.explain(of_rows, x, y, ends)
    assert not report.kernels and set(report.reasons()) == {"sums_of_groups"}
    got = torch.compile(of_rows, backend=epifuse.torch.backend)(x, y, ends)
    assert distance(got, of_rows(x, y, ends)) < 1e-2
