"""Own operators: ``torch.library``.

`custom_op` makes one of a Python function; a `Library` defines schemas and registers kernels for the
dispatcher's keys. Registered ops are found under ``torch.ops``, and work in eager code, under autograd,
transforms, `compile`, FX and JAX's transformations.
"""

from __future__ import annotations

import inspect
import re
import warnings
import weakref

from .. import _ops
from .._alias import is_own
from .._ops import OpOverload
from ..eager.core.registry import OVERLOADS
from ..eager.native.contexts import contextmanager
from . import _fake, _keys, _operators
from ._custom_op import _DEFINED, CustomOpDef, custom_op, parse, split_name
from ._derivatives import Formula
from ._fake import get_ctx
from ._kernels import get_kernel, override_declared
from ._opcheck import opcheck
from ._operators import Kernel, Operator, Packet, fallthrough_kernel
from ._schema import infer_schema
from ._triton import triton_op, wrap_triton

__all__ = [
    "CustomOpDef", "Library", "custom_op", "define", "fallthrough_kernel", "get_ctx", "get_kernel",
    "impl", "impl_abstract", "infer_schema", "opcheck", "register_autocast", "register_autograd",
    "register_fake", "register_kernel", "register_torch_dispatch", "register_vmap", "triton_op", "wrap_triton",
]

_RESERVED = ("prim",)
_owners: dict[str, str] = {}  # namespace -> where its DEF library was made
_warned: list = []


def _caller() -> str:
    frame = inspect.currentframe()
    while frame is not None and is_own(frame.f_globals.get("__name__"), "library"):
        frame = frame.f_back
    return "unknown" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


