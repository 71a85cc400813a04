"""Frontend errors: what is raised for functions that TorchScript does not know (``torch.jit.frontend``), and their defaults."""

from __future__ import annotations

import inspect

from .torchscript.frontend.context import FrontendError, NotSupportedError, UnsupportedNodeError

__all__ = ["FrontendError", "NotSupportedError", "UnsupportedNodeError", "get_default_args", "get_default_args_for_class",
           "is_reserved_name"]


def is_reserved_name(name: str) -> bool:
    """Whether programs may not use a name.

    >>> from ftorch.jit.frontend import is_reserved_name
    >>> is_reserved_name("print"), is_reserved_name("x")
    (True, False)
    """
    return name.startswith("__jit") or name == "print"


def get_default_args(fn) -> dict:
    """The defaults of a function's arguments, by name.

    >>> from ftorch.jit.frontend import get_default_args
    >>> get_default_args(lambda x, y=2: x)
    {'y': 2}
    """
    if fn is None:
        return {}
    parameters = inspect.signature(fn).parameters.items()
    return {name: parameter.default for name, parameter in parameters if parameter.default is not inspect.Parameter.empty}


def get_default_args_for_class(cls: type) -> dict[str, dict]:
    """`get_default_args` of all methods of a class, by name."""
    methods = inspect.getmembers(cls, predicate=lambda m: inspect.ismethod(m) or inspect.isfunction(m))
    return {name: get_default_args(method) for name, method in methods}
