"""What profiles leave out of the paths of Python files."""

from __future__ import annotations

import os
import site
import sys


def _prefix_regex() -> list[str]:
    """The folders that packages are in, longest names last by the alphabet's reverse, with a separator behind."""
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    paths = [*site.getsitepackages(), *sys.path, site.getuserbase(), site.getusersitepackages(), package]
    return [path + os.sep for path in sorted({os.path.abspath(p) for p in paths}, reverse=True)]
