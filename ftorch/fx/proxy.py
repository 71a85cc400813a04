"""``Proxy``: stands for a value while a function is traced, and records what happens to it."""

from __future__ import annotations

import copy
import dis
import enum
import inspect
import operator
import traceback
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from ..eager.tensor import TensorBase
from . import _targets
from ._codegen import magic_methods, reflectable_magic_methods
from .graph import Graph
from .immutable_collections import immutable_dict, immutable_list
from .node import Argument, Node, Target, is_namedtuple, map_aggregate
from .operator_schemas import base_types, check_for_mutable_operation
from .traceback import get_current_meta, has_preserved_node_meta

_ITERATION = (
    "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a "
    "*args or **kwargs function argument. See the torch.fx docs on pytorch.org for a more detailed "
    "explanation of what types of control flow can be traced, and check out the Proxy docstring for "
    "help troubleshooting Proxy iteration errors"
)
# What a node hands on to the nodes that take its place when its graph is traced again.
_PRESERVED = ("custom", "nn_module_stack", "source_fn_stack", "stack_trace")
_CONTROL_FLOW = "symbolically traced variables cannot be used as inputs to control flow"


class TraceError(ValueError):
    """A program does something that depends on values, which are not known when it is traced."""


class Scope:
    """The module that is traced: its path in the root ("" for the root) and its type."""

    def __init__(self, module_path: str, module_type: Any) -> None:
        self.module_path = module_path
        self.module_type = module_type


class ScopeContextManager:
    """Puts a scope in the place of another for a while: ``with ScopeContextManager(scope, current) as scope``."""

    def __init__(self, scope: Scope, current_scope: Scope) -> None:
        self._scope, self._before = scope, (scope.module_path, scope.module_type)
        scope.module_path, scope.module_type = current_scope.module_path, current_scope.module_type

    def __enter__(self) -> Scope:
        return self._scope

    def __exit__(self, *args: object) -> None:
        self._scope.module_path, self._scope.module_type = self._before


