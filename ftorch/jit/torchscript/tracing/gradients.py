"""Backward passes in a function that is traced: the program does not compute what they give."""

from __future__ import annotations

import functools

from .... import autograd
from ....eager.autograd import backward as engine
from ....eager.native.contexts import contextmanager
from ....eager.tensor import TensorBase
from ....fx._interception import Interception, original, tensor_attribute
from .records import Value, flat

__all__ = ["backward_passes"]

_FUNCTIONAL = ("hessian", "hvp", "jacobian", "jvp", "vhp", "vjp")
_WHOLE = ((autograd, "grad"), *((autograd.functional, name) for name in _FUNCTIONAL))


@contextmanager
def backward_passes(recorder):
    """Within, what backward passes give is known to ``recorder`` as gradients, not as constants of the program."""
    outer = engine.final.compiler
    passes = 0

    def run(roots, keep, create_graph, inputs):
        nonlocal passes
        passes += 1
        recorder.depth += 1  # what hooks and custom functions do there is no part of the program either
        try:
            found = engine._run(roots, keep, inputs) if outer is None else outer(roots, keep, create_graph, inputs)
        finally:
            recorder.depth -= 1
        return _gradients(recorder, found)

    def whole(function):
        @functools.wraps(function)
        def call(*args, **kwargs):
            return _gradients(recorder, recorder.plainly(function, *args, **kwargs))

        return call

    attribute = tensor_attribute("grad")

    def read(t):
        found = attribute.__get__(t)
        return _gradients(recorder, found) if passes and not recorder.depth else found

    interception = Interception()
    try:
        interception.methods({"grad": property(read)})
        for holder, name in _WHOLE:
            interception.place(holder, name, whole(original(getattr(holder, name))))
        engine.final.compiler = run
        yield
    finally:
        engine.final.compiler = outer
        interception.__exit__(None, None, None)


def _gradients(recorder, found):
    """Makes tensors known as gradients, where nothing is known of them."""
    for g in flat(found):
        if isinstance(g, TensorBase):
            known = recorder.values.get(id(g))
            if known is None or known.kind == "constant":
                recorder.bind(g, Value("grad", "gradient"))
    return found
