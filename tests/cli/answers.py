"""What the command line answers: to wrong words, to programs, and about its results."""

import ctypes
import json
import os
import pathlib
import re

from process import BAD_INPUT, OK, PRODUCT, QUIET, UNAVAILABLE, epifuse, fails, write_graph

NO_NVRTC = {**os.environ, "EPIFUSE_NVRTC": "/nowhere/libnvrtc.so", "EPIFUSE_CACHE": "empty_cache"}


def error_of(*words, code=BAD_INPUT, **options):
    """The object that a run under --json ends with."""
    run = epifuse(*words, "--json", **options)
    assert run.returncode == code, run
    error = json.loads(run.stdout)
    assert set(error) == {"kind", "message", "hint"} and run.stderr, error
    return error


# --- wrong words ----------------------------------------------------------------------------------


def test_unknown_sizes_are_refused():
    write_graph("a.epi")
    for command in (["run", *QUIET], ["explain", "--target", "cpu"], ["emit"]):
        fails("got m=7, but the graph does not have a size symbol m (did you mean 'M'?)",
              *command, "a.epi", "m=7")
        fails("a size symbol Q; there are: M", *command, "a.epi", "M=4", "Q=3")
    pathlib.Path("b.epi").write_text(PRODUCT.format(name="b").replace("M", "T"))
    assert epifuse("run", "a.epi", "b.epi", "M=4", "T=5", *QUIET).returncode == OK
    fails("none of the graphs has a size symbol Q", "run", "a.epi", "b.epi", "Q=1", *QUIET)


def test_unknown_command():
    fails("unknown command 'explian' (did you mean 'explain'?)", "explian", "a.epi")
    fails("unknown command 'frobnicate'; there are: run, explain, emit", "frobnicate")
    fails("unknown command 'RUN' (did you mean 'run'?)", "RUN")


def test_unknown_op():
    pathlib.Path("g.epi").write_text(PRODUCT.format(name="g").replace("relu", "gelu"))
    names = "(did you mean 'gelu_erf', 'gelu_tanh', 'gelu_erf_slope' or 'gelu_erf_narrow'?)"
    fails(f"got 'gelu' {names}", "run", "g.epi", *QUIET)
    fails(names, "functions", "--only", "gelu", "--target", "cpu")


def test_unknown_families_and_suites():
    write_graph("a.epi")
    for words in (["run", "a.epi", *QUIET], ["explain", "a.epi", "--target", "cpu"],
                  ["emit", "a.epi"], ["verify", "--target", "cpu"], ["bench"]):
        fails("family: expected one of sm90_dense, sm80, got 'sm99'", *words, "--family", "sm99")
    for words in (["bench"], ["bench", "--list"]):
        fails("bench: expected a suite among dense, square, small, bare, gated, fp8, random, "
              "random_fp8, host, got 'densse'", *words, "--grid", "densse")


def test_words_that_are_neither_size_nor_file():
    write_graph("a.epi")
    for word in ("M=1e3", "M=", "M=4k"):
        run = fails(f"expected a size as SYMBOL=INTEGER, such as M=4096, or a file, got '{word}'",
                    "run", "a.epi", word, *QUIET)
        assert not run.stdout, "nothing runs at sizes that were not meant"
    for word in ("M=-1", "M=1099511627777", "M=99999999999999999999"):
        fails(f"sizes: expected 0 to 2^40, such as M=4096, got '{word}'", "run", "a.epi", word,
              *QUIET)


# --- programs -------------------------------------------------------------------------------------


def test_printed_graphs_are_json():
    rows = json.loads(epifuse("verify", "--print", "--graphs", "2", "--seed", "5", "--json").stdout)
    assert [row["seed"] for row in rows] == [5, 6] and rows[0]["graph"].startswith("graph ")


