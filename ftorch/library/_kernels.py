"""Kernels of declared (``aten``) ops: taken from the engine, and put in its place."""

from __future__ import annotations

from .. import _ops
from .._dispatch import python_dispatch as _python_dispatch
from ..eager.core.registry import OPS
from . import _keys, _operators


class SafeKernelFunction:
    """A kernel as `get_kernel` gives it; it stays usable when it is overridden."""

    def __init__(self, op, key: str, function):
        self._op, self._key, self._function = op, key, function

    def call_boxed(self, keyset, /, *args, **kwargs):
        """Calls the kernel."""
        return self._function(*args, **kwargs)

    def __repr__(self):
        return f"SafeKernelFunction({self._op}, {self._key})"


def get_kernel(op, dispatch_key) -> SafeKernelFunction:
    """The kernel that an op has for a key now.

    Args:
        op: ``"ns::name.overload"``, an overload or a `CustomOpDef`.

    Raises:
        ValueError: ``op`` is none of these. RuntimeError: there is no such kernel.

    >>> import ftorch as torch
    >>> kernel = torch.library.get_kernel("aten::sin", "CPU")
    >>> kernel.call_boxed(torch._C.DispatchKeySet(torch._C.DispatchKey.CPU), torch.zeros(1))
    tensor([0.])
    """
    from . import find

    key = _keys.parse(dispatch_key)
    if not isinstance(op, (str, _ops.OpOverload)):
        overload = getattr(op, "_opoverload", None)
        if overload is None:
            raise ValueError(f"get_kernel(op): got unexpected type for op: {type(op)}")
        op = overload
    if isinstance(op, str):
        name = op.removesuffix(".default")
        found = find(name)
        if found is None:
            base, _, overload = name.partition(".")
            namespace, _, own = base.partition("::")
            packet = getattr(getattr(_ops.ops, namespace), own, None)
            found = None if packet is None else getattr(packet, overload or "default", None)
        if found is None:
            raise RuntimeError(f"operator {op} does not exist")
        op = found
    if isinstance(op, _operators.Operator):
        kernel = op.kernels.get(key)
        if kernel is None:
            raise RuntimeError(f"no kernel for {key} for {op.name()}")
        return SafeKernelFunction(op, key, kernel.function)

    def declared(*args, **kwargs):
        with _python_dispatch.DeclaredKernels():
            return op(*args, **kwargs)

    return SafeKernelFunction(op, key, declared)


def override_declared(name: str, key: str, kernel):
    """Puts a kernel in the place of a declared op's; returns what takes it back."""
    definition = OPS[name]
    table = _python_dispatch.OVERRIDES.setdefault(definition, {})
    table[key] = kernel
    _python_dispatch.activate()

    def undo():
        if table.get(key) is kernel:
            del table[key]
        if not table and _python_dispatch.OVERRIDES.get(definition) is table:
            del _python_dispatch.OVERRIDES[definition]
        _python_dispatch.deactivate()

    return undo
