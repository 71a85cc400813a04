"""Functions that draw random numbers, as the overloads of ATen that graphs show: what passes over graphs look for."""

from __future__ import annotations

from ... import _ops
from ...eager.core.device import resolve
from ...eager.core.dtype import get_default_dtype, int64
from ...eager.tensor import TensorBase

_LIKE = frozenset(("rand_like", "randn_like", "randint_like"))


def overload_of(name, args, kwargs):
    """(overload, its arguments, its keywords) of a call of a function of `ftorch.eager.functions.random`; None of others.

    Args:
        name: the function's.
        args, kwargs: what it is called with, which is not always what the user wrote (`_new`).
    """
    aten = _ops.ops.aten
    given = {key: value for key, value in kwargs.items() if value is not None and value is not False}
    if name in _LIKE and "generator" not in given:
        bounds = [given.pop(key) for key in ("low", "high") if key in given]
        shown = (*args, *bounds)
        overload = "low_dtype" if name == "randint_like" and len(shown) == 3 else "default"
        return getattr(getattr(aten, name), overload), shown, {**given, "pin_memory": False}
    if name == "_new":
        return _created(aten, args, given)
    if name == "_normal_by_element" and args[2] is None:
        kinds = ["Tensor" if isinstance(value, TensorBase) else "float" for value in args[:2]]
        return getattr(aten.normal, "_".join(kinds)), args[:2], {}
    if name == "_bernoulli_by_element" and args[1] is None:
        return aten.bernoulli.default, args[:1], {}
    if name == "_by_element" and args[2] is None:
        packet = getattr(aten, args[0], None)
        return None if packet is None else (packet.default, args[3:], {})
    if name == "multinomial" and not {"generator", "out"} & set(given):
        return aten.multinomial.default, (*args, *given.values()), {}
    if name == "_poisson_by_element" and args[1] is None:
        return aten.poisson.default, args[:1], {}
    return None


# Of methods that fill their tensor, what numbers are where none are given.
_DEFAULTS = {
    "uniform_": (0, 1), "normal_": (0, 1), "exponential_": (1,), "cauchy_": (0, 1), "log_normal_": (1, 2), "bernoulli_": (0.5,),
}


def filling(name, args, kwargs):
    """The same of a method that fills its tensor; None where a generator is given."""
    given = {key: value for key, value in kwargs.items() if value is not None}
    packet = getattr(_ops.ops.aten, name, None)
    if packet is None or {"generator", "from", "p"} & set(given):
        return None
    if name == "random_":  # `aten.random_.from` cannot be written in Python (PyTorch's graphs with it fail)
        return None if len(args) == 3 else (getattr(packet, ("default", "to")[len(args) - 1]), args, given)
    numbers, defaults = list(args[1:]), _DEFAULTS.get(name, ())
    overload = packet.default
    if name == "bernoulli_":
        overload = packet.Tensor if any(isinstance(a, TensorBase) for a in numbers) else packet.float
    while 0 < len(numbers) <= len(defaults) and not isinstance(numbers[-1], TensorBase) and (
        numbers[-1] == defaults[len(numbers) - 1]
    ):
        numbers.pop()
    return overload, (args[0], *(float(a) if isinstance(a, int) else a for a in numbers)), given


def _created(aten, args, given):
    name, shape, _, numbers = args
    if {"generator", "out", "layout", "requires_grad"} & set(given):
        return None
    options = {key: given[key] for key in ("dtype", "device") if key in given}
    if options.get("dtype") is get_default_dtype() and name != "randint":
        del options["dtype"]
    options = {**options, "device": resolve(options.get("device")), "pin_memory": False}
    size = list(shape)
    if name in ("rand", "randn"):
        return getattr(aten, name).default, (size,), options
    if name == "randint":
        low, high = numbers
        return (aten.randint.default, (high, size), options) if low == 0 else (aten.randint.low, (low, high, size), options)
    if name == "normal":
        return aten.normal.float_float, (*numbers, size), options
    if name == "randperm":
        if options.get("dtype") is int64:
            del options["dtype"]
        return aten.randperm.default, (shape[0],), options
    return None
