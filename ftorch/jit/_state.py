"""What a process keeps of TorchScript, under PyTorch's private names (``torch.jit._state``).

Functions and classes are kept as long as somebody else refers to them.
"""

from __future__ import annotations

from typing import Any

from .torchscript.frontend.script import CompilationUnit
from .torchscript.program import registered as _registered
from .torchscript.program.modules import ScriptFunction
from .torchscript.program.registered import EnabledProxy
from .torchscript.program.registered import compiled_function as _try_get_jit_cached_function

__all__ = ["EnabledProxy", "_try_get_jit_cached_function", "disable", "enable"]

_enabled = _registered.compiling
_script_classes = _registered.compiled_classes
_name_to_pyclass = _registered.python_classes
_jit_caching_layer = _registered.qualified_names
_jit_function_overload_caching: Any = type(_jit_caching_layer)()

_python_cu = CompilationUnit()  # all functions that were compiled of Python's
_python_cu._functions = _registered.functions


def disable() -> None:
    """``script`` and ``trace`` give back what they get from now on."""
    _enabled.enabled = False


def enable() -> None:
    """``script`` and ``trace`` compile from now on, as they do at first."""
    _enabled.enabled = True


def _add_script_class(python_class, script_class) -> None:
    """Notes what a class was compiled to."""
    _script_classes[python_class] = script_class
    _name_to_pyclass[script_class.qualified_name()] = python_class


def _get_script_class(python_class):
    """What a class (or the one in whose place it stands) was compiled to, or None.

    >>> import ftorch as torch
    >>> print(torch.jit._state._get_script_class(int))
    None
    """
    override = getattr(python_class, "_jit_override_qualname", None)
    if override is not None:
        python_class = _get_python_class(override)
    return None if python_class is None else _script_classes.get(python_class)


def _get_python_class(qualified_name):
    """The class that was compiled to one of a name, or None."""
    return _name_to_pyclass.get(qualified_name)


def _clear_class_state() -> None:
    """Forgets all classes, which are compiled anew where they are met again."""
    _script_classes.clear()
    _name_to_pyclass.clear()


def _set_jit_function_cache(key, value) -> None:
    """Notes what a function was compiled to.

    Raises:
        AssertionError: ``value`` is no `ScriptFunction`.
    """
    if not isinstance(value, ScriptFunction):
        raise AssertionError(f"Expected ScriptFunction, got {type(value)}")  # noqa: TRY004
    _jit_caching_layer[key] = value.qualified_name


def _try_get_jit_cached_overloads(key):
    """What the overloads of a function were compiled to, or None."""
    names = _jit_function_overload_caching.get(key)
    return [_python_cu.find_function(name) for name in names] if names else None


def _set_jit_overload_cache(key, compiled_fns) -> None:
    """Notes what the overloads of a function were compiled to."""
    _jit_function_overload_caching[key] = [fn.qualified_name for fn in compiled_fns]
