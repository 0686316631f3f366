"""The package without PyTorch: versions, the library, and what is said when there is none."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import epifuse
from epifuse import _native

VARIABLE = "EPIFUSE_LIBRARY_PATH"
ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_version_is_the_projects():
    project = (ROOT / "CMakeLists.txt").read_text()
    assert epifuse.version() == re.search(r"project\(epifuse VERSION ([0-9.]+)", project)[1]


def test_library_path_is_a_file():
    assert _native.library_path(_native.LIBRARY).is_file()


def test_the_environment_names_the_folder(tmp_path, monkeypatch):
    (tmp_path / _native.LIBRARY).touch()
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert _native.library_path(_native.LIBRARY) == tmp_path / _native.LIBRARY


def test_a_missing_library_is_named_with_the_places(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(epifuse.UnavailableError) as raised:
        _native.library_path("libnot_there.so")
    for word in ("libnot_there.so", str(tmp_path), VARIABLE):
        assert word in str(raised.value)


def test_a_library_of_another_version_is_refused(tmp_path):
    source, library = tmp_path / "other.c", tmp_path / _native.LIBRARY
    source.write_text('const char* epifuse_version(void) { return "0.0.1"; }\n')
    subprocess.run(["cc", "-shared", "-o", str(library), str(source)], check=True)
    code = ("import epifuse\n"
            "try: epifuse.version()\n"
            "except epifuse.UnavailableError as error: print(error)\n")
    result = subprocess.run([sys.executable, "-c", code], check=True, text=True,
                            env={**os.environ, VARIABLE: str(tmp_path)}, capture_output=True)
    assert "got another version" in result.stdout and str(library) in result.stdout


def test_import_needs_neither_the_library_nor_torch(tmp_path):
    shutil.copytree(pathlib.Path(epifuse.__file__).parent, tmp_path / "epifuse",
                    ignore=shutil.ignore_patterns("lib", "bin"))
    code = ("import sys, epifuse\n"
            "assert 'torch' not in sys.modules\n"
            "try: epifuse.version()\n"
            "except epifuse.UnavailableError as error: print(error)\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    environment.pop(VARIABLE, None)
    result = subprocess.run([sys.executable, "-c", code], env=environment, check=True, text=True,
                            capture_output=True)
    assert str(tmp_path / "epifuse" / "lib") in result.stdout
