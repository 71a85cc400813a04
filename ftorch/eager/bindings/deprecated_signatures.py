"""Signatures from before ``alpha``, ``beta`` and ``value`` were keywords: ``x.add_(2, y)``, ``torch.addmm(2, x, 3, a, b)``.

They are asked after a call has fitted no other; PyTorch warns of the first such call of a process.
"""

from __future__ import annotations

import numpy as np

from ..core import api
from ..core.user_warnings import warn_once
from ..tensor import TensorBase

_NUMBERS = frozenset({"alpha", "beta", "value"})
_FORMS = {
    "add sub": ["self alpha other"],
    "addcdiv addcmul": ["self value tensor1 tensor2"],
    "addmm sspaddmm": ["beta self alpha mat1 mat2", "beta self mat1 mat2"],
    "addbmm baddbmm": ["beta self alpha batch1 batch2", "beta self batch1 batch2"],
    "addmv": ["beta self alpha mat vec", "beta self mat vec"],
    "addr": ["beta self alpha vec1 vec2", "beta self vec1 vec2"],
}
_ORDERS = {name: [form.split() for form in forms] for names, forms in _FORMS.items() for name in names.split()}
NAMES = frozenset(_ORDERS) | {f"{name}_" for name in _ORDERS}


def call(name: str, form: str, args, kwargs, signatures):
    """Makes a call that one of the older signatures fits; NotImplemented if none does.

    Args:
        name: the public name, ``"add_"``.
        form: "function", "method" or "inplace".
        signatures: gives the texts of those that PyTorch wants instead.
    """
    found = _found(name, form, args, kwargs)
    if found is None:
        return NotImplemented
    names, given, is_method = found
    out = {"out": kwargs["out"]} if "out" in kwargs else {}
    tensors = [given[n] for n in names if n not in _NUMBERS]
    numbers = {n: given[n] for n in names if n in _NUMBERS}
    _warn(name, names[1:] if is_method else names, form, signatures())
    if form == "function":
        return getattr(api, name)(*tensors, **numbers, **out)
    return getattr(tensors[0], name)(*tensors[1:], **numbers)


def fits(name: str, form: str, args, kwargs) -> bool:
    """Whether one of the older signatures fits a call."""
    return name in NAMES and _found(name, form, args, kwargs) is not None


def _found(name, form, args, kwargs):
    """(the names in their order, {name: value}, whether the tensor is the first argument) of a call, or None."""
    is_method = form in ("method", "inplace") and bool(args) and isinstance(args[0], TensorBase)
    for order in _ORDERS[name.removesuffix("_")]:
        names = ["self", *(n for n in order if n != "self")] if is_method else order
        given = _given(names, args, kwargs)
        if given is not None:
            return names, given, is_method
    return None


def _given(names, args, kwargs):
    """{name: value} of a call, or None where it does not fit."""
    given = dict(zip(names, args))
    for name, value in kwargs.items():
        name = "self" if name == "input" else name
        if name == "out":
            continue
        if name not in names or name in given:
            return None
        given[name] = value
    if len(args) > len(names) or len(given) != len(names):
        return None
    return given if all(_fits(name, value) for name, value in given.items()) else None


def _fits(name, value):
    if name in _NUMBERS:
        return isinstance(value, (int, float, complex, np.number, np.bool_)) or (
            isinstance(value, TensorBase) and not value._ftorch_geometry.shape and not value.requires_grad
        )
    # `torch.add` and `sub` take numbers for tensors.
    return isinstance(value, TensorBase) or (name == "other" and isinstance(value, (int, float, complex, np.number)))


def _warn(name, names, form, signatures):
    shown = ", ".join(
        f"Number {n}" if n in _NUMBERS else f"Tensor {'input' if n == 'self' else n}" for n in names
    )
    shown += ", *, Tensor out = None" if form == "function" else ""
    instead = "".join(f"\n\t{name}{text}" for text in signatures)
    warn_once(
        f"This overload of {name} is deprecated:\n\t{name}({shown})\nConsider using one of the following signatures "
        f"instead:{instead}", key="an overload is deprecated",
    )
