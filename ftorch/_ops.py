"""``torch.ops``: every op by namespace, name and overload, called with ATen's argument names.

>>> import ftorch as torch
>>> torch.ops.aten.add.Tensor(torch.ones(2), torch.ones(2), alpha=3)
tensor([4., 4.])
"""

from __future__ import annotations

import functools
import importlib
import types
from typing import Any

from ._dispatch.aten_schemas import Tag, tags_of
from .eager.bindings.signatures import Bound
from .eager.core import places
from .eager.core.registry import STATIC, OpDef
from .eager.core.schema import in_place, qualified
from .eager.dispatch import overrides
from .eager.tensor import PLAIN, TensorBase, modes
from .eager.tensor_api import index_masks


def overridden(function, args, kwargs):
    """(True, the result) of a call that ``__torch_function__`` takes over, or (False, None)."""
    values = list(overrides.flat_arguments(args, kwargs))
    if modes.function_modes or (
        modes.subclasses and any(v.__class__ not in PLAIN and overrides.has_say(type(v)) for v in values)
    ):
        return True, overrides.handle(function, values, args, kwargs)
    return False, None


class OperatorBase:
    """What overloads and higher-order operators have in common."""


# What ATen's op takes and the kernel of the name does not: its arguments as the kernel's.
_ADAPTED = {"index.Tensor": lambda x, indices: [x, index_masks.as_positions(x, indices)]}


def own_name(target) -> str:
    """The name of one of PyTorch's own operators; "" of anything else, such as another package's operator of that name.

    >>> own_name(ops.aten.relu.default), own_name(len)
    ('relu', '')
    """
    return target._opname if getattr(target, "namespace", "") in _OWN else ""


_OWN = ("aten", "prims")


class OpOverload(OperatorBase):
    """One overload of an op.

    Attributes:
        _schema: its parsed schema; ``str(overload)`` is ``"aten.add.Tensor"``.
        namespace: ``"aten"``.
    """

    namespace = "aten"

    def __new__(cls, *_, **__):
        made = super().__new__(cls)
        made.__module__ = f"torch._ops.{cls.namespace}"  # of instances: classes have their own
        return made

    def __init__(self, packet, definition, form="function"):
        self._packet = packet
        schema = definition.schema
        self._schema = qualified(in_place(schema) if form == "inplace" else schema)
        self._overloadname = definition.schema.overload or "default"
        self._bound = Bound(definition, "self", takes_none=True)
        self._adapt = _ADAPTED.get(definition.full_name)
        self._is_masked = definition.argument_names[-1:] == ("output_mask",)  # results that it leaves out are None
        self._form = form

    def __call__(self, /, *args, **kwargs):
        handled, result = overridden(self, args, kwargs)
        if not handled and "out" in kwargs and self._form == "function" and self.namespace == "aten":
            raise RuntimeError(
                f"Unknown keyword argument 'out' for operator 'aten::{self._packet.__name__}'. Schema: {self._schema}"
            )
        return result if handled else self._call(args, kwargs)

    def _fits(self, args, kwargs) -> bool:
        return self._bound.bind(args, kwargs) is not None

    def _call(self, args, kwargs):
        kwargs = dict(kwargs)
        out = kwargs.pop("out", None)
        values = self._bound.bind(args, kwargs)
        if values is None:
            _explain(self._packet, self._schema, args, kwargs)
            raise RuntimeError(f"{self}() got arguments that do not fit its schema {self._schema}")
        if self._adapt is not None:
            values = self._adapt(*values)
        result = self._bound.invoke(values, self._form == "inplace", out)
        if self._is_masked and out is None and isinstance(result, tuple):
            return tuple(r if m else None for r, m in zip(result, values[-1]))
        return result

    @functools.cached_property
    def tags(self) -> list[Tag]:
        return tags_of(self.namespace, self._packet.__name__, self._overloadname, self._schema)

    @property
    def overloadpacket(self):
        return self._packet

    @property
    def _overloadpacket(self):
        return self._packet

    @property
    def _opname(self):
        return self._packet.__name__

    @property
    def __name__(self):
        return f"{self._packet.__name__}.{self._overloadname}"

    def name(self):
        """The qualified name, ``"aten::add.Tensor"``."""
        suffix = "" if self._overloadname == "default" else f".{self._overloadname}"
        return f"{self.namespace}::{self._packet.__name__}{suffix}"

    @property
    def _name(self):
        return self.name()

    @property
    def is_view(self):
        """Whether a result shares memory with an argument that is not written to."""
        return getattr(self._schema, "is_view", False)

    @property
    def op(self):
        """The operator without ``__torch_function__``, as a function."""
        return _function(self, "", self._call)

    _op = op

    def decompose(self, *args, **kwargs):
        """The result of the calls that ATen's op is made of; NotImplemented if it is one kernel there."""
        if self.namespace != "aten" or str(self).removeprefix("aten.") not in implicit_names():
            return NotImplemented
        return self._call(args, kwargs)

    def _can_decompose(self):
        return self.namespace == "aten" and str(self).removeprefix("aten.") in implicit_names()

    def __str__(self):
        return f"{self.namespace}.{self.__name__}"

    def __repr__(self):
        return (
            f"<OpOverload(op='{self.namespace}.{self._packet.__name__}', "
            f"overload='{self._overloadname}')>"
        )

    def __deepcopy__(self, memo=None):
        return self

    def __reduce__(self):
        return _find, (self.namespace, self._packet.__name__, self._overloadname)


