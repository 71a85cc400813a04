"""Forward pre-hooks that compute one of a module's tensors (weight norm, spectral norm, pruning)."""

from __future__ import annotations


def find(module, kind, name):
    """The key and the hook of a class that computes the tensor ``name``; ``(None, None)`` if none."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, kind) and hook.tensor_name == name:
            return key, hook
    return None, None


def refuse_second(module, kind, name, what):
    """Raises RuntimeError if the module's tensor is computed by such a hook already."""
    if find(module, kind, name)[1] is not None:
        raise RuntimeError(f"Cannot register two {what} hooks on the same parameter {name}")


def take(module, kind, name, message):
    """Removes such a hook: the tensor is an ordinary parameter again.

    Raises:
        ValueError: with ``message`` if there is none.
    """
    key, hook = find(module, kind, name)
    if hook is None:
        raise ValueError(message)
    hook.remove(module)
    del module._forward_pre_hooks[key]
    return module
