"""Code generation: the public surface is derived from the registry and bound.

For every declared name: the function under its public path, the method, the in-place method, the
dunders. Composites and hand-written methods are bound beside them. The result is the lazy namespace
``ftorch.eager.core.api`` and a complete `Tensor`.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import types

from .. import functions as composites  # noqa: F401
from .. import kernels
from ..autograd import inplace_history, recorded_calls  # noqa: F401
from ..bindings import declared, inline_caches, outputs, publishing, signatures  # noqa: F401
from ..call import op as _op
from ..call.argument_types import type_name
from ..core import api  # noqa: F401
from ..core.composite import COMPOSITES
from ..core.registry import OVERLOADS
from ..dispatch import (  # noqa: F401
    autocast,
    levels,
    overridable_names,
    overrides,
    running_calls,
    watched_methods,
)
from ..tensor import PLAIN, Tensor, TensorBase, redirected, subclassed
from ..tensor_api import (  # noqa: F401
    conversions,
    copying,
    from_data,
    geometry_inplace,
    graph_methods,
    jax_interop,
    methods,
    numpy_interop,
    private_methods,
)

_PREFIXES = ("linalg_", "fft_", "special_")
_PARSED = frozenset((".", "linalg", "fft", "special"))


def load_declarations():
    """Imports every kernel and composite file."""
    for package in (kernels, composites):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)


def namespace(path: str):
    """The namespace of a public path inside `api`: ``namespace("nn.functional")``."""
    owner = api
    for part in [] if path == "." else path.split("."):
        if not hasattr(owner, part):
            setattr(owner, part, types.SimpleNamespace())
        owner = getattr(owner, part)
    return owner


def _public_name(name, path):
    for prefix in _PREFIXES:
        if name.startswith(prefix) and path == prefix[:-1]:
            return name[len(prefix) :]
    return name


def _aten_name(name, path):
    prefix = f"{path}_"
    return prefix + name if prefix in _PREFIXES and not name.startswith(prefix) else name


def _bind_ops():
    for name, definitions in OVERLOADS.items():
        functions = [d for d in definitions if "function" in d.forms]
        if functions:
            made: dict = {}  # in some places it is the same object
            for path in sorted({p for d in functions for p in d.public}):
                here = [d for d in functions if path in d.public]
                public = _public_name(name, path)
                home = overridable_names.home(path, public)
                # As PyTorch's parser calls it: `torch.linalg.det` is "linalg_det".
                function = made.get((home, len(here))) if home == "." else None
                if function is None:
                    function = made[home, len(here)] = signatures.make(_aten_name(name, path), here, "function", home)
                owner = namespace(path)
                setattr(owner, public, function)
                for alias in (a for d in here for a in d.aliases):
                    home = overridable_names.home(path, _public_name(alias, path))
                    other = _alias(_aten_name(alias, path), here, "function", function, home)
                    setattr(owner, _public_name(alias, path), other)
        for form, suffix in (("method", ""), ("inplace", "_")):
            own = [d for d in definitions if form in d.forms]
            if own:
                primary = None
                for alias in (name, *(a for d in own for a in d.aliases)):
                    method = _method(alias + suffix, own, form, primary)
                    primary = primary or method
                    if form == "inplace":
                        _bind_inplace(alias + suffix, own, method)
                    setattr(Tensor, alias + suffix, method)
        for definition in definitions:
            if definition.dunder:
                _bind_dunders(definition)


def _method(name, definitions, form, known):
    method = signatures.make(name, definitions, form, overridable_names.home("Tensor", name))
    if known is not None:
        overridable_names.know(method, known)
    return method


def _bind_inplace(name, definitions, method):
    """In-place operators as functions: ``torch.relu_(x)``."""
    paths = {p for d in definitions for p in d.public} if all("." not in d.public for d in definitions) else ()
    function = _alias(name, definitions, "inplace function", method, ".")
    for path in paths:
        home = overridable_names.home(path, name)
        setattr(namespace(path), name, function if home == "." else _alias(name, definitions, "inplace function", method, home))
    setattr(api, name, function)


def _alias(name, definitions, form, known, home):
    """A function of another name, which the engine knows as the first one."""
    function = signatures.make(name, definitions, form, home)
    overridable_names.know(function, known)
    return function


def _bind_dunders(definition):
    op = _op.op_named(definition.full_name)
    base = definition.dunder[0]
    dynamic = [k for k in definition.kinds if k != signatures.STATIC]
    static = tuple(
        a.default for a, k in zip(definition.schema.arguments, definition.kinds)
        if k == signatures.STATIC
    )
    if len(dynamic) == 1:
        for name in definition.dunder:
            learn = None if name == "invert" else inline_caches.operator_learner(op, (0,), static)
            _set_dunder(f"__{name}__", _unary(op, static), learn, definition)
        return
    extra = (None,) * (len(dynamic) - 2)
    none = ((None,),) * len(extra)
    for name in definition.dunder:
        dunder = f"__{name}__"
        takes = signatures.taken_by_operator(op)
        if name == base or not name.endswith(base):
            learn = inline_caches.operator_learner(op, (0, 1, *none), static, types=takes)
            _set_dunder(dunder, signatures.binary(op, extra, static, False, dunder), learn, definition)
        elif name[0] == "r":
            first = (0, 1) if signatures.commutes(op) else (1, 0)
            learn = inline_caches.operator_learner(op, (*first, *none), static, types=takes)
            _set_dunder(dunder, signatures.binary(op, extra, static, True, dunder), learn)
        else:
            learn = inline_caches.operator_learner(op, (0, 1, *none), static, True, takes)
            _set_dunder(dunder, _inplace(op, extra, static), learn, definition, "_")


def _set_dunder(name, method, learn, definition=None, suffix=""):
    """Binds an operator; overrides know it as the method of the same meaning, as in PyTorch."""
    running_calls.own_code(method, name)
    method.__name__ = method.__qualname__ = name
    slow = method
    if overridable_names.home("Tensor", name) is not None:
        method = publishing.method(slow, learn)
    setattr(Tensor, name, method)
    known = None if definition is None else vars(Tensor).get(definition.name + suffix)
    if name in overridable_names.OPERATORS:
        running_calls.register(slow)
        if known is not None:
            overridable_names.know(method, known)
        return
    running_calls.register(slow, known)


def _unary(op, static):
    if op.name == "bitwise_not":

        def invert(self):
            if self._ftorch_geometry.dtype.category > 1:
                raise TypeError("~ (operator.invert) is only implemented on integer and Boolean-type tensors")
            return _op.call(op, (self,), static)

        return invert

    def method(self):
        return _op.call(op, (self,), static)

    return method


def _inplace(op, extra, static):
    def method(self, other):
        if not isinstance(other, signatures._OPERANDS):
            return NotImplemented
        return _op.call_inplace(op, (self, other, *extra), static)

    return method


def _bind_composites():
    for c in COMPOSITES:
        made: dict = {}
        for path in c.public if "function" in c.forms else ():
            for name in (c.name, *c.aliases):
                key = name, overridable_names.home(path, name)
                if key not in made:
                    made[key] = _composite(c, name, "function", path, next(iter(made.values()), None))
                setattr(namespace(path), name, made[key])
        first = next(iter(made.values()), None)
        if "method" in c.forms:
            method = _composite(c, c.name, "method", ".", first)
            setattr(Tensor, c.name, method)
            for name in c.aliases:
                setattr(Tensor, name, _composite(c, name, "method", ".", first or method))


def _composite(composite, name, form, path, known):
    """A composite's function or method; where there is another already, the engine knows it as that one."""
    # Those of `nn.functional` are Python in PyTorch, too, also where an ATen op has their name.
    parser = declared.parser(_aten_name(name, path), form) if path in _PARSED else None
    function = overrides.overridable(composite.function, composite.nested, known, parser)
    function.__name__ = function.__qualname__ = _aten_name(name, path)
    home = overridable_names.home("Tensor" if form == "method" else path, name)
    if home is not None:
        publish = publishing.method if form == "method" else functools.partial(publishing.function, path=home)
        explain = None if parser is None else parser.explain
        function = publish(function, composition=composite.function, explain=explain)
    if known is not None:
        overridable_names.know(function, known)
    return function


