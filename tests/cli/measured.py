"""`epifuse tune` and `epifuse calibrate`, as far as a machine without a GPU shows them."""

import json
import os
import pathlib

from process import BAD_INPUT, CHECK_FAILED, OK, UNAVAILABLE, epifuse, fails, write_graph

NO_GPU = {**os.environ, "EPIFUSE_CUDA_DRIVER": "/nowhere/libcuda.so"}
KEY = "0123456789abcdef" * 4
CHOICES = {"format": "epifuse tuned choices 1",
           "choices": [{"key": KEY, "for": "64x64x64 bf16 silu", "choice": "product and tail",
                        "measured": "12.0 us measured"}]}  # fmt: skip
PROFILE = """epifuse device profile 2
device NVIDIA H200
origin made up for a test
sms 132
clusters 66 39 30 15
flops_per_us 700000000
bytes_per_us 4000000
l2_bytes_per_us 0
start_us 4.2
launch_us 2
vendor_us 512 4096 4096 29.8
end
"""


def own_cache():
    return {**NO_GPU, "EPIFUSE_CACHE": str(pathlib.Path.cwd() / "cache")}


# --- tune -----------------------------------------------------------------------------------------


def test_tune_says_what_it_needs():
    write_graph("a.epi")
    fails("expected graphs, --export or --import", "tune")
    fails("expected graphs that have them", "tune", "--sizes", "M=1..8", "--export", "c.json")
    fails("No GPU to run on", "tune", "a.epi", "--sizes", "M=1..8", code=UNAVAILABLE, env=NO_GPU)
    fails("expected a GPU as the target", "tune", "a.epi", "--target", "cpu")


def test_tune_refuses_sizes_that_it_cannot_take():
    write_graph("a.epi")
    for word in ("M=8..1", "M", "M=0..4", "M=1..x"):
        fails(f"--sizes: expected a symbol with sizes from 1 to 2^40, such as M=1..8192 or "
              f"M=1,8,64, got '{word}'", "tune", "a.epi", "--sizes", word, env=NO_GPU)
    fails("expected sizes of M once", "tune", "a.epi", "M=4", "--sizes", "M=1..8", env=NO_GPU)
    fails("expected many sizes of one symbol, got some of M and of K",
          "tune", "a.epi", "--sizes", "M=1..8", "--sizes", "K=1,2", env=NO_GPU)
    for budget in ("-3", "3 weeks", "nonsense", "nan", "inf", "1h", "2 m", "60s60", "0x10", "", "s",
                   "1441m"):
        fails(f"--budget: expected 0 to 86400 seconds, as 60, 60s or 2m, got '{budget}'",
              "tune", "a.epi", "--budget", budget, env=NO_GPU)


def test_what_tune_takes_comes_in_any_order():
    write_graph("a.epi")
    for words in (("--sizes", "M=1..8", "a.epi"), ("--sizes=M=1..8", "K=4", "a.epi"),
                  ("--budget", "2m", "a.epi"), ("a.epi", "--budget", "0.5s", "--sizes", "M=7..7")):
        fails("No GPU to run on", "tune", *words, code=UNAVAILABLE, env=NO_GPU)


def test_choices_that_cannot_be_kept():
    pathlib.Path("in.json").write_text(json.dumps(CHOICES))
    for folder in ("/dev/null/cache", str(pathlib.Path("in.json").absolute())):
        fails("1 of 1 choices could not be kept in", "tune", "--import", "in.json",
              env={**NO_GPU, "EPIFUSE_CACHE": folder})


def test_choices_go_from_machine_to_machine():
    pathlib.Path("in.json").write_text(json.dumps(CHOICES))
    environment = own_cache()
    run = epifuse("tune", "--import", "in.json", env=environment)
    assert run.returncode == OK and b"1 choices added, 0 known already" in run.stdout, run
    run = epifuse("tune", "--import", "in.json", "--export", "out.json", "--json", env=environment)
    assert json.loads(run.stdout) == {"imported": {"added": 0, "known": 1, "differ": 0},
                                      "exported": "out.json"}
    assert json.loads(pathlib.Path("out.json").read_text()) == CHOICES
    assert b"64x64x64 bf16 silu" in epifuse("cache", "list", env=environment).stdout


