"""Programs as Python sees them: `ScriptModule`, `ScriptFunction` and their methods."""

from __future__ import annotations

import copy
import functools
import inspect
import sys
import weakref
from collections.abc import MutableMapping

from ...._alias import is_own
from ....eager.tensor import TensorBase
from ....nn import Module, Parameter
from ....nn.modules.container import ModuleDict, ModuleList, Sequential
from ...compiling import refuse
from ..tracing.recorder import Recorder
from ..tracing.scripted_calls import calling
from .casts import CastError, cast
from .objects import ClassType, Function, ScriptObject
from .registered import compiling
from .services import services
from .types import Attribute, infer

__all__ = ["RecursiveScriptModule", "ScriptFunction", "ScriptMethod", "ScriptModule",
           "TopLevelTracedModule", "TracedModule", "is_compiled", "wrap_module"]


class ScriptFunction:
    """A compiled function: what ``script`` and ``trace`` make of one.

    Attributes:
        code: its text; ``graph``: its operators; ``schema``: its signature.
    """

    def __init__(self, function: Function, original=None, name: str | None = None, is_traced=False):
        self._function = function
        self._original = original
        self._is_traced = is_traced
        self._qualified = ""
        self.name = name or function.name
        self.__name__ = self.name
        self.__doc__ = getattr(original, "__doc__", None)
        self.__module__ = getattr(original, "__module__", __name__)
        if original is not None:
            self.__wrapped__ = self._torchdynamo_inline = original

    @property
    def qualified_name(self) -> str:
        return self._qualified or f"__torch__.{self.name}"

    @property
    def code(self) -> str:
        """The text of the function."""
        return services.text_of(self._function)[0]

    @property
    def graph(self):
        """The function's operators, as a `Graph`."""
        return services.lower(self._function)

    @property
    def inlined_graph(self):
        """The graph with the functions it calls written out."""
        return services.lower(self._function, inlined=True)

    @property
    def schema(self):
        return self._function.schema

    def graph_for(self, *args, **kwargs):
        """The graph; it does not depend on the arguments."""
        return self.graph

    def __call__(self, *args, **kwargs):
        recorder = Recorder.current
        if recorder is not None:
            return calling(recorder, self._function, None, args, kwargs, self._function)
        return self._function(*args, **kwargs)

    def save(self, f, _extra_files=None) -> None:
        """Writes the function to a file (`ftorch.jit.save`)."""
        services.save(self, f, _extra_files)

    def save_to_buffer(self, _extra_files=None) -> bytes:
        """What `save` writes."""
        return _saved(self, _extra_files)

    def get_debug_state(self):
        """How often it was compiled."""
        return {"compiled": self._function._compiled is not None}

    def __repr__(self):
        return f"<torch.jit.ScriptFunction object at {id(self):#x}>"


class ConstantMap:
    """``c0``, ``c1``, ... of a program's constants."""

    def __init__(self, constants):
        self.const_mapping = {f"c{i}": c for i, c in enumerate(constants)}

    def __getattr__(self, name):
        if name in self.__dict__.get("const_mapping", ()):
            return self.const_mapping[name]
        raise AttributeError(name)


class ScriptMethod(ScriptFunction):
    """A method of a compiled module."""

    def __init__(self, function: Function, owner: ScriptObject):
        super().__init__(function)
        self._owner = owner

    @property
    def owner(self):
        return self._owner

    @property
    def code_with_constants(self):
        """(the text, the constants that it refers to)."""
        text, constants = services.text_of(self._function)
        return text, ConstantMap(constants)

    def __call__(self, *args, **kwargs):
        for value in (*args, *kwargs.values()):
            if hasattr(type(value), "__torch_function__") and not isinstance(value, TensorBase):  # fx records the call
                return type(value).__torch_function__(self, (type(value),), args, kwargs)
        recorder = Recorder.current
        if recorder is not None:
            run = functools.partial(self._function, self._owner)
            return calling(recorder, self._function, self._owner, args, kwargs, run)
        return self._function(self._owner, *args, **kwargs)


class _Table(MutableMapping):
    """The parameters, or the buffers, of a module: a part of its object's attributes."""

    def __init__(self, owner: ScriptObject, names):
        self._owner, self._names = owner, list(names)

    def __getitem__(self, name):
        if name not in self._names:
            raise KeyError(name)
        return self._owner.__dict__.get(name)

    def __setitem__(self, name, value):
        if name not in self._names:
            self._names.append(name)
        self._owner.__dict__[name] = value

    def __delitem__(self, name):
        self._names.remove(name)
        del self._owner.__dict__[name]

    def __iter__(self):
        return iter(tuple(self._names))

    def __len__(self):
        return len(self._names)

    def copy(self):
        """A dictionary of the entries."""
        return dict(self)


