"""The files that commands write, and the folders that they keep things in."""

import json
import os
import pathlib
import stat
import struct
import threading

from made_up import ZEROS, made_up_gpu
from measured import CHOICES, NO_GPU, PROFILE, own_cache, sweep_of
from process import BAD_INPUT, OK, QUIET, epifuse, fails, npy, write_graph

NOBODY = 65534


def import_choices(environment):
    pathlib.Path("in.json").write_text(json.dumps(CHOICES))
    run = epifuse("tune", "--import", "in.json", env=environment)
    assert run.returncode == OK, run


# --- what is no regular file ----------------------------------------------------------------------


def text_of_pipe(path, *words, **options):
    """What a command writes into a pipe that another reads."""
    os.mkfifo(path)
    got = []
    reader = threading.Thread(target=lambda: got.append(pathlib.Path(path).read_bytes()))
    reader.start()
    run = epifuse(*words, **options)
    if not stat.S_ISFIFO(os.lstat(path).st_mode):  # replaced: nobody will ever write to the reader
        raise AssertionError(f"{path} is no pipe any more: {run}")
    reader.join(timeout=60)
    assert run.returncode == OK and got, run
    return got[0]


def test_a_pipe_is_written_into():
    environment = own_cache()
    import_choices(environment)
    text = text_of_pipe("pipe", "tune", "--export", "pipe", env=environment)
    assert json.loads(text) == CHOICES
    write_graph("a.epi")
    os.mkdir("out")
    assert text_of_pipe("out/product.y.npy", "run", "a.epi", "M=4", "--save", "out",
                        *QUIET).startswith(b"\x93NUMPY")


def make_device(name, minor):
    """A device of the test's own, since a mistake destroys it; by a link where only root may."""
    try:
        os.mknod(f"{name}.node", 0o600 | stat.S_IFCHR, os.makedev(1, minor))
        os.symlink(f"{name}.node", name)
    except PermissionError:
        os.symlink(f"/dev/{name}", name)


def test_a_device_stays():
    make_device("full", 7)
    make_device("null", 3)
    environment = own_cache()
    fails("full: cannot be written: No space left on device", "tune", "--export", "full",
          env=environment)
    assert epifuse("tune", "--export", "null", env=environment).returncode == OK
    assert epifuse("verify", "--graphs", "2", "--target", "cpu", "--last", "null").returncode == OK
    for name in ("full", "null"):
        assert os.path.islink(name) and stat.S_ISCHR(os.stat(name).st_mode)
    if os.path.exists("null.node"):
        assert epifuse("tune", "--export", "null.node", env=environment).returncode == OK
        assert stat.S_ISCHR(os.lstat("null.node").st_mode)


def test_standard_output_is_a_file_too():
    environment = own_cache()
    import_choices(environment)
    os.symlink("/proc/self/fd/1", "stdout")  # as /dev/stdout, which a mistake would destroy
    run = epifuse("tune", "--export", "stdout", env=environment)
    assert run.returncode == OK and run.stdout.startswith(b'{"format": '), run
    assert os.path.islink("stdout")


def test_standard_output_in_a_file_keeps_what_is_there():
    environment = own_cache()
    import_choices(environment)
    os.symlink("/proc/self/fd/1", "stdout")
    for mode in ("w", "a"):
        with open("all.txt", mode) as file:
            file.write("before\n")
            file.flush()
            run = epifuse("tune", "--export", "stdout", env=environment, stdout=file)
            assert run.returncode == OK
            file.write("behind\n")
    text = pathlib.Path("all.txt").read_text()
    assert text.count("before\n") == text.count("behind\n") == text.count('"format": ') == 2, text
    assert text.startswith("before\n") and text.endswith("behind\n"), text


