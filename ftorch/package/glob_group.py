"""Patterns of module names (``torch.package.glob_group``)."""

from __future__ import annotations

import re
from collections.abc import Iterable

GlobPattern = str | Iterable[str]


class GlobGroup:
    """Names that match one of some patterns, and none of others.

    A pattern consists of segments: ``*`` in one stands for any text without a separator; the segment
    ``**`` for any number of segments, none among them.

    Args:
        include, exclude: a pattern, or several.
        separator: what stands between segments.

    Raises:
        ValueError: where ``**`` is not a whole segment.

    >>> from ftorch.package import GlobGroup
    >>> group = GlobGroup("torch.**", exclude="torch.nn.*")
    >>> group.matches("torch"), group.matches("torch.fx.node"), group.matches("torch.nn.init")
    (True, True, False)
    """

    def __init__(self, include: GlobPattern, *, exclude: GlobPattern = (), separator: str = "."):
        self._dbg = f"GlobGroup(include={include}, exclude={exclude})"
        self.separator = separator
        self.include = _compiled(include, separator)
        self.exclude = _compiled(exclude, separator)

    def __str__(self):
        return self._dbg

    __repr__ = __str__

    def matches(self, candidate: str) -> bool:
        """Whether a name is one of the group."""
        candidate = self.separator + candidate
        return any(p.fullmatch(candidate) for p in self.include) and not any(
            p.fullmatch(candidate) for p in self.exclude
        )


def _compiled(patterns: GlobPattern, separator: str) -> list[re.Pattern]:
    patterns = [patterns] if isinstance(patterns, str) else patterns
    return [
        re.compile("".join(_segment(s, re.escape(separator)) for s in pattern.split(separator)))
        for pattern in patterns
    ]


def _segment(text: str, separator: str) -> str:
    if text == "**":
        return f"(?:{separator}[^{separator}]+)*"
    if "**" in text:
        raise ValueError("** can only appear as an entire path segment")
    return separator + f"[^{separator}]*".join(map(re.escape, text.split("*")))