def test_errors_are_json():
    write_graph("a.epi")
    error = error_of("run", "a.epi", "m=7", *QUIET)
    assert error["kind"] == "bad_input" and error["hint"] == "did you mean 'M'?", error
    assert error_of("explian", "a.epi")["hint"] == "did you mean 'explain'?"
    assert "--bogus" in error_of("run", "a.epi", "--bogus")["message"]
    assert error_of("explain", "none.epi", "--target", "cpu")["kind"] == "bad_input"
    error = error_of("run", "a.epi", "--target", "cuda", code=UNAVAILABLE,
                     env={**os.environ, "EPIFUSE_CUDA_DRIVER": "/nowhere"})
    assert error["kind"] == "unavailable" and "epifuse devices" in error["hint"], error
    run = epifuse("run", "a.epi", "none.epi", "--json", *QUIET)
    assert run.returncode == BAD_INPUT
    good, bad = json.loads(run.stdout)
    assert good["ok"] and bad["error"]["kind"] == "bad_input", bad


# --- results --------------------------------------------------------------------------------------


def test_an_empty_result_is_right():
    write_graph("a.epi")
    run = epifuse("run", "a.epi", "M=0", "--target", "cpu")
    assert run.returncode == OK, run
    assert b"y: right, it has no elements" in run.stdout and b"WRONG" not in run.stdout, run.stdout


def test_a_gpu_is_asked_for_before_anything_is_compiled():
    write_graph("a.epi")
    environment = {**NO_NVRTC, "EPIFUSE_CUDA_DRIVER": "/nowhere"}
    for words in (["run", "a.epi"], ["verify", "--graphs", "1"], ["functions"]):
        fails("No GPU to run on", *words, "--target", "cuda", env=environment, code=UNAVAILABLE)
    assert not os.path.exists("empty_cache")


def test_the_ratio_has_a_spread_and_a_baseline():
    write_graph("a.epi")
    words = ["run", "a.epi", "M=64", "--target", "cpu", "--rounds", "20"]
    text = epifuse(*words).stdout.decode()
    assert re.search(r"fused [\d.]+ us; one pass over memory per op, without fusion, [\d.]+ us",
                     text), text
    ratio = r"ratio [\d.]+, [\d.]+ to [\d.]+ in the middle half of 20 rounds: "
    assert re.search(ratio, text), text
    assert "within the bound" in text and "allowed" not in text, text
    (row,) = json.loads(epifuse(*words, "--json").stdout)
    low, high = row["ratio_middle_half"]
    assert low <= row["ratio"] <= high and row["rounds"] == 20
    assert abs(row["fused_us"] / row["unfused_us"] - row["ratio"]) < 1e-9


def test_the_cache_is_listed_as_a_table():
    write_graph("a.epi")
    environment = {**os.environ, "EPIFUSE_CACHE": os.path.abspath("cache")}
    assert epifuse("explain", "a.epi", "--target", "cuda", env=environment).returncode == OK
    lines = epifuse("cache", "list", env=environment).stdout.decode().splitlines()
    assert lines[0] == "Compiled kernels" and len(lines) > 4, lines
    assert lines[1].split() == ["KEY", "SIZE", "STATE", "TARGET", "KERNEL", "OF"]
    for line in lines[2 : lines.index("")]:
        for name in ("STATE", "TARGET", "KERNEL", "OF"):
            place = lines[1].index(name)
            assert line[place - 2 : place] == "  " and line[place] != " ", line
    assert re.search(r": \d+ kernels, 0 tuned choices, [\d.]+ KiB, 0 corrupt$", lines[-1]), lines


def test_a_cache_that_is_no_folder_is_named():
    pathlib.Path("file").write_text("of another program")
    for action in ("list", "size", "verify", "clear"):
        for folder in ("file", "file/cache"):
            fails(f"the cache folder {folder} cannot be read: Not a directory", "cache", action,
                  env={**os.environ, "EPIFUSE_CACHE": folder})
    environment = {**os.environ, "EPIFUSE_CACHE": "none"}
    assert epifuse("cache", "verify", env=environment).returncode == OK, "there is nothing yet"
    assert pathlib.Path("file").read_text() == "of another program"


# --- emit -----------------------------------------------------------------------------------------