def _explain(packet, schema, args, kwargs):
    """Raises what PyTorch says of arguments that do not fit a schema.

    Raises:
        RuntimeError: what does not fit.
    """
    from .library._schema import bind  # which stands above

    if schema is not None:
        bind(packet._qualified_op_name, schema, args, kwargs)


@functools.cache
def implicit_names() -> frozenset[str]:
    """The names of ATen's ops that are made of others, gradients included."""
    with open(places.own_file("_dispatch/implicit.txt"), encoding="utf-8") as file:
        return frozenset(file.read().split())


def _function(op, name, call):
    def function(*args, **kwargs):
        return call(args, kwargs)

    function.__name__ = function.__qualname__ = name
    function.__module__ = op.__module__
    return function


def _find(namespace, name, overload):
    return getattr(getattr(getattr(ops, namespace), name), overload)


def _namespace_of(packet):
    return getattr(ops, packet.__dict__["namespace"])


class OpOverloadPacket:
    """All overloads of a name; calling it picks one by the arguments."""

    def __init__(self, name, namespace="aten"):
        self.__name__ = name
        self.namespace = namespace
        self.__module__ = f"torch._ops.{namespace}"
        self._overloads: dict[str, OpOverload] = {}

    @property
    def _qualified_op_name(self):
        return f"{self.namespace}::{self.__name__}"

    def overloads(self):
        """The names of the overloads, in an order that does not depend on which were called before."""
        names = dict.fromkeys(_namespace_of(self)._overload_names(self))
        known = [n for n in names if n in self._overloads or hasattr(self, n)]
        return [n for n in self._overloads if n not in known] + known

    def __iter__(self):
        return iter(self.overloads())

    @property
    def op(self):
        """The operator without ``__torch_function__``, as a function."""
        return _function(self, self.__name__, lambda args, kwargs: self._choose(args, kwargs)._call(args, kwargs))

    @property
    def _overload_names(self):
        return ["" if name == "default" else name for name in self.overloads()]

    @property
    def _schemas(self):
        return {name: getattr(self, name or "default")._schema for name in self._overload_names}

    def __getattr__(self, name):
        try:
            return self.__dict__["_overloads"][name]
        except KeyError:
            if name[:2] != "__" and (found := _namespace_of(self)._overload(self, name)) is not None:
                return found
            raise AttributeError(
                f"The underlying op of '{self}' has no overload name '{name}'"
            ) from None

    def __call__(self, /, *args, **kwargs):
        handled, result = overridden(self, args, kwargs)
        if handled:
            return result
        return self._choose(args, kwargs)._call(args, kwargs)

    def _choose(self, args, kwargs) -> OpOverload:
        given = {k: v for k, v in kwargs.items() if k != "out"}
        for overload in self._overloads.values():
            if overload._fits(args, given):
                return overload
        errors = []
        for name in self.overloads():
            try:
                _explain(self, getattr(self, name)._schema, args, kwargs)
            except RuntimeError as error:
                errors.append(str(error))
        if len(errors) == 1:
            raise RuntimeError(errors[0])
        raise RuntimeError(
            "Overloaded torch operator invoked from Python failed to match any schema:\n"
            + "".join([f"{error}\n\n" for error in errors])
        )

    def __str__(self):
        return f"{self.__dict__['namespace']}.{self.__dict__['__name__']}"

    def __repr__(self):
        return f"<OpOverloadPacket(op='{self}')>"

    def __deepcopy__(self, memo=None):
        return self


