"""Derives the public surface from the registry and binds it.

For every declared name: the function under its public path, the method, the in-place method, the
dunders. Composites and hand-written methods are bound beside them. The result is the lazy namespace
``ftorch.eager.api`` and a complete `Tensor`.
"""

from __future__ import annotations

import importlib
import pkgutil
import types

from . import (  # noqa: F401
    api,
    autocast,
    binding,
    composites,
    conversions,
    dispatch,
    graph_methods,
    interop,
    methods,
    ops,
    outputs,
    overrides,
    tape,
)
from . import op as _op
from .composite import COMPOSITES
from .registry import OVERLOADS
from .tensor import Tensor

_PREFIXES = ("linalg_", "fft_", "special_")


def load_declarations():
    """Imports every kernel and composite file."""
    for package in (ops, composites):
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{package.__name__}.{module.name}")


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


def _bind_ops():
    for name, definitions in OVERLOADS.items():
        functions = [d for d in definitions if "function" in d.forms]
        if functions:
            paths = {p for d in functions for p in d.public}
            for path in paths:
                here = [d for d in functions if path in d.public]
                public = _public_name(name, path)
                function = binding.make(public, here, "function")
                owner = namespace(path)
                for alias in (public, *(a for d in here for a in d.aliases)):
                    setattr(owner, _public_name(alias, path), function)
        for form, suffix in (("method", ""), ("inplace", "_")):
            own = [d for d in definitions if form in d.forms]
            if own:
                method = binding.make(name + suffix, own, form)
                for alias in (name, *(a for d in own for a in d.aliases)):
                    if form == "inplace" and all("." not in d.public for d in own):
                        for path in {p for d in own for p in d.public}:
                            setattr(namespace(path), alias + suffix, method)
                    if form == "inplace":
                        setattr(api, alias + suffix, method)
                    setattr(Tensor, alias + suffix, method)
        for definition in definitions:
            if definition.dunder:
                _bind_dunders(definition)


def _bind_dunders(definition):
    op = _op.op_named(definition.full_name)
    base = definition.dunder[0]
    dynamic = [k for k in definition.kinds if k != binding.STATIC]
    static = tuple(
        a.default for a, k in zip(definition.schema.arguments, definition.kinds)
        if k == binding.STATIC
    )  # fmt: skip
    if len(dynamic) == 1:
        for name in definition.dunder:
            _set_dunder(f"__{name}__", _unary(op, static), definition)
        return
    extra = (None,) * (len(dynamic) - 2)
    for name in definition.dunder:
        dunder = f"__{name}__"
        if name == base or not name.endswith(base):
            _set_dunder(dunder, binding.binary(op, extra, static, False, dunder), definition)
        elif name[0] == "r":
            _set_dunder(dunder, binding.binary(op, extra, static, True, dunder))
        else:
            _set_dunder(dunder, _inplace(op, extra, static), definition, "_")


def _set_dunder(name, method, definition=None, suffix=""):
    """Binds an operator; overrides know it as the method of the same meaning, as in PyTorch."""
    overrides.own_code(method, name)
    method.__name__ = method.__qualname__ = name
    setattr(Tensor, name, method)
    known = None if definition is None else vars(Tensor).get(definition.name + suffix)
    overrides.register(method, known)


def _unary(op, static):
    def method(self):
        return _op.call(op, (self,), static)

    return method


def _inplace(op, extra, static):
    def method(self, other):
        if not isinstance(other, binding._OPERANDS):
            return NotImplemented
        return _op.call_inplace(op, (self, other, *extra), static)

    return method


def _bind_composites():
    for c in COMPOSITES:
        function = overrides.overridable(c.function, c.nested)
        if "function" in c.forms:
            for path in c.public:
                for name in (c.name, *c.aliases):
                    setattr(namespace(path), name, function)
        if "method" in c.forms:
            for name in (c.name, *c.aliases):
                setattr(Tensor, name, function)


def _bind_methods():
    for name, value in methods.METHODS.items():
        setattr(Tensor, name, value)
    from . import indexing

    for name in ("getitem", "setitem"):
        function = getattr(indexing, name)
        function.__name__ = function.__qualname__ = f"__{name}__"
    Tensor.__getitem__ = indexing.getitem  # type: ignore[attr-defined]
    Tensor.__setitem__ = indexing.setitem  # type: ignore[attr-defined]
    Tensor.__pos__ = lambda self: self  # type: ignore[attr-defined]


def _bind_functions():
    for name in ("tensor", "as_tensor", "asarray", "from_numpy", "frombuffer", "from_jax",
                 "from_dlpack"):  # fmt: skip
        setattr(api, name, getattr(interop, name))
    for name in ("clone", "reshape", "as_strided", "numel", "is_floating_point", "is_complex",
                 "is_signed", "resize_as_", "detach", "detach_", "is_conj", "is_neg",
                 "is_same_size", "is_inference"):  # fmt: skip
        setattr(api, name, _as_function(methods.METHODS[name]))
    api.Tensor = Tensor
    api.real = lambda input: input.real
    api.imag = lambda input: input.imag


def _as_function(method):
    def function(input, *args, **kwargs):
        return method(input, *args, **kwargs)

    function.__name__ = function.__qualname__ = method.__name__
    function.__doc__ = method.__doc__
    return function


def public_functions() -> dict:
    """{name: function} of the top level. Its namespaces (nn, linalg, ...) are modules of their own."""
    return {
        name: value
        for name, value in vars(api).items()
        if not name.startswith("__") and not isinstance(value, types.SimpleNamespace)
    }


def _init_subclass(cls, **kwargs):
    super(Tensor, cls).__init_subclass__(**kwargs)
    overrides.forward_methods(cls, (*methods.METHODS, "__getitem__", "__setitem__"))


def _bind_overrides():
    Tensor.__torch_function__ = classmethod(overrides.default)  # type: ignore[attr-defined]
    Tensor.__torch_dispatch__ = staticmethod(overrides.dispatch_disabled)  # type: ignore[attr-defined]
    Tensor.__init_subclass__ = classmethod(_init_subclass)  # type: ignore[assignment]
    for name, method in methods.METHODS.items():
        if isinstance(method, types.FunctionType):
            overrides.register(method)


load_declarations()
_bind_methods()
_bind_ops()
_bind_composites()
_bind_functions()
_bind_overrides()
