"""``symbolic_trace``: runs a function on proxies to find its graph."""

from __future__ import annotations

import builtins
import copy
import functools  # noqa: F401  the same
import inspect
import math
import types
import warnings
from collections import OrderedDict
from collections.abc import Callable
from types import CodeType, FunctionType, ModuleType  # noqa: F401  libraries take them from here
from typing import Any

from .._alias import is_own
from .._toplevel.basics import _assert
from ..eager.call.op import hooks
from ..eager.tensor import TensorBase, modes
from ..nn import Module, Parameter
from ..utils import _pytree as pytree
from . import _targets
from ._codegen import PyTreeCodeGen, PyTreeInfo
from ._compatibility import compatibility  # noqa: F401  libraries take it from here
from ._interception import original
from ._patching import (  # noqa: F401  libraries take them from here
    CURRENT_PATCHER,
    _autowrap_check,
    _create_wrapped_func,
    _create_wrapped_method,
    _find_proxy,
    _maybe_revert_all_patches,
    _new_patcher,
    _orig_module_call,
    _orig_module_getattr,
    _PatchedFn,
    _PatchedFnDel,
    _PatchedFnSetAttr,
    _PatchedFnSetItem,
    _Patcher,
    _transfer_attrs,
)
from ._watch import Patches
from .graph import Graph
from .graph_module import GraphModule
from .node import Argument, has_side_effect, is_namedtuple
from .proxy import ParameterProxy, Proxy, Scope, ScopeContextManager, TracerBase, proxies_in

_module_call, _module_getattr = Module.__call__, Module.__getattr__
_VARIADIC = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
HAS_VARSTUFF = _VARIADIC

# Functions to record instead of running: (their module's dictionary, name).
_wrapped_fns_to_patch: dict[tuple[int, str], dict] = {}
_wrapped_methods_to_patch: list[tuple[type, str]] = []

_is_tracing = [0]


def is_fx_tracing() -> bool:
    """Whether a graph is being recorded now: by `symbolic_trace`, `make_fx` or `torch.export`."""
    return _is_tracing[0] > 0 or any(level.is_graph for level in modes.levels)


def is_fx_symbolic_tracing() -> bool:
    """`is_fx_tracing`, and no compiler is at work."""
    return is_fx_tracing() and not (hooks.is_compiling is not None and hooks.is_compiling())


def is_fx_tracing_warning() -> None:
    """Warns that `is_fx_tracing` is not about a compiler's tracing."""
    warnings.warn(
        "is_fx_tracing will return true for both fx.symbolic_trace and torch.export. Please use "
        "is_fx_tracing_symbolic_tracing() for specifically fx.symbolic_trace or torch.compiler.is_compiling() for "
        "specifically torch.export/compile.", stacklevel=2,
    )


class PHBase:
    """Marks the arguments that stay arguments, in ``concrete_args``; `PH` is one."""

    def __repr__(self):
        return "PH"


class PHWithMeta(PHBase):
    """A `PHBase` with a key, by which its placeholder is known."""

    def __init__(self, ph_key: str | None = None):
        self.ph_key = ph_key


PH = PHBase()


@has_side_effect
def _assert_is_none(value, msg):
    assert value is None, msg


has_side_effect(_assert)


# --- wrap ----------------------------------------------------------------------------


def wrap(fn_or_name: str | Callable):
    """Marks a function of the calling module to be recorded as one call instead of traced into.

    Call it at module scope, with a function's name (``wrap("len")``) or as a decorator.

    Raises:
        RuntimeError: the argument is neither a function nor a name.
        NotImplementedError: called inside a function.
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(
            "Unsupported type for global function! Must be either a callable or string name"
        )
    name = fn_or_name.__name__ if callable(fn_or_name) else fn_or_name
    frame = inspect.currentframe()
    caller = frame.f_back if frame is not None else None
    if caller is None:
        raise AssertionError("Failed to get calling frame")
    if caller.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped_fns_to_patch[(id(caller.f_globals), name)] = caller.f_globals
    return fn_or_name


def _patch_wrapped_functions(patcher: _Patcher) -> None:
    """Records the functions and methods that `wrap` marked, until the patcher's end."""
    for (_, name), scope in _wrapped_fns_to_patch.copy().items():
        function = getattr(builtins, name) if name not in scope and hasattr(builtins, name) else scope[name]
        patcher.patch(scope, name, _create_wrapped_func(function))
    for cls, name in _wrapped_methods_to_patch:
        patcher.patch_method(cls, name, _create_wrapped_method(cls, name))


