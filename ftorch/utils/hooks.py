"""Handles of registered hooks."""

from __future__ import annotations

import warnings

from ..eager.core.handles import RemovableHandle

__all__ = ["BackwardHook", "RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]  # noqa: F822


def __getattr__(name):
    if name == "BackwardHook":  # of modules, which stand above
        from ..nn.modules._hooks import BackwardHook

        return BackwardHook
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


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
        hooks = (node._ftorch_tensor_hooks or {}).get(tensor._ftorch_output_nr)
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
