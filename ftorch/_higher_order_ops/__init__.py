"""Operators that take functions (``torch._higher_order_ops``), and their form in graphs.

In a graph the functions are graphs of their own, and every tensor that they use is an operand:
``torch.ops.higher_order.cond(pred, true_graph_0, false_graph_0, (x, weight))``.
"""

from __future__ import annotations

import ftorch as torch

from .._ops import REGISTERED, ops
from .associative_scan import associative_scan
from .cond import cond
from .map import map
from .scan import scan
from .while_loop import while_loop

__all__ = ["associative_scan", "cond", "map", "scan", "while_loop"]


class HigherOrderOperator:
    """An op of ``torch.ops.higher_order``: it calls graphs, which are among its arguments.

    >>> import ftorch as torch
    >>> torch.ops.higher_order.cond(torch.tensor(True), torch.sin, torch.cos, (torch.zeros(1),))
    (tensor([0.]),)
    """

    namespace = "higher_order"

    def __init__(self, function):
        self.__name__ = self._name = function.__name__
        self.__doc__ = function.__doc__
        self.__module__ = "torch.ops.higher_order"
        self._function = function

    def __call__(self, /, *args, **kwargs):
        return self._function(*args, **kwargs)

    def name(self):
        """The name."""
        return self._name

    def __str__(self):
        return self._name

    def __repr__(self):
        return f"<HigherOrderOperator '{self._name}'>"

    def __deepcopy__(self, memo=None):
        return self

    def __reduce__(self):
        return _find, (self._name,)


def _find(name):
    return getattr(ops.higher_order, name)


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
