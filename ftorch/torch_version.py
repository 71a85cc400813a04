"""The type of ``torch.__version__`` (``torch.torch_version``)."""

from __future__ import annotations

from packaging.version import InvalidVersion, Version

from .version import __version__ as _version

__all__ = ["TorchVersion", "__version__"]


def _version_of(value):
    if isinstance(value, Version):
        return value
    if isinstance(value, (tuple, list)):
        value = ".".join(map(str, value))
    return Version(value)


class TorchVersion(str):
    """A version's text that compares as a version, with texts, tuples and ``packaging`` versions.

    >>> from ftorch.torch_version import TorchVersion
    >>> TorchVersion("2.13.0") > "2.9", TorchVersion("2.13.0") >= (2, 13)
    (True, True)
    """

    __slots__ = ()

    def _compare(self, other, name):
        try:
            return getattr(Version(self), name)(_version_of(other))
        except InvalidVersion:  # compared as the text that it is
            return getattr(super(), name)(other)

    def __lt__(self, other):
        return self._compare(other, "__lt__")

    def __le__(self, other):
        return self._compare(other, "__le__")

    def __eq__(self, other):
        return self._compare(other, "__eq__")

    def __ne__(self, other):
        return not self == other

    def __gt__(self, other):
        return self._compare(other, "__gt__")

    def __ge__(self, other):
        return self._compare(other, "__ge__")

    __hash__ = str.__hash__


__version__ = TorchVersion(_version)
