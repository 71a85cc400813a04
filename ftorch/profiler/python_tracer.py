"""What profiles leave out of the paths of Python files."""

from __future__ import annotations

import os
import site
import sys

from ..eager.core import places


def _prefix_regex() -> list[str]:
    """The folders that packages are in, longest names last by the alphabet's reverse, with a separator behind."""
    package = os.path.dirname(os.path.dirname(places.PACKAGE))  # the folder that it is in: a separator ends its path
    paths = [*site.getsitepackages(), *sys.path, site.getuserbase(), site.getusersitepackages(), package]
    return [path + os.sep for path in sorted({os.path.abspath(p) for p in paths}, reverse=True)]