_ACTUAL = "_actual_script_module"  # PyTorch's name for it, too
_originals: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # a module -> what it was before it was compiled
_extended: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # a class with defined methods -> the one without


class _CompiledMethod:
    """A method of a class of `ScriptModule`: of a compiled instance, the compiled one."""

    def __init__(self, function):
        self.function = function
        functools.update_wrapper(self, function)

    def __get__(self, module, kind=None):
        if module is None:
            return self.function
        compiled = module.__dict__.get(_ACTUAL)
        bound = self.function.__get__(module, kind)
        return bound if compiled is None else compiled._compiled_method(self.function.__name__, bound)


class ScriptModule(Module):
    """The base of compiled modules. A subclass compiles itself at the end of its ``__init__``.

    From then on parameters, buffers, attributes and submodules are the program's: what reads or sets them reaches it.
    """

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if is_own(cls.__module__, "jit") and cls not in _extended and not cls.__name__ == "_Extended":
            return
        for name, value in list(vars(cls).items()):
            if inspect.isfunction(value) and getattr(value, "_torchscript_modifier", None) == "EXPORT":
                setattr(cls, name, _CompiledMethod(value))
        if "__init__" not in vars(cls) and cls.__name__ == "_Extended":
            return
        original = cls.__init__

        def __init__(self, *args, **kwargs):
            original(self, *args, **kwargs)
            if _extended.get(type(self), type(self)) is cls and compiling:
                self._compile()

        cls.__init__ = __init__  # type: ignore[method-assign]

    def _compile(self):
        state = self.__dict__
        if "_modules" not in state:
            kind = type(self)
            raise RuntimeError(
                f"'{kind.__module__}.{kind.__name__}' has not been initialized, did you forget to call 'super()'?"
            )
        compiled = services.script_module(self)
        _originals[self] = dict(state)
        for name in ("_parameters", "_buffers", "_modules", "training", *compiled._c._type.attributes):
            state.pop(name, None)
        state[_ACTUAL] = compiled

    def __getattr__(self, name):
        compiled = self.__dict__.get(_ACTUAL)
        return super().__getattr__(name) if compiled is None else getattr(compiled, name)

    def __setattr__(self, name, value):
        compiled = self.__dict__.get(_ACTUAL)
        if compiled is None and "_modules" not in self.__dict__ and not isinstance(value, (Module, Parameter)):
            object.__setattr__(self, name, value)
        elif compiled is None:
            if isinstance(value, Attribute):
                type(self).__annotations__ = {**vars(type(self)).get("__annotations__", {}), name: value.type}
                value = value.value
            super().__setattr__(name, value)
        else:
            setattr(compiled, name, value)

    def define(self, src: str) -> None:
        """Adds methods by their text, and compiles the module.

        >>> import ftorch as torch
        >>> module = torch.jit.ScriptModule()
        >>> module.define("def forward(self, x): return x + 1")
        >>> module(torch.ones(1))
        tensor([2.])
        """
        base = type(self)
        methods = services.functions_of_text(src, getattr(sys.modules.get(base.__module__), "__dict__", {}))
        made = type("_Extended", (base,), {"__module__": base.__module__, "__doc__": base.__doc__, **methods})
        made.__name__, made.__qualname__ = base.__name__, base.__qualname__
        if base is ScriptModule:
            made.__module__ = f"{__name__.partition('.')[0]}.jit._script"
        _extended[made] = _extended.get(base, base)
        object.__setattr__(self, "__class__", made)
        compiled = self.__dict__.pop(_ACTUAL, None)
        if compiled is None and base is not ScriptModule and _extended[made] is not ScriptModule:
            return  # ``__init__`` is still running: it is compiled at its end
        if compiled is not None:
            self.__dict__.update(_originals[self], _modules=dict(compiled._modules))
        self._compile()
        if compiled is not None:
            kept = self.__dict__[_ACTUAL]._c.__dict__
            kept.update((k, v) for k, v in compiled._c.__dict__.items() if not isinstance(v, ScriptObject))

    @property
    def code(self) -> str:
        """The text of ``forward``."""
        return self._script().code

    @property
    def graph(self):
        """The graph of ``forward``."""
        return self._script().graph

    def _script(self):
        compiled = self.__dict__.get(_ACTUAL)
        if compiled is None:
            raise RuntimeError("the module is not compiled yet")
        return compiled

    def save(self, f, _extra_files=None):
        """Writes the module to a file (`ftorch.jit.save`)."""
        self._script().save(f, _extra_files)


