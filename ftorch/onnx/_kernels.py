"""Ops without a translation of their own: what their kernels compute, primitive by primitive."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np

from ..eager.call.op import to_numpy
from ..eager.core.jax_scope import scope
from ..eager.tensor import TensorBase
from ..export import export as export_program
from ..export._stablehlo import jax_function
from ..fx.node import Node, map_aggregate
from ..nn import Module
from . import _primitives_index  # noqa: F401  (fills the table of rules)
from ._builder import is_static
from ._primitives import NoForm, run, value
from .errors import UnsupportedOperatorError


class _Call(Module):
    """One call of an op; the nodes among its arguments are inputs."""

    def __init__(self, node, inputs):
        super().__init__()
        self.target, self.arguments = node.target, (tuple(node.args), dict(node.kwargs))
        self.inputs = inputs

    def forward(self, *values):
        given = dict(zip(self.inputs, values))
        args, kwargs = map_aggregate(
            self.arguments, lambda v: given[v] if isinstance(v, Node) else v
        )
        return self.target(*args, **dict(kwargs))


def translated(g, node, values):
    """The results of a node.

    Args:
        g: the builder.
        values: {node: value} of what has been translated.

    Raises:
        UnsupportedOperatorError: a size is not known, or a primitive has no ONNX form.
    """
    inputs = node.all_input_nodes
    if not inputs:
        made = node.target(*node.args, **node.kwargs)
        return value(g, to_numpy(made)) if isinstance(made, TensorBase) else made
    vals = [n.meta.get("val") for n in inputs]
    if not all(hasattr(v, "shape") for v in vals):
        raise UnsupportedOperatorError(node.target, node, " of sizes that vary")
    varies = not all(is_static(n) for v in vals for n in v.shape)
    try:
        jaxpr = _program(node, inputs, _SIZES[0])
        if varies and _text(jaxpr) != _text(_program(node, inputs, _SIZES[1])):
            raise NoForm("numbers that follow from sizes")
        g.any_size = varies
        results = run(g, jaxpr.jaxpr, jaxpr.consts, [values[n] for n in inputs])
    except Exception as error:  # noqa: BLE001  (kernels say in many ways that values are asked for)
        kind = " of sizes that vary" if varies else ""
        raise UnsupportedOperatorError(node.target, node, kind) from error
    finally:
        g.any_size = False
    val = node.meta["val"]
    shown = val if isinstance(val, (tuple, list)) else (val,)
    results = [
        dataclasses.replace(value(g, r), shape=tuple(v.shape)) for r, v in zip(results, shown)
    ]
    return results if isinstance(val, (tuple, list)) else results[0]


_SIZES = ((7, 4), (11, 3))  # first and further sizes of symbols, at which kernels are looked at


def _program(node, inputs, sizes):
    """What a call computes, in JAX's primitives, at some sizes.

    Raises:
        NoForm: it draws random numbers.
    """
    from ..eager.core import api

    symbols: dict[str, int] = {}

    def size(n):
        if is_static(n):
            return n
        for symbol in sorted(n.expr.free_symbols):
            symbols.setdefault(symbol, sizes[0] + sizes[1] * len(symbols))
        return int(n.expr.evaluate(symbols))

    examples = tuple(
        api.zeros([size(n) for n in node.meta["val"].shape], dtype=node.meta["val"].dtype)
        for node in inputs
    )
    program = export_program(_Call(node, inputs), examples)
    function, args, kwargs = jax_function(program)
    if kwargs:
        raise NoForm("random numbers")
    with scope():
        return jax.make_jaxpr(function)(*args)


def _text(jaxpr) -> list:
    """The primitives of a program with the numbers among their operands and constants."""
    literal = jax.extend.core.Literal
    found: list = [str(np.unique(np.asarray(c))) for c in jaxpr.consts]
    for eqn in jaxpr.jaxpr.eqns:
        numbers = [v.val if isinstance(v, literal) else None for v in eqn.invars]
        inner = [_text(p) for p in eqn.params.values() if hasattr(p, "jaxpr")]
        found.append((eqn.primitive.name, str(numbers), inner))
    return found


__all__ = ["translated"]
