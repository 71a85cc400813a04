"""Ops without a translation of their own: what their kernels compute, primitive by primitive."""

from __future__ import annotations

import jax

from ..eager.op import to_numpy
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
    from ..eager import api

    inputs = node.all_input_nodes
    if not inputs:
        made = node.target(*node.args, **node.kwargs)
        return value(g, to_numpy(made)) if isinstance(made, TensorBase) else made
    known = [getattr(n.meta.get("val"), "shape", None) for n in inputs]
    if any(shape is None or not all(map(is_static, shape)) for shape in known):
        raise UnsupportedOperatorError(node.target, node, " of sizes that vary")
    examples = tuple(api.zeros(n.meta["val"].shape, dtype=n.meta["val"].dtype) for n in inputs)
    try:
        program = export_program(_Call(node, inputs), examples)
        function, args, kwargs = jax_function(program)
        if kwargs:
            raise NoForm("random numbers")
        jaxpr = jax.make_jaxpr(function)(*args)
        results = run(g, jaxpr.jaxpr, jaxpr.consts, [values[n] for n in inputs])
    except Exception as error:  # noqa: BLE001  (kernels say in many ways that values are asked for)
        raise UnsupportedOperatorError(node.target, node) from error
    results = [value(g, r) for r in results]
    return results if isinstance(node.meta["val"], tuple) else results[0]


__all__ = ["translated"]
