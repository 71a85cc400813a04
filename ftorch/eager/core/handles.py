"""Handles of registered hooks (``torch.utils.hooks.RemovableHandle``)."""

from __future__ import annotations

import weakref


class RemovableHandle:
    """What registering a hook returns: takes the hook away again.

    Args:
        hooks_dict: the table that the hook is in, under this handle's ``id``.
        extra_dict: a further table (or several) with entries under the same id.

    As a context manager it removes the hook on leaving.
    """

    next_id = 0

    def __init__(self, hooks_dict, *, extra_dict=None):
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1
        if extra_dict is None:
            extra_dict = ()
        elif isinstance(extra_dict, dict):
            extra_dict = (extra_dict,)
        self.extra_dict_ref = tuple(map(weakref.ref, extra_dict))

    def remove(self) -> None:
        """Takes the hook away; doing so twice is no error."""
        for reference in (self.hooks_dict_ref, *self.extra_dict_ref):
            table = reference()
            if table is not None:
                table.pop(self.id, None)

    def __getstate__(self):
        extra = tuple(reference() for reference in self.extra_dict_ref)
        return self.hooks_dict_ref(), self.id, extra

    def __setstate__(self, state):
        from collections import OrderedDict

        hooks, self.id, extra = state
        self.hooks_dict_ref = weakref.ref(OrderedDict() if hooks is None else hooks)
        self.extra_dict_ref = tuple(
            weakref.ref(OrderedDict() if table is None else table) for table in extra
        )
        RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)

    def __enter__(self):
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        self.remove()


RemovableHandle.__module__ = f"{__name__.partition('.')[0]}.utils.hooks"


def add_hook(table, hook, *others) -> RemovableHandle:
    """Puts a hook into a table, and gives the handle that takes it away again.

    Args:
        others: further tables that may have entries of the handle.
    """
    handle = RemovableHandle(table, extra_dict=others)
    table[handle.id] = hook
    return handle
