"""What measures on a GPU, on one that is made up (tests/cli/made_up_gpu)."""

import json
import pathlib
import re

from measured import own_cache
from process import CHECK_FAILED, GPU, OK, UNAVAILABLE, epifuse, fails

# Its kernels take 10 us, or what MADE_UP_TOGETHER says where they have several products, and store
# zeros. A tail takes 1 us, a product of the vendor 0.5 us where the result has at most so many
# elements and 1000 us elsewhere.
ZEROS = """graph zeros(x: bf16[{rows}, 64], w: bf16[64, 64]) {{
  h = matmul x, w
  a = abs h
  n = neg a
  y = relu n
  return y
}}
"""


def made_up_gpu(vendor=0, **more):
    variables = ("EPIFUSE_CUDA_DRIVER", "EPIFUSE_NVRTC", "EPIFUSE_CUBLASLT")
    return {**own_cache(), **{name: str(GPU) for name in variables},
            "MADE_UP_VENDOR": str(vendor), **more}


def tuned(environment, *words, graph="zeros.epi", code=OK):
    run = epifuse("tune", graph, *words, "--budget", "60s", "--json", env=environment)
    assert run.returncode == code, run
    (result,) = json.loads(run.stdout)["graphs"]
    return result, run.stderr.decode()


def split_at(environment, size, graph="zeros.epi"):
    """Whether the step runs as product and tail by what was measured; None where nothing was."""
    text = epifuse("explain", graph, size, "--target", "cuda", env=environment).stdout.decode()
    if "us measured" not in text:
        return None
    return "measured_slower" in text


def test_a_range_is_tuned_to_where_the_winner_changes():
    pathlib.Path("zeros.epi").write_text(ZEROS.format(rows="M"))
    environment = made_up_gpu(vendor=1400 * 64)
    result, said = tuned(environment, "--sizes", "M=1..4096")
    assert result["complete"] and result["wrong"] == [] and result["kept"] == 70
    assert result["measured"] == said.count(" sizes, ") < 30
    winners = {int(row["sizes"][2:]): row["choice"] for row in result["choices"]}
    assert {size for size, choice in winners.items() if choice == "product and tail"} == {
        size for size in winners if size <= 1400}
    assert {1344, 1408} <= winners.keys(), "the classes beside the change"
    for size in (1, 3, 63, 100, 1281, 1344):
        assert split_at(environment, f"M={size}"), size
    for size in (1345, 1408, 1999, 4096):
        assert split_at(environment, f"M={size}") is False, size
    assert split_at(environment, "M=4097") is None


def test_a_range_covers_what_its_symbol_makes_of_rows():
    pathlib.Path("zeros.epi").write_text(ZEROS.format(rows="B, 512"))
    environment = made_up_gpu(vendor=3000 * 64)
    assert tuned(environment, "--sizes", "B=1..9")[0]["kept"] == 9
    assert [split_at(environment, f"B={size}") for size in range(1, 11)] == [
        True, True, True, True, True, False, False, False, False, None]


def test_a_range_covers_rows_off_boundaries():
    pathlib.Path("columns.epi").write_text(
        ZEROS.format(rows="M").replace("[M, 64]", "[64, M]").replace("matmul x", "matmul x^T"))
    environment = made_up_gpu(vendor=1 << 30)
    result, _ = tuned(environment, "--sizes", "M=65..200", graph="columns.epi")
    assert result["kept"] == 6, "127, 191, 199 and 128, 192, 200"
    for size in (65, 100, 127, 129, 191, 199, 72, 128, 136, 200):
        assert split_at(environment, f"M={size}", "columns.epi"), size


def test_a_winner_that_is_wrong_is_kept_at_no_size():
    pathlib.Path("zeros.epi").write_text(ZEROS.format(rows="M"))
    environment = made_up_gpu(MADE_UP_WRONG="1")
    result, _ = tuned(environment, "--sizes", "M=1..64", code=CHECK_FAILED)
    assert len(result["wrong"]) == 1 and "M=64: y is wrong: " in result["wrong"][0], result
    assert {row["choice"] for row in result["choices"]} == {"product and tail"}
    for row in result["choices"]:
        assert re.fullmatch("the result of sm90_dense, .* was wrong", row["measured"]), row
    choices = json.loads(epifuse("cache", "list", "--json", env=environment).stdout)["choices"]
    assert [each["choice"] for each in choices] == ["product and tail"] * 7