class Library:
    """Definitions and kernels of a namespace; they go when the library does.

    Args:
        ns: the namespace; "_" for fallbacks of all ops.
        kind: "DEF" (the namespace's only one), "FRAGMENT" or "IMPL" (kernels only).
        dispatch_key: the key that `impl` registers for when it is told none.

    Raises:
        ValueError: a reserved namespace or unknown kind. RuntimeError: a second "DEF".

    >>> import ftorch as torch
    >>> lib = torch.library.Library("docs_library", "DEF")
    >>> lib.define("add_one(Tensor x) -> Tensor")
    'add_one'
    >>> lib.impl("add_one", lambda x: x + 1, "CompositeImplicitAutograd")
    >>> torch.ops.docs_library.add_one(torch.zeros(2))
    tensor([1., 1.])
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = ""):
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}")
        if ns in _RESERVED and kind in ("DEF", "FRAGMENT"):
            raise ValueError(
                f"{ns} is a reserved namespace. Please try creating a library with another name."
            )
        where = _caller()
        if kind == "DEF":
            if ns in _owners or ns == "aten":
                raise RuntimeError(
                    f"Only a single TORCH_LIBRARY can be used to register the namespace {ns}; please "
                    "put all of your definitions in a single TORCH_LIBRARY block.  If you were "
                    "trying to specify implementations, consider using TORCH_LIBRARY_IMPL (which "
                    "can be duplicated).  If you really intended to define operators for a single "
                    "namespace in a distributed way, you can use TORCH_LIBRARY_FRAGMENT to "
                    "explicitly indicate this.  Previous registration of TORCH_LIBRARY was "
                    f"registered at {_owners.get(ns)}; latest registration was registered at {where}"
                )
            _owners[ns] = where
        self.ns, self.kind, self.dispatch_key, self._where = ns, kind, dispatch_key, where
        self._undo: list = []
        if kind == "DEF":
            self._undo.append(lambda: _owners.pop(ns, None))
        weakref.finalize(self, _take_back, self._undo)

    def __repr__(self):
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def _destroy(self):
        _take_back(self._undo)

    def define(self, schema: str, alias_analysis: str = "", *, tags=()) -> str:
        """Defines an op by its schema, ``"name.overload(Tensor x) -> Tensor"``; returns its name.

        Raises:
            RuntimeError: the schema is not in the grammar, or the op is defined already.
        """
        if alias_analysis not in ("", "FROM_SCHEMA", "CONSERVATIVE"):
            raise RuntimeError(f"Invalid alias_analysis type {alias_analysis}")
        parsed = parse(schema if "::" in schema.partition("(")[0] else f"{self.ns}::{schema}")
        name = parsed.name + (f".{parsed.overload}" if parsed.overload else "")
        if self.kind == "IMPL":
            raise RuntimeError(
                f'def("{name}"): Cannot define an operator inside of a TORCH_LIBRARY_IMPL block.  '
                "All def()s should be placed in the (unique) TORCH_LIBRARY block for their "
                "namespace.  (Error occurred while processing TORCH_LIBRARY_IMPL block at "
                f"{self._where})"
            )
        full = f"{self.ns}::{parsed.name}"
        packet = _ops.REGISTERED.get(full)
        key = parsed.overload or "default"
        taken = self.ns == "aten" and parsed.name in OVERLOADS
        if taken or (packet is not None and key in packet._overloads):
            raise RuntimeError(
                f"Tried to register an operator ({parsed}) with the same name and overload name "
                "multiple times. Each overload's schema should only be registered with a single call "
                f"to def(). Duplicate registration: registered at {_caller()}. Original "
                "registration: registered at an earlier call"
            )
        if packet is None:
            packet = _ops.REGISTERED[full] = Packet(parsed.name, self.ns)
        tags = (tags,) if isinstance(tags, _ops.Tag) else tuple(tags)
        op = packet._overloads[key] = Operator(packet, parsed, tags)
        op.kernels.update(_operators.PENDING.pop(op.name(), {}))
        self._undo.append(lambda: _forget(full, key, op))
        return name

    def register_symm_mem_args(self, op_name: str, arg_names) -> None:
        """Says which arguments of an op must lie in symmetric memory; here memory of all devices is alike.

        Raises:
            TypeError: for names that are no strings.
        """
        names = [arg_names] if isinstance(arg_names, str) else list(arg_names)
        if not isinstance(op_name, str) or not all(isinstance(name, str) for name in names):
            raise TypeError("register_symm_mem_args() takes the op's name and a list of argument names")
        self.symm_mem_args = {**getattr(self, "symm_mem_args", {}), op_name: names}

    def impl(self, op_name, fn, dispatch_key="", *, with_keyset=False, allow_override=False):
        """Registers a kernel of an op for a key.

        Args:
            op_name: ``"name"``, ``"name.overload"`` or an overload object.
            fn: the kernel, or `fallthrough_kernel`.
            dispatch_key: "CPU", "CUDA", "Meta", "Autograd", "CompositeImplicitAutograd", ...
            with_keyset: the kernel takes the call's ``DispatchKeySet`` first.
            allow_override: whether to replace a kernel without a warning.

        Raises:
            TypeError: ``fn`` is not callable. RuntimeError: an unknown key.
        """
        if not callable(fn):
            raise TypeError(f"Input function is required to be a callable but found type {type(fn)}")
        if dispatch_key and self.dispatch_key and dispatch_key != self.dispatch_key:
            raise RuntimeError(
                f'impl("{op_name}", ...): Explicitly provided dispatch key ({dispatch_key}) is inconsistent with the dispatch '
                f"key of the enclosing TORCH_LIBRARY_IMPL block ({self.dispatch_key}).  Please declare a separate "
                "TORCH_LIBRARY_IMPL block for this dispatch key and move your impl() there.  (Error occurred while processing "
                f"TORCH_LIBRARY_IMPL block at {self._where})"
            )
        key = _keys.parse(dispatch_key or self.dispatch_key or "CompositeImplicitAutograd")
        name = op_name
        if isinstance(op_name, OpOverload):
            name = op_name.name()
        elif not isinstance(op_name, str):
            raise RuntimeError("impl should be passed either a name or an OpOverload object as the "
                               "first argument")
        name = name.rpartition("::")[2].removesuffix(".default")
        full = f"{self.ns}::{name}"
        kernel = Kernel(fn, with_keyset, _caller())
        op = find(full)
        if op is None and self.ns == "aten" and name in _declared_names():
            self._undo.append(override_declared(name, key, kernel))
            return
        kernels = _operators.PENDING.setdefault(full, {}) if op is None else op.kernels
        if key in kernels and not allow_override and op is not None and op.definition is None:
            _warn_override(op, key, kernels[key], kernel)
        kernels[key] = kernel
        if op is not None:
            op.traceable.clear()
        self._undo.append(lambda: kernels.pop(key) if kernels.get(key) is kernel else None)

    def fallback(self, fn, dispatch_key="", *, with_keyset=False):
        """Registers what runs all ops that have no kernel for a key: ``fn(op, *args, **kwargs)``.

        Raises:
            RuntimeError: the library is not of the namespace "_".
        """
        key = _keys.parse(dispatch_key or self.dispatch_key)
        if self.ns != "_":
            raise RuntimeError(
                "Fallback can only be registered using library fragment on the global namespace "
                f'"_" but it is {self.ns}'
            )
        kernel = _operators.FALLBACKS[key] = Kernel(fn, with_keyset, _caller())
        self._undo.append(
            lambda: _operators.FALLBACKS.pop(key) if _operators.FALLBACKS.get(key) is kernel else None
        )

    def _register_fake(self, op_name, fn, _stacklevel=1, *, allow_override=False):
        register_fake(f"{self.ns}::{op_name}", fn, lib=self, allow_override=allow_override)


def _take_back(undo):
    while undo:
        undo.pop()()


def _forget(full, key, op):
    packet = _ops.REGISTERED.get(full)
    if packet is not None and packet._overloads.get(key) is op:
        del packet._overloads[key]
        if not packet._overloads:
            del _ops.REGISTERED[full]


def _declared_names():
    return {d.full_name for definitions in OVERLOADS.values() for d in definitions}


def _warn_override(op, key, old, new):
    if _warned:
        return
    _warned.append(True)
    warnings.warn(
        "Warning only once for all operators,  other operators may also be overridden.\n  Overriding "
        f"a previously registered kernel for the same operator and the same dispatch key\n  operator: "
        f"{op._schema}\n    registered at {new.where}\n  dispatch key: {key}\n  previous kernel: "
        f"registered at {old.where}\n       new kernel: registered at {new.where}",
        stacklevel=3,
    )


@contextmanager
def _scoped_library(*args, **kwargs):
    """A `Library` whose registrations end with the ``with`` block."""
    lib = Library(*args, **kwargs)
    try:
        yield lib
    finally:
        lib._destroy()


def find(full: str) -> Operator | None:
    """The registered overload of a name like ``"ns::op.overload"``, or None."""
    name, _, overload = full.partition(".")
    packet = _ops.REGISTERED.get(name)
    return None if packet is None else packet._overloads.get(overload or "default")  # type: ignore[return-value]


def _operator(op) -> Operator:
    if isinstance(op, CustomOpDef):
        return op._opoverload
    if isinstance(op, Operator):
        return op
    if isinstance(op, OpOverload):
        op = op.name()
    if not isinstance(op, str):
        raise ValueError(
            f"register_*(op): got unexpected type for op: {type(op)}. Expected str, OpOverload or "
            "CustomOpDef"
        )
    found = find(op)
    if found is None:
        namespace, _, name = op.partition("::")
        raise AttributeError(f"'_OpNamespace' '{namespace}' object has no attribute '{name}'")
    return found


_kept: dict[str, Library] = {}


def _fragment(ns: str) -> Library:
    if ns not in _kept:
        _kept[ns] = Library(ns, "FRAGMENT")
    return _kept[ns]


_SCHEMA = re.compile(r"\(.*\) -> .*")


def define(qualname, schema, *, lib=None, tags=()):
    """Defines an op: ``define("ns::name", "(Tensor x) -> Tensor")``.

    Raises:
        ValueError: the schema is not one without a name. RuntimeError: the op is defined already.

    >>> import ftorch as torch
    >>> torch.library.define("docs::neg_it", "(Tensor x) -> Tensor")
    >>> @torch.library.impl("docs::neg_it", "default")
    ... def _(x):
    ...     return -x
    >>> torch.ops.docs.neg_it(torch.ones(2))
    tensor([-1., -1.])
    """
    if not isinstance(qualname, str):
        raise ValueError(
            f"define(qualname, schema): expected qualname to be instance of str, got {type(qualname)}"
        )
    namespace, name = split_name(qualname)
    if not _SCHEMA.fullmatch(schema):
        raise ValueError(
            f'define(qualname, schema, ...): expected schema to look like e.g. "(Tensor x) -> '
            f'Tensor" but got "{schema}"'
        )
    (lib or _fragment(namespace)).define(name + schema, tags=tags)


def impl(qualname, types, func=None, *, lib=None):
    """Registers a kernel of an op for device types ("cpu", "cuda", "default" for all).

    The older form ``impl(lib, name, dispatch_key)`` registers with a `Library`, as a decorator.
    """
    if isinstance(qualname, Library):
        return lambda function: qualname.impl(types, function, func or "") or function
    if isinstance(types, str):
        types = (types,)
    keys = set()
    for kind in types:
        if _keys.DispatchKey.__members__.get(kind):
            keys.add(kind)
        elif kind == "default":
            keys.add("CompositeExplicitAutograd")
        else:
            keys.add(_keys.key_of_device(kind))

    def register(function):
        namespace, name = split_name(qualname)
        for key in sorted(keys):
            (lib or _fragment(namespace)).impl(name, function, key)
        return function

    return register if func is None else register(func) and None


def register_kernel(op, device_types, func=None, /, *, lib=None):
    """Registers an implementation of an op for device types (None: for all)."""
    found = _definition(op)
    if found is not None:
        return found.register_kernel(device_types, func) if func else found.register_kernel(
            device_types)
    name = op.name() if isinstance(op, OpOverload) else op
    return impl(name, "default" if device_types is None else device_types, func, lib=lib)


def _definition(op) -> CustomOpDef | None:
    if isinstance(op, CustomOpDef):
        return op
    name = op.name() if isinstance(op, OpOverload) else op
    if not isinstance(name, str):
        raise ValueError(f"got unexpected type for op: {type(op)}")
    return _DEFINED.get(name)


def register_fake(op, func=None, /, *, lib=None, _stacklevel=1, allow_override=True):
    """Registers what an op's results look like: a function of meta tensors.

    >>> import ftorch as torch
    >>> torch.library.define("docs::half", "(Tensor x) -> Tensor")
    >>> @torch.library.register_fake("docs::half")
    ... def _(x):
    ...     return x.new_empty(x.shape[0] // 2)
    >>> torch.ops.docs.half(torch.empty(4, device="meta")).shape
    torch.Size([2])
    """
    found = _definition(op)
    if found is not None:
        return found.register_fake if func is None else found.register_fake(func)
    name = op.name() if isinstance(op, OpOverload) else op

    def register(function):
        namespace, own = split_name(name)
        (lib or _fragment(namespace)).impl(own, _fake.with_context(function), "Meta",
                                           allow_override=True)
        return function

    return register if func is None else register(func)


impl_abstract = register_fake


def register_autograd(op, backward, /, *, setup_context=None, lib=None):
    """Registers how to differentiate an op: see `CustomOpDef.register_autograd`."""
    found = _definition(op)
    if found is not None:
        return found.register_autograd(backward, setup_context=setup_context)
    target = _operator(op)
    if target.is_mutable or target.is_view:
        raise RuntimeError(
            f"Cannot register autograd formula for non-functional operator {target} with schema "
            f"{target._schema}. Please create a functional operator and register an autograd formula "
            "for that."
        )
    before, target.formula = target.formula, Formula(backward, setup_context)
    if lib is not None:
        lib._undo.append(lambda: setattr(target, "formula", before))


def register_vmap(op, func=None, /, *, lib=None):
    """Registers an op's batching rule ``func(info, in_dims, *args) -> (output, out_dims)``."""

    def register(function):
        target = _operator(op)
        before, target.vmap_rule = target.vmap_rule, function
        if lib is not None:
            lib._undo.append(lambda: setattr(target, "vmap_rule", before))

    return register if func is None else register(func) and None


def register_torch_dispatch(op, torch_dispatch_class, func=None, /, *, lib=None):
    """Registers what a mode or a subclass with ``__torch_dispatch__`` makes of an op."""

    def register(function):
        target = _operator(op)
        target.dispatch_rules[torch_dispatch_class] = function
        if lib is not None:
            lib._undo.append(lambda: target.dispatch_rules.pop(torch_dispatch_class, None))
        return function

    return register if func is None else register(func)


def register_autocast(op, device_type, cast_inputs, /, *, lib=None):
    """Casts an op's floating arguments to a dtype while autocast is on for a device type."""
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if _keys.key_of_device(device_type) not in ("CPU", "CUDA"):
        raise ValueError(f"Unknown device type: {device_type}")
    _operator(op).autocast[device_type] = cast_inputs
