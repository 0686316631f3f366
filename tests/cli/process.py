"""The command line as a process, for the tests of this folder."""

import pathlib
import struct
import subprocess
import sys

EPIFUSE, GPU = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
OK, CHECK_FAILED, BAD_INPUT, UNAVAILABLE, OUTPUT_LOST = 0, 1, 2, 3, 5
QUIET = ["--target", "cpu", "--no-time"]

PRODUCT = """graph {name}(x: bf16[M, 8], w: bf16[8, 4]) {{
  h = matmul x, w
  y = relu h
  return y
}}
"""

def epifuse(*words, **options):
    command = [EPIFUSE, *words]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "timeout": 120} | options
    return subprocess.run(command, check=False, **options)


def fails(expected, *words, code=BAD_INPUT, **options):
    """The run ends with `code` and a message that holds `expected`, not an internal error."""
    run = epifuse(*words, **options)
    message = run.stderr.decode()
    assert run.returncode == code, (run.returncode, message)
    assert expected in message, message
    assert "internal error" not in message and len(message) < 10_000, message
    return run


def npy(shape, descr, data, version=b"\x01\x00", header=None):
    header = header or f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"
    text = header.encode() + b" " * 10 + b"\n"
    length = struct.pack("<H" if version[0] == 1 else "<I", len(text))
    return b"\x93NUMPY" + version + length + text + data


def write_graph(path, name="product"):
    pathlib.Path(path).write_text(PRODUCT.format(name=name))
    return path
