"""Constructors that errors call by the class's own name, where a private base has them for several classes."""

from __future__ import annotations

from collections.abc import Iterable
from types import FunctionType


def own_constructors(classes: Iterable[object], shared: tuple[str, ...] = ()) -> None:
    """Gives public classes a constructor of their own where theirs is of a class that is not among them.

    ``Conv2d()`` then says what is missing of ``Conv2d.__init__()``, and users' subclasses say so, too.

    Args:
        classes: the public classes of a package; what is no class is passed over.
        shared: names of private classes whose constructors are inherited in PyTorch, too.
    """
    public = [c for c in classes if isinstance(c, type)]
    for cls in public:
        owner = next(base for base in cls.__mro__ if "__init__" in base.__dict__)
        init = owner.__dict__["__init__"]
        if owner in public or owner.__name__ in shared or not isinstance(init, FunctionType):
            continue
        made = FunctionType(init.__code__, init.__globals__, init.__name__, init.__defaults__, init.__closure__)
        made.__kwdefaults__, made.__doc__, made.__dict__ = init.__kwdefaults__, init.__doc__, dict(init.__dict__)
        made.__annotations__, made.__module__ = init.__annotations__, cls.__module__
        made.__qualname__ = f"{cls.__qualname__}.__init__"
        cls.__init__ = made
