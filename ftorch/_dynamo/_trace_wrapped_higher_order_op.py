"""Indexing by tensors inside ``vmap`` (``torch._dynamo._trace_wrapped_higher_order_op``)."""

from __future__ import annotations

from ..overrides import TorchFunctionMode


class TransformGetItemToIndex(TorchFunctionMode):
    """Within, ``x[i]`` with a 0-d tensor ``i`` is an index, not a number: mask functions under `vmap` need it.

    Numbers are not looked at here in any case, so that the mode changes nothing.
    """

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))
