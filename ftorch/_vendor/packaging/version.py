"""Versions (``packaging.version``).

>>> from ftorch._vendor.packaging.version import Version
>>> Version("2.10") > Version("2.9")
True
"""

from packaging.version import VERSION_PATTERN, InvalidVersion, Version, parse

__all__ = ["VERSION_PATTERN", "InvalidVersion", "Version", "parse"]
