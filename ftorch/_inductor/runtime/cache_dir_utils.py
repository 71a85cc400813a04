"""Where compiled programs are kept (``torch._inductor.runtime.cache_dir_utils``)."""

from __future__ import annotations

import getpass
import os
import tempfile

from ..._toplevel.startup import cache_folder


def cache_dir() -> str:
    """The folder of compiled programs, or one of the user's for temporary files."""
    return cache_folder() or default_cache_dir()


def default_cache_dir() -> str:
    """A folder of the user's for temporary files."""
    return os.path.join(tempfile.gettempdir(), f"torchinductor_{getpass.getuser()}")
