"""Every snippet of README.md and docs/ works as pasted: run by tests/python/run on the wheel.

Python and shell of a page run in order in one folder, Python in one namespace. A word behind the
language says that a snippet is only compiled, since it needs what this machine may lack.
"""

import json
import os
import pathlib
import re
import stat
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w+)?([^\n]*)\n(.*?)^```$", re.M | re.S)
NOT_RUN = {"text", "ebnf", "cmake", "json"}  # output, grammars; what tests/install/run builds
# Commands that build or install, which other tiers run: here only what they name is checked.
ELSEWHERE = re.compile(r"^(\./dev|pip|cmake|git|apt-get)\b")

DRIVER = """
import json, subprocess, sys
namespace = {"__name__": "__main__"}
for number, (language, code) in enumerate(json.load(open("snippets.json"))):
    if language == "sh":
        subprocess.run(["bash", "-euo", "pipefail", "-c", code], check=True)
    else:
        exec(compile(code, f"snippet {number}", "exec"), namespace)
"""


def snippets(page):
    """(language, rest of the line, code) of each fence of a page."""
    return [(language, rest.strip(), code) for language, rest, code in
            FENCE.findall(page.read_text())]


def shell_lines(code):
    """The commands of a shell snippet that run here; a continued line is one command."""
    for line in code.replace("\\\n", " ").splitlines():
        command = line.split("  #")[0].strip()
        if not command or command.startswith("#"):
            continue
        if not ELSEWHERE.match(command):
            yield command
        elif command.startswith("./dev "):
            assert command.split()[1] in (ROOT / "dev").read_text(), command


def runnable(page):
    for language, rest, code in snippets(page):
        if language == "python" and not rest:
            yield language, code
        elif language == "sh" and not rest:
            yield language, "\n".join(shell_lines(code))


@pytest.fixture
def folder(tmp_path):
    """A folder as a reader has it: the examples, and the command `epifuse`."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    command = tmp_path / "bin" / "epifuse"
    command.parent.mkdir()
    command.write_text(f"#!/bin/sh\nexec '{sys.executable}' -m epifuse._cli \"$@\"\n")
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    return tmp_path


def test_every_snippet_has_a_language():
    known = {"python", "sh", "cpp", "epi", *NOT_RUN}
    for page in PAGES:
        for language, _, code in snippets(page):
            assert language in known, f"{page.name}: {language!r} of {code[:60]!r}"


@pytest.mark.parametrize("page", [page for page in PAGES if any(runnable(page))],
                         ids=lambda page: page.name)
def test_python_and_shell_run_as_pasted(page, folder):
    (folder / "snippets.json").write_text(json.dumps(list(runnable(page))))
    environment = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
                   "EPIFUSE_CACHE": str(folder / "cache")}
    done = subprocess.run([sys.executable, "-c", DRIVER], cwd=folder, env=environment, text=True,
                          capture_output=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


def test_snippets_that_are_not_run_compile():
    for page in PAGES:
        for language, rest, code in snippets(page):
            if language == "python" and rest:
                compile(code, page.name, "exec")


@pytest.mark.parametrize("page", [page for page in PAGES if "```epi\n" in page.read_text()],
                         ids=lambda page: page.name)
def test_graphs_are_planned(page, folder):
    for number, (language, _, code) in enumerate(snippets(page)):
        if language != "epi":
            continue
        path = folder / f"{number}.epi"
        path.write_text(code)
        done = subprocess.run([folder / "bin" / "epifuse", "explain", path, "--target", "cpu"],
                              text=True, capture_output=True, check=False)
        assert done.returncode == 0, f"{page.name}:\n{code}\n{done.stderr}"


def test_the_page_of_variables_has_every_row():
    page = (ROOT / "docs/environment.md").read_text()
    rows = re.findall(r'EPIFUSE_SETTING\(\w+,\s*"(\w+)",\s*((?:"[^"]*"\s*)+)\)',
                      (ROOT / "src/base/settings.def").read_text())
    assert rows
    for variable, parts in rows:
        meaning = "".join(re.findall(r'"([^"]*)"', parts))
        assert f"| `{variable}` | {meaning} |" in page
    for variable in re.findall(r'environ\.get\("(\w+)"',
                               (ROOT / "python/epifuse/settings.py").read_text()):
        assert f"| `{variable}` |" in page
