"""What a process keeps of TorchScript: whether it compiles at all, and the functions and classes that it has compiled."""

from __future__ import annotations

import os
import weakref

__all__ = ["EnabledProxy", "compiled_classes", "compiled_function", "compiling", "functions", "keep_class", "keep_function",
           "python_classes", "qualified_names"]

_SETTINGS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
_TOLD = {"1v": True, "0v": False}


class EnabledProxy:
    """Whether ``script`` and ``trace`` compile; without, they give back what they get.

    Attributes:
        enabled: may be set.

    >>> import ftorch as torch
    >>> bool(torch.jit._state.EnabledProxy())
    True
    """

    def __init__(self) -> None:
        self.enabled = self.parse_env("PYTORCH_JIT", True, "> Using PyTorch JIT", "> PyTorch JIT DISABLED")

    def parse_env(self, name, default, true_message, false_message):
        """What a variable of the environment says: 1, 0, or 1v and 0v, which tell so.

        Raises:
            ValueError: for anything else.
        """
        value = os.environ.get(name)
        if value is None:
            return default
        if value.lower() in _SETTINGS:
            return _SETTINGS[value.lower()]
        if value not in _TOLD:
            raise ValueError(f"Unknown setting of {name}. Try using 0 or 1.")
        print(true_message if _TOLD[value] else false_message)
        return _TOLD[value]

    def __bool__(self) -> bool:
        return self.enabled


compiling = EnabledProxy()
compiled_classes: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # Python's class -> `ClassType`
python_classes: weakref.WeakValueDictionary = weakref.WeakValueDictionary()  # qualified name -> Python's class
functions: weakref.WeakValueDictionary = weakref.WeakValueDictionary()  # qualified name -> `ScriptFunction`
qualified_names: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # Python's function -> its `ScriptFunction`'s name
_mangled = [0]


def keep_class(python: type, compiled) -> None:
    """Notes what a class was compiled to."""
    compiled_classes[python] = compiled
    python_classes[compiled.name] = python


def keep_function(compiled, name: str) -> None:
    """Gives a compiled function its name among all, another one than those of the same text, and notes it."""
    path, _, last = name.rpartition(".")
    while name in functions:
        name = f"{path}.___torch_mangle_{_mangled[0]}.{last}"
        _mangled[0] += 1
    compiled._qualified = name
    functions[name] = compiled


def compiled_function(python):
    """What a Python function was compiled to, or None."""
    if getattr(python, "__disable_jit_function_caching__", False) is True:
        return None
    name = qualified_names.get(python)
    return functions.get(name) if name else None