def _read_only(name, value):
    """A property whose assignment fails in PyTorch's words."""

    def refuse(self, value):
        raise AttributeError(f"attribute '{name}' of 'torch._C.TensorBase' objects is not writable")

    return property(value.fget, refuse, None, value.__doc__)


def _positive(self):
    if self._ftorch_geometry.dtype.category == 0:
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return self


def _bind_methods():
    for name, value in methods.METHODS.items():
        if type(value) is property and value.fset is None:
            value = _read_only(name, value)
        elif name in inline_caches.GETTERS:
            value = publishing.method(value, inline_caches.GETTERS[name], name=name)
        setattr(Tensor, name, value)
    from ..tensor_api import indexing

    for name in ("getitem", "setitem"):
        function = getattr(indexing, name)
        function.__name__ = function.__qualname__ = f"__{name}__"
    Tensor.__getitem__ = indexing.getitem  # type: ignore[attr-defined]
    Tensor.__setitem__ = indexing.setitem  # type: ignore[attr-defined]
    Tensor.__pos__ = _positive  # type: ignore[attr-defined]


def _bind_functions():
    for module, names in (
        (from_data, ("tensor", "as_tensor", "asarray")),
        (numpy_interop, ("from_numpy", "frombuffer")),
        (jax_interop, ("from_jax", "from_dlpack")),
    ):
        for name in names:
            function = getattr(module, name)
            setattr(api, name, publishing.function(function, ".") if overridable_names.home(".", name) else function)
    for name in ("clone", "reshape", "as_strided", "numel", "is_floating_point", "is_complex",
                 "is_signed", "resize_as_", "detach", "detach_", "is_conj", "is_neg",
                 "is_same_size", "is_inference"):
        setattr(api, name, _as_function(methods.METHODS[name]))
    api.Tensor = Tensor
    for name in ("real", "imag"):
        function = overrides.overridable(_part(name), False)
        setattr(api, name, publishing.function(function, ".", composition=function.__wrapped__))


