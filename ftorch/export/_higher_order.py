"""Ops of PyTorch's graphs that call other graphs."""

from __future__ import annotations

import ftorch as torch


def cond(predicate, true_graph, false_graph, operands=()):
    """One graph or the other."""
    out = torch.cond(predicate, true_graph, false_graph, tuple(operands))
    return out if isinstance(out, (tuple, list)) else (out,)


def while_loop(condition, body, carried, additional=()):
    """A graph, as long as another says."""
    return torch.while_loop(
        lambda *a: _single(condition(*a, *additional)), lambda *a: body(*a, *additional),
        tuple(carried),
    )  # fmt: skip


def _single(value):
    return value[0] if isinstance(value, (tuple, list)) else value


def wrap_with_set_grad_enabled(enabled, graph, *args):
    """A graph with gradients switched on or off."""
    with torch.set_grad_enabled(enabled):
        return graph(*args)


def wrap_with_autocast(device_type, dtype, enabled, cache_enabled, graph, *args):
    """A graph in mixed precision."""
    with torch.autocast(device_type, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled):
        return graph(*args)
