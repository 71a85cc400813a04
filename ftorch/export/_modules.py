"""What a module has, and which of its modules are being called, while it is recorded."""

from __future__ import annotations

from ..eager.native.contexts import contextmanager
from ..eager.tensor import TensorBase
from .graph_signature import InputKind


def state_of(module):
    """[(kind, name, tensor, persistent)] of parameters, buffers and other tensor attributes."""
    found, seen = [], set()
    for name, p in module.named_parameters(remove_duplicate=False):
        found.append((InputKind.PARAMETER, name, p, None))
    for prefix, m in module.named_modules(remove_duplicate=False):
        for key, b in m._buffers.items():
            if b is not None:
                name = f"{prefix}.{key}" if prefix else key
                persistent = key not in m._non_persistent_buffers_set
                found.append((InputKind.BUFFER, name, b, persistent))
    for prefix, m in module.named_modules():
        for key, value in vars(m).items():
            if isinstance(value, TensorBase) and id(value) not in seen:
                seen.add(id(value))
                name = f"{prefix}.{key}" if prefix else key
                found.append((InputKind.CONSTANT_TENSOR, name, value, None))
    return found


PREFIXES = {InputKind.PARAMETER: "p", InputKind.BUFFER: "b", InputKind.CONSTANT_TENSOR: "c"}


@contextmanager
def module_stack(module, level, called):
    """Keeps ``level.stack``: which modules are being called, by keys that say how often they were before."""
    handles = []
    calls: dict[str, int] = {}

    def watch(path, m):
        name = f"{type(m).__module__}.{type(m).__qualname__}".replace("ftorch.", "torch.", 1)

        def enter(*_):
            called.setdefault(path, name)
            before = calls[path] = calls.get(path, -1) + 1
            level.stack[f"L__self__{path}" + (f"@{before}" if before else "")] = (path, name)

        def leave(*_):
            level.stack.popitem()

        handles.append(m.register_forward_pre_hook(enter, prepend=True))
        handles.append(m.register_forward_hook(leave))

    for path, m in module.named_modules():
        watch(path, m)
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def attributes_as(module, values):
    """Other tensors for the module's attributes that are no parameters and buffers."""
    undo = []
    try:
        for name, value in values.items():
            path, _, key = name.rpartition(".")
            owner = module.get_submodule(path) if path else module
            undo.append((vars(owner), key, vars(owner)[key]))
            vars(owner)[key] = value
        yield
    finally:
        for scope, key, value in undo:
            scope[key] = value


__all__ = ["PREFIXES", "attributes_as", "module_stack", "state_of"]
