"""epifuse: a matrix multiply and the elementwise work around it, as one kernel.

`epifuse.torch` is the door for PyTorch; this module needs nothing but the C++ core.
"""

from epifuse._native import (
    BadInputError,
    BugError,
    Error,
    FailedError,
    UnavailableError,
    version,
)

__all__ = ["BadInputError", "BugError", "Error", "FailedError", "UnavailableError", "version"]


def __getattr__(name: str) -> str:
    if name == "__version__":  # of the library, which is loaded when it is first asked
        return version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
