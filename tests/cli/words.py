"""Words and settings that a command refuses, what it answers programs, and what its help says."""

import json
import os
import pathlib
import re

from made_up import ZEROS, made_up_gpu
from measured import NO_GPU, PROFILE, own_cache
from process import BAD_INPUT, OK, QUIET, epifuse, fails, write_graph

SCALED = """graph scaled(x: f32[4], s: scalar) {
  y = mul x, s
  return y
}
"""


# --- wrong words ----------------------------------------------------------------------------------


def test_names_that_are_empty():
    write_graph("a.epi")
    pathlib.Path("in.profile").write_text(PROFILE)
    for words in (["calibrate", "--import"], ["calibrate", "--export"], ["calibrate", "--results"],
                  ["tune", "a.epi", "--export"], ["tune", "a.epi", "--import"],
                  ["run", "a.epi", *QUIET, "--save"], ["verify", "--graphs", "1", "--last"],
                  ["bench", "--results"], ["bench", "--report"], ["emit", "a.epi", "--bundle"],
                  ["functions", "--results"], ["functions", "--from", "x", "--document"]):
        run = fails(f"{words[-1]}: expected a name, got ''", *words, "", env=NO_GPU)
        assert not run.stdout, run


def test_suites_that_have_nothing_to_sweep():
    for words in ([], ["--list"], ["--json"]):
        fails("--grid host has no products", "bench", "--grid", "host", "--sweep", *words)


def test_scalars_are_numbers_or_files():
    pathlib.Path("scaled.epi").write_text(SCALED)
    for word in ("1,5", "", "1e999"):
        fails(f"{word}: cannot be read: No such file or directory; the scalar s expects a number, "
              "as 0.5, or a file", "run", "scaled.epi", "--input", f"s={word}", *QUIET)


def test_sizes_below_zero_name_their_tensor():
    pathlib.Path("a.epi").write_text("graph g(x: f32[M - 5], z: f32[M]) {\n  y = neg x\n"
                                     "  t = neg z\n  return y, t\n}\n")
    fails("input x: size M-5 is negative: -2", "run", "a.epi", "M=3", *QUIET)


# --- settings -------------------------------------------------------------------------------------


def test_settings_that_are_wrong_are_no_wrong_results():
    for variable, said in (("EPIFUSE_TUNE", "expected off, compile"),
                           ("EPIFUSE_THREADS", "a number from 1 to 1024"),
                           ("EPIFUSE_CACHE_SIZE", "a number of bytes")):
        for environment, target in ((os.environ, "cpu"), (made_up_gpu(), "cuda")):
            if variable == "EPIFUSE_CACHE_SIZE" and target == "cpu":
                continue  # the CPU has no kernels to keep
            run = fails(said, "verify", "--graphs", "3", "--target", target,
                        env={**environment, variable: "bad"})
            assert not run.stdout and run.stderr.count(variable.encode()) == 1, run


def test_what_a_notice_names_is_printable():
    cache = os.path.abspath(b"a\xff\x1b\n")
    environment = {**os.environb, b"EPIFUSE_CUDA_DRIVER": b"/nowhere", b"EPIFUSE_CACHE": cache}
    os.mkdir(cache)
    os.chmod(cache, 0o777)
    write_graph("a.epi")
    explain = ["explain", "a.epi", "M=8", "--target", "cuda"]
    run = epifuse(*explain, env=environment)
    assert rb"a\xff\x1b\x0a is not used" in run.stderr and b"\x1b" not in run.stderr, run
    os.rmdir(cache)
    pathlib.Path(cache.decode(errors="surrogateescape")).write_text("")
    run = epifuse(*explain, env=environment)
    assert rb"keeps nothing new" in run.stderr and rb"a\xff\x1b\x0a" in run.stderr, run
    assert b"\x1b" not in run.stderr and run.stderr.count(b"\n") == 1, run


# --- programs -------------------------------------------------------------------------------------


def test_one_file_that_fails_is_one_object():
    write_graph("a.epi")
    pathlib.Path("bad.epi").write_text("graph bad(")
    for command in (["run", *QUIET], ["emit"], ["explain", "--target", "cpu"]):
        run = epifuse(*command, "bad.epi", "--json")
        error = json.loads(run.stdout)
        assert run.returncode == BAD_INPUT and set(error) == {"kind", "message", "hint"}, error
        assert error["kind"] == "bad_input" and "bad.epi: line 1" in error["message"], error
        run = epifuse(*command, "bad.epi", "a.epi", "--json")
        rows = json.loads(run.stdout)
        assert run.returncode == BAD_INPUT and rows[0]["error"] == error, rows
    pathlib.Path("zeros.epi").write_text(ZEROS.format(rows="M"))
    run = epifuse("run", "zeros.epi", "M=8", "--target", "cuda", "--json", env=made_up_gpu(
        EPIFUSE_TUNE="bad"))
    assert run.returncode == BAD_INPUT and "EPIFUSE_TUNE" in json.loads(run.stdout)["message"], run


def explained(text):
    pathlib.Path("sum.epi").write_text(text)
    return epifuse("explain", "sum.epi", "--target", "cpu").stdout.decode()


def test_steps_without_a_product_apply_what_is_there():
    text = "graph g(x: f32[M, N], r: f32[N], b: f32[N]) {{\n  y = {}\n  return y\n}}\n"
    for op, word in (("add x, 1", "add"), ("add r, 2", "add"), ("add r, b", "add"),
                     ("add x, b", "bias")):
        assert f"applies {word}." in explained(text.format(op)), op


# --- help -----------------------------------------------------------------------------------------


def help_of(*words):
    run = epifuse(*words, "--help")
    assert run.returncode == OK
    return run.stdout.decode()


def test_help_is_of_its_command():
    (table,) = re.findall(r"Subcommands:\n(.*?)\n\n", help_of(), re.DOTALL)
    for command in re.findall(r"^  (\w+) ", table, re.MULTILINE):
        assert "Exit codes:" not in help_of(command), command
    assert "Exit codes:" in help_of()


def test_points_that_help_names_are_there():
    text = help_of("bench")
    (few,) = re.findall(r"has one of these,\s+e\.g\.\s+(\S+)", text)
    assert epifuse("bench", "--list", "--filter", few).returncode == OK, few
    for line in re.findall(r"epifuse bench (--.*--filter.*) --results", text):
        assert epifuse("bench", "--list", *line.split()).returncode == OK, line


def test_the_example_of_a_machine_runs():
    (line,) = re.findall(r"epifuse (explain .*--machine.*)", help_of())
    words = line.split()
    write_graph("a.epi")
    words[1] = "a.epi"
    assert epifuse(*words, env=own_cache()).returncode == OK, line
