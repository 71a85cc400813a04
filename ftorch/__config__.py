"""What this build is made of (``torch.__config__``)."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version

import jax

from .version import __version__

__all__ = ["parallel_info", "show"]


def show() -> str:
    """A text that names the versions, the processor and how the native kernels run.

    >>> import ftorch as torch
    >>> torch.__config__.show().splitlines()[0]
    'ftorch built with:'
    """
    from .eager import native

    kernels = "native kernels for the CPU" if native.available else "XLA's kernels for the CPU"
    lines = [
        f"ftorch {__version__}", f"Python {platform.python_version()}",
        f"jax {jax.__version__}, jaxlib {version('jaxlib')}, backend {jax.default_backend()}", kernels,
    ]
    return "ftorch built with:\n" + "".join(f"  - {line}\n" for line in lines)


def parallel_info() -> str:
    """A text about threads: XLA's share the machine's cores among programs."""
    from . import get_num_threads

    return (
        f"XLA parallel backend: thread pool\n\tftorch.get_num_threads() : {get_num_threads()}\n"
        f"\tos.cpu_count() : {os.cpu_count()}\n"
    )
