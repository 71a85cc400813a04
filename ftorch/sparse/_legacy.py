"""The older constructors of sparse tensors: ``torch.sparse.FloatTensor(indices, values, size)``."""

from __future__ import annotations

import warnings

from ..eager.core import dtype as _dtype
from ..eager.core.geometry import Size
from ..eager.tensor import TensorBase
from ._construct import sparse_coo_tensor
from ._tensor import SparseTensor

_DTYPES = (
    _dtype.float32, _dtype.float64, _dtype.float16, _dtype.bfloat16, _dtype.uint8, _dtype.int8,
    _dtype.int16, _dtype.int32, _dtype.int64,
)


class _SparseTypeMeta(type):
    """``isinstance(x, torch.sparse.FloatTensor)`` asks for the layout and dtype."""

    dtype: _dtype.dtype

    def __instancecheck__(cls, instance):
        return (
            isinstance(instance, SparseTensor)
            and instance.dtype is cls.dtype
            and instance.type() == f"{cls.__module__}.{cls.__name__}"
        )

    def __call__(cls, *args, device=None):
        form, given = _form(args)
        warnings.warn(
            f"torch.sparse.SparseTensor({form}) is deprecated.  Please use torch.sparse_coo_tensor.",
            stacklevel=2,
        )
        return sparse_coo_tensor(*given, dtype=cls.dtype, device=device)

    def __repr__(cls):
        return f"<class '{cls.__module__}.{cls.__name__}'>"


def _form(args):
    if not args:
        return "", ((0,),)
    if len(args) == 1 and isinstance(args[0], Size):
        return "shape, *, device=", args
    if all(isinstance(a, int) for a in args):
        return "shape, *, device=", (args,)
    if len(args) in (2, 3) and all(isinstance(a, TensorBase) for a in args[:2]):
        return "indices, values, shape, *, device="[: None if len(args) == 3 else 15], args
    raise TypeError(
        "torch.sparse.SparseTensor(sequence) only accepts sizes.  Please use "
        "torch.sparse_coo_tensor() or construct a strided tensor and convert it to sparse via "
        "to_sparse."
    )


TYPES = {
    f"{d.scalar_name}Tensor": _SparseTypeMeta(
        f"{d.scalar_name}Tensor", (), {"dtype": d, "__module__": "torch.sparse"}
    )
    for d in _DTYPES
}