def test_of_choices_that_differ_those_here_stay():
    pathlib.Path("in.json").write_text(json.dumps(CHOICES))
    assert epifuse("tune", "--import", "in.json", env=own_cache()).returncode == OK
    other = json.dumps(CHOICES).replace("product and tail", "a kernel")
    pathlib.Path("other.json").write_text(other)
    run = epifuse("tune", "--import", "other.json", "--export", "out.json", env=own_cache())
    assert run.stdout.decode().splitlines()[0] == (
        "other.json: 0 choices added, 1 known already, 1 of them as other choices, which stay"), run
    assert json.loads(pathlib.Path("out.json").read_text()) == CHOICES


def test_choices_of_another_version_are_told_from_damaged_ones():
    pathlib.Path("in.json").write_text(json.dumps(CHOICES))
    environment = own_cache()
    assert epifuse("tune", "--import", "in.json", env=environment).returncode == OK
    (file,) = pathlib.Path("cache/tuned").iterdir()
    whole = file.read_bytes()
    words, number = whole.split(b"\n")[0].rsplit(b" ", 1)
    for version in (b"3", b"99"):
        file.write_bytes(whole.replace(words + b" " + number, words + b" " + version, 1))
        run = epifuse("cache", "verify", env=environment)
        assert run.returncode == OK and b"1 of another version, 0 corrupt" in run.stdout, run
        assert b"  other version" in epifuse("cache", "list", env=environment).stdout
    for damaged in (b"", whole[:-1], file.read_bytes()[:-1], b"x" + whole[1:]):
        file.write_bytes(damaged)
        run = epifuse("cache", "verify", env=environment)
        assert run.returncode == CHECK_FAILED and b", 1 corrupt" in run.stdout, run
        run = epifuse("tune", "--export", "out.json", env=environment)
        assert json.loads(pathlib.Path("out.json").read_text())["choices"] == []
    file.write_bytes(b"")
    assert b" 1 tuned choices " in epifuse("cache", "clear", env=environment).stdout
    assert not file.exists()


def test_a_file_without_choices_is_named():
    pathlib.Path("bad.json").write_text("{}")
    fails("--import bad.json: expected JSON of the format", "tune", "--import", "bad.json",
          env=own_cache())
    fails("none.json", "tune", "--import", "none.json", env=own_cache())


# --- calibrate ------------------------------------------------------------------------------------


def test_calibrate_needs_a_gpu():
    fails("No GPU to run on", "calibrate", code=UNAVAILABLE, env=NO_GPU)
    fails("No GPU to run on", "calibrate", "--budget", "0", "--export", "p", code=UNAVAILABLE,
          env=NO_GPU)
    fails("expected a --budget above 0, or --export FILE", "calibrate", "--budget", "0", env=NO_GPU)
    fails("--import or --export, got both", "calibrate", "--import", "a", "--export", "b",
          env=NO_GPU)
    assert not pathlib.Path("p").exists()


def test_a_profile_is_taken_and_choices_go_by_it():
    pathlib.Path("in.profile").write_text(PROFILE)
    write_graph("a.epi")
    environment = own_cache()
    run = epifuse("calibrate", "--import", "in.profile", "--json", env=environment)
    assert run.returncode == OK, run
    file = pathlib.Path(json.loads(run.stdout)["file"])
    assert file.name == "nvidia_h200.profile" and file.read_text() == PROFILE
    run = epifuse("explain", "a.epi", "M=64", "--target", "cuda", env=environment)
    sentence = b"follow this machine's profile of NVIDIA H200: made up for a test."
    assert sentence in run.stdout, run
    file.write_text(PROFILE.replace("sms 132", "sms many"))
    run = epifuse("explain", "a.epi", "M=64", "--target", "cuda", env=environment)
    assert b"is not used: line 4: expected an integer" in run.stderr, run
    assert b"Expected times follow the measurements of NVIDIA H200." in run.stdout


SWEEP = pathlib.Path(__file__).resolve().parents[2] / "bench/results/sweep_h200.json"


def sweep_of(name, where):
    rows = [row for row in json.loads(SWEEP.read_text()) if where(row)]
    pathlib.Path(name).write_text(json.dumps(rows))
    return rows


