"""What is registered for which key (``torch._C._dispatch_*``)."""

from __future__ import annotations

from .. import _ops
from ..eager.core.registry import OPS
from ..eager.tensor import DISPATCHING
from . import _keys, _operators


def _dispatch_keys(tensor):
    """The keys that a call on a tensor goes through."""
    return _keys.keys_of([tensor])


def _dispatch_key_name(key) -> str:
    return _keys.parse(key)


def _dispatch_key_parse(name: str):
    return _keys.DispatchKey[_keys.parse(name)]


def _dispatch_key_for_device(device_type: str) -> str:
    return _keys.key_of_device(device_type)


def _find(name: str):
    from . import find

    return find(name.removesuffix(".default"))


def _dispatch_has_kernel(name: str) -> bool:
    """Whether an op has a kernel at all."""
    op = _find(name)
    if op is None:
        return name.removeprefix("aten::") in OPS
    return bool(op.kernels)


def _dispatch_has_kernel_for_dispatch_key(name: str, key) -> bool:
    """Whether a kernel is registered for just this key; the engine's run on every backend."""
    op, key = _find(name), _keys.parse(key)
    if op is not None:
        return key in op.kernels
    name = name.removeprefix("aten::")
    if key == "CompositeImplicitAutograd":
        return (name if "." in name else f"{name}.default") in _ops.implicit_names()
    return name in OPS and key in ("CPU", "CUDA", "XLA", "Meta", "Autograd")


def _dispatch_isTensorSubclassLike(tensor) -> bool:
    """Whether calls on a tensor are somebody else's: its class has a ``__torch_dispatch__``."""
    return type(tensor) in DISPATCHING


def _dispatch_get_all_op_names() -> list[str]:
    """The names of all ops, ``"aten::add.Tensor"``."""
    own = [op.name() for packet in _ops.REGISTERED.values() for op in packet._overloads.values()]
    return sorted([*own, *(f"aten::{name}" for name in OPS)])


def _dispatch_get_registrations_for_dispatch_key(key="") -> list[str]:
    """The names of the ops with a kernel for a key."""
    return [n for n in _dispatch_get_all_op_names()
            if not key or _dispatch_has_kernel_for_dispatch_key(n, key)]


def _dispatch_dump(name: str) -> str:
    """What is registered for an op, one kernel a line."""
    op = _find(name)
    if op is None:
        return f"name: {name}\nno registered schema\n"
    lines = [f"name: {op.name()}", f"schema: {op._schema}", "alias analysis kind: FROM_SCHEMA"]
    order = list(_keys.DispatchKey.__members__)
    for key in sorted(op.kernels, key=order.index):
        alias = "[alias]" if key in _keys._ALIASES else ""
        lines.append(f"{key}{alias}: registered at {op.kernels[key].where} :: (none) [ boxed ]")
    lines += [f"{key}: fallback" for key in _operators.FALLBACKS]
    return "\n".join(lines) + "\n"
