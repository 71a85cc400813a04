"""Operators that are registered from Python: their kernels, and how a call finds one.

A call goes the dispatcher's way: overrides, autocast, the levels of transforms, autograd, modes and
subclasses with ``__torch_dispatch__``, and last the kernel of the tensors' backend. Kernels are Python
functions on tensors, so what they compute with ftorch is recorded, compiled and traced like any code.
"""

from __future__ import annotations

import types
from collections.abc import Callable

from .. import _ops
from ..eager.autograd.unregistered import note_unregistered
from ..eager.call import op as _op
from ..eager.core.schema import Schema, qualified
from ..eager.dispatch import overrides
from ..eager.dispatch.levels import Wrapped, level_of
from ..eager.tensor import TensorBase, modes
from ..eager.transforms.batching import BatchLevel
from ..eager.transforms.dual import DualLevel
from . import _keys, _schema
from ._keys import DispatchKey, DispatchKeySet

_NO_META = (
    "{}: attempted to run this operator with Meta tensors, but there was no fake impl or Meta kernel "
    "registered. You may have run into this message while using an operator with PT2 compilation "
    "APIs (torch.compile/torch.export); in order to use this operator with those APIs you'll need to "
    "add a fake impl. Please see the following for next steps:  "
    "https://pytorch.org/tutorials/advanced/custom_ops_landing_page.html"
)
_NO_BACKEND = (
    "Could not run '{0}' with arguments from the '{1}' backend. This could be because the operator "
    "doesn't exist for this backend, or was omitted during the selective/custom build process (if "
    "using custom build). If you are a Facebook employee using PyTorch on mobile, please visit "
    "https://fburl.com/ptmfixes for possible resolutions. '{0}' is only available for these "
    "backends: [{2}]."
)


def fallthrough_kernel():
    """Given to `Library.impl`, makes a key's calls go on to the next key."""
    raise NotImplementedError("fallthrough_kernel() should never be called.")


def tensors_in(args, kwargs):
    """The tensors among arguments, lists flattened."""
    return [v for v in overrides.flat_arguments(args, kwargs) if isinstance(v, TensorBase)]


class Kernel:
    """A function registered for a key."""

    __slots__ = ("function", "with_keyset", "where")

    def __init__(self, function: Callable, with_keyset: bool = False, where: str = ""):
        self.function, self.with_keyset, self.where = function, with_keyset, where

    def run(self, schema, args, kwargs):
        """Calls the function; trailing defaults are left to it."""
        given, named = _schema.without_defaults(schema, args, kwargs)
        if self.with_keyset:
            return self.function(_keys.keys_of(tensors_in(args, kwargs)), *given, **named)
        return self.function(*given, **named)


PENDING: dict[str, dict[str, Kernel]] = {}  # kernels of ops that are not defined (yet)
FALLBACKS: dict[str, Kernel] = {}  # key -> what runs ops that have no kernel for it


class Operator(_ops.OpOverload):
    """One overload of an op of `torch.library`.

    Attributes:
        kernels: {name of a key: `Kernel`}.
        formula: how to differentiate it (`_derivatives.Formula`), or None.
        vmap_rule: what ``register_vmap`` was given, or None.
        dispatch_rules: {class with ``__torch_dispatch__``: function to run in its place}.
        definition: the `CustomOpDef` that made it, or None.
    """

    def __init__(self, packet, schema: Schema, tags=()):  # noqa: D107
        self._packet = packet
        self.namespace = packet.namespace
        self.__module__ = packet.__module__
        self._schema = qualified(schema)
        self._overloadname = schema.overload or "default"
        self._form = "inplace" if mutated(schema) else "function"
        # What `torch.fx` reads of declared ops.
        self._bound = types.SimpleNamespace(definition=types.SimpleNamespace(schema=schema))
        self.tags = list(tags)
        self.kernels: dict[str, Kernel] = {}
        self.formula = None
        self.vmap_rule = None
        self.dispatch_rules: dict[type, Callable] = {}
        self.autocast: dict[str, object] = {}
        self.definition = None
        self.function = None  # the `autograd.Function`, made when first needed
        self.traceable: dict = {}

    def _call(self, args, kwargs):
        name = f"{self.namespace}::{self._packet.__name__}"
        given, named = _schema.bind(name, self._schema, args, kwargs)
        return dispatch(self, tuple(given), named)

    @property
    def is_mutable(self):
        """Whether the op writes to an argument."""
        return self._form == "inplace"

    def autograd_kernel(self, backend: str) -> Kernel | None:
        """What was registered for autograd by hand."""
        return self.kernels.get(f"Autograd{backend}") or self.kernels.get("Autograd")

    def is_composite(self, backend: str) -> bool:
        """Whether the op has nothing but a kernel made of differentiable calls."""
        return "CompositeImplicitAutograd" in self.kernels and not any(
            k in self.kernels for k in (backend, "CompositeExplicitAutograd",
                                        "CompositeExplicitAutogradNonFunctional")
        )

    def backend_kernel(self, backend: str) -> Kernel:
        """The kernel of a backend, or the fallback's.

        Raises:
            NotImplementedError: there is none.
        """
        for key in (backend, "CompositeExplicitAutogradNonFunctional", "CompositeExplicitAutograd",
                    "CompositeImplicitAutograd"):
            found = self.kernels.get(key)
            if found is not None and found.function is not fallthrough_kernel:
                return found
        fallback = FALLBACKS.get(backend)
        if fallback is not None and fallback.function is not fallthrough_kernel:
            return Kernel(lambda *a, **k: fallback.function(self, *a, **k), fallback.with_keyset)
        if backend == "Meta":
            raise NotImplementedError(_NO_META.format(self.name()))
        known = [k for k in DispatchKey.__members__ if k in self.kernels or k in FALLBACKS]
        known += ["BackendSelect", "Python", "ADInplaceOrView", "FuncTorchBatched"]
        raise NotImplementedError(_NO_BACKEND.format(self.name(), backend, ", ".join(known)))

    def redispatch(self, keyset: DispatchKeySet, /, *args, **kwargs):
        """Calls the op for some of the keys only."""
        left = {k.name for k in keyset}
        skipped = () if any(n.startswith("Autograd") for n in left) else _keys.AUTOGRAD
        with _keys.Exclude(skipped):
            return self._call(args, kwargs)

    def has_kernel_for_dispatch_key(self, key) -> bool:
        """Whether a kernel was registered for just this key."""
        return _keys.parse(key) in self.kernels

    def py_impl(self, key):
        """Decorates a kernel for a key."""

        def register(function):
            self.kernels[_keys.parse(key)] = Kernel(function)
            return function

        return register

    def decompose(self, *args, **kwargs):
        """The composite kernel's result, or NotImplemented."""
        kernel = self.kernels.get("CompositeImplicitAutograd")
        return NotImplemented if kernel is None else kernel.function(*args, **kwargs)


