"""How rules of the host tier are registered: one per JAX primitive, in NumPy.

A rule has two stages. ``make(params, inputs, outputs)`` runs once for all sizes: it may look at dtypes, ranks
and those parameters that do not depend on sizes, and gives ``run(*arrays, *sizes)``, which runs in every step.
Results may be views of operands, also read-only or with strides of zero; operands are never written to.

``run`` expects NumPy's floating-point warnings to be off (``numpy.errstate(all="ignore")``): its caller enters that
once for many steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np


class MissingRule(LookupError):
    """A primitive (or a form of one) without a rule: `ftorch.eager.host.interpret.xla_step` runs it."""


class Form(NamedTuple):
    """What the first stage knows of an array.

    Attributes:
        dtype: NumPy's.
        ndim: the number of dimensions.
    """

    dtype: np.dtype
    ndim: int


class Kind(Protocol):
    """Anything that says dtype and rank of an array: a `Form`, an abstract value, an array."""

    @property
    def dtype(self) -> Any: ...
    @property
    def ndim(self) -> int: ...


class Rule(NamedTuple):
    """A primitive's rule.

    Attributes:
        make: (params, inputs, outputs) -> run.
        sizes: names of the parameters that ``run`` is given behind the arrays, in order. ``out_shape`` stands
            for the shape of the first result, ``out_shapes`` for those of all.
        general: of a primitive that holds jaxprs, whose shapes are those of one call: the rule whose last size,
            ``bodies``, is a tuple of functions ``(*arrays) -> list or tuple of arrays`` in their places, in the
            order of `jaxprs_of`. So one ``run`` serves all sizes.
        dtypes: of the first operand, of a primitive of the package's that has a rule only for these; of others it is
            what it means.
    """

    make: Callable[..., Callable[..., Any]]
    sizes: tuple[str, ...]
    general: Rule | None = None
    dtypes: tuple[np.dtype, ...] | None = None


RULES: dict[str, Rule] = {}


IN_PLACE: dict[str, tuple[int, Callable[..., Any]]] = {}
"""Of primitives that change a part of an operand: (which operand, ``make(params, inputs, outputs)``), where ``make``
gives ``run(*arrays)`` that changes that operand itself, which may lie in memory in any way; or None."""


def rule(*primitives: str, sizes: tuple[str, ...] = ()):
    """Registers ``make`` for primitives, by their names in jaxprs."""

    def register(make):
        for name in primitives:
            RULES[name] = Rule(make, sizes)
        return make

    return register


def rule_of_bodies(primitive: str, sizes: tuple[str, ...] = ()):
    """Registers ``make`` of a rule that is given ``bodies``; by itself it runs the jaxprs of the parameters."""

    def register(make):
        def closed(params, inputs, outputs):
            from .interpret import body  # which finds rules

            run = make(params, inputs, outputs)
            bodies = tuple([body(jaxpr, True) for jaxpr in jaxprs_of(primitive, params)])
            return lambda *operands: run(*operands, bodies)

        RULES[primitive] = Rule(closed, sizes, Rule(make, (*sizes, "bodies")))
        return make

    return register


def find(primitive: str) -> Rule:
    """The rule of a primitive.

    Raises:
        MissingRule: if it has none.
    """
    found = RULES.get(primitive)
    if found is None:
        raise MissingRule(f"no rule for the primitive {primitive!r} on the host")
    return found


_JAXPRS = {
    "while": lambda params: (params["cond_jaxpr"], params["body_jaxpr"]),
    "scan": lambda params: (params["jaxpr"],),
    "cond": lambda params: tuple(params["branches"]),
    "custom_linear_solve": lambda params: (params["jaxprs"].solve,),
}


def jaxprs_of(primitive: str, params) -> tuple:
    """The jaxprs that a rule calls, in the order of ``bodies``."""
    return _JAXPRS[primitive](params)


def is_narrow(dtype) -> bool:
    """Whether a float has less than 32 bits: products and sums of many are accumulated in float32."""
    dtype = np.dtype(dtype)
    return dtype.itemsize < 4 and dtype.kind not in "biu" and not is_small_integer(dtype)


def is_small_integer(dtype) -> bool:
    """Whether a dtype is one of ml_dtypes' integers of less than eight bits."""
    return np.dtype(dtype).name in ("int2", "uint2", "int4", "uint4")


def is_integer(dtype) -> bool:
    return np.dtype(dtype).kind in "iu"


def is_extended(dtype) -> bool:
    """Whether a dtype is not NumPy's own: it has no buffers and few functions."""
    return np.dtype(dtype).kind == "V" or np.dtype(dtype).num >= 256
