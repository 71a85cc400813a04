"""Methods of a reference's object as calls."""

from __future__ import annotations

import functools

__all__ = ["RRefProxy"]


def _call_method(rref, name, args, kwargs):
    return getattr(rref.local_value(), name)(*args, **kwargs)


def _call_async_method(rref, name, args, kwargs):
    return getattr(rref.local_value(), name)(*args, **kwargs)


_call_async_method._wrapped_async_rpc_function = _call_async_method  # type: ignore[attr-defined]


class RRefProxy:
    """What `RRef.rpc_sync`, `RRef.rpc_async` and `RRef.remote` give."""

    def __init__(self, rref, kind: str, timeout: float = -1.0):
        self._rref, self._kind, self._timeout = rref, kind, timeout

    def __getattr__(self, name):
        from . import api

        call = {"sync": api.rpc_sync, "async": api.rpc_async, "remote": api.remote}[self._kind]
        kind = self._rref._get_type(self._timeout)
        wrapped = getattr(getattr(kind, name, None), "_wrapped_async_rpc_function", None)
        method = _call_method if wrapped is None else _call_async_method

        @functools.wraps(getattr(kind, name, _call_method))
        def invoke(*args, **kwargs):
            return call(self._rref.owner(), method, (self._rref, name, args, kwargs), timeout=self._timeout)

        return invoke
