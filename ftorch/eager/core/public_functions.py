"""Function objects: as in PyTorch builtins, which classes hold without binding them, or functions in Python.

A builtin (`bindings.publishing`) has a function in Python behind it, which takes any call, is known by its code where
overrides look for the call that is being made, and says what it was declared with.
"""

from __future__ import annotations

import types

_python: dict = {}  # a public function -> the one in Python behind it
_public: dict = {}  # the reverse


class Function:
    """A public function where there is no extension module to make it a builtin of: it does not bind, either."""

    def __init__(self, call, name, owner, doc, module):
        self._call, self._owner = call, owner
        self.__name__, self.__doc__, self.__module__ = name, doc, module
        self.__qualname__ = f"{owner.__qualname__}.{name}" if isinstance(owner, type) else name

    def __call__(self, /, *args, **kwargs):
        return self._call(*args, **kwargs)

    def __repr__(self):
        if isinstance(self._owner, type):
            return f"<built-in method {self.__name__} of type object at {id(self._owner):#x}>"
        return f"<built-in function {self.__name__}>"

    def __reduce__(self):
        return (getattr, (self._owner, self.__name__)) if isinstance(self._owner, type) else self.__name__

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self


KINDS: tuple[type, ...] = (types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType, Function)


def know(public, function) -> None:
    """Remembers the function in Python that stands behind a public one."""
    _python[public] = function
    _public.setdefault(function, public)


def python_of(value):
    """The function in Python behind a public one; any other value is given back."""
    return _python.get(value, value) if isinstance(value, KINDS) else value


def public_of(function):
    """The public function that one in Python stands behind; any other is given back."""
    return _public.get(function, function)


def is_function(value) -> bool:
    """Whether a value is a function in Python or a public one that has one behind it."""
    return isinstance(value, types.FunctionType) or isinstance(value, KINDS) and value in _python