class TracerBase:
    """How operations on proxies become nodes; `Tracer` is the one of `symbolic_trace`.

    Attributes:
        record_stack_traces: whether nodes know where in the program they come from.
        iter, keys, to_bool: what happens where a program iterates a proxy, or decides by one.
    """

    graph: Graph
    record_stack_traces: bool = False
    _record_forward_stack_traces_only: bool = False
    check_mutable_operations: bool = False
    trace_asserts: bool = False
    proxy_buffer_attributes: bool = False
    traced_func_name: str = "forward"
    module_stack: OrderedDict[str, tuple[str, Any]]
    scope: Scope
    node_name_to_scope: dict[str, tuple[str, Any]]

    def create_node(self, kind: str, target: Target, args: tuple[Argument, ...],
                    kwargs: dict[str, Argument], name: str | None = None,
                    type_expr: Any | None = None) -> Node:
        """Makes a node; a place for subclasses to look at each one."""
        if self.check_mutable_operations and kind == "call_function":
            check_for_mutable_operation(target, args, kwargs)
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        scope = getattr(self, "scope", None)
        if scope is not None:
            self.node_name_to_scope[node.name] = (scope.module_path, scope.module_type)
        stack = getattr(self, "module_stack", None)
        if stack:
            node.meta["nn_module_stack"] = copy.copy(stack)
        if has_preserved_node_meta():
            node.meta.update(
                (k, copy.copy(v)) for k, v in get_current_meta().items() if k in _PRESERVED
            )
        if self.record_stack_traces and not node.stack_trace:
            trace = _user_stack()
            if trace:
                node.stack_trace = trace
        return node

    def proxy(self, node: Node) -> Proxy:
        """The proxy of a node; a place for subclasses of `Proxy`."""
        return Proxy(node, self)

    def create_proxy(self, kind: str, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any],
                     name: str | None = None, type_expr: Any | None = None,
                     proxy_factory_fn=None) -> Proxy:
        """Makes a node of arguments that may be, or hold, proxies, and gives its proxy."""
        node_args, node_kwargs = self.create_arg(args), self.create_arg(kwargs)
        if not isinstance(node_args, tuple):
            raise AssertionError(f"Expected args_ to be a tuple, got {type(node_args)}")
        node = self.create_node(kind, target, node_args, dict(node_kwargs), name, type_expr)
        return proxy_factory_fn(node) if proxy_factory_fn else self.proxy(node)

    def create_arg(self, a: Any) -> Argument:
        """What a node's arguments keep of a value.

        Raises:
            NotImplementedError: a graph cannot hold values of the type.
        """
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            items = [self.create_arg(item) for item in a]
            return type(a)(*items) if is_namedtuple(a) else tuple(items)
        if isinstance(a, list):
            return immutable_list(self.create_arg(item) for item in a)
        if isinstance(a, dict):
            return immutable_dict((self._key(k), self.create_arg(v)) for k, v in a.items())
        if isinstance(a, slice):
            return slice(*(self.create_arg(part) for part in (a.start, a.stop, a.step)))
        if isinstance(a, range):
            return range(*(self.create_arg(part) for part in (a.start, a.stop, a.step)))
        if is_dataclass(a) and not isinstance(a, type):
            values = {f.name: self.create_arg(getattr(a, f.name)) for f in fields(a)}
            return self.create_node("call_function", type(a), (), values)
        if isinstance(a, (*base_types, enum.Enum)) or a is None or a is ... or callable(getattr(
            a, "overloads", None
        )) or hasattr(a, "overloadpacket"):
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    def _key(self, key):
        def refuse(n):
            raise RuntimeError(
                "Keys for dictionaries used as an argument cannot contain a Node. Got key: "
                f"{key}"
            )

        return map_aggregate(self.create_arg(key), lambda n: refuse(n) if isinstance(n, Node) else n)

    def to_bool(self, obj: Proxy) -> bool:
        """What ``if proxy:`` decides.

        Raises:
            TraceError: always, unless a subclass knows better.
        """
        raise TraceError(_CONTROL_FLOW)

    def iter(self, obj: Proxy) -> Iterator:
        """What iterating over a proxy gives; ``a, b = proxy`` is understood, from the bytecode.

        Raises:
            TraceError: in other places, where the number of items is not known.
        """
        frame = inspect.currentframe()
        while frame is not None and frame.f_code.co_name in ("iter", "__iter__") and (
            frame.f_globals.get("__name__") == __name__
        ):
            frame = frame.f_back
        if frame is not None:
            for instruction in dis.get_instructions(frame.f_code):
                if instruction.offset == frame.f_lasti:
                    if instruction.opname == "UNPACK_SEQUENCE":
                        return (obj[i] for i in range(instruction.argval))
                    break
        raise TraceError(_ITERATION)

    def keys(self, obj: Proxy) -> Any:
        """What ``proxy.keys()`` gives: by default a recorded call."""
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """Appends to a graph that exists: the tracer of proxies that were made by hand."""

    def __init__(self, graph: Graph):
        super().__init__()
        self.graph = graph
        self.module_stack = OrderedDict()
        self.node_name_to_scope = {}


def _user_stack() -> str:
    """The traced program's stack, from the outside in, without this package's frames."""
    package = __name__.rpartition(".")[0]
    kept = []
    for frame, line in traceback.walk_stack(None):
        module = frame.f_globals.get("__name__") or ""
        if not module.startswith(package):
            kept.append((frame, line))
        elif frame.f_code.co_name == "_trace":
            break  # who asked for the trace is not part of the program
    summary = traceback.StackSummary.extract(reversed(kept))
    return "".join(summary.format()).strip()


