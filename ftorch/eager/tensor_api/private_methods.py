"""Methods of tensors with a leading underscore, and older ones, that published code calls."""

from __future__ import annotations

import gc
import sys

from ..core import api
from ..core import dtype as _dtype
from ..core.refcount import ATTRIBUTE
from ..tensor import DISPATCHING, TensorBase, extras
from .graph_methods import refuses_deletion
from .methods import METHODS, method


def _backward_hooks(self):
    """The gradient hooks of a tensor by number, or None (``Tensor._backward_hooks``)."""
    meta, node = self._ftorch_meta, self._grad_fn
    hooks = None if node is None or node._ftorch_tensor_hooks is None else node._ftorch_tensor_hooks.get(self._ftorch_output_nr)
    return meta.hooks if hooks is None and meta is not None else hooks


def _set_backward_hooks(self, value):
    if value is None and self._ftorch_meta is None:
        return
    meta = extras(self)
    meta.hooks = value
    node = meta.accumulator and meta.accumulator()
    if node is not None:
        node._ftorch_tensor_hooks = None if value is None else {0: value}


METHODS["_backward_hooks"] = property(
    _backward_hooks, _set_backward_hooks, refuses_deletion("Deletion of _backwards_hooks not allowed!")
)
METHODS["_cdata"] = property(id)
METHODS["_post_accumulate_grad_hooks"] = property(
    lambda self: self._ftorch_meta.post_hooks if self._ftorch_meta is not None else None
)
METHODS["_has_symbolic_sizes_strides"] = False
METHODS["_python_dispatch"] = property(lambda self: type(self) in DISPATCHING)


@method
def _is_all_true(self):
    if self.dtype != _dtype.bool:
        raise RuntimeError("Expected self.scalar_type() == at::kBool to be true, but got false.  (Could this "
                           "error message be improved?  If so, please report an enhancement request to "
                           "PyTorch.)")
    return self.all()


@method
def _is_any_true(self):
    if self.dtype != _dtype.bool:
        raise RuntimeError("Expected self.scalar_type() == at::kBool to be true, but got false.  (Could this "
                           "error message be improved?  If so, please report an enhancement request to "
                           "PyTorch.)")
    return self.any()


@method
def _is_zerotensor(self):
    return False


@method
def _fix_weakref(self):
    """Does nothing: weak references to a tensor are Python's own."""


@method
def _conj(self):
    return self.conj()


@method
def _conj_physical(self):
    return api.conj_physical(self)


@method
def _neg_view(self):
    return api._neg_view(self)


@method
def _use_count(self):
    meta = self._ftorch_meta
    count = 1 + (meta is not None and meta.accumulator is not None and meta.accumulator() is not None)
    if self.is_inference() or sys.getrefcount(self._ftorch_storage) <= ATTRIBUTE:
        return count  # a view of a tensor of inference mode does not know it; another would hold the memory, too
    return count + sum(isinstance(o, TensorBase) and o._base is self for o in gc.get_referrers(self))


@method
def _to_dense(self, dtype=None, masked_grad=None):
    return self.to_dense() if dtype is None else self.to_dense().to(dtype)


@method
def to_padded_tensor(self, padding, output_size=None):
    """The parts of a nested tensor in one, padded. Raises NotImplementedError for one that is not nested."""
    raise NotImplementedError(
        "Could not run 'aten::to_padded_tensor' with arguments from the 'CPU' backend: the tensor is not nested."
    )


@method
def __delitem__(self, index):
    raise TypeError("Tensor does not support deleting items")


@method
def __setstate__(self, state):
    if len(state) == 4:  # pickles of 2017: with the storage's size
        self.set_(*state)
        return
    if len(state) == 5:
        self.data, self.requires_grad = state[0], state[3]
        return
    self.requires_grad, _, hooks = state
    _set_backward_hooks(self, hooks)


METHODS["__nonzero__"] = lambda self: bool(self)
