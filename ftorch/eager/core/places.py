"""Paths of files: the package's, the engine's and JAX's.

Stack frames are told apart by the files of their code: errors name the user's line, captures ask whose
code runs. Files are known by absolute folders, never by names in paths: a package can be installed below
any folder, one named ``jax`` too.
"""

from __future__ import annotations

import os

import jax
import jaxlib

_here = os.path.abspath(__file__)
PACKAGE = _here[: -len(os.path.join("eager", "core", "places.py"))]
"""The folder of ``ftorch``, with a separator at its end."""
ENGINE = os.path.join(PACKAGE, "eager", "")
GENERATED = "<ftorch "
"""How the file names of code begin that is made from schemas."""
OWN = (PACKAGE, GENERATED)
JAX = tuple(os.path.join(os.path.dirname(os.path.abspath(m.__file__)), "") for m in (jax, jaxlib))


def own_file(path: str) -> str:
    """A file of the package, which has to exist: ``own_file("eager/call/op.py")``."""
    found = os.path.join(PACKAGE, *path.split("/"))
    if not os.path.exists(found):
        raise FileNotFoundError(found)
    return found
