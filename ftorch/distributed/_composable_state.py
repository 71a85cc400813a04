"""What a function that changes a module remembers of it (``torch.distributed._composable_state``)."""

from __future__ import annotations

import weakref


class _State:
    """The base of what is remembered."""


_module_state_mapping: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def _insert_module_state(module, state: _State) -> None:
    """Remembers a state for a module.

    Raises:
        AssertionError: there is one.
    """
    if module in _module_state_mapping:
        raise AssertionError(f"Inserting {module} more than once.")
    _module_state_mapping[module] = weakref.ref(state)


def _get_module_state(module) -> _State | None:
    """The state of a module, or None."""
    if isinstance(module, _State):
        return module
    found = _module_state_mapping.get(module)
    return None if found is None else found()
