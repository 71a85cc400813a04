"""What PyTorch calls the places that a function's inputs come from."""

from __future__ import annotations

from ..nn import Module
from ..utils import _pytree as pytree


def users_code(function):
    """(the code of a function, or of a module's ``forward``, or None; 1 if it takes ``self``, else 0)."""
    owner = getattr(function, "__self__", None)
    target = owner.forward if isinstance(owner, Module) else function
    code = getattr(getattr(target, "__func__", target), "__code__", None)
    return code, int(hasattr(target, "__func__"))


def argument_names(function, args, kwargs) -> list[str]:
    """PyTorch's names of the leaves of a call's arguments: ``L['x']``, ``L['args'][0]``."""
    code, skip = users_code(function)
    own = () if code is None else code.co_varnames[skip : code.co_argcount]
    rest = code.co_varnames[code.co_argcount + code.co_kwonlyargcount] if (
        code is not None and code.co_flags & 4
    ) else "args"
    names = []
    for i, value in enumerate(args):
        name = f"L['{own[i]}']" if i < len(own) else f"L['{rest}'][{i - len(own)}]"
        names += [name + pytree.keystr(path) for path, _ in pytree.tree_flatten_with_path(value)[0]]
    for key, value in kwargs.items():
        names += [f"L['{key}']{pytree.keystr(p)}" for p, _ in pytree.tree_flatten_with_path(value)[0]]
    return names
