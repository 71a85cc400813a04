"""Copies and pickles of tensors; in those of ``copy.deepcopy`` what shares memory does so, too."""

from __future__ import annotations

import copy

import numpy as np

from ..autograd.tape import grad_fn_of
from ..call import op as _op
from ..core import device as _device
from ..core.geometry import Size, geometry, with_bits
from ..dispatch.overrides import DisableTorchFunctionSubclass
from ..memory.storage import INFERENCE, Storage
from ..runtime.executor import copied_with
from ..tensor import (
    DISPATCHING,
    Tensor,
    VersionCounter,
    extras,
    from_array,
    modes,
    set_state,
    slots_of,
    state_of,
    wrap,
    wrap_view,
)
from .conversions import retyped
from .methods import method


@method
def __deepcopy__(self, memo):
    if id(self) in memo:
        return memo[id(self)]
    if grad_fn_of(self) is not None:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
            "protocol at the moment.  If you were attempting to deepcopy a module, this may be "
            "because of a torch.nn.utils.weight_norm usage, see "
            "https://github.com/pytorch/pytorch/pull/103001"
        )
    made = None if self.__class__ is Tensor or _is_own(self.__class__) else _like_for_copy(self)
    if made is not None and (self._ftorch_storage.error is not None or self.is_meta):
        out = made
    else:
        cell = copied_with(self._ftorch_storage, memo)
        cell.version = INFERENCE if modes.inference else 1  # a new tensor, which is set to it
        out = wrap_view(cell, self._ftorch_geometry, self._ftorch_offset, None)
        if self.__class__ is not Tensor:
            out = retyped(out, self.__class__)
    out._ftorch_requires_grad = self._ftorch_requires_grad
    memo[id(self)] = out
    if self._grad is not None:
        out._grad = copy.deepcopy(self._grad, memo)
    for name in slots_of(self.__class__):
        if hasattr(self, name):
            setattr(out, name, copy.deepcopy(getattr(self, name), memo))
    for key, value in self.__dict__.items():
        out.__dict__[key] = copy.deepcopy(value, memo)
    return out


_NO_COPY = (
    "The default implementation of __deepcopy__() for {0} subclasses only works for subclass types that implement {1}() and "
    "for which {2} returns another instance of the same subclass. You should either properly implement {1}() for your "
    "subclass or override __deepcopy__() if it is intended behavior for {1}() to return an instance of a different type."
)


def _is_own(cls) -> bool:
    """Whether a class is this package's, which is copied as it is."""
    return cls.__module__.partition(".")[0] == __name__.partition(".")[0]


def _like_for_copy(t):
    """What a class makes of a tensor that is to be copied: a tensor of its own, or the copy itself, where there is no memory.

    Raises:
        RuntimeError: it makes a tensor of another class.
    """
    wraps = t._ftorch_storage.error is not None or not t._ftorch_storage.nbytes or t.is_meta
    with DisableTorchFunctionSubclass():
        made = t.clone() if wraps else t.new_empty([])
    if type(made) is not type(t):
        words = ("wrapper", "clone", "cloning") if wraps else ("non-wrapper", "new_empty", "that function")
        raise RuntimeError(_NO_COPY.format(*words))
    return made


# --- in the same memory, and without ----------------------------------------------------


@method
def __copy__(self):
    """A leaf on the same memory, which counts its own writes (``copy.copy``)."""
    if self.__class__.__reduce_ex__ is not __reduce_ex__ and self.__class__ in DISPATCHING:
        return copy._reconstruct(self, None, *self.__reduce_ex__(4))  # type: ignore[attr-defined]
    out = wrap_view(self._ftorch_storage, self._ftorch_geometry, self._ftorch_offset, None)
    extras(out).counter = VersionCounter(1)  # it was set to this storage
    if self.__class__ is not Tensor:
        out = retyped(out, self.__class__)
    out._ftorch_requires_grad = _op.is_in_graph(self)
    set_state(out, state_of(self))
    return out


@method
def __reduce_ex__(self, protocol):
    dtype = self._ftorch_geometry.dtype
    kind = None if self.__class__ is Tensor else self.__class__
    if self.is_meta:
        return _rebuild_meta, (kind, tuple(self.shape), self.stride(), dtype, self.requires_grad, state_of(self))
    if _is_part(self):  # with all of the memory that it is a part of
        g, storage = self._ftorch_geometry, self._ftorch_storage
        whole = wrap_view(storage, geometry(Size((storage.nbytes // dtype.itemsize,)), dtype, g.device), 0, None)
        return _rebuild_part, (kind, whole, (*self.shape,), self.stride(), self._ftorch_offset, g.bits,
                               self.requires_grad, state_of(self))
    array = _op.to_numpy(self)
    state = (kind, np.asarray(array).view(f"V{dtype.itemsize}").tobytes()
             if array.ndim and array.size else np.asarray(array).tobytes(),
             tuple(self.shape), dtype, str(self.device), self.requires_grad, state_of(self),
             self.stride() if self._ftorch_geometry.is_dense else None)
    return _rebuild, state


def _is_part(t) -> bool:
    """Whether a tensor is not simply all elements of its storage, in its order."""
    g, storage = t._ftorch_geometry, t._ftorch_storage
    if storage.error is not None or storage.root.dtype is not g.dtype or not storage.nbytes:
        return False
    return bool(g.bits) or not g.is_dense or storage.nbytes != g.numel * g.dtype.itemsize


def _rebuild_part(cls, whole, shape, stride, offset, bits, requires_grad, attributes):
    g = with_bits(geometry(Size(shape), whole.dtype, whole.device, stride), bits)
    return _completed(wrap_view(whole._ftorch_storage, g, offset, None), cls, requires_grad, attributes)


def _rebuild(cls, data, shape, dtype, where, requires_grad, attributes, stride=None):
    array = np.frombuffer(data, dtype.numpy).reshape(shape)
    return _completed(from_array(array, where, stride=stride), cls, requires_grad, attributes)


def _rebuild_meta(cls, shape, stride, dtype, requires_grad, attributes):
    return _completed(wrap(Storage(geometry(Size(shape), dtype, _device.META, stride))), cls, requires_grad, attributes)


def _completed(out, cls, requires_grad, attributes):
    if cls is not None:
        out = retyped(out, cls)
    out._ftorch_requires_grad = requires_grad
    set_state(out, attributes)
    return out
