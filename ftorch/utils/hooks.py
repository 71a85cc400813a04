"""Handles of registered hooks."""

from __future__ import annotations

import warnings
import weakref

__all__ = ["BackwardHook", "RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]  # noqa: F822


def __getattr__(name):
    if name == "BackwardHook":  # of modules, which stand above
        from ..nn.modules._hooks import BackwardHook

        return BackwardHook
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


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
        self.extra_dict_ref = tuple(weakref.ref(table) for table in extra_dict)

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


def unserializable_hook(f):
    """Marks a tensor's hook as one that need not be saved with it: a decorator
    (``torch.utils.hooks.unserializable_hook``).

    >>> @unserializable_hook
    ... def double(grad):
    ...     return 2 * grad
    """
    f.__torch_unserializable__ = True
    return f


def warn_if_has_hooks(tensor) -> None:
    """Warns of each hook of a tensor that is not marked by `unserializable_hook`
    (``torch.utils.hooks.warn_if_has_hooks``)."""
    from ..eager.autograd.tape import grad_fn_of

    node = grad_fn_of(tensor)
    if node is not None:
        hooks = (node.tensor_hooks or {}).get(tensor._ftorch_output_nr)
    else:
        hooks = tensor._ftorch_meta and tensor._ftorch_meta.hooks
    for hook in (hooks or {}).values():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(
                f"backward hook {hook!r} on tensor will not be serialized.  If this is expected, "
                "you can decorate the function with @torch.utils.hooks.unserializable_hook to "
                "suppress this warning",
                stacklevel=2,
            )