def test_emit_prints_one_kernel_without_a_compiler():
    pathlib.Path("a.epi").write_text(PRODUCT.format(name="a").replace("4]", "4096]"))
    run = epifuse("emit", "a.epi", env=NO_NVRTC)
    assert run.returncode == OK, run.stderr
    assert run.stdout.count(b"// ---- ") == 1 and b"__global__" in run.stdout
    every = epifuse("emit", "a.epi", "--all", env=NO_NVRTC).stdout
    assert every.count(b"// ---- ") > 1 and run.stdout.splitlines()[0] in every
    few = epifuse("emit", "a.epi", "M=16", env=NO_NVRTC).stdout
    assert few.splitlines()[0] != run.stdout.splitlines()[0], "the sizes decide"
    assert not os.path.exists("empty_cache")


def test_emit_prints_what_the_model_chooses_at_the_sizes():
    pathlib.Path("a.epi").write_text(
        "graph a(x: bf16[M, K], w: bf16[N, K], b: bf16[N]) {\n  h = matmul x, w^T\n"
        "  t = add h, b\n  y = gelu_erf t\n  return y\n}\n")
    for sizes in ("M=64 N=64 K=63", "M=64 N=63 K=64", "M=8 N=4096 K=4096", "M=4096 N=64 K=64",
                  "M=16 N=2048 K=2050"):
        words = ["a.epi", *sizes.split(), "--target", "sm_90a"]
        run = epifuse("explain", *words)
        chosen = re.search(r"the product h runs by sm90_dense, ([^;:]*)[;:]", run.stdout.decode())
        assert chosen, run
        name = re.sub("[^a-z0-9]+", "_", chosen[1])
        first = epifuse("emit", *words, env=NO_NVRTC).stdout.decode().splitlines()[0]
        assert first == f"// ---- a_0_sm90_dense_{name}.cu", (first, chosen[1])
    # More rows than a kernel can number: the vendor's product, and a tail.
    run = epifuse("emit", "a.epi", "M=17179869184", "N=32", "K=64", "--target", "sm_90a")
    assert run.stdout.startswith(b"// ---- a_0_tail.cu\n"), run
    fails("at most 2^40 elements", "emit", "a.epi", "M=1099511627776", "--target", "sm_90a")


def nvrtc():
    """The library that `epifuse devices` finds."""
    path = pathlib.Path(json.loads(epifuse("devices", "--json").stdout)["nvrtc"]["path"])
    for builtins in path.parent.glob("libnvrtc-builtins.so*"):
        ctypes.CDLL(str(builtins))
    return ctypes.CDLL(str(path))


def compile_alone(library, path, options):
    """The size of the cubin that NVRTC makes of a file, given nothing but options."""
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    text = pathlib.Path(path).read_bytes()
    assert library.nvrtcCreateProgram(ctypes.byref(program), text, path.encode(), 0, None,
                                      None) == 0
    words = [word.encode() for word in options]
    array = (ctypes.c_char_p * len(words))(*words)
    status = library.nvrtcCompileProgram(program, len(words), array)
    library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    library.nvrtcGetProgramLog(program, log)
    assert status == 0, log.value.decode()
    library.nvrtcGetCUBINSize(program, ctypes.byref(size))
    return size.value


def test_a_bundle_compiles_by_hand():
    pathlib.Path("b.epi").write_text(PRODUCT.format(name="b").replace("relu", "gelu_tanh"))
    write_graph("a.epi")
    run = epifuse("emit", "a.epi", "b.epi", "--bundle", "out", env=NO_NVRTC)
    assert run.returncode == OK and b"compile them there by hand" in run.stdout, run
    assert not {"kernels/abi.h", "COMPILE.txt"} - {
        str(path.relative_to("out")) for path in pathlib.Path("out").rglob("*")
    }
    os.chdir("out")
    line = pathlib.Path("COMPILE.txt").read_text().splitlines()[0]
    options = line.partition(" with ")[2].split()
    files = sorted(path.name for path in pathlib.Path().glob("*.cu"))
    assert len(files) == 2, files
    library = nvrtc()
    for file in files:
        assert compile_alone(library, file, options) > 1000
