"""torch.ops.epifuse.fused as built, without the Python package: values, layouts, errors, cost."""

import os
import pathlib
import time

import pytest

torch = pytest.importorskip("torch")

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = pathlib.Path(os.environ.get("EPIFUSE_TORCH_OP_LIBRARY",
                                      ROOT / "build/release/lib/libepifuse_torch_op.so"))
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])

if not LIBRARY.is_file():
    pytest.skip(f"no {LIBRARY}", allow_module_level=True)


@pytest.fixture(scope="module", name="fused")
def load_fused():
    torch.ops.load_library(str(LIBRARY))
    return torch.ops.epifuse.fused.default


def options(device):
    return f'{{"target": "{device}"}}'


def ffn(dtype="f32"):
    return f"""graph ffn(x: {dtype}[M, K], w: {dtype}[K, N], b: {dtype}[N]) {{
  h = matmul x, w
  t = add h, b
  y = gelu_erf t
  return y
}}
"""


def make(sizes, dtype=torch.float32, device="cpu", seed=0):
    generator = torch.Generator().manual_seed(seed + sum(sizes))
    return torch.randn(sizes, generator=generator).to(device, dtype)


def check(y, x, w, b):
    """y is gelu(x w + b) within what sums of K products and one rounding may err by."""
    assert y.shape == (x.shape[0], w.shape[1]) and y.dtype == x.dtype and y.device == x.device
    assert y.is_contiguous()
    x, w, b = x.double(), w.double(), b.double()
    expected = torch.nn.functional.gelu(x @ w + b)
    sums = (x.abs() @ w.abs() + b.abs()) * (x.shape[1] + 8) * 2**-23
    rounding = expected.abs() * torch.finfo(y.dtype).eps / 2 + torch.finfo(y.dtype).tiny
    assert ((y.double() - expected).abs() <= sums + 1.01 * rounding).all()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("m", [1, 5, 64])
def test_values(fused, dtype, m, device):
    make_one = lambda *sizes: make(sizes, DTYPES[dtype], device)
    x, w, b = make_one(m, 96), make_one(96, 40), make_one(40)
    (y,) = fused([x, w, b], ffn(dtype), options(device))
    check(y, x, w, b)


