"""Where compiled programs are kept (``torch._inductor.runtime.cache_dir_utils``)."""

from __future__ import annotations

import getpass
import os
import tempfile


def cache_dir() -> str:
    """The folder: JAX's compilation cache, or one of the user's for temporary files."""
    import jax

    found = jax.config.jax_compilation_cache_dir
    return found or default_cache_dir()


def default_cache_dir() -> str:
    """A folder of the user's for temporary files."""
    return os.path.join(tempfile.gettempdir(), f"torchinductor_{getpass.getuser()}")