def test_winners_are_checked_in_each_variant():
    pathlib.Path("columns.epi").write_text(
        ZEROS.format(rows="M").replace("[M, 64]", "[256, M]").replace("[64, 64]", "[256, 64]")
        .replace("matmul x", "matmul x^T"))
    words = ("--sizes", "M=5..8")
    result, _ = tuned(made_up_gpu(), *words, graph="columns.epi")
    assert len({row["choice"] for row in result["choices"]}) == 1, "the name is one"
    epifuse("cache", "clear", env=own_cache())
    wrong, _ = tuned(made_up_gpu(MADE_UP_WRONG="1"), *words, graph="columns.epi",
                     code=CHECK_FAILED)
    assert [each.split(":")[0] for each in wrong["wrong"]] == ["columns.epi M=7", "columns.epi M=8"]


def test_sizes_that_do_not_fit_are_left_to_the_model():
    pathlib.Path("zeros.epi").write_text(ZEROS.format(rows="M"))
    reason = (r": left to the model, as are larger sizes: measuring at these sizes takes \d+ bytes "
              r"of memory, more than are free")
    environment = made_up_gpu(vendor=1 << 40, MADE_UP_FREE="250000000")
    result, said = tuned(environment, "--sizes", "M=8,64,2000000")
    assert [row["sizes"] for row in result["choices"]] == ["M=64", "M=8"]
    assert re.search("M=2000000" + reason, said), said
    fails("bytes of memory, more than are free", "tune", "zeros.epi", "M=2000000",
          code=UNAVAILABLE, env=environment)
    environment["MADE_UP_FREE"] = "420000000"  # 100 MB of it are no tensors
    pathlib.Path("zeros.epi").write_text(ZEROS.format(rows="M").replace("[64, 64]", "[4096, 64]")
                                         .replace("M, 64", "M, 4096"))
    result, said = tuned(environment, "--sizes", "M=1..32768")
    (left,) = re.findall("M=(\\d+)" + reason, said)
    measured = [int(row["sizes"][2:]) for row in result["choices"]]
    assert result["complete"] and 24576 < max(measured) == int(left) - 512, result
    assert split_at(environment, f"M={max(measured)}") and split_at(environment, "M=5")
    assert split_at(environment, "M=32768") is None
    environment["MADE_UP_FREE"] = "390000000"  # what the first run keeps is missed by the second
    result, said = tuned(environment, "--sizes", "M=1..32768")
    assert re.search("M=24576: left to the model: measuring", said), said
    assert not result["complete"] and result["measured"] == 1, result


def write_two_products(first, second):
    """Of one operand, with so many columns."""
    two = "".join(f"  h{i} = matmul x, w{i}\n  a{i} = abs h{i}\n  n{i} = neg a{i}\n"
                  f"  y{i} = relu n{i}\n" for i in range(2))
    pathlib.Path("two.epi").write_text(
        f"graph two(x: bf16[M, 64], w0: bf16[64, {first}], w1: bf16[64, {second}]) {{\n{two}"
        "  return y0, y1\n}\n")


def test_products_of_one_operand_are_tuned_together():
    write_two_products(64, 32)
    for vendor, expected in ((0, "side by side, "), (1 << 30, "one by one")):
        environment = made_up_gpu(vendor=vendor)
        epifuse("cache", "clear", env=environment)
        result, said = tuned(environment, "M=300", graph="two.epi")
        (choice,) = [each["choice"] for each in result["choices"] if " beside " in each["step"]]
        assert choice.startswith(expected), said
        assert len(result["choices"]) == 3 and result["wrong"] == [], result
        text = epifuse("explain", "two.epi", "M=300", "--target", "cuda", env=environment).stdout
        assert (b"side by side in one launch of 2 steps" in text) is (vendor == 0), text
    environment = made_up_gpu()
    epifuse("cache", "clear", env=environment)
    (choice,) = choices_measured("first-use", environment, "two.epi", "M=300")
    assert choice["choice"].startswith("side by side, "), choice
    assert choice["description"] == "300x64x64 bf16 abs+neg+relu beside 32 columns", choice