def test_links_are_followed():
    environment = own_cache()
    import_choices(environment)
    os.makedirs("there/below")
    pathlib.Path("there/old.json").write_text("old")
    os.chmod("there/old.json", 0o640)
    os.symlink("there/old.json", "link.json")
    os.symlink("../new.json", "there/below/dangling")
    os.symlink("loop", "loop")
    for name, target in (("link.json", "there/old.json"), ("there/below/dangling",
                                                           "there/new.json")):
        assert epifuse("tune", "--export", name, env=environment).returncode == OK
        assert os.path.islink(name) and not os.path.islink(target)
        assert json.loads(pathlib.Path(target).read_text()) == CHOICES
    assert stat.S_IMODE(os.stat("there/old.json").st_mode) == 0o640
    fails("loop: cannot be written: Too many levels of symbolic links", "tune", "--export", "loop",
          env=environment)
    assert sorted(os.listdir("there")) == ["below", "new.json", "old.json"]
    pathlib.Path("last").write_text("")
    os.symlink("last", "last.link")
    run = epifuse("verify", "--graphs", "1", "--target", "cpu", "--last", "last.link")
    assert run.returncode == OK and os.path.islink("last.link")
    assert pathlib.Path("last").read_text().startswith("graph ")


def test_a_profile_goes_through_a_link():
    sweep_of("sweep.json", lambda row: row["k"] == 4096 and row["m"] >= 8192)
    pathlib.Path("real.profile").write_text("")
    os.symlink("real.profile", "link.profile")
    run = epifuse("calibrate", "--sweep", "sweep.json", "--target", "sm_90a", "--export",
                  "link.profile", env={**NO_GPU, **own_cache()})
    assert run.returncode == OK and os.path.islink("link.profile"), run
    assert pathlib.Path("real.profile").read_text().endswith("end\n")


def test_a_page_goes_through_a_link():
    row = {"suite": "host", "workload": "launch", "contender": "epifuse", "us": 1.5,
           "baseline": "", "ratio": None, "ratio_sustained": None, "command": "c",
           "device": "d", "driver": "1", "numerics": "fast", "commit": "x", "date": "today"}
    pathlib.Path("rows.json").write_text(json.dumps([row]))
    os.symlink("real.md", "page.md")
    words = ["bench", "--report", "page.md", "--results", "rows.json"]
    assert json.loads(epifuse(*words, "--json").stdout) == {"report": "page.md",
                                                            "rows": "rows.json"}
    assert os.path.islink("page.md") and "launch" in pathlib.Path("real.md").read_text()
    assert epifuse(*words).stdout == b"page.md: made from rows.json\n"


# --- cache folders --------------------------------------------------------------------------------


def test_a_cache_that_others_can_write_to_keeps_nothing():
    pathlib.Path("in.profile").write_text(PROFILE)
    pathlib.Path("in.json").write_text(json.dumps(CHOICES))
    cache = pathlib.Path("cache").absolute()
    cache.mkdir()
    cache.chmod(0o777)
    why = f"the cache folder {cache} is not used: it can be written by other users"
    fails(why, "calibrate", "--import", "in.profile", env=own_cache())
    run = fails(why, "tune", "--import", "in.json", env=own_cache())
    assert b"1 of 1 choices could not be kept in" in run.stderr, run
    assert not list(cache.iterdir())
    cache.chmod(0o700)
    import_choices(own_cache())
    assert epifuse("calibrate", "--import", "in.profile", env=own_cache()).returncode == OK
    cache.chmod(0o777)
    run = epifuse("tune", "--export", "out.json", env=own_cache())
    assert json.loads(pathlib.Path("out.json").read_text())["choices"] == [], run
    run = epifuse("cache", "clear", env=own_cache())
    assert b"and 0 tuned choices" in run.stdout and run.stderr.count(why.encode()) == 1, run
    assert len(list((cache / "tuned").iterdir())) == 1
    write_graph("a.epi")
    run = epifuse("explain", "a.epi", "M=64", "--target", "cuda", env=own_cache())
    assert b"Expected times follow the measurements of NVIDIA H200." in run.stdout, run
    assert run.stderr.count(b"is not used") == 1, run