REGISTERED: dict[str, OpOverloadPacket] = {}  # "ns::name" -> an op of `torch.library`


def _functionality(key):
    """What a dispatch key does, whatever the backend; the alias for all of a kind is none of them."""
    return "AutogradFunctionality" if key.startswith("Autograd") and key != "Autograd" else key


class HigherOrderOperator(OperatorBase):
    """An op of ``torch.ops.higher_order``: it calls graphs, which are among its arguments.

    One of the user's own is made by a subclass, whose ``__call__`` passes its arguments on; its kernels are
    registered by `py_impl`.

    Args:
        function: what it does, or the name of one whose kernels are registered.

    >>> import ftorch as torch
    >>> torch.ops.higher_order.cond(torch.tensor(True), torch.sin, torch.cos, (torch.zeros(1),))
    (tensor([0.]),)
    """

    def __init__(self, function, *, cacheable=False):
        self._function = None if isinstance(function, str) else function
        self.__name__ = self._name = function if isinstance(function, str) else function.__name__
        self.__doc__ = self.__doc__ if isinstance(function, str) else function.__doc__
        self.__module__ = "torch.ops.higher_order"
        self.namespace = "higher_order"
        self.py_kernels: dict = {}  # by dispatch key, or by class of a mode or of tensors
        self._skipped: set[str] = set()
        if self._function is None:
            REGISTERED[f"higher_order::{self._name}"] = self

    def __call__(self, /, *args, **kwargs):
        if self._function is not None:
            return self._function(*args, **kwargs)
        return self._kernel(args, kwargs)(*args, **kwargs)

    def py_impl(self, k):
        """Registers a kernel for a dispatch key, or for a class of modes or of tensors: a decorator."""

        def register(kernel):
            self.py_kernels[getattr(k, "name", k)] = kernel
            if hasattr(k, "name"):
                self._skipped.discard(_functionality(k.name))
            return kernel

        return register

    def py_autograd_impl(self, fn):
        """Registers the kernel that is called first, where gradients may be wanted."""
        from .library import _keys

        return self.py_impl(_keys.DispatchKey.Autograd)(fn)

    def fallthrough(self, dispatch_key) -> None:
        """Lets calls pass over a key; over gradients, of whatever backend."""
        self._skipped.add(_functionality(dispatch_key.name))

    def has_kernel_for_dispatch_key(self, k) -> bool:
        """Whether a kernel is registered for a key."""
        return getattr(k, "name", k) in self.py_kernels

    def _kernel(self, args, kwargs):
        from .autograd.grad_mode import is_inference_mode_enabled
        from .library._keys import backend_of, excluded

        tensors = [v for v in overrides.flat_arguments(args, kwargs) if isinstance(v, TensorBase)]
        for t in tensors:
            if type(t) in self.py_kernels:
                return self.py_kernels[type(t)]
        backend = backend_of(tensors)
        keys = (f"Autograd{backend}", backend) if tensors else ()
        if "AutogradFunctionality" in self._skipped or is_inference_mode_enabled() or all(t.is_inference() for t in tensors):
            keys = keys[1:]
        key = next((k for k in keys if k not in excluded() | self._skipped), "Undefined")
        for found in (key, *self._aliases(key, backend)):
            if found in self.py_kernels:
                return self.py_kernels[found]
        if key.startswith("Autograd") or key == "Meta":  # whose kernel for all operators is none of this one's
            raise NotImplementedError(
                f"could not find kernel for HigherOrderOperator {self._name} at dispatch key DispatchKey.{key} "
                f"(resolved from DispatchKey.{key})"
            )
        raise NotImplementedError(f"could not find kernel for {self._name} at dispatch key DispatchKey.{key}")

    def _aliases(self, key, backend):
        """The keys that stand for others, whose kernels are those of a key that has none of its own."""
        if not key.startswith("Autograd"):
            return "CompositeExplicitAutograd", "CompositeImplicitAutograd"
        below = {backend, "CompositeExplicitAutograd"} & self.py_kernels.keys()
        return ("Autograd",) if below else ("CompositeImplicitAutograd", "Autograd")

    def name(self):
        """The name."""
        return self._name

    def __str__(self):
        return self._name

    def __repr__(self):
        return f"<HigherOrderOperator '{self._name}'>" if self._function is not None else object.__repr__(self)

    def __deepcopy__(self, memo=None):
        return self

    def __reduce__(self):
        return _higher_order, (self._name,)


