"""Which parameters are constants of programs (``torch._inductor.freezing_utils``)."""

from __future__ import annotations

import contextvars

from ..eager.native.contexts import contextmanager, putting_back

_active: contextvars.ContextVar[bool] = contextvars.ContextVar("freezing", default=False)


def _freezing_active() -> bool:
    return _active.get()


@contextmanager
def enter_freezing():
    """Inside, parameters become constants."""
    with putting_back(_active.set, _active.get()):
        _active.set(True)
        yield


def record_has_frozen_params(gm) -> None:
    """Notes that a graph module has such parameters."""
    gm._has_frozen_params = True


def has_frozen_params(gm) -> bool:
    """Whether a graph module has such parameters."""
    return getattr(gm, "_has_frozen_params", False)


def maybe_set_is_frozen_param(t) -> None:
    """Notes that a tensor is such a parameter, inside `enter_freezing`."""
    if _freezing_active():
        t._is_frozen_param = True


def is_frozen_param(t) -> bool:
    """Whether a tensor is such a parameter."""
    return getattr(t, "_is_frozen_param", False)
