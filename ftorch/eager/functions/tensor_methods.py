"""Tensor methods that programs of any age still call: ``fill_diagonal_``, ``is_nonzero``, ``resize``."""

from __future__ import annotations

import math

import numpy as np

from ..autograd.views import as_strided
from ..call import promotion
from ..call.argument_types import type_name
from ..call.op import to_numpy
from ..core import api as torch
from ..core import dtype as dtypes
from ..core.composite import composite
from ..core.formats import channels_last, channels_last_3d, memory_format
from ..core.user_warnings import warn_user
from ..tensor import Tensor, TensorBase


@composite("method")
def fill_diagonal_(self, fill_value, wrap=False):
    """Writes a number to the main diagonal, in place.

    Args:
        wrap: for tall matrices, start the diagonal again below it.

    Raises:
        RuntimeError: for tensors of fewer than two dimensions, or of three and more that are no cubes.

    >>> import ftorch as torch
    >>> torch.zeros(2, 3).fill_diagonal_(5)
    tensor([[5., 0., 0.],
            [0., 5., 0.]])
    """
    shape, stride = self.shape, self.stride()
    if len(shape) < 2:
        raise RuntimeError("dimensions must larger than 1")
    if len(shape) > 2 and len(set(shape)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    step = sum(stride)
    as_strided(self, (min(shape),), (step,)).fill_(fill_value)
    if wrap and len(shape) == 2 and shape[0] > shape[1] + 1:
        columns = shape[1]
        start = columns * stride[0] + stride[0]
        count = math.ceil((self.numel() - columns * (columns + 1)) / (columns + 1))
        offset = self.storage_offset() + start
        as_strided(self, (count,), (step,), offset).fill_(fill_value)
    return self


@composite("function method")
def is_nonzero(input):
    """Whether the only element is not zero.

    Raises:
        RuntimeError: unless there is one element.
    """
    return bool(input)


@composite()
def result_type(tensor1, tensor2):
    """The dtype of arithmetic on two tensors or numbers.

    >>> import ftorch as torch
    >>> torch.result_type(torch.tensor([1, 2]), 1.0)
    torch.float32
    """
    return promotion.result_type_of((tensor1, tensor2))


def _check_leaves(name, *tensors):
    if any(t.requires_grad for t in tensors):
        raise RuntimeError(f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead.")


def _replaced(self, values):
    """Writes what a Python function gave, element by element: numbers, with Python's errors for all else."""
    exact = not (self.is_floating_point() or self.is_complex())
    for v in values:
        if not isinstance(v, (int, float, complex, np.generic, TensorBase)):
            raise TypeError(f"'{type(v).__name__}' object cannot be interpreted as an integer" if exact
                            else f"must be real number, not {type(v).__name__}")
    numbers = [int(v) for v in values] if exact else values
    return self.copy_(torch.tensor(numbers, dtype=self.dtype).reshape(self.shape))


@composite("method")
def apply_(self, callable):
    """Replaces each element by ``callable(element)``; slow, CPU only.

    Raises:
        RuntimeError: it requires grad. TypeError: the function gives no number.
    """
    _check_leaves("apply_", self)
    return _replaced(self, [callable(v) for v in to_numpy(self).reshape(-1).tolist()])


@composite("method")
def map_(self, tensor, callable):
    """Replaces each element by ``callable(own, other)``; slow, CPU only. See `apply_`."""
    if not isinstance(tensor, TensorBase):
        raise TypeError(f"map_(): argument 'other' (position 1) must be Tensor, not {type_name(tensor)}")
    _check_leaves("map_", self, tensor)
    pair = np.broadcast_arrays(to_numpy(self), to_numpy(tensor))
    return _replaced(self, [callable(*each) for each in zip(*(a.reshape(-1).tolist() for a in pair))])


@composite("method")
def map2_(self, x, y, callable):
    """Replaces each element by ``callable(own, of x, of y)``; slow, CPU only. See `apply_`."""
    _check_leaves("map2_", self, x, y)
    arrays = np.broadcast_arrays(to_numpy(self), to_numpy(x), to_numpy(y))
    return _replaced(self, [callable(*each) for each in zip(*(a.reshape(-1).tolist() for a in arrays))])


def _resized(self, shape):
    if math.prod(shape) != self.numel():
        size = "x".join(map(str, self.shape))
        raise RuntimeError(
            f"requested resize to {'x'.join(map(str, shape))} ({math.prod(shape)} elements in total), "
            f"but the given tensor has a size of {size} ({self.numel()} elements). autograd's resize "
            "can only change the shape of a given tensor, while preserving the number of elements. "
        )
    return self.contiguous().view(shape)


@composite("method")
def resize(self, *sizes):
    """The older name of `reshape`; warns."""
    warn_user("non-inplace resize is deprecated")
    return _resized(self, tuple(sizes[0]) if len(sizes) == 1 and sizes[0].__class__ is not int else sizes)


@composite("method")
def resize_as(self, tensor):
    """The older name of ``reshape_as``; warns."""
    warn_user("non-inplace resize_as is deprecated")
    return _resized(self, tuple(tensor.shape))


@composite("method")
def dim_order(self, ambiguity_check=False):
    """The dimensions from the outermost in memory to the innermost.

    >>> import ftorch as torch
    >>> torch.ones(2, 3, 4).transpose(0, 1).dim_order()
    (1, 0, 2)
    """
    if self.is_sparse:
        raise AttributeError(
            f"Can't get dim order on sparse type: {self.type()} Use Tensor.to_dense() to convert to a dense tensor first."
        )
    formats = ambiguity_check if isinstance(ambiguity_check, list) else ()
    if ambiguity_check is not True and ambiguity_check is not False and (
        not isinstance(ambiguity_check, list) or not all(isinstance(f, memory_format) for f in formats)
    ):
        raise TypeError("The ambiguity_check argument must be a bool or a list of memory formats.")
    stride = self.stride()
    if formats:
        fitting = [f for f in formats if self.is_contiguous(memory_format=f)]
        if len(fitting) != 1:
            raise RuntimeError(_AMBIGUOUS)
        orders = {channels_last: (0, 2, 3, 1), channels_last_3d: (0, 2, 3, 4, 1)}
        return orders.get(fitting[0], tuple(range(self.dim())))
    if ambiguity_check and (1 in self.shape or len(set(stride)) < len(stride)):
        raise RuntimeError(_AMBIGUOUS)
    return tuple(sorted(range(self.dim()), key=lambda d: -stride[d]))


_AMBIGUOUS = (
    "The tensor does not have unique dim order, or cannot map to exact one of the given memory formats."
)


@composite("method")
def record_stream(self, s):
    """Does nothing: XLA frees memory once its work is done."""


@composite("method")
def is_distributed(self):
    """False."""
    return False


@composite("method")
def const_data_ptr(self):
    """`data_ptr`, for reading."""
    return self.data_ptr()


@composite("method")
def storage_type(self):
    """The older class of the storage, ``torch.FloatStorage``; None on the meta device, and where there is none."""
    from ..tensor_api.legacy_storages import storage_type

    return storage_type(self._typed_storage())


@composite("method")
def module_load(self, other, assign=False):
    """What ``load_state_dict`` puts in this tensor's place: a copy of ``other``'s elements, or it."""
    if assign:
        return other.detach()
    return self.detach().copy_(other).detach()


@composite("method")
def __reversed__(self):
    """The elements of the first dimension, the last first."""
    return self.flip(0) if self.dim() else self


@composite("method")
def __array_wrap__(self, array, context=None, return_scalar=False):
    """What NumPy's functions give for a tensor: a tensor again."""
    if array.dtype == bool:
        array = array.astype("uint8")
    return torch.from_numpy(np.atleast_1d(array)).reshape(array.shape)


@composite("method")
def reinforce(self, reward):
    """Raises: it was removed from PyTorch."""
    raise RuntimeError("reinforce() was removed.\nUse torch.distributions instead.")


@composite("method", name="__div__")
def _div(self, other):
    """``/`` of Python 2."""
    return self / other


@composite("method", name="__idiv__")
def _idiv(self, other):
    """``/=`` of Python 2."""
    self /= other
    return self


@composite("method", name="__long__")
def _long(self):
    """``long()`` of Python 2."""
    return int(self)


@composite()
def _shape_as_tensor(self):
    """The shape as a tensor of int64."""
    return torch.tensor(list(self.shape), dtype=dtypes.int64)


@composite(name="to_dlpack")
def _to_dlpack(tensor):
    """A DLPack capsule of a tensor, to be used once."""
    return tensor.__dlpack__()


for _name, _value in {"name": None, "volatile": False}.items():
    setattr(Tensor, _name, property(lambda self, _value=_value: _value))


@composite("method")
def slice_inverse(self, src, dim=0, start=None, end=None, step=1):
    """The tensor that a slice was taken of: ``self`` with the sizes, strides and offset of ``src``."""
    return as_strided(self, src.shape, src.stride(), src.storage_offset())


def _declare_absent(name, error, text):
    def method(self, device=None, non_blocking=False, memory_format=None):
        raise error(text)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"There are no {name} devices."
    composite("method", name=name)(method)


_declare_absent("ipu", RuntimeError, "PyTorch is not linked with support for ipu devices")
_declare_absent("mtia", AssertionError, "Torch not compiled with MTIA enabled")
_declare_absent("xpu", AssertionError, "Torch not compiled with XPU enabled")