refuse(ScriptModule, "torch.compile does not support compiling torch.jit.script or torch.jit.freeze models directly.\n\n"
                     "Workaround: compile the module that they were made of.")


# Methods of modules that scripted ones refuse.
_UNSUPPORTED = tuple(name for name in (
    "bfloat16", "compile", "get_buffer", "get_parameter", "get_submodule", "ipu", "mtia", "register_backward_hook",
    "register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook",
    "register_full_backward_pre_hook", "register_load_state_dict_post_hook", "register_load_state_dict_pre_hook",
    "register_state_dict_post_hook", "register_state_dict_pre_hook", "requires_grad_", "set_submodule", "to_empty",
    "xpu",
) if hasattr(Module, name))


def _unsupported(name):
    def fail(self, *args, **kwargs):
        raise RuntimeError(f"{name} is not supported on ScriptModules")

    return fail


class RecursiveScriptModule(ScriptModule):
    """A module whose methods are a program's: what ``script`` and ``load`` give.

    Attributes:
        original_name: the name of the class that it was made from.
        code, graph, inlined_graph: of ``forward``.
    """

    _class_of_children: type | None = None

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        for name in _UNSUPPORTED:  # traced modules have them
            setattr(cls, name, getattr(Module, name))

    def __init__(self, data: ScriptObject):
        super().__init__()
        state = self.__dict__
        del state["training"], state["_is_full_backward_hook"]
        state["_c"] = data
        kind = data._type
        state["_parameters"] = _Table(data, [n for n in kind.parameters if n in data.__dict__])
        state["_buffers"] = _Table(data, [n for n in kind.buffers if n in data.__dict__])
        for name, value in data.__dict__.items():
            if isinstance(value, ScriptObject) and value._type.kind == "module":
                state["_modules"][name] = wrap_module(value, self._class_of_children)

    @property
    def original_name(self) -> str:
        return self._c._type.short_name

    @property
    def _type(self) -> ClassType:
        return self._c._type

    @property
    def training(self):  # type: ignore[override]
        return self._c.__dict__.get("training", True)

    @property
    def forward(self):  # type: ignore[override]
        return self._method("forward")

    @property
    def forward_magic_method(self):
        return self._method

    @property
    def code(self) -> str:
        return self.forward.code

    @property
    def code_with_constants(self):
        return self.forward.code_with_constants

    @property
    def graph(self):
        return self.forward.graph

    @property
    def inlined_graph(self):
        return self.forward.inlined_graph

    def graph_for(self, *args, **kwargs):
        """The graph of ``forward``."""
        return self.forward.graph_for(*args, **kwargs)

    def _compiled_method(self, name, otherwise):
        function = self._c._type.methods.get(name)
        return otherwise if function is None else ScriptMethod(function, self._c)

    def _method(self, name):
        function = self._c._type.methods.get(name)
        if function is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return ScriptMethod(function, self._c)

    def __call__(self, *args, **kwargs):
        kind = self._c._type
        if not kind.forward_pre_hooks and not kind.forward_hooks:
            return Module.__call__(self, *args, **kwargs)
        for name in kind.forward_pre_hooks:
            given = self._method(name)(args)
            if given is not None:
                args = given if isinstance(given, tuple) else (given,)
        result = Module.__call__(self, *args, **kwargs)
        for name in kind.forward_hooks:
            given = self._method(name)(args, result)
            result = result if given is None else given
        return result

    def __getattr__(self, name):
        data = self.__dict__.get("_c")
        if data is not None:
            if name in self.__dict__["_modules"]:
                return self.__dict__["_modules"][name]
            if name in data.__dict__:
                return data.__dict__[name]
            kind = data._type
            if name in kind.constants:
                return kind.constants[name]
            if name in kind.methods:
                return self._method(name)
            if name in kind.unit.python.get(kind.name, {}):  # type: ignore[operator]
                return kind.unit.python[kind.name][name].__get__(self)  # type: ignore[index]
            if name in kind.ignored:
                return kind.ignored[name].__get__(self)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name, value):
        data = self.__dict__.get("_c")
        if data is None or name in self.__dict__:
            object.__setattr__(self, name, value)
            return
        if name in data._type.constants:
            raise RuntimeError(
                f"Can't set constant '{name}' which has value:{data._type.constants[name]}"
            )
        modules = self.__dict__["_modules"]
        if name in modules or isinstance(value, Module):
            if not isinstance(value, RecursiveScriptModule):
                raise RuntimeError(
                    f"Cannot re-assign modules in a ScriptModule with non-scripted module, tried "
                    f"to replace existing module '{name}': {value}"
                )
            modules[name] = value
            data.__dict__[name] = value._c
        elif name in data.__dict__ or name in data._type.attributes:
            data.__dict__[name] = _fitting(name, value, data._type)
        else:
            object.__setattr__(self, name, value)

    def __dir__(self):
        return sorted({*super().__dir__(), *self._c.__dict__, *self._c._type.methods})

    def __copy__(self):
        return wrap_module(copy.copy(self._c))

    def __deepcopy__(self, memo):
        return wrap_module(copy.deepcopy(self._c, memo))

    def __getstate__(self):
        raise RuntimeError(
            f"Tried to serialize object {self._c._type.name} which does not have a __getstate__ method "
            "defined!"
        )

    def copy(self):
        """A module with the same attributes."""
        return self.__copy__()

    def save(self, f, _extra_files=None) -> None:
        """Writes the module to a file (`ftorch.jit.save`)."""
        services.save(self, f, _extra_files)

    def save_to_buffer(self, _extra_files=None) -> bytes:
        """What `save` writes."""
        return _saved(self, _extra_files)

    def _get_name(self):
        return type(self).__name__

    def extra_repr(self):
        return f"original_name={self.original_name}"

    def _container(self):
        return list(self._modules.values())

    def __iter__(self):
        names = self._c._type.short_name
        if names in ("ModuleDict", "ParameterDict"):
            return iter(list(self._modules))
        return iter(self._container())

    def __len__(self):
        if "__len__" in self._c._type.methods:
            return self._method("__len__")()
        if self.original_name in ("Sequential", "ModuleList", "ModuleDict"):
            return len(self._modules)
        raise NotImplementedError

    def __bool__(self):
        return True

    def __getitem__(self, index):
        if isinstance(index, str):
            return self._modules[index]
        if "__getitem__" in self._c._type.methods:
            return self._method("__getitem__")(index)
        if self.original_name not in ("Sequential", "ModuleList"):
            raise NotImplementedError
        if isinstance(index, int) and not -len(self._modules) <= index < len(self._modules):
            raise IndexError(f"index {index} is out of range")
        return self._container()[index]

    def __contains__(self, key):
        return key in self._modules


