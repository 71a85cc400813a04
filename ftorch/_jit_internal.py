"""Marks on functions and types of scripts, under PyTorch's private name (``torch._jit_internal``)."""

from __future__ import annotations

import enum
import inspect
from collections import OrderedDict
from collections.abc import Callable
from typing import (  # noqa: F401, UP035
    Any,
    Dict,
    Final,
    List,
    Optional,
    Tuple,
    Union,
    get_args,
    get_origin,
)

from .eager.native.contexts import contextmanager
from .futures import Future  # noqa: F401
from .jit import export, ignore, is_scripting, unused  # noqa: F401
from .jit import isinstance as _isinstance  # noqa: F401


class BroadcastingListCls:
    """The types ``BroadcastingList1[int]`` of annotations: a list, or a number for all of it."""

    def __getitem__(self, types):
        return


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = BroadcastingListCls()
BroadcastingList4 = BroadcastingList5 = BroadcastingList6 = BroadcastingList1


class FunctionModifiers:
    """The values of a function's mark ``_torchscript_modifier``."""

    UNUSED = "unused (ignored and replaced with raising of an exception)"
    IGNORE = "ignore (leave as a call to Python, cannot be torch.jit.save'd)"
    EXPORT = "export (compile this function even if nothing calls it)"
    DEFAULT = "default (compile if called from a exported function / forward)"
    COPY_TO_SCRIPT_WRAPPER = (
        "if this method is not scripted, copy the python method onto the scripted model"
    )
    _DROP = "_drop (function is fully ignored, declaration can be unscriptable)"


def _copy_to_script_wrapper(fn):
    """Marks a method that a scripted module has as the Python function that it is."""
    fn._torchscript_modifier = FunctionModifiers.COPY_TO_SCRIPT_WRAPPER
    return fn


def _drop(fn):
    """Marks a function that scripting leaves out whole."""
    fn._torchscript_modifier = FunctionModifiers._DROP
    return unused(fn)


def get_torchscript_modifier(fn):
    """A function's mark (of a method: its function's)."""
    fn = getattr(fn, "__func__", fn)
    return getattr(fn, "_torchscript_modifier", FunctionModifiers.DEFAULT)


def copy_torchscript_modifier(orig, new) -> None:
    """Gives a function another one's mark."""
    modifier = getattr(orig, "_torchscript_modifier", None)
    if modifier is not None:
        new._torchscript_modifier = modifier


boolean_dispatched: dict[Callable, dict[str, Any]] = {}


def boolean_dispatch(arg_name, arg_index, default, if_true, if_false, module_name, func_name):
    """A function that calls one of two, as one of its arguments, a boolean, says."""

    def fn(*args, **kwargs):
        if arg_name in kwargs:
            chosen = kwargs[arg_name]
        else:
            chosen = args[arg_index] if arg_index < len(args) else default
        return (if_true if chosen else if_false)(*args, **kwargs)

    fn.__doc__ = if_true.__doc__ or if_false.__doc__
    if module_name is not None:
        fn.__module__ = module_name
    if func_name is not None:
        fn.__name__ = func_name
    boolean_dispatched[fn] = {
        "if_true": if_true, "if_false": if_false, "index": arg_index, "default": default,
        "arg_name": arg_name,
    }
    return fn


_overloaded_fns: dict[str, list[Callable]] = {}
_overloaded_methods: dict[str, dict[str, list[Callable]]] = {}


def _overload(func):
    """Declares a signature of a function that is defined for several."""
    _overloaded_fns.setdefault(_qualified_name(func), []).append(func)
    return func


def _get_fn_overloads(qual_name):
    return _overloaded_fns.get(qual_name)


def _clear_fn_overloads(qual_name) -> None:
    del _overloaded_fns[qual_name]


def _overload_method(func):
    """Declares a signature of a method that is defined for several."""
    name = _qualified_name(func)
    _overloaded_methods.setdefault(name, {}).setdefault(func.__module__, []).append(func)
    return func


def _qualified_name(obj, mangle_name=True) -> str:
    """A function's or class's full name in scripts; ``__main__`` is written ``__torch__``.

    Raises:
        RuntimeError: the object has no name, or is a local one.
    """
    if hasattr(obj, "_jit_override_qualname"):
        return obj._jit_override_qualname
    if isinstance(obj, enum.EnumMeta) or inspect.isclass(obj) or hasattr(obj, "__name__"):
        name = obj.__name__
    else:
        raise RuntimeError(f"Could not get name of python class {obj!r}")
    if name == "<lambda>":
        name = "_lambda"
    module = getattr(obj, "__module__", None)
    if module is None:
        raise RuntimeError(f"Could not get qualified name for class '{name}': __module__ can't be None.")
    if "." in name:
        raise RuntimeError(f"Could not get qualified name for class '{name}': '{name}' is not a valid identifier")
    module = "__torch__" if module == "__main__" else f"__torch__.{module}" if mangle_name else module
    return f"{module}.{name}"


def is_tuple(ann) -> bool:
    """Whether an annotation is of a tuple.

    Raises:
        RuntimeError: it does not say of what.
    """
    if ann is tuple:
        raise_error_container_parameter_missing("Tuple")
    return get_origin(ann) is tuple


def is_list(ann) -> bool:
    """Whether an annotation is of a list."""
    if ann is list:
        raise_error_container_parameter_missing("List")
    return get_origin(ann) is list


def is_dict(ann) -> bool:
    """Whether an annotation is of a dict."""
    if ann is dict:
        raise_error_container_parameter_missing("Dict")
    return get_origin(ann) is dict


def is_optional(ann) -> bool:
    """Whether an annotation allows None beside one type."""
    import types

    if get_origin(ann) not in (Union, types.UnionType):
        return False
    kinds = get_args(ann)
    return len(kinds) == 2 and type(None) in kinds


def is_final(ann) -> bool:
    """Whether an annotation says ``Final``."""
    return ann is Final or get_origin(ann) is Final


def raise_error_container_parameter_missing(target_type) -> None:
    """Raises the error for a container's annotation that does not say of what."""
    example = "Dict[int, int]" if target_type == "Dict" else f"{target_type}[int]"
    raise RuntimeError(
        f"Attempted to use {target_type} without a contained type. Please add a contained type, e.g. {example}"
    )


def get_callable_argument_names(fn) -> list[str]:
    """The names of the arguments that may be given by position."""
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.kind == p.POSITIONAL_OR_KEYWORD]


class _TensorExtractor:
    def __init__(self):
        self.tensors: list = []

    def visit(self, obj):
        from .eager.tensor import Tensor

        if isinstance(obj, Tensor):
            self.tensors.append(obj)
        elif isinstance(obj, (dict, OrderedDict)):
            for value in obj.values():
                self.visit(value)
        elif isinstance(obj, (list, tuple, set)):
            for value in obj:
                self.visit(value)


def _extract_tensors(obj) -> list:
    """The tensors in nested containers."""
    extractor = _TensorExtractor()
    extractor.visit(obj)
    return extractor.tensors


@contextmanager
def _disable_emit_hooks():
    """Does nothing: there are no hooks of emitting."""
    yield
