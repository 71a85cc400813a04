"""Whose code runs while a call is captured."""

from __future__ import annotations

import os
import sysconfig

import pytest

from ftorch.jit.capture.user_code import is_users

SITE = sysconfig.get_paths()["purelib"]


@pytest.mark.parametrize("file", ["etils/epath/gpath.py", "typing_extensions.py", "jax/_src/path.py", "numpy/_core/numeric.py"])
def test_what_jax_reads_and_writes_its_files_by_is_not_the_users(file):
    """Where Flax is installed, compiling `cond` within a capture looked for JAX's files by `etils`: the capture ended."""
    assert not is_users(os.path.join(SITE, *file.split("/")))


@pytest.mark.parametrize("file", ["einops/einops.py", "typing_extensions_of_mine.py", "flax/linen/linear.py"])
def test_other_libraries_are(file):
    assert is_users(os.path.join(SITE, *file.split("/")))