LAYOUTS = {
    "transposed weight": lambda x, w, b: (x, w.t().contiguous().t(), b),
    "padded rows": lambda x, w, b: (torch.cat([x, x], 1)[:, :x.shape[1]], w, b),
    "offset": lambda x, w, b: (torch.cat([x, x])[x.shape[0]:], torch.cat([w, w], 1)[:, 8:48], b),
    "expanded bias": lambda x, w, b: (x, w, b[:1].expand(b.shape[0])),
    "expanded rows": lambda x, w, b: (x[:1].expand(x.shape), w, b),
    "strided": lambda x, w, b: (torch.cat([x, x], 1)[:, ::2], w, torch.cat([b, b])[::2]),
    "one row": lambda x, w, b: (x[:1], w, b),
    "one column": lambda x, w, b: (x, w[:, :1], b[:1]),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(fused, layout, device):
    x, w, b = LAYOUTS[layout](*(make(s, device=device) for s in [(6, 96), (96, 40), (40,)]))
    (y,) = fused([x, w, b], ffn(), options(device))
    check(y, x, w, b)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("m, k, n", [(0, 8, 4), (3, 0, 4), (3, 8, 0), (0, 0, 0)])
def test_empty(fused, m, k, n, device):
    x, w, b = make((m, k), device=device), make((k, n), device=device), make((n,), device=device)
    (y,) = fused([x, w, b], ffn(), options(device))
    check(y, x, w, b)


def test_several_results_and_no_dims(fused):
    text = """graph g(x: f32[M, N], scale: f32[]) {
  y = mul x, scale
  top = row_max y
  z = neg scale
  return y, top, z
}
"""
    x, scale = make((3, 5)), torch.tensor(2.0)
    y, top, z = fused([x, scale], text, options("cpu"))
    torch.testing.assert_close(y, x * 2, rtol=0, atol=0)
    torch.testing.assert_close(top, (x * 2).amax(1, keepdim=True), rtol=0, atol=0)
    torch.testing.assert_close(z, torch.tensor(-2.0), rtol=0, atol=0)


def test_narrow_dtypes(fused):
    text = """graph g(x: f32[N]) {
  small = cast x -> e4m3
  wide = cast x -> e5m2
  positive = gt x, 0
  return small, wide, positive
}
"""
    x = make((40,))
    small, wide, positive = fused([x], text, options("cpu"))
    assert torch.equal(small.float(), x.to(torch.float8_e4m3fn).float())
    assert torch.equal(wide.float(), x.to(torch.float8_e5m2).float())
    assert torch.equal(positive, x > 0)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_integers(fused, dtype):
    name = {torch.int32: "i32", torch.int64: "i64"}[dtype]
    text = f"""graph g(x: f32[S, K], w: f32[G, K, N], ends: {name}[G], rows: {name}[T]) {{
  xt = take_rows x, rows
  h = grouped_matmul xt, w, ends
  y = relu h
  return y
}}
"""
    x, w = make((5, 8)), make((3, 8, 4), seed=1)
    ends = torch.tensor([2, 2, 6], dtype=dtype)
    rows = torch.tensor([4, 0, -1, 3, 3, 1], dtype=dtype)
    (y,) = fused([x, w, ends, rows], text, options("cpu"))
    expected = torch.cat([x[rows[:2].long()] @ w[0], x[rows[2:].long()] @ w[2]]).relu()
    torch.testing.assert_close(y, expected)


def test_inference_mode_and_gradients(fused):
    x, w, b = make((4, 8)), make((8, 16)), make((16,))
    with torch.inference_mode():
        (y,) = fused([x, w, b], ffn(), options("cpu"))
        assert y.is_inference()
        check(y, x, w, b)
    with torch.no_grad():
        (y,) = fused([x.requires_grad_(), w, b], ffn(), options("cpu"))
        assert not y.requires_grad
        check(y, x.detach(), w, b)


def failing(fused, inputs, text=None, wanted=None):
    with pytest.raises(RuntimeError) as error:
        fused(inputs, ffn() if text is None else text, wanted or options("cpu"))
    return str(error.value).splitlines()[0]


def test_errors(fused):
    x, w, b = make((4, 8)), make((8, 16)), make((16,))
    assert failing(fused, [x, w[:7], b]) == (
        "input 'w' is declared f32[K, N]: got [7, 16], where K is 8")
    assert failing(fused, [x.bfloat16(), w, b]) == (
        "input 'x' is declared f32[M, K]: got bf16 elements")
    assert failing(fused, [x, w.double(), b]) == (
        "input 1: expected float32, bfloat16, float16, float8_e4m3fn, float8_e5m2, int8 or bool, "
        "got float64")
    assert failing(fused, [x, w]) == "expected 3 tensors, got 2"
    assert failing(fused, [x, w, b], wanted='{"target": "sm_90a"}') == (
        "expected cuda tensors, as the options ask for that target, got tensors on cpu")
    assert failing(fused, [x, w, b], wanted='{"taget": 1}') == (
        "options: expected keys among target, numerics, tf32, tune, family, got 'taget'")
    assert failing(fused, [x, w, b], text="graph").startswith("line 1, column 6: expected")
    check(fused([x, w, b], ffn(), options("cpu"))[0], x, w, b)  # it works on


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_devices_must_agree(fused):
    x, w, b = make((4, 8), device="cuda"), make((8, 16)), make((16,))
    assert failing(fused, [x, w, b], wanted=options("cuda")) == (
        "expected all tensors on cuda:0, got input 1 on cpu")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_other_streams(fused):
    x, w, b = (make(s, device="cuda") for s in [(64, 96), (96, 40), (40,)])
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        (y,) = fused([x, w, b], ffn(), options("cuda"))
    stream.synchronize()
    check(y, x, w, b)


def best_microseconds(call, rounds=7, calls=2000):
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        times.append((time.perf_counter() - start) / calls)
    return min(times) * 1e6


@pytest.mark.parametrize("device", DEVICES)
def test_cost_of_a_call(fused, device):
    """Prints only: `pytest -s`."""
    x, w, b = (make(s, device=device) for s in [(4, 8), (8, 16), (16,)])
    text, wanted = ffn(), options(device)
    call = lambda x: fused([x, w, b], text, wanted)
    others = iter([make((4, 8), device=device) for _ in range(64)] * 10000)
    times = {
        "without a run": lambda: call(x[:0]),
        "with one": lambda: call(x),
        "on other tensors each time": lambda: call(next(others)),
        "addmm and gelu": lambda: torch.nn.functional.gelu(torch.addmm(b, x, w)),
    }
    print(f"\n{device}: " + ", ".join(f"{name} {best_microseconds(each):.1f} us"
                                       for name, each in times.items()))