def as_nobody(function):
    """Runs it as a user who may not do everything, where root runs the tests."""
    os.chmod(".", 0o777)
    if os.geteuid() != 0:
        return function({})
    for path in [pathlib.Path("."), *pathlib.Path(".").rglob("*")]:
        os.chown(path, NOBODY, NOBODY)
    return function({"preexec_fn": lambda: os.setuid(NOBODY)})


def test_what_cannot_be_removed_is_told():
    import_choices(own_cache())
    os.chmod("cache/tuned", 0o500)

    def check(user):
        run = fails("0 kernels and 1 tuned choices could not be removed from", "cache", "clear",
                    env=own_cache(), **user)
        assert b": Permission denied; removed 0 kernels and 0 tuned choices" in run.stderr, run
        assert not run.stdout, run

    as_nobody(check)
    os.chmod("cache/tuned", 0o700)
    as_nobody(lambda user: epifuse("cache", "clear", env=own_cache(), **user))
    assert not list(pathlib.Path("cache").rglob("*.tuned"))


def test_choices_that_cannot_be_read_are_not_exported():
    pathlib.Path("file").write_text("")
    fails("the cache folder file cannot be read: Not a directory", "tune", "--export", "out.json",
          env={**NO_GPU, "EPIFUSE_CACHE": "file"})
    import_choices(own_cache())
    os.chmod("cache/tuned", 0o300)

    def check(user):
        for words in (["tune", "--export", "out.json"], ["cache", "list"]):
            fails("cache/tuned cannot be read: Permission denied", *words, env=own_cache(), **user)

    as_nobody(check)
    os.chmod("cache/tuned", 0o700)
    assert not os.path.exists("out.json")


def test_a_calibration_that_could_not_be_kept_is_not_begun():
    pathlib.Path("file").write_text("")
    environment = {**made_up_gpu(), "EPIFUSE_CACHE": str(pathlib.Path("file").absolute())}
    words = ["calibrate", "--budget", "3600s", "--export", "p"]
    run = fails("cannot make folder", *words, env=environment)
    assert b"rates:" not in run.stderr and not os.path.exists("p"), run
    cache = pathlib.Path("cache")
    cache.mkdir()
    cache.chmod(0o777)
    run = fails("cache is not used: it can be written", *words, env=made_up_gpu())
    assert b"rates:" not in run.stderr and not list(cache.iterdir()), run


# --- files of results -----------------------------------------------------------------------------


def test_files_that_take_no_rows_are_refused_before_measuring():
    pathlib.Path("zeros.epi").write_text(ZEROS.format(rows="M"))
    os.mkdir("rows")
    grids = (["bench", "--grid", "random", "--count", "1"], ["bench", "--grid", "host"],
             ["calibrate", "--budget", "3600s"], ["bench", "--sweep", "--filter", "128x4096"],
             ["functions", "--target", "cuda"])
    deep = '[{"m": ' + "[" * 80_000 + "]" * 80_000 + "}]"
    for text, came in (("{}", "{}"), ("null", "null"), ("[1]", "1 as row 1"), ("", "no JSON"),
                       ("[{}, [[]]]", "[[]] as row 2"), (deep, "JSON of more than 64 levels")):
        for name in ("h200.json", "sweep_h200.json", "functions_h200.json"):
            pathlib.Path("rows", name).write_text(text)
        for words in grids if text == "{}" else grids[:1]:
            run = fails(f".json: expected a list of result rows, got {came}", *words, "--results",
                        "rows", env=made_up_gpu())
            assert not run.stdout and b"rates" not in run.stderr, run


