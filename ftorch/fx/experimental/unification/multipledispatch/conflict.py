"""Which of two signatures is the more special, and which are ambiguous."""

from __future__ import annotations

from .utils import groupby
from .variadic import isvariadic

__all__ = ["AmbiguityWarning", "supercedes", "consistent", "ambiguous", "ambiguities", "super_signature", "edge",
           "ordering"]


class AmbiguityWarning(Warning):
    """Two signatures fit the same arguments, and none is more special."""


def _padded(a, b):
    """Both signatures at the same length, as far as variadic ends can be repeated."""
    def longer(s, n):
        return (*s[:-1], *([s[-1]] * (n - len(s) + 1))) if s and isvariadic(s[-1]) else s

    n = max(len(a), len(b))
    return longer(tuple(a), n), longer(tuple(b), n)


def _is_below(a, b) -> bool:
    if isvariadic(a) and not isvariadic(b):
        return False
    if isvariadic(b) and not isvariadic(a):
        return any(issubclass(a, t) for t in b.variadic_type)
    return issubclass(a, b)


def supercedes(a, b) -> bool:
    """Whether a signature is at least as special as another everywhere."""
    if len(a) < len(b) and not (a and isvariadic(a[-1])) and len(a) < len(b) - bool(b and isvariadic(b[-1])):
        return False
    if len(a) == len(b) - 1 and isvariadic(b[-1]):
        return all(map(_is_below, a, b))
    a, b = _padded(a, b)
    return len(a) == len(b) and all(map(_is_below, a, b))


def consistent(a, b) -> bool:
    """Whether arguments can fit both signatures."""
    a, b = _padded(a, b)
    return len(a) == len(b) and all(_is_below(x, y) or _is_below(y, x) for x, y in zip(a, b))


def ambiguous(a, b) -> bool:
    """Whether arguments can fit both signatures, of which none is more special."""
    return consistent(a, b) and not (supercedes(a, b) or supercedes(b, a))


def ambiguities(signatures) -> set:
    """The pairs of ambiguous signatures that no third one decides."""
    signatures = list(map(tuple, signatures))
    return {
        (a, b) for a in signatures for b in signatures
        if hash(a) < hash(b) and ambiguous(a, b)
        and not any(supercedes(c, a) and supercedes(c, b) for c in signatures)
    }


def super_signature(signatures) -> list:
    """The signature that would decide between some."""
    if not all(len(s) == len(signatures[0]) for s in signatures):
        raise AssertionError("All signatures must have the same length")
    return [max((s[i] for s in signatures), key=lambda cls: len(cls.mro())) for i in range(len(signatures[0]))]


def edge(a, b, tie_breaker=hash) -> bool:
    """Whether a signature comes before another."""
    return supercedes(a, b) and (not supercedes(b, a) or tie_breaker(a) > tie_breaker(b))


def ordering(signatures) -> list:
    """Signatures with the more special ones first."""
    pending = list(dict.fromkeys(map(tuple, signatures)))
    before = groupby(lambda pair: pair[1], [(a, b) for a in pending for b in pending if a != b and edge(a, b)])
    waits = {b: {a for a, _ in pairs} for b, pairs in before.items()}
    found: list = []
    while pending:
        ready = [s for s in pending if not waits.get(s, set()) - set(found)]
        found += ready or pending[:1]
        pending = [s for s in pending if s not in found]
    return found
