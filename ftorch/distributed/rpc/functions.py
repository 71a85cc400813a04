"""Functions that answer later (``torch.distributed.rpc.functions``)."""

from __future__ import annotations

import functools

__all__ = ["async_execution"]


def async_execution(fn):
    """Marks a function that gives a `Future`: who calls it remotely gets the future's value, and no thread waits.

    >>> import ftorch as torch
    >>> from ftorch.distributed import rpc
    >>> @rpc.functions.async_execution
    ... def later(x):
    ...     future = torch.futures.Future()
    ...     future.set_result(x + 1)
    ...     return future
    >>> later(1).wait()
    2
    """

    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        return fn(*args, **kwargs)

    wrapper._wrapped_async_rpc_function = wrapper  # type: ignore[attr-defined]
    return wrapper