def test_rows_that_are_none_of_functions():
    pathlib.Path("page.md").write_text("<!-- functions -->\n<!-- /functions -->\n")
    words = ["functions", "--document", "page.md", "--from", "rows.json"]
    full = {"device": "d", "commit": "c", "date": "today", "numerics": "fast", "workload": "silu",
            "max_ulps": 1, "at": [1], "max_bf16_ulps": 0.5, "bf16_differ": 0, "clocks": None,
            "max_small_error": 0, "max_share_of_bound": 0.5}
    for rows in ([{}], [{"device": "d"}], [{**full, "at": ["x"]}], [{**full, "workload": 3}],
                 [{**full, "date": None}], [{**full, "bf16_differ": "much"}]):
        pathlib.Path("rows.json").write_text(json.dumps(rows))
        fails("rows.json: expected rows of `epifuse functions`: ", *words)
    for rows, came in (([1], "1 as row 1"), ({}, "{}")):
        pathlib.Path("rows.json").write_text(json.dumps(rows))
        fails(f"rows.json: expected a list of result rows, got {came}", *words)
    pathlib.Path("rows.json").write_text("[]")
    fails("rows.json: expected rows of functions, got none", *words)
    pathlib.Path("rows.json").write_text(json.dumps([full]))
    assert epifuse(*words).returncode == OK and "silu" in pathlib.Path("page.md").read_text()


def test_profiles_of_deep_or_odd_text():
    for clusters in ("0 0 0 0", "66 39 30 0"):
        pathlib.Path("in.profile").write_text(PROFILE.replace("66 39 30 15", clusters))
        fails("--import in.profile: line 5: expected an integer from 1 to 2^40, got '0'",
              "calibrate", "--import", "in.profile", env=own_cache())
    for odd, shown in ((b"\xff", r"\xff"), (b"\x1b[31m", r"\x1b[31m"), (b"a\rb", r"a\x0db")):
        text = PROFILE.encode().replace(b"made up", odd)
        pathlib.Path("in.profile").write_bytes(text)
        fails("line 3: expected text in UTF-8 without control characters, got "
              f"'{shown} for a test'", "calibrate", "--import", "in.profile", env=own_cache())
        assert not os.path.exists("cache")
    pathlib.Path("in.profile").write_text(PROFILE)
    assert epifuse("calibrate", "--import", "in.profile", env=own_cache()).returncode == OK
    write_graph("a.epi")
    for bad in (PROFILE.encode().replace(b"made up", b"\xff\x1b"),
                PROFILE.encode().replace(b"66", b"0")):
        pathlib.Path("cache/profiles/nvidia_h200.profile").write_bytes(bad)
        run = epifuse("explain", "a.epi", "M=64", "--target", "cuda", "--json", env=own_cache())
        assert run.returncode == OK and b"is not used: line " in run.stderr, run
        assert "measurements of NVIDIA H200." in json.loads(run.stdout)["profile"], run


def test_choices_of_any_depth():
    deep = "[" * 80_000 + "]" * 80_000
    for text in ('{"format": ' + deep + "}",
                 '{"format": "epifuse tuned choices 1", "choices": ' + deep + "}",
                 '{"format": "epifuse tuned choices 1", "choices": [{"key": ' + deep + "}]}",
                 '{"a":' * 80_000 + "1" + "}" * 80_000):
        pathlib.Path("deep.json").write_text(text)
        run = epifuse("tune", "--import", "deep.json", env=own_cache())
        assert run.returncode == BAD_INPUT, run.returncode
        assert b"got more than 64 levels of lists and objects" in run.stderr, run.stderr[:1000]


def test_rows_of_a_file_that_strides_make_one():
    text = "graph rows(x: f32[3, 2] strides [0, 1]) {\n  y = neg x\n  return y\n}\n"
    pathlib.Path("rows.epi").write_text(text)
    words = ["run", "rows.epi", "--input", "x=x.npy", "--save", "out", *QUIET]
    alike = struct.pack("<6f", 1, 2, 1, 2, 1, 2)
    pathlib.Path("x.npy").write_bytes(npy("(3, 2)", "<f4", alike))
    assert epifuse(*words).returncode == OK
    pathlib.Path("x.npy").write_bytes(npy("(3, 2)", "<f4", struct.pack("<6f", 1, 2, 1, 2, 1, 3)))
    fails("x.npy: input x has strides [0, 1], which make one element of several, but those of the "
          "file differ", *words)