def _higher_order(name):
    return getattr(ops.higher_order, name)


class _OpNamespace(types.ModuleType):
    """The ops of a namespace, as attributes."""

    __file__ = "torch.ops"

    def __init__(self, name):
        super().__init__(f"torch.ops.{name}")
        self.__dict__["_of"] = name

    def __getattr__(self, name):
        packet = None if name.startswith("__") else self._packet(name)
        if packet is None:
            own = self.__dict__["_of"]
            raise AttributeError(f"'_OpNamespace' '{own}' object has no attribute '{name}'")
        return packet

    def _packet(self, name):
        return REGISTERED.get(f"{self.__dict__['_of']}::{name}")

    @staticmethod
    def _overload(packet, name):
        """An overload that a packet does not hold yet, or None."""
        return None

    @staticmethod
    def _overload_names(packet):
        """The names of those."""
        return ()

    def __dir__(self):
        prefix = f"{self.__dict__['_of']}::"
        return sorted(n[len(prefix) :] for n in REGISTERED if n.startswith(prefix))


class _Ops(types.ModuleType):
    """The root of all operators."""

    __file__ = "_ops.py"

    def __init__(self):
        super().__init__("torch.ops")
        self.loaded_libraries: set[str] = set()
        self._made: dict[str, _OpNamespace] = {}  # by name; those, too, whose operators are being registered

    def load_library(self, path):
        """Registers the operators of torchvision's and torchaudio's libraries, which are JAX's here.

        Other libraries of compiled operators call PyTorch's C++: they cannot be loaded.

        Raises:
            OSError: as PyTorch's for a file that is no library, so that packages fall back.
        """
        from . import _extensions

        if _extensions.load(path):
            self.loaded_libraries.add(str(path))
            return
        raise OSError(
            f"Could not load this library: {path} (it needs PyTorch's C++ library; operators for ftorch "
            "are written in Python: torch.library.custom_op)"
        )

    def import_module(self, module):
        """Imports a module, which registers ops."""
        importlib.import_module(module)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        found = self._made.setdefault(name, _OpNamespace(name))
        home = _HOMES.get(name)
        if home is not None:
            module = importlib.import_module(home, __package__)  # another thread that imports it is waited for
            found = self._made[name]  # the module's own, where it has one
            if getattr(module.__spec__, "_initializing", False):
                return found  # asked for by the module itself
        setattr(self, name, found)
        return found