def test_what_is_no_launch_together_is_measured_by_itself():
    write_two_products(64, 32)
    environment = made_up_gpu(vendor=1 << 30, MADE_UP_TOGETHER="30")
    choices = choices_measured("first-use", environment, "two.epi", "M=300", least=3)
    assert {each["description"]: each["choice"] for each in choices} == {
        "300x64x64 bf16 abs+neg+relu beside 32 columns": "one by one",
        "300x64x64 bf16 abs+neg+relu": "product and tail",
        "300x32x64 bf16 abs+neg+relu": "product and tail"}


def microseconds(choice, words):
    return float(re.search(words, choice["measured"])[1])


def test_what_gains_little_together_must_beat_the_fastest_ways_of_each():
    write_two_products(4000, 64)
    for vendor, expected in ((0, "side by side, "), (1 << 30, "one by one")):
        environment = made_up_gpu(vendor=vendor)
        for _ in range(5):  # on a busy machine the time may end before the ways of each are known
            epifuse("cache", "clear", env=environment)
            choices = choices_measured("first-use", environment, "two.epi", "M=8000", least=3)
            (choice,) = [each for each in choices if " beside " in each["description"]]
            apart = sum(microseconds(each, r"^([\d.]+) us") for each in choices
                        if each is not choice)
            if microseconds(choice, r"one by one ([\d.]+)") == apart:
                break
        assert choice["choice"].startswith(expected), choice
        assert len(choices) == 3, choices


def test_a_graph_without_a_choice():
    pathlib.Path("loop.epi").write_text("graph g(x: f32[M, 8]) {\n  t = abs x\n  n = neg t\n"
                                        "  y = relu n\n  return y\n}\n")
    run = epifuse("tune", "loop.epi", "--sizes", "M=1..64", env=made_up_gpu())
    assert run.returncode == OK, run
    assert run.stdout == b"loop.epi: at these sizes there is no kernel to choose\n", run
    result, _ = tuned(made_up_gpu(), "M=8", graph="loop.epi")
    assert result["kept"] == 0 and result["choices"] == [], result


def choices_after(word, environment, graph="zeros.epi", size="M=8"):
    """What a run under EPIFUSE_TUNE keeps."""
    run = epifuse("run", graph, size, "--target", "cuda", "--no-time",
                  env={**environment, "EPIFUSE_TUNE": word})
    assert run.returncode == OK, run
    return json.loads(epifuse("cache", "list", "--json", env=environment).stdout)["choices"]


def choices_measured(word, environment, *words, least=1):
    """The same where the run measures: on a busy machine its time may end before it knows all."""
    for _ in range(10):
        choices = choices_after(word, environment, *words)
        if len(choices) >= least:
            break
    return choices


def test_the_environment_says_whether_a_run_measures():
    pathlib.Path("zeros.epi").write_text(ZEROS.format(rows="M"))
    environment = made_up_gpu()
    assert choices_after("off", environment) == choices_after("compile", environment) == []
    (few,) = choices_measured("first-use", environment)
    assert re.search("best of [2-7] ways", few["measured"]), few
    assert choices_after("full", environment) == [few], "a choice once kept stays"
    faster = {**environment, "MADE_UP_VENDOR": str(1 << 30)}
    assert choices_after("full", faster) == [few]
    assert epifuse("cache", "clear", env=environment).returncode == OK
    (every,) = choices_measured("full", faster)
    assert every["choice"] == "product and tail", every
    assert int(re.search(r"best of (\d+) ways", every["measured"])[1]) > 7, every


def test_without_the_vendors_library_kernels_are_measured():
    pathlib.Path("zeros.epi").write_text(ZEROS.format(rows="M"))
    environment = {**made_up_gpu(vendor=1 << 30), "EPIFUSE_CUBLASLT": "/nowhere/libcublasLt.so"}
    for word in ("first-use", "full"):
        (choice,) = choices_measured(word, environment)
        assert choice["choice"].startswith("sm90_dense, "), choice
        assert epifuse("cache", "clear", env=environment).returncode == OK
    result, _ = tuned(environment, "M=8")
    (row,) = result["choices"]
    assert len(row["ways"]) > 7 and all(way.startswith("sm90_dense, ") for way in row["ways"]), row
    run = epifuse("run", "zeros.epi", "M=8", "--tune", "--no-time", "--target", "cuda",
                  env=environment)
    assert run.returncode == OK and b"us sustained, the best of " in run.stdout, run


