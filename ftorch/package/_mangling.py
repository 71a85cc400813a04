"""Names of modules out of a package: ``<torch_package_0>.module``, unlike any that Python can import."""

from __future__ import annotations

import itertools
import re

_numbers = itertools.count()
_MANGLED = re.compile(r"(<torch_package_\d+>)\.?")


class PackageMangler:
    """Names for the modules of one importer."""

    def __init__(self):
        self._parent = f"<torch_package_{next(_numbers)}>"

    def mangle(self, name: str) -> str:
        """A module's name as this importer's."""
        return f"{self._parent}.{name}"

    def parent_name(self) -> str:
        """What stands before the names."""
        return self._parent


def is_mangled(name: str) -> bool:
    """Whether a name is that of a module out of a package."""
    return _MANGLED.match(name) is not None


def demangle(name: str) -> str:
    """The name of a module in its package; other names stay.

    >>> demangle("<torch_package_0>.numpy.linalg"), demangle("numpy")
    ('numpy.linalg', 'numpy')
    """
    found = _MANGLED.match(name)
    return name[found.end() :] if found else name


def get_mangle_prefix(name: str) -> str:
    """What stands before a mangled name; of other names the name."""
    return name.partition(".")[0] if is_mangled(name) else name
