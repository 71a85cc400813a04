"""How the arguments of composites that are leaves of ATen's are shown to handlers, and the names of their overloads."""

from __future__ import annotations

from ..eager.tensor import TensorBase

SIZED = frozenset("ones zeros empty rand randn".split())
_NEW_SIZED = frozenset("new_zeros new_ones new_empty".split())
# Arguments that are not shown where they have these values.
_DEFAULTS: dict = {"bernoulli_": (0.5,), "normal_": (0.0, 1.0), "uniform_": (0, 1)}
# Parameters that are shown by position however they were given.
_PARAMETERS: dict = {
    "arange": ("start", "end", "step"),
    "eye": ("n", "m"),
    "randint": ("low", "high", "size"),
    "normal": ("mean", "std", "size"),
    "normal_": ("self", "mean", "std"),
    "bernoulli_": ("self", "p"),
    **dict.fromkeys(SIZED, ("size",)),
    **dict.fromkeys(_NEW_SIZED, ("self", "size")),
}
_BY_COUNT: dict = {
    "arange": {2: "start", 3: "start_step"},
    "eye": {2: "m"},
    "randint": {3: "low"},
    "random_": {2: "to", 3: "from"},
    "empty": {1: "memory_format"},
    "bernoulli_": {1: "float", 2: "float"},
    "bernoulli": {2: "p"},
    "randint_like": {3: "low_dtype"},
}


def _by_position(name, args, kwargs):
    """All arguments of parameters that a call may name, which are taken out of ``kwargs``."""
    parameters = _PARAMETERS[name]
    if kwargs.keys().isdisjoint(parameters):
        return args
    given, defaults = iter(args), dict(zip(parameters[1:], _DEFAULTS.get(name, ())))
    while parameters[-1] not in kwargs:
        parameters = parameters[:-1]
    found = [kwargs.pop(p) if p in kwargs else next(given, defaults.get(p)) for p in parameters]
    return *(v for v in found if v is not None), *given


def overload_name(name, args):
    """The name of ATen's overload for a composite's arguments."""
    if name == "bernoulli_" and any(isinstance(v, TensorBase) for v in args[1:]):
        return "Tensor"
    if name == "normal":
        kinds = ["Tensor" if isinstance(v, TensorBase) else "float" for v in args[:2]]
        return "_".join(kinds) if len(kinds) == 2 else "Tensor_float"
    return _BY_COUNT.get(name, {}).get(len(args), "default")


def shown(name, args, kwargs):
    """The positional arguments as ATen has them; those that are named in Python alone are taken out of ``kwargs``."""
    if name in _PARAMETERS:
        args = _by_position(name, args, kwargs)
    if name in SIZED:
        size = args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args
        args = (list(size),)
    elif name == "full" and args and isinstance(args[0], tuple):
        args = (list(args[0]), *args[1:])
    elif (name in _NEW_SIZED or name == "new_full") and len(args) > 1:
        if isinstance(args[1], (tuple, list)):
            args = (args[0], list(args[1]), *args[2:])
        elif name != "new_full":
            args = (args[0], list(args[1:]))
    elif (
        name in _DEFAULTS
        and not any(isinstance(v, TensorBase) for v in args[1:])
        and tuple(args[1:]) == _DEFAULTS[name]
    ):
        args = args[:1]
    return args