def test_a_model_is_fitted_to_a_sweep_without_a_gpu():
    rows = sweep_of("sweep.json", lambda row: row["k"] == 4096 and row["m"] >= 512)
    run = epifuse("calibrate", "--sweep", "sweep.json", "--target", "sm_90a", "--export",
                  "out.profile", "--json", env={**NO_GPU, **own_cache()})
    assert run.returncode == OK, run
    said = json.loads(run.stdout)
    assert said["device"] == "NVIDIA H200" and said["exported"] == "out.profile"
    points = {(row["suite"], row["workload"], row["m"], row["n"], row["k"], row["epilogue"])
              for row in rows if row["contender"] == "candidate"}
    assert 4 <= said["points"] <= len(points) and said["times"] >= 4 * said["points"]
    for spread in (said["expected_after"], said["chosen_after"]):
        assert 0 <= spread["mean"] <= spread["p95"] <= spread["worst"]
    assert said["expected_after"]["mean"] < 0.15
    lines = pathlib.Path("out.profile").read_text().splitlines()
    assert lines[1] == "device NVIDIA H200" and lines[-1] == "end"
    assert any(line.startswith("constant sm90_dense launch_us ") for line in lines)


def test_a_sweep_must_be_rows_of_one_known_device():
    to = ("--target", "sm_90a", "--export", "p")
    rows = sweep_of("one.json", lambda row: row["m"] == 8192 and row["k"] == 1024)
    fails("--sweep expects --target and --export", "calibrate", "--sweep", "one.json", env=NO_GPU)
    fails("--target: expected", "calibrate", "--sweep", "one.json", "--target", "sm_1", "--export",
          "p", env=NO_GPU)
    pathlib.Path("two.json").write_text(json.dumps([{**row, "device": "another"} for row in rows]))
    fails("expected rows of NVIDIA H200, got one of another", "calibrate", "--sweep", "one.json",
          "--sweep", "two.json", *to, env=NO_GPU)
    fails("a device that has a profile, got 'another'", "calibrate", "--sweep", "two.json", *to,
          env=NO_GPU)
    pathlib.Path("no.json").write_text('[{"contender": "candidate"}]')
    fails("no.json: expected rows of `epifuse bench --sweep`", "calibrate", "--sweep", "no.json",
          *to, env=NO_GPU)
    pathlib.Path("empty.json").write_text("[]")
    fails("got files without any", "calibrate", "--sweep", "empty.json", *to, env=NO_GPU)
    assert not pathlib.Path("p").exists()


def test_a_file_that_is_no_profile_is_named():
    pathlib.Path("bad.profile").write_text(PROFILE.replace("end\n", ""))
    environment = own_cache()
    run = fails("--import bad.profile: expected 'end' as the last line, got none: it is not whole",
                "calibrate", "--import", "bad.profile", env=environment)
    assert run.returncode == BAD_INPUT and not pathlib.Path("cache/profiles").exists()


def test_constants_that_no_family_has_are_named():
    text = PROFILE.replace("end\n", "constant sm90_dense launch_us 3\n"
                           "constant sm90_dense lunch_us 3\n"
                           "constant no_family launch_us 3\nend\n")
    pathlib.Path("in.profile").write_text(text)
    run = epifuse("calibrate", "--import", "in.profile", env=own_cache())
    assert run.returncode == OK and run.stderr.decode().splitlines() == [
        "--import in.profile: no kernel family has the constant 'sm90_dense lunch_us', which does "
        "not count",
        "--import in.profile: no kernel family has the constant 'no_family launch_us', which does "
        "not count"], run


def test_a_profile_that_would_not_be_used_is_refused():
    pathlib.Path("in.profile").write_text(PROFILE)
    folder = pathlib.Path("cache/profiles").absolute()
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    fails(f"the folder of device profiles {folder} is not used: it can be written by other users",
          "calibrate", "--import", "in.profile", env=own_cache())
    assert not list(folder.iterdir())
    (folder / "nvidia_h200.profile").write_text(PROFILE)
    write_graph("a.epi")
    run = epifuse("explain", "a.epi", "M=64", "--target", "cuda", env=own_cache())
    assert b"profiles is not used: it can be written" in run.stderr, run
    assert b"Expected times follow the measurements of NVIDIA H200." in run.stdout


def test_a_target_is_of_a_sweep():
    fails("--target requires --sweep", "calibrate", "--import", "p", "--target", "sm_90a")