def _part(name):
    def part(input):
        return getattr(input, name)

    part.__name__ = part.__qualname__ = name
    return part


def _as_function(method):
    special = _op.special

    def function(input, *args, **kwargs):
        if special[0] and overrides.user_mode():
            return overrides.handle(public, [input], (input, *args), kwargs)
        if input.__class__ not in PLAIN:
            if overrides.asks(input):
                return overrides.handle(public, [input], (input, *args), kwargs)
            if not isinstance(input, TensorBase):
                raise TypeError(f"{method.__name__}(): argument 'input' (position 1) must be Tensor, not {type_name(input)}")
        if special[0] and isinstance(input, levels.Wrapped):  # of a trace, whose sizes may be symbols
            return getattr(input, method.__name__)(*args, **kwargs)
        return method(input, *args, **kwargs)

    function.__name__ = function.__qualname__ = method.__name__
    function.__doc__ = method.__doc__
    public = publishing.function(function, ".")
    overridable_names.know(public, method)
    return public


def public_functions() -> dict:
    """{name: function} of the top level. Its namespaces (nn, linalg, ...) are modules of their own."""
    return {
        name: value
        for name, value in vars(api).items()
        if not name.startswith("__") and not isinstance(value, types.SimpleNamespace)
    }


def _told_of_subclass(cls):
    overrides.forward_methods(cls, watched_methods.written)


def _told_of_other_function(cls):
    """Looks again at a class that got another ``__torch_function__``, and at those below it."""
    if cls is Tensor:
        return
    if not overrides.forget(cls):  # else its methods ask already
        overrides.forward_methods(cls, watched_methods.written)
    for below in type.__subclasses__(cls):
        _told_of_other_function(below)


def _bind_overrides():
    Tensor.__torch_function__ = classmethod(overrides.default)  # type: ignore[attr-defined]
    Tensor.__torch_dispatch__ = staticmethod(overrides.dispatch_disabled)  # type: ignore[attr-defined]
    subclassed.append(_told_of_subclass)
    redirected.append(_told_of_other_function)
    watched_methods.written += [*methods.METHODS, "__getitem__", "__setitem__"]
    for name, method in methods.METHODS.items():
        if isinstance(method, types.FunctionType):
            running_calls.register(method)
    overridable_names.complete(Tensor, vars(api))


load_declarations()
_bind_methods()
_bind_ops()
_bind_composites()
_bind_functions()
_bind_overrides()
