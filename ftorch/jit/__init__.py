"""Captured programs: ``torch.compile`` and the executor's statistics."""

from ..eager.executor import stats
from ._annotations import Final, annotate, export, ignore, unused
from .compiler import compile, is_compiling


def is_scripting() -> bool:
    """Whether code is being compiled by ``jit.script``: never, in eager code."""
    return False


def is_tracing() -> bool:
    """Whether code is being captured."""
    return is_compiling()


__all__ = [
    "Final", "annotate", "compile", "export", "ignore", "is_compiling", "is_scripting", "is_tracing", "stats", "unused",
]  # fmt: skip
