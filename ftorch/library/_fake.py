"""The context of fake kernels, which say what an op's results look like."""

from __future__ import annotations

import functools
import threading


class FakeImplCtx:
    """What `get_ctx` gives a fake kernel."""

    def __init__(self, op=None):
        self._op = op

    def new_dynamic_size(self, *, min=0, max=None):
        """A size that depends on values.

        Raises:
            RuntimeError: always: shapes are known when a program is recorded.
        """
        raise RuntimeError(
            f"The output shape of {self._op or 'the operator'} depends on the values of its inputs, "
            "which meta tensors do not have. Call it outside of compiled code, or pad the output to "
            "a fixed size."
        )

    create_unbacked_symint = new_dynamic_size


class _Current(threading.local):
    value: FakeImplCtx | None = None


_current = _Current()


def get_ctx() -> FakeImplCtx | None:
    """The context of the fake kernel that is running, or None."""
    return _current.value


def with_context(function):
    """A fake kernel that finds its context by `get_ctx`."""

    @functools.wraps(function)
    def run(*args, **kwargs):
        outer, _current.value = _current.value, FakeImplCtx(getattr(function, "__name__", None))
        try:
            return function(*args, **kwargs)
        finally:
            _current.value = outer

    return run
