"""The process' own output into files: what Python, C and child processes write."""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import contextmanager
from functools import partial

__all__ = ["redirect", "redirect_stderr", "redirect_stdout"]


def _flush_c():
    try:
        ctypes.CDLL(None).fflush(None)
    except (OSError, AttributeError, TypeError):
        pass  # no C library can be reached by this name (Windows)


@contextmanager
def redirect(std: str, to_file: str):
    """Within, a standard stream goes to a file, which is overwritten.

    Args:
        std: ``"stdout"`` or ``"stderr"``.

    Raises:
        ValueError: for another stream.

    >>> import os, pathlib, sys, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "log")
    >>> with redirect("stderr", path):
    ...     _ = os.write(sys.stderr.fileno(), b"said\\n")
    >>> pathlib.Path(path).read_text()
    'said\\n'
    """
    if std not in ("stdout", "stderr"):
        raise ValueError(f"unknown standard stream <{std}>, must be one of {{'stdout', 'stderr'}}")
    stream = getattr(sys, std)
    number = stream.fileno()
    kept = os.dup(number)
    try:
        with open(to_file, "w+b") as file:
            stream.flush()
            _flush_c()
            os.dup2(file.fileno(), number)
            try:
                yield
            finally:
                stream.flush()
                _flush_c()
                os.dup2(kept, number)
    finally:
        os.close(kept)


redirect_stdout = partial(redirect, "stdout")
redirect_stderr = partial(redirect, "stderr")
