"""Symbolic traces with known shapes: proxies carry meta tensors, so that ``x.shape[0]`` and ``x.dim()`` are numbers.

>>> import ftorch as torch
>>> from ftorch.fx.experimental.meta_tracer import symbolic_trace
>>> module = symbolic_trace(lambda x: x.reshape(x.shape[0], -1), {"x": torch.rand(2, 3, 4, device="meta")})
>>> module(torch.ones(2, 3, 4)).shape
torch.Size([2, 12])
"""

from __future__ import annotations

import copy
import operator
import warnings
from collections.abc import Callable
from typing import Any

from ...eager.tensor import TensorBase
from ...nn import Module
from .._symbolic_trace import Tracer
from ..graph_module import GraphModule
from ..node import map_aggregate
from ..proxy import Attribute, Proxy

__all__ = ["MetaTracer", "MetaProxy", "MetaAttribute", "MetaDeviceAttribute", "symbolic_trace"]

manual_meta_overrides: dict[Callable, Callable] = {}
"""{function: what gives its results' meta tensors instead}, for functions that cannot run on meta tensors."""


def torch_abs_override(input, *, out=None):
    """``torch.abs`` of meta tensors."""
    if out is not None:
        raise AssertionError("out= variants are not supported in meta tracing")
    return input


class MetaProxy(Proxy):
    """A proxy that knows the shape, dtype and device of what it stands for."""

    def install_tensor_meta(self, tensor_meta) -> None:
        """Says what it stands for: a meta tensor, or anything else that the program computes."""
        self._tensor_meta = tensor_meta

    def _known(self, name):
        meta = self.__dict__.get("_tensor_meta")
        if meta is None:
            return Attribute(self, name)
        return getattr(meta, name)

    def size(self, dim=None):
        """The sizes, as numbers."""
        meta = self.__dict__.get("_tensor_meta")
        if meta is None:
            return self.tracer.create_proxy("call_method", "size", (self,) if dim is None else (self, dim), {})
        return meta.size() if dim is None else meta.size(dim)

    def dim(self):
        """The number of dimensions."""
        meta = self.__dict__.get("_tensor_meta")
        return self.tracer.create_proxy("call_method", "dim", (self,), {}) if meta is None else meta.dim()

    shape = property(lambda self: self._known("shape"))
    dtype = property(lambda self: self._known("dtype"))
    ndim = property(lambda self: self._known("ndim"))
    device = property(lambda self: MetaDeviceAttribute(self, "device"))

    def __len__(self):
        meta = self.__dict__.get("_tensor_meta")
        if meta is None:
            return super().__len__()
        return len(meta)

    def __bool__(self):
        meta = self.__dict__.get("_tensor_meta")
        return super().__bool__() if meta is None or isinstance(meta, TensorBase) else bool(meta)

    def __getattr__(self, k):
        if k in ("tracer", "node", "_tensor_meta"):
            raise AttributeError(k)
        return MetaAttribute(self, k)

    def __setitem__(self, indices, values):
        return self.tracer.create_proxy("call_function", operator.setitem, (self, indices, values), {})


class MetaAttribute(MetaProxy):
    """An attribute, or method, of a proxy."""

    def __init__(self, root, attr: str):
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node = None

    @property
    def node(self):
        """The node of reading the attribute, made when first needed: most are methods to call."""
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args, **kwargs):
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class MetaDeviceAttribute(MetaAttribute):
    """``x.device``: read when the graph runs, as graphs are for every device."""


class MetaTracer(Tracer):
    """A tracer whose proxies know shapes, where the inputs' are given."""

    allow_insert_stateless_mods: bool = True

    def create_proxy(self, kind, target, args, kwargs, name=None, type_expr=None, proxy_factory_fn=None):
        """Makes a node; its proxy knows its shape if those of the arguments are known."""
        made = super().create_proxy(kind, target, args, kwargs, name, type_expr, proxy_factory_fn)
        if kind == "placeholder" and target in self.meta_args:
            made.install_tensor_meta(self.meta_args[target])
        elif kind in ("call_function", "call_method", "call_module") and not self._is_inside:
            try:
                found = self._meta_of(kind, target, args, kwargs)
            except Exception as error:
                warnings.warn(f"Could not compute metadata for {kind} target {target}: {error}", stacklevel=2)
            else:
                if found is not None:
                    made.install_tensor_meta(found)
        return made

    def _meta_of(self, kind, target, args, kwargs):
        unknown = False

        def value(a):
            nonlocal unknown
            if isinstance(a, MetaProxy):
                unknown = unknown or "_tensor_meta" not in a.__dict__
                return a.__dict__.get("_tensor_meta")
            if isinstance(a, TensorBase):
                return a.to("meta")
            return a

        args, kwargs = map_aggregate(args, value), map_aggregate(kwargs, value)
        if unknown or (kind == "call_function" and target is getattr):
            return None
        self._is_inside = True
        try:
            if kind == "call_function":
                if "device" in kwargs:
                    kwargs = {**kwargs, "device": "meta"}
                return manual_meta_overrides.get(target, target)(*args, **kwargs)
            if kind == "call_method":
                return getattr(args[0], target)(*args[1:], **kwargs)
            return copy.deepcopy(self.root.get_submodule(target)).to("meta")(*args, **kwargs)
        finally:
            self._is_inside = False

    def proxy(self, node):
        """A `MetaProxy`."""
        return MetaProxy(node, self)

    def call_module(self, m, forward, args, kwargs):
        """Modules that compute a shape's proxy do not call others as nodes."""
        return forward(*args, **kwargs) if self._is_inside else super().call_module(m, forward, args, kwargs)

    def path_of_module(self, mod):
        """The name of a module; one that the root has not is added to it."""
        try:
            return super().path_of_module(mod)
        except NameError:
            if not self.allow_insert_stateless_mods or list(mod.parameters()) or list(mod.buffers()):
                raise
            n = 0
            while hasattr(self.root, f"_stateless_mod_{n}"):
                n += 1
            setattr(self.root, f"_stateless_mod_{n}", mod)
            return f"_stateless_mod_{n}"

    _is_inside = False

    def trace(self, root, meta_args: dict[str, Any] | None = None, concrete_args=None):  # type: ignore[override]
        """The graph of a function or module.

        Args:
            meta_args: {parameter: a meta tensor like what it will be given}.
        """
        self.meta_args = dict(meta_args or {})
        return super().trace(root, concrete_args)


def symbolic_trace(root: Module | Callable, meta_args: dict[str, Any] | None = None,
                   concrete_args: dict[str, Any] | None = None) -> GraphModule:
    """A module with the graph of a function or module, traced with known shapes.

    Args:
        meta_args: {parameter: a meta tensor like what it will be given}.
    """
    tracer = MetaTracer()
    graph = tracer.trace(root, meta_args, concrete_args)
    name = root.__class__.__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