# The modules that register the operators of a namespace.
_HOMES = {
    "aten": "._dispatch.namespaces",
    "prims": "._dispatch.namespaces",
    "higher_order": "._higher_order_ops",
    "_c10d_functional": ".distributed._functional_ops",
    "_c10d_functional_autograd": ".distributed._functional_ops",
    "c10d_functional": ".distributed._functional_ops",
    "c10d": ".distributed._group_ops",
    "quantized": "._quantized._operators",
    "sparse": "._quantized._sparse",
    "profiler": ".profiler._operators",
}
ops = _Ops()


class _ClassNamespace(types.ModuleType):
    """A namespace of ``torch.classes``."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise RuntimeError(
            f"Tried to instantiate class '{self.__name__.rpartition('.')[2]}.{name}', but it does not exist! "
            "Ensure that it is registered via torch::class_"
        )


_PACKED = "._quantized._classes"  # registers the classes of packed weights


class _Classes(types.ModuleType):
    """``torch.classes``: packed weights, and classes of compiled libraries, of which none can be loaded."""

    __file__ = "_classes.py"

    @property
    def loaded_libraries(self):
        """The libraries that `load_library` loaded."""
        return ops.loaded_libraries

    def load_library(self, path):
        """As ``torch.ops.load_library``."""
        ops.load_library(path)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name in ("quantized", "rnn", "sparse"):  # packed weights
            found = getattr(importlib.import_module(_PACKED, __package__), name)
        else:
            found = _ClassNamespace(f"torch.classes.{name}")
        setattr(self, name, found)
        return found


classes = _Classes("torch.classes")


# --- calls of the engine, as overloads -----------------------------------------------


def is_default(value, argument) -> bool:
    """Whether a value of an argument need not be written."""
    if not argument.has_default:
        return False
    default = argument.default_value
    return value is None or (type(value) is type(default) and value == default)


# What one kernel computes for bounds that are numbers, which ATen has as its default, and for tensors.
_BOUNDED = frozenset(
    f"{name}{end}" for name in ("clamp", "clamp_min", "clamp_max") for end in ("", "_")
)


def overload_call(definition, operands, static, form="function") -> tuple[Any, tuple, dict] | None:
    """(overload, args, kwargs) of a call of the engine; None for what is no op of ``torch.ops``."""
    name = definition.name + ("_" if form == "inplace" else "")
    packet = ops.aten._packet(name) if isinstance(definition, OpDef) else None
    if packet is None:
        return None
    if name == "_to_copy":
        return packet.default, tuple(operands), {"dtype": static[0]}
    overload = getattr(packet, definition.schema.overload or "default")
    if name in _BOUNDED and any(isinstance(v, TensorBase) for v in operands[1:]):
        overload = packet.Tensor
    dynamic, fixed = iter(operands), iter(static)
    values = [next(fixed) if k == STATIC else next(dynamic) for k in definition.kinds]
    if hasattr(packet, "arguments"):  # of ATen's own signature
        return overload, *packet.arguments(definition, values)
    args, kwargs = [], {}
    for value, argument in zip(values, definition.schema.arguments):
        if argument.type.is_list and value is not None:
            value = list(value) if isinstance(value, (list, tuple)) else [value]
            if len(value) == 1 and argument.type.size:  # one number for all dimensions
                value *= argument.type.size
        if argument.is_keyword_only:
            if not is_default(value, argument):
                kwargs[argument.name] = value
        else:
            args.append(value)
    positional = [a for a in definition.schema.arguments if not a.is_keyword_only]
    while args and is_default(args[-1], positional[len(args) - 1]):
        args.pop()
    return overload, tuple(args), kwargs
