"""What the environment says: the one place of the package that reads it."""

import os
import pathlib


def library_folder() -> pathlib.Path | None:
    """EPIFUSE_LIBRARY_PATH: a folder with the shared libraries, before that of the package."""
    value = os.environ.get("EPIFUSE_LIBRARY_PATH")
    return pathlib.Path(value) if value else None


def tune() -> str | None:
    """EPIFUSE_TUNE: when GPU kernels are measured; None where it is not set."""
    return os.environ.get("EPIFUSE_TUNE") or None


def fuse_in_inductor() -> bool:
    """EPIFUSE_TORCH: 1 installs the pass in Inductor's pipeline in programs that import torch."""
    return os.environ.get("EPIFUSE_TORCH", "") not in ("", "0")
