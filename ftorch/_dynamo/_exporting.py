"""``torch._dynamo.export``: the older form of ``torch.export``, for functions, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..eager.tensor import TensorBase
from ..export import Dim
from ..export import export as _export
from ..export.dynamic_shapes import combined_args
from ..fx.graph_module import GraphModule
from ..nn import Module
from ..utils import _pytree as pytree


class ExportResult(NamedTuple):
    """What `export` gives: the graph, and in words what it asks of its arguments."""

    graph_module: GraphModule
    guards: list


class _Function(Module):
    """A function as a module, with the signature that it has."""

    def __init__(self, function):
        super().__init__()
        owner = getattr(function, "__self__", None)
        if isinstance(owner, Module):
            self.owner = owner
        object.__setattr__(self, "forward", function)


def _automatic(module, args, kwargs):
    """``dynamic_shapes`` for `ftorch.export.export`: every size that may differ does."""

    def sizes(value):
        return pytree.tree_map(
            lambda v: {d: Dim.AUTO for d, n in enumerate(v.shape) if n > 1} if isinstance(v, TensorBase) else None, value)

    return {name: sizes(value) for name, value in combined_args(module, args, kwargs).items()}


def export(f: Callable[..., Any], *extra_args, aten_graph=False, pre_dispatch=False, decomposition_table=None,
           tracing_mode="symbolic", dynamic_shapes=None, specialize_float=True, assume_static_by_default=False,
           same_signature=True, disable_constraint_solver=False, prefer_deferred_runtime_asserts_over_guards=False,
           _log_export_usage=True, constraints=None, **extra_kwargs):
    """A function of example arguments that gives what ``f`` computes of them as a graph.

    The graph is of ATen's operators, whether ``aten_graph`` asks for them or not. It takes other sizes than the
    example's where the computation does; a call of one that it is not for raises.

    Args:
        f: a module or a function.
        decomposition_table: what operators are made of; with ``aten_graph`` only.
        dynamic_shapes: see `ftorch.export.export`; by default every size may differ.
        assume_static_by_default: no size differs that ``dynamic_shapes`` does not name.

    Returns:
        The function; its result has ``graph_module`` and ``guards``.

    Raises:
        AssertionError: a table or another way of tracing without ``aten_graph``.

    >>> import ftorch as torch
    >>> graph, guards = torch._dynamo.export(lambda x: x.sin() * 2)(torch.zeros(3))
    >>> graph(torch.zeros(2, ))
    tensor([0., 0.])
    """
    def inner(*args, **kwargs):
        if not aten_graph and (decomposition_table is not None or tracing_mode != "symbolic"):
            raise AssertionError(
                "Specifying a decomposition_table table or tracing mode is illegal without setting aten_graph=True")
        module = f if isinstance(f, Module) else _Function(f)
        shapes = dynamic_shapes
        if shapes is None and not assume_static_by_default:
            shapes = _automatic(module, args, kwargs)
        program = _export(module, args, kwargs, dynamic_shapes=shapes)
        guards = list(program._guards_code)
        if decomposition_table is not None:
            program = program.run_decompositions(decomposition_table)
        return ExportResult(program.module(), guards)

    return inner(*extra_args, **extra_kwargs) if extra_args or extra_kwargs else inner
