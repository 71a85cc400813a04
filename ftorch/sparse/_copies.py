"""Copies and pickles of sparse tensors: their parts, and the attributes that they have beside."""

from __future__ import annotations

from collections import OrderedDict
from copy import deepcopy

from ..eager.core import formats


def _parts(t):
    p = t._pattern
    if t.layout is formats.sparse_coo:
        return p.indices, t._v, tuple(t.shape), p.coalesced
    return p.compressed, p.plain, t._v, tuple(t.shape)


def reduced(self, protocol):
    """``__reduce_ex__``: as PyTorch's files have it."""
    from .. import _utils
    from .._serialization.pickling import with_state

    function, parts, state = _utils._rebuild_sparse_tensor, (self.layout, _parts(self)), dict(self.__dict__)
    if not state.pop("_is_param", False):
        return with_state(None, function, parts, state)
    arguments = (function(*parts), self.requires_grad, OrderedDict())
    return (_utils._rebuild_parameter_with_state, (*arguments, state)) if state else (_utils._rebuild_parameter, arguments)


def copied(self):
    """``__copy__``: a leaf of the same parts."""
    function, arguments = self.__reduce_ex__(4)
    return function(*arguments)


def deep_copied(self, memo):
    """``__deepcopy__``: a leaf of parts of its own."""
    if id(self) not in memo:
        made = memo[id(self)] = self.detach().clone()
        made.requires_grad_(self.requires_grad)
        if self._grad is not None:
            made.grad = deepcopy(self._grad, memo)
        if self.__dict__.get("_is_param"):
            made._is_param = True  # all that a copied parameter keeps
        else:
            made.__dict__.update(deepcopy(self.__dict__, memo))
    return memo[id(self)]