Operator.__name__ = Operator.__qualname__ = "OpOverload"  # whose kind nobody asks for


class Packet(_ops.OpOverloadPacket):
    """All overloads of a registered name."""

    def __call__(self, /, *args, **kwargs):
        handled, result = _ops.overridden(self, args, kwargs)
        if handled:
            return result
        if len(self._overloads) == 1:
            return next(iter(self._overloads.values()))._call(args, kwargs)
        errors = []
        for overload in self._overloads.values():
            try:
                given, named = _schema.bind(
                    self._qualified_op_name, overload._schema, args, kwargs
                )
            except RuntimeError as error:
                errors.append(str(error))
                continue
            return dispatch(overload, tuple(given), named)
        raise RuntimeError(
            "Overloaded torch operator invoked from Python failed to match any schema:\n"
            + "\n\n".join(errors) + "\n\n"
        )


def mutated(schema: Schema) -> list[str]:
    """The names of the arguments that a schema says are written to."""
    return [a.name for a in schema.arguments if a.type.alias is not None and a.type.alias.is_write]


# --- the way of a call ---------------------------------------------------------------


def dispatch(op: Operator, args: tuple, kwargs: dict):
    """Calls an op with arguments that fit its schema."""
    if modes.autocast is not None and op.autocast:
        handled, result = _autocast(op, args, kwargs)
        if handled:
            return result
    tensors = tensors_in(args, kwargs)
    level = level_of(tensors) if _op.special[0] else None
    backend = _keys.backend_of(tensors)
    autograd = None if "Autograd" in _keys.excluded() else op.autograd_kernel(backend)
    if level is not None:
        return _on_level(op, level, backend, autograd, args, kwargs)
    if autograd is not None and autograd.function is not fallthrough_kernel:
        return autograd.run(op._schema, args, kwargs)
    if op.is_composite(backend):
        return op.kernels["CompositeImplicitAutograd"].run(op._schema, args, kwargs)
    differentiates = op.formula is not None and "Autograd" not in _keys.excluded()
    wants_graph = modes.grad and any(t.requires_grad for t in tensors)
    if differentiates and wants_graph and not op.is_mutable:
        return through_function(op, args, kwargs)
    if differentiates or op.definition is not None:
        with _keys.AutoDispatchBelowAutograd():
            return below_autograd(op, args, kwargs)
    result = below_autograd(op, args, kwargs)
    if wants_graph and autograd is None and "Autograd" not in _keys.excluded():
        note_unregistered(op.name(), tensors, result)
    return result


def _autocast(op, args, kwargs):
    from ..eager.dispatch.autocast import _cast

    for device_type, dtype in op.autocast.items():
        if device_type in modes.autocast:
            break
    else:
        return False, None
    outer, modes.autocast = modes.autocast, None
    try:

        def one(v):
            if isinstance(v, list):
                return [one(i) for i in v]
            return _cast(v, dtype, device_type) if isinstance(v, TensorBase) else v

        return True, dispatch(op, tuple(map(one, args)), {k: one(v) for k, v in kwargs.items()})
    finally:
        modes.autocast = outer


def _on_level(op, level, backend, autograd, args, kwargs):
    is_batch = isinstance(level, BatchLevel)
    if op.is_composite(backend) and not (is_batch and op.vmap_rule is not None):
        return op.kernels["CompositeImplicitAutograd"].run(op._schema, args, kwargs)
    wants_graph = modes.grad and any(
        isinstance(t, Wrapped) and t._ftorch_requires_grad for t in tensors_in(args, kwargs)
    )
    if autograd is not None and autograd.function is not fallthrough_kernel and wants_graph:
        return autograd.run(op._schema, args, kwargs)
    if isinstance(level, DualLevel) and op.formula is None:
        return op.backend_kernel(backend).run(op._schema, args, kwargs)
    return through_function(op, args, kwargs)


def through_function(op, args, kwargs):
    """The call as one of an ``autograd.Function``, which knows levels and the graph."""
    from ._derivatives import apply

    return apply(op, args, kwargs)


def below_autograd(op: Operator, args: tuple, kwargs: dict):
    """What modes, subclasses and the backend make of a call."""
    tensors = tensors_in(args, kwargs)
    handler = _op.hooks.python_overload
    if handler is not None:
        given, named = _schema.without_defaults(op._schema, args, kwargs)
        handled, result = handler(op, tensors, given, named)
        if handled:
            return result
    kernel = op.backend_kernel(_keys.backend_of(tensors))
    from ._callback import run

    return run(op, kernel, tensors, args, kwargs)
