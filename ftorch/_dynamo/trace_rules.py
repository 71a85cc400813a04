"""What compiled functions look into (``torch._dynamo.trace_rules``): paths, as rules write them."""

from __future__ import annotations

import os
import pathlib


def _as_posix_path(path: str) -> str:
    """A path without ``..``, with slashes; one at the end stays.

    >>> from ftorch._dynamo.trace_rules import _as_posix_path
    >>> _as_posix_path("a/../b/")
    'b/'
    """
    found = pathlib.Path(os.path.normpath(path)).as_posix()
    return f"{found}/" if path.endswith((os.path.sep, "/")) else found