def test_a_run_measures_within_a_tenth_of_the_free_memory():
    pathlib.Path("zeros.epi").write_text(ZEROS.format(rows="M"))
    needed = int(re.search(r"takes (\d+) bytes", fails(
        "more than are free", "tune", "zeros.epi", "M=8", code=UNAVAILABLE,
        env=made_up_gpu(MADE_UP_FREE="100000000")).stderr.decode())[1])
    for free, count in ((10 * needed - 10, 0), (10 * needed + (1 << 20), 1)):
        environment = made_up_gpu(MADE_UP_FREE=str(free))
        after = choices_measured if count else choices_after
        assert len(after("first-use", environment)) == count, free


def test_files_that_cannot_be_written_are_refused_before_measuring():
    pathlib.Path("zeros.epi").write_text(ZEROS.format(rows="M"))
    environment = made_up_gpu()
    pathlib.Path("folder").mkdir()
    for path, why in (("none/out", "none/out: cannot be written: No such file or directory"),
                      ("folder", "folder: cannot be written: Is a directory")):
        fails(why, "tune", "zeros.epi", "M=8", "--export", path, env=environment)
        fails(why, "calibrate", "--budget", "60s", "--export", path, env=environment)
    for words in (["bench", "--grid", "random"], ["bench", "--sweep"], ["calibrate"]):
        fails("none/: cannot be written: No such file or directory", *words, "--results", "none",
              env=environment)
    assert not pathlib.Path("cache").exists() and not list(pathlib.Path("folder").iterdir())


def test_ranges_that_are_too_many_sizes():
    pathlib.Path("columns.epi").write_text(ZEROS.format(rows="M").replace("w: bf16[64, 64]",
                                                                          "w: bf16[64, N]"))
    environment = made_up_gpu()
    fails("--sizes: expected at most 1048576 sizes, got M=1..1048577", "tune", "columns.epi",
          "--sizes", "M=1..1048577", env=environment)
    fails("--sizes: expected at most 4096 classes of sizes, which rows of a product alone share, "
          "got N=1..8192", "tune", "columns.epi", "--sizes", "N=1..8192", env=environment)


def test_tuning_ends_where_nothing_can_be_kept():
    pathlib.Path("zeros.epi").write_text(ZEROS.format(rows="M"))
    pathlib.Path("file").write_text("")
    fails("the cache folder takes no choices", "tune", "zeros.epi", "--sizes", "M=1..64",
          env={**made_up_gpu(), "EPIFUSE_CACHE": str(pathlib.Path("file").absolute())})


def test_a_budget_without_products_leaves_no_profile():
    fails("calibrate: expected a --budget for at least 2 products, got 5 seconds, which were "
          "enough for 0", "calibrate", "--budget", "5s", env=made_up_gpu())
    assert not pathlib.Path("cache/profiles").exists()


def test_a_sweep_times_what_runs_behind_copies():
    copied = "behind copies of misaligned operands"
    for point, copies in (("613.7 ", True), ("613.3 ", False)):
        run = epifuse("bench", "--grid", "random", "--seed", "613", "--count", "8", "--sweep",
                      "--filter", point, "--rounds", "2", "--sustained", "0", env=made_up_gpu())
        assert run.returncode == CHECK_FAILED, "zeros are not what these products are"
        ways = [line for line in run.stdout.decode().splitlines() if copied in line]
        assert len(ways) == copies and all(": wrong, " in way for way in ways), run


def test_what_is_copied_along_k_is_measured_with_its_copy():
    pathlib.Path("along_n.epi").write_text(ZEROS.format(rows="M").replace("bf16", "e4m3"))
    environment = made_up_gpu()
    run = epifuse("run", "along_n.epi", "M=4096", "--target", "cuda", "--family", "sm90_dense",
                  env=environment)
    assert run.returncode == OK and b"behind a copy along K" in run.stdout, run
    assert b"fused 20.0 us" in run.stdout, "two launches"
    result, _ = tuned(environment, "M=4096", graph="along_n.epi")
    (row,) = result["choices"]
    assert row["choice"].startswith("sm80, "), "one launch"
