"""Who sees calls by ``__torch_function__``, as one value (``torch._C._TorchFunctionState``)."""

from __future__ import annotations

import enum

from ..eager.dispatch.overrides import HiddenModes
from ..eager.tensor import modes
from ..overrides import _pop_mode, _push_mode


class _TorchFunctionState(enum.Enum):
    """Subclasses and modes, modes alone, or nobody."""

    ENABLED = 0
    SUBCLASSES_DISABLED = 1
    ALL_DISABLED = 2


def _get_torch_function_state() -> _TorchFunctionState:
    """Who sees calls now.

    >>> import ftorch as torch
    >>> with torch._C.DisableTorchFunctionSubclass():
    ...     torch._C._get_torch_function_state().name
    'SUBCLASSES_DISABLED'
    """
    if modes.subclasses:
        return _TorchFunctionState.ENABLED
    hidden = isinstance(modes.function_modes, HiddenModes)
    return _TorchFunctionState.ALL_DISABLED if hidden else _TorchFunctionState.SUBCLASSES_DISABLED


def _set_torch_function_state(state: _TorchFunctionState) -> None:
    """Says who sees calls from now on.

    >>> import ftorch as torch
    >>> before = torch._C._get_torch_function_state()
    >>> torch._C._set_torch_function_state(torch._C._TorchFunctionState.ALL_DISABLED)
    >>> torch._C._get_torch_function_state().name
    'ALL_DISABLED'
    >>> torch._C._set_torch_function_state(before)
    """
    while isinstance(modes.function_modes, HiddenModes):
        modes.function_modes = modes.function_modes.former
    modes.subclasses = state is _TorchFunctionState.ENABLED
    if state is _TorchFunctionState.ALL_DISABLED:
        modes.function_modes = HiddenModes(modes.function_modes)


def _push_on_torch_function_stack(mode) -> None:
    """Makes a mode the innermost one."""
    _push_mode(mode)


def _pop_torch_function_stack():
    """Takes the innermost mode away, and gives it."""
    return _pop_mode()
