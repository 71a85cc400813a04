"""Collectives in programs: steps that call the group back.

A program knows nothing of the processes around it, and XLA would leave out, exchange or run at once what does not
depend on each other. So each collective of a capture takes a tensor that the one before it gives (`CaptureTrace.order`), and
the last one's is a result of the program: all processes make the same collectives in the same order. Of a program that fails
none is made again: the others would take it for their next.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np

import ftorch as torch

from ...eager.autograd.derivative_kernels import Derived
from ...eager.call import op as _op
from ...eager.call.op import to_numpy
from ...eager.core.registry import OPTIONAL_TENSOR
from ...eager.native.contexts import called_back
from ...eager.runtime import capture_trace
from ...eager.tensor import from_array


def collective(compute, x, shape, group, *settings):
    """``compute(x, group, *settings)``, or a step of the program that is being captured which calls it.

    Args:
        compute: makes a new tensor of a shape and x's dtype; without derivatives.
        settings: what has a hash.
    """
    capture = capture_trace.capturing()
    if capture is None:
        return compute(x, group, *settings)
    order = capture.order
    if order is None:
        order = torch.zeros((), dtype=torch.int32)
    out, capture.order = _op.call(
        _step(compute, tuple(shape), group.group_name, settings), (order, x)
    )
    return out


find_group: list[Any] = [None]  # gives the group of a name; set where groups are known
# Collectives that programs hold.
_FUNCTIONAL = frozenset(
    "all_reduce all_gather all_gather_single reduce_scatter_single all_to_all_single".split()
)


def leave(name: str) -> None:
    """Ends a capture at a collective that no program holds."""
    capture = capture_trace.capturing()
    if capture is not None and name not in _FUNCTIONAL:
        capture.end(f"{name} is called, which exchanges with other processes")


@functools.lru_cache(1024)
def _step(compute, shape, name, settings):
    def exchange(results, order, x):
        group = find_group[0](name)
        made = compute(from_array(np.array(x)), group, *settings)
        results += to_numpy(made.detach().contiguous()), np.asarray(order)

    def host(order, x):
        return called_back(exchange, order, x)

    def kernel(order, x):
        shapes = jax.ShapeDtypeStruct(shape, x.dtype), jax.ShapeDtypeStruct((), order.dtype)
        return tuple(jax.pure_callback(host, shapes, order, x))

    definition = Derived(compute.__name__, kernel, [OPTIONAL_TENSOR] * 2)
    definition.calls_back = definition.only_once = True
    return _op.Op(definition)