class Proxy:
    """Stands for a value in a program that is traced: what is done with it becomes nodes.

    Attributes, methods, operators, indexing and functions of ``torch`` are recorded. What needs the
    value (``if x:``, ``for i in x``, ``int(x)``) raises `TraceError` or ``TypeError``.

    A proxy can be made by hand, to write nodes as expressions:

    >>> import ftorch as torch
    >>> graph = torch.fx.Graph()
    >>> x = torch.fx.Proxy(graph.placeholder("x"))
    >>> y = torch.relu(x) + 1
    >>> y.node.name, y.node.args
    ('add', (relu, 1))
    """

    def __init__(self, node: Node, tracer: TracerBase | None = None):
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k) -> Attribute:
        if k in ("tracer", "node"):  # unpickling and copying look before they are set
            raise AttributeError(k)
        return Attribute(self, k)

    def __deepcopy__(self, memo):
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        copied.__dict__.update((k, copy.deepcopy(v, memo)) for k, v in self.__dict__.items())
        return copied

    def __call__(self, *args, **kwargs) -> Proxy:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Proxy]:
        return self.tracer.iter(self)

    def __abs__(self):
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self) -> bool:
        return self.tracer.to_bool(self)

    def keys(self):
        """A recorded call of ``keys``."""
        return self.tracer.keys(self)

    def __len__(self):
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be "
            "recorded, please call torch.fx.wrap('len') at module scope"
        )

    @classmethod
    def __torch_function__(cls, orig_method, types, args=(), kwargs=None):
        """Records a call of a public function or tensor method that has a proxy among its arguments.

        Raises:
            RuntimeError: proxies of different tracers meet.
        """
        kwargs = kwargs or {}
        tracers: dict[int, TracerBase] = {}
        for proxy in proxies_in((args, kwargs)):
            tracers.setdefault(id(proxy.tracer), proxy.tracer)
        graphs = {id(t.graph) for t in tracers.values()}
        if len(graphs) > 1:
            raise RuntimeError(
                f"Found multiple different tracers {list(tracers.values())} while trying to trace "
                f"operations {orig_method}"
            )
        tracer = next(iter(tracers.values()))
        owner = getattr(orig_method, "owner", None)
        if owner is not None and hasattr(owner, "_type"):  # a method of a compiled module, which is called on what that holds
            return tracer.create_proxy("call_method", orig_method.name, (owner, *args), kwargs)
        name = _targets.method_name(orig_method)
        if name is not None:
            if not args:  # torch.nn.functional.sigmoid(input=x)
                args, kwargs = tuple(kwargs.values()), {}
            return tracer.create_proxy("call_method", name, args, kwargs)
        args, kwargs = _targets.recorded_arguments(orig_method, args, kwargs)
        return tracer.create_proxy("call_function", orig_method, args, kwargs)

    __hash__ = object.__hash__


def proxies_in(value: Any) -> Iterator[Proxy]:
    """The proxies in nested lists, tuples, dicts and slices."""
    if isinstance(value, Proxy):
        yield value
    elif isinstance(value, TensorBase):
        return
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from proxies_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from proxies_in(item)
    elif isinstance(value, slice):
        yield from proxies_in((value.start, value.stop, value.step))


class Attribute(Proxy):
    """An attribute of a proxy: a recorded ``getattr``, or the method of a call that follows."""

    def __init__(self, root: Proxy, attr: str):
        self.root = root
        self.attr = attr
        self.tracer = root.tracer
        self._node: Node | None = None

    def __getattr__(self, k):
        if k in ("root", "attr", "tracer", "_node"):
            raise AttributeError(k)
        return Attribute(self, k)

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The node of the ``getattr``, made when somebody asks: methods have none."""
        if self._node is None:
            self._node = self.tracer.create_proxy(
                "call_function", getattr, (self.root, self.attr), {}
            ).node
        return self._node

    def __call__(self, *args, **kwargs):
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """A parameter: its shape and the like are known, and are constants of the trace."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: TensorBase):
        super().__init__(node, tracer)
        self.param = param
        self.name = name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self):
        return self.param.shape

    @property
    def ndim(self):
        return self.param.ndim

    def size(self, *args):
        return self.param.size(*args)

    def dim(self):
        return self.param.dim()

    def numel(self):
        return self.param.numel()

    def nelement(self):
        return self.param.nelement()


# --- operators -----------------------------------------------------------------------


def _bind_operators():
    for name in magic_methods:
        target = getattr(operator, name)

        def method(*args, _target=target):
            tracer = next(a for a in args if isinstance(a, Proxy)).tracer
            return tracer.create_proxy("call_function", _target, args, {})

        dunder = f"__{name.strip('_')}__"
        method.__name__ = dunder
        setattr(Proxy, dunder, method)
    for name in reflectable_magic_methods:
        target = getattr(operator, name)

        def reflected(self, other, _target=target):
            return self.tracer.create_proxy("call_function", _target, (other, self), {})

        dunder = f"__r{name.strip('_')}__"
        reflected.__name__ = dunder
        setattr(Proxy, dunder, reflected)


_bind_operators()

__all__ = [
    "Attribute", "GraphAppendingTracer", "ParameterProxy", "Proxy", "TraceError", "TracerBase",
]
