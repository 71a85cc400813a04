"""Operators that take functions (``torch._higher_order_ops``), and their form in graphs.

In a graph the functions are graphs of their own, and every tensor that they use is an operand:
``torch.ops.higher_order.cond(pred, true_graph_0, false_graph_0, (x, weight))``.
"""

from __future__ import annotations

import ftorch as torch

from .._ops import REGISTERED, HigherOrderOperator
from .._submodules import on_demand as _on_demand
from .associative_scan import associative_scan
from .cond import cond
from .map import map
from .scan import scan
from .while_loop import while_loop

__getattr__ = _on_demand(globals(), "inline_asm_elementwise out_dtype")

__all__ = ["associative_scan", "cond", "map", "scan", "while_loop"]


def _operator(function):
    name = function.__name__ = function.__name__.strip("_")
    REGISTERED[f"higher_order::{name}"] = HigherOrderOperator(function)
    return function


@_operator
def _cond(predicate, true_graph, false_graph, operands=()):
    """One graph or the other."""
    out = cond(predicate, true_graph, false_graph, tuple(operands))
    return out if isinstance(out, (tuple, list)) else (out,)


@_operator
def _while_loop(condition, body, carried, additional=()):
    """A graph, as long as another says."""
    return while_loop(
        lambda *a: _single(condition(*a, *additional)), lambda *a: body(*a, *additional),
        tuple(carried),
    )


@_operator
def _scan(graph, init, xs, additional=()):
    """A graph over the slices of tensors: it is given what is carried and the slices, and gives the same and results."""
    count = len(init)

    def step(carry, x):
        out = graph(*carry, *x, *additional)
        return list(out[:count]), list(out[count:])

    carry, ys = scan(step, list(init), list(xs))
    return (*carry, *ys)


@_operator
def _associative_scan(graph, xs, additional=()):
    """The running results of a graph over two slices."""
    return tuple(associative_scan(lambda a, b: list(graph(*a, *b, *additional)), list(xs), 0))


@_operator
def _map_impl(graph, xs, additional=()):
    """A graph of each slice of tensors."""
    return tuple(map(lambda x: list(graph(*x, *additional)), list(xs)))


def _single(value):
    return value[0] if isinstance(value, (tuple, list)) else value


@_operator
def _wrap_with_set_grad_enabled(enabled, graph, *args):
    """A graph with gradients switched on or off."""
    with torch.set_grad_enabled(enabled):
        return graph(*args)


@_operator
def _wrap_with_autocast(device_type, dtype, enabled, cache_enabled, graph, *args):
    """A graph in mixed precision."""
    with torch.autocast(device_type, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled):
        return graph(*args)