# --- the tracer ----------------------------------------------------------------------


def _is_packed(value) -> bool:
    """Whether a value is an object of a class of `torch.classes`: packed weights."""
    return hasattr(type(value), "_qualified")


def _is_nested(value) -> bool:
    """Whether a value has parts: also one of a class that was registered with ``torch.utils._pytree``."""
    return not pytree.tree_is_leaf(value)


class Tracer(TracerBase):
    """Traces functions and modules. Override its methods to change what becomes what.

    Args:
        autowrap_modules: modules whose functions are recorded where they are used as globals.
        autowrap_functions: functions to be recorded so.
        param_shapes_constant: shapes of parameters are values of the trace, not nodes.

    >>> import ftorch as torch
    >>> class Everything(torch.fx.Tracer):
    ...     def is_leaf_module(self, m, module_qualified_name):
    ...         return False
    >>> graph = Everything().trace(torch.nn.Linear(2, 3))
    >>> [node.name for node in graph.nodes]
    ['input_1', 'weight', 'bias', 'linear', 'output']
    """

    def __init__(self, autowrap_modules: tuple[types.ModuleType, ...] = (math,),
                 autowrap_functions: tuple[Callable, ...] = (),
                 param_shapes_constant: bool = False) -> None:
        super().__init__()
        self._autowrap: dict[int, Callable] = {
            id(value): _create_wrapped_func(value)
            for module in autowrap_modules for name, value in vars(module).items()
            if not name.startswith("_") and callable(value)
        }
        self._autowrap.update((id(f), _create_wrapped_func(f)) for f in autowrap_functions)
        self._autowrap_search = list(autowrap_modules)
        self._autowrap_function_ids = set(self._autowrap)  # what tracers of libraries' own read
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[Module, str] | None = None
        self.root_module_name = ""
        self.module_stack = OrderedDict()
        self.num_calls: dict[str, int] = {}
        self.scope = Scope("", None)
        self.node_name_to_scope = {}

    # --- values

    def create_arg(self, a: Any) -> Argument:
        """What a node's arguments keep of a value: tensors become attributes of the root.

        Raises:
            NameError: a parameter or module that the root does not have.
            NotImplementedError: a graph cannot hold values of the type.
        """
        if isinstance(a, Parameter):
            for name, parameter in self.root.named_parameters():
                if a is parameter:
                    return self.create_node("get_attr", name, (), {})
            raise NameError("parameter is not a member of this module")
        if isinstance(a, TensorBase):
            for name, buffer in self.root.named_buffers():
                if a is buffer:
                    return self.create_node("get_attr", name, (), {})
        elif any([kind.__name__ == "ScriptObject" for kind in type(a).__mro__]):  # what a compiled module holds
            for name, module in self.root.named_modules():
                if getattr(module, "_c", None) is a:
                    return self.create_node("get_attr", f"{name}._c" if name else "_c", (), {})
        elif isinstance(a, Module):
            for name, module in self.root.named_modules():
                if a is module:
                    return self.create_node("get_attr", name, (), {})
        if is_namedtuple(a):
            values = tuple(self.create_arg(item) for item in a)
            return self.create_node("call_function", type(a), values, {})
        if isinstance(a, TensorBase) or _is_packed(a):
            return self.create_node("get_attr", self._constant(a), (), {})
        if type(a) in _proxyable_classes:
            i = 0
            while hasattr(self.root, f"_{type(a).__name__}_constant_{i}"):
                i += 1
            setattr(self.root, name := f"_{type(a).__name__}_constant_{i}", a)
            return self.create_node("get_attr", name, (), {})
        return super().create_arg(a)

    def _constant(self, tensor):
        """The path of a tensor in the root, which gets it as a constant if it lacks it."""
        name = self.tensor_attrs.get(id(tensor), (None,))[0]
        if name is None:
            i, prefix = 0, "_torchbind_obj" if _is_packed(tensor) else "_tensor_constant"
            while hasattr(self.root, f"{prefix}{i}"):
                i += 1
            name = f"{prefix}{i}"
            self.tensor_attrs[id(tensor)] = (name, tensor)
            setattr(self.root, name, tensor)
        return name

    # --- modules

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether calls of a module are recorded, rather than traced into: those of ``torch.nn`` and ``torch.ao.nn``."""
        return (is_own(type(m).__module__, "nn") or is_own(type(m).__module__, "ao.nn")) and not _is_sequential(m)

    def path_of_module(self, mod: Module) -> str:
        """The path of a submodule in the root.

        Raises:
            NameError: it is none.
        """
        if self.submodule_paths is not None:
            path = self.submodule_paths.get(mod)
            if path is None:
                raise NameError("module is not installed as a submodule")
            return path
        for name, module in self.root.named_modules():
            if module is mod:
                return name
        raise NameError("module is not installed as a submodule")

    def call_module(self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...],
                    kwargs: dict[str, Any]) -> Any:
        """What a call of a module gives: a node for leaves, else what ``forward`` gives."""
        path = self.path_of_module(m)
        calls = self.num_calls.get(path, 0)
        self.num_calls[path] = calls + 1
        key = path if not calls else f"{path}@{calls}"
        self.module_stack[key] = (path, type(m))
        try:
            with ScopeContextManager(self.scope, Scope(path, type(m))):
                if not self.is_leaf_module(m, path):
                    return forward(*args, **kwargs)
                return self.create_proxy("call_module", path, args, kwargs)
        finally:
            del self.module_stack[key]

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]):
        """What an attribute of a module gives: proxies for parameters (and buffers, if
        ``proxy_buffer_attributes``), else the value."""
        if isinstance(attr_val, Parameter):
            found = self._proxy_of(attr_val, self.root.named_parameters(), parameter_proxy_cache)
        elif self.proxy_buffer_attributes and isinstance(attr_val, TensorBase):
            found = self._proxy_of(attr_val, self.root.named_buffers(), parameter_proxy_cache)
        else:
            found = None
        return attr_val if found is None else found

    def _proxy_of(self, value, named, cache):
        for name, own in named:
            if own is value:
                if name not in cache:
                    factory = None
                    if self.param_shapes_constant:
                        factory = lambda node: ParameterProxy(self, node, name, value)  # noqa: E731
                    cache[name] = self.create_proxy(
                        "get_attr", name, (), {}, **({"proxy_factory_fn": factory} if factory else {})
                    )
                return cache[name]
        return None

    # --- arguments

    def create_args_for_root(self, root_fn: Callable[..., Any], is_module: bool,
                             concrete_args: dict[str, Any] | tuple | None = None):
        """Makes the placeholders.

        Returns:
            (the function to call, its arguments).

        Raises:
            RuntimeError: the function has no parameters to look at, or is a module's without
                ``self``.
        """
        analyzed = inspect.unwrap(root_fn)
        code = analyzed.__code__
        total = code.co_argcount + code.co_kwonlyargcount
        names = list(code.co_varnames[:total])
        arguments: list[Any] = []
        if is_module:
            if not names:
                raise RuntimeError("``self`` argument cannot be part of *args expansion!")
            names = names[1:]
            arguments.append(self.root)
        concrete = self._concrete(concrete_args, names)
        defaults = {
            p.name: p.default for p in inspect.signature(analyzed).parameters.values()
            if p.default is not p.empty
        }
        annotations = getattr(analyzed, "__annotations__", {})

        def placeholder(name):
            if name in concrete:
                return self._specialized(name, concrete[name], defaults)
            args = (defaults[name],) if name in defaults else ()
            return self.create_proxy("placeholder", name, args, {}, type_expr=annotations.get(name))

        arguments.extend(placeholder(name) for name in names)
        stars = [s for flag, s in ((inspect.CO_VARARGS, "*"), (inspect.CO_VARKEYWORDS, "**"))
                 if code.co_flags & flag]
        for star, name in zip(stars, code.co_varnames[total:]):
            arguments.append(placeholder(star + name))
        nested = any([_is_nested(v) for v in concrete.values()])
        if nested:
            return self._flattened(_positional(root_fn), analyzed, arguments, concrete, is_module)
        if code.co_kwonlyargcount or stars:
            root_fn = _positional(analyzed)
        return root_fn, arguments

    @staticmethod
    def _concrete(concrete_args, names):
        if concrete_args is None:
            return {}
        if isinstance(concrete_args, tuple):
            if len(names) != len(concrete_args):
                raise RuntimeError(
                    f"Tracing expected {len(names)} arguments but got {len(concrete_args)} concrete "
                    "arguments"
                )
            return dict(zip(names, concrete_args))
        return concrete_args

    def _specialized(self, name, concrete, defaults):
        """The value of an argument with concrete leaves; the others become placeholders."""
        made = 0
        nested = _is_nested(concrete)
        default = (defaults[name],) if name in defaults and not nested else ()

        def leaf(x):
            nonlocal made
            made += 1
            if isinstance(x, (TensorBase, Proxy)):
                return x
            proxy = self.create_proxy("placeholder", f"{name}_{made}", default, {})
            if isinstance(x, PHBase):
                for key, value in vars(x).items():
                    if not hasattr(proxy.node, key):
                        setattr(proxy.node, key, value)
                return proxy
            text = f"{name} has been specialized to have value {x} but got another value"
            if x is None:
                self.create_proxy("call_function", _assert_is_none, (proxy, text), {})
            elif type(x) is bool or isinstance(x, (int, float, str, complex)):
                self.create_proxy("call_function", _assert, (proxy == x, text), {})
            else:
                warnings.warn(
                    "Was not able to add assertion to guarantee correct input "
                    f"{name} to specialized function. It is up to the user to make sure that your "
                    "inputs match the inputs you specialized the function with.",
                    stacklevel=5,
                )
            return x

        return pytree.tree_map(leaf, concrete)

    def _flattened(self, function, analyzed, arguments, concrete, is_module):
        """A function of the leaves of nested arguments."""
        fixed = 1 if is_module else 0
        code = analyzed.__code__
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        shape = [
            concrete.get(name, PH) if _is_nested(concrete.get(name)) else PH
            for name in names[fixed:]
        ]
        spec = pytree.tree_structure(shape)
        leaves = [x for a, s in zip(arguments[fixed:], shape)
                  for x in (pytree.tree_leaves(a) if _is_nested(s) else [a])]
        self.graph._codegen = PyTreeCodeGen(PyTreeInfo(list(names), spec, None))

        def flat(*args):
            own, leaves = args[:fixed], args[fixed:]
            result = function(*own, *pytree.tree_unflatten(leaves, spec))
            flat_out, out_spec = pytree.tree_flatten(result)
            codegen = self.graph._codegen
            codegen.pytree_info = codegen.pytree_info._replace(out_spec=out_spec)
            return flat_out

        return flat, [*arguments[:fixed], *leaves]

    def __deepcopy__(self, memo):
        """A tracer of its own; the modules that it searches are the same."""
        new = type(self).__new__(type(self))
        memo[id(self)] = new
        for key, value in self.__dict__.items():
            is_shared = key in ("_autowrap_search", "_autowrap")
            new.__dict__[key] = copy.copy(value) if is_shared else copy.deepcopy(value, memo)
        return new

    # --- tracing

    def trace(self, root: Module | Callable[..., Any],
              concrete_args: dict[str, Any] | None = None) -> Graph:
        """The graph of a function or module.

        Args:
            concrete_args: {parameter: value} to trace with; `PH` in nested values stays an argument.

        Raises:
            TraceError: the program depends on values.
        """
        _is_tracing[0] += 1
        try:
            return self._trace(root, concrete_args)
        finally:
            _is_tracing[0] -= 1

    def _trace(self, root, concrete_args):
        if isinstance(root, Module):
            self.root = root
            if not hasattr(type(root), self.traced_func_name):
                raise AssertionError(
                    f"traced_func_name={self.traced_func_name} doesn't exist in {type(root).__name__}"
                )
            fn = getattr(type(root), self.traced_func_name)
            self.root_module_name = root._get_name()
            self.submodule_paths = {m: name for name, m in root.named_modules()}
        else:
            self.root = Module()
            fn = root
            self.submodule_paths = None
        if isinstance(fn, types.FunctionType) and _targets.public_path(fn) is not None:
            fn = _targets.in_python(fn)
        if not isinstance(inspect.unwrap(fn) if callable(fn) else fn, types.FunctionType):
            raise AssertionError(f"Expected FunctionType, got {type(fn)}")
        self.graph = Graph(tracer_cls=type(self))
        self.tensor_attrs = {
            id(v): (f"{prefix}.{k}" if prefix else k, v)
            for prefix, module in self.root.named_modules() for k, v in vars(module).items()
            if isinstance(v, TensorBase) or _is_packed(v)
        }
        scope = inspect.unwrap(fn).__globals__
        code = inspect.unwrap(fn).__code__
        self.graph._traced_from = f"{code.co_filename}:{code.co_firstlineno} in {code.co_name}"
        plain = fn
        fn, args = self.create_args_for_root(fn, isinstance(root, Module), concrete_args)
        # A function of the arguments' names, with no annotation, stands for one that takes any number.
        returns = getattr(inspect.unwrap(fn), "__annotations__", {}).get("return") if fn is plain else None
        with Patches() as patches:
            self._patch(patches, scope)
            result = fn(*args)
            self.create_node("output", "output", (self.create_arg(result),), {}, type_expr=returns)
        self.submodule_paths = None
        return self.graph

    def _patch(self, patches, scope):
        cache: dict[str, Proxy] = {}
        seen: set[int] = set()

        def module_getattr(module, name):
            return self.getattr(name, _module_getattr(module, name), cache)

        def module_call(module, *args, **kwargs):
            def forward(*args, **kwargs):
                return _module_call(module, *args, **kwargs)

            own = getattr(module.forward, "__globals__", None)
            if own is not None and id(own) not in seen:
                seen.add(id(own))
                patches.watch_scope(own, self._autowrap)
            return self.call_module(module, forward, args, kwargs)

        patches.watch()
        patches.place(Module, "__getattr__", module_getattr)
        patches.place(Module, "__call__", module_call)
        seen.add(id(scope))
        for module in self.root.modules():
            patches.watch_scope(vars(module), self._autowrap)
        patches.watch_scope(scope, self._autowrap)
        for module in self._autowrap_search:
            patches.watch_scope(vars(module), self._autowrap)
        for (_, name), dictionary in _wrapped_fns_to_patch.items():
            if name not in dictionary and hasattr(builtins, name):
                patches.place(dictionary, name, _create_wrapped_func(getattr(builtins, name)))
            elif name in dictionary:
                patches.place(dictionary, name, _create_wrapped_func(original(dictionary[name])))
        for cls, name in _wrapped_methods_to_patch:
            patches.place(cls, name, _create_wrapped_method(cls, name))


def _is_sequential(module):
    from ..nn import Sequential

    return isinstance(module, Sequential)


def _positional(function):
    """The function with all of its parameters positional, ``*args`` and ``**kwargs`` single ones."""
    code = function.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    code = code.replace(co_flags=code.co_flags & ~_VARIADIC, co_argcount=count,
                        co_kwonlyargcount=0, co_posonlyargcount=0)
    patched = types.FunctionType(code, function.__globals__, function.__name__, None,
                                 function.__closure__)
    return patched


# --- classes whose construction is recorded ------------------------------------------

_proxyable_classes: dict[type, None] = {}


class ProxyableClassMeta(type):
    """A metaclass: making an instance of proxies is recorded as a call of the class.

    Instances without proxies become attributes of the traced module.
    """

    def __init__(cls, name, bases, attrs):
        _proxyable_classes.setdefault(cls)
        super().__init__(name, bases, attrs)

    def __call__(cls, *args, **kwargs):
        instance = cls.__new__(cls)
        proxy = next(proxies_in((args, kwargs)), None)
        if proxy is not None:
            return proxy.tracer.create_proxy("call_function", cls, args, kwargs)
        cls.__init__(instance, *args, **kwargs)  # type: ignore[misc]
        return instance


def symbolic_trace(root: Module | Callable[..., Any],
                   concrete_args: dict[str, Any] | None = None) -> GraphModule:
    """A module or function as a `GraphModule`, found by running it on proxies.

    Args:
        concrete_args: {parameter: value} to trace with, which removes control flow that depends on
            it; `PH` inside nested values stays an argument.

    Raises:
        TraceError: the program depends on values.

    >>> import ftorch as torch
    >>> traced = torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1)
    >>> print(traced.code.strip())
    def forward(self, x):
        relu = torch.relu(x);  x = None
        add = relu + 1;  relu = None
        return add
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)


__all__ = [
    "PH", "ProxyableClassMeta", "Tracer", "is_fx_symbolic_tracing", "is_fx_tracing",
    "symbolic_trace", "wrap",
]


def __getattr__(name: str):
    if name == "ScriptObject":
        from .._quantized._tensor import ScriptObject

        return ScriptObject
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