def _fitting(name, value, kind: ClassType):
    """A value as an attribute's type has it.

    Raises:
        RuntimeError: if it does not fit.
    """
    declared = kind.attributes.get(name)
    if declared is None:
        return value
    try:
        return cast(value, declared, kind.unit.instance)
    except CastError as error:
        raise RuntimeError(
            f"Could not cast attribute '{name}' to type {declared}: {error}"
        ) from None


for _name in _UNSUPPORTED:
    setattr(RecursiveScriptModule, _name, _unsupported(_name))


class TracedModule(RecursiveScriptModule):
    """A submodule of a traced module."""

    def _get_name(self):
        return self.original_name


TracedModule._class_of_children = TracedModule


class TopLevelTracedModule(TracedModule):
    """What ``trace`` makes of a module."""

    def extra_repr(self):
        return f"original_name={self.original_name}"


_CONTAINERS = (Sequential, ModuleList, ModuleDict)


def _saved(obj, extra):
    import io

    buffer = io.BytesIO()
    services.save(obj, buffer, extra)
    return buffer.getvalue()


def wrap_module(data: ScriptObject, kind=None) -> RecursiveScriptModule:
    """The module of an object of a program's class."""
    return (kind or RecursiveScriptModule)(data)


def is_compiled(module) -> bool:
    """Whether a module is a program's already."""
    return isinstance(module, ScriptModule) and hasattr(module, "_c")


def make_parameters(data: ScriptObject) -> None:
    """Makes `Parameter` of the tensors that a module's class calls parameters."""
    made: dict[int, Parameter] = {}

    def walk(obj):
        for name, value in obj.__dict__.items():
            if isinstance(value, ScriptObject):
                walk(value)
            elif isinstance(value, TensorBase) and name in obj._type.parameters:
                if not isinstance(value, Parameter):
                    obj.__dict__[name] = made.setdefault(
                        id(value), Parameter(value, value.requires_grad)
                    )

    walk(data)


def attribute_type(value):
    """The type of an attribute's value, or None."""
    return infer(value)
