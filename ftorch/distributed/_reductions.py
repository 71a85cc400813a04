"""How collectives combine elements (``torch.distributed.ReduceOp``)."""

from __future__ import annotations

from enum import Enum

import numpy as np


class RedOpType(Enum):
    """The reductions."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8
    UNUSED = 9

    def __str__(self):
        return f"RedOpType.{self.name}"

    def __int__(self):
        return self.value

    def __call__(self):  # `ReduceOp(op)` of what is one
        return self

    @property
    def op(self):
        """Itself."""
        return self


_SCALARS = {
    "uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long", "bool": "Bool",
    "uint16": "UInt16", "uint32": "UInt32", "uint64": "UInt64",
}


class _AnyReduction(type):
    def __instancecheck__(cls, value):
        return isinstance(value, (RedOpType, PremulSum))


class ReduceOp(metaclass=_AnyReduction):
    """How collectives combine tensors: ``SUM``, ``AVG``, ``PRODUCT``, ``MIN``, ``MAX``, ``BAND``, ``BOR``,
    ``BXOR`` (``torch.distributed.ReduceOp``).

    >>> import ftorch.distributed as dist
    >>> dist.ReduceOp.SUM
    <RedOpType.SUM: 0>
    """

    RedOpType = RedOpType
    SUM, AVG, PRODUCT, MIN, MAX = (
        RedOpType.SUM, RedOpType.AVG, RedOpType.PRODUCT, RedOpType.MIN, RedOpType.MAX,
    )
    BAND, BOR, BXOR = RedOpType.BAND, RedOpType.BOR, RedOpType.BXOR
    PREMUL_SUM, UNUSED = RedOpType.PREMUL_SUM, RedOpType.UNUSED
    __members__ = dict(RedOpType.__members__)

    def __new__(cls, op=RedOpType.SUM):
        return op


class PremulSum:
    """A sum of arrays that are multiplied by a factor first."""

    op = RedOpType.PREMUL_SUM

    def __init__(self, factor):
        self.factor = factor

    def __eq__(self, other):
        return isinstance(other, PremulSum)  # by the kind alone, as PyTorch's

    def __hash__(self):
        return hash(PremulSum)


def make_nccl_premul_sum(factor):
    """The reduction ``sum(factor * x)``."""
    return PremulSum(factor)


def _fold(function):
    def combine(parts):
        total = function(parts[0], parts[1])
        for part in parts[2:]:
            total = function(total, part)
        return total.astype(parts[0].dtype, copy=False)

    return combine


_BITS = {RedOpType.BAND: np.bitwise_and, RedOpType.BOR: np.bitwise_or, RedOpType.BXOR: np.bitwise_xor}
_UFUNCS = {
    RedOpType.SUM: np.add, RedOpType.AVG: np.add, RedOpType.PREMUL_SUM: np.add, RedOpType.PRODUCT: np.multiply,
    RedOpType.MIN: np.minimum, RedOpType.MAX: np.maximum, **_BITS,
}
_COMBINE = {op: _fold(f) for op, f in _UFUNCS.items()}


class Reduction:
    """A reduction of arrays of one dtype.

    Raises:
        RuntimeError: if the reduction does not take the dtype.
    """

    def __init__(self, op, dtype):
        self.op = getattr(op, "op", op)
        if self.op not in _COMBINE:
            raise ValueError(f"Unsupported ReduceOp {op}")
        if self.op in _BITS and np.dtype(dtype).kind not in "iub":
            raise RuntimeError(f"Cannot use ReduceOp.{self.op.name} with non-integral dtype")
        if self.op in (RedOpType.MIN, RedOpType.MAX) and np.dtype(dtype).kind == "c":
            raise RuntimeError(f"ReduceOp.{self.op.name} does not take complex tensors")
        if self.op is RedOpType.AVG and np.dtype(dtype).kind in "iub":
            raise RuntimeError(
                f"result type Float can't be cast to the desired output type {_SCALARS[np.dtype(dtype).name]}"
            )
        self.name = self.op.name
        self.factor = getattr(op, "factor", None)
        self._combine = _COMBINE[self.op]

    def combine(self, parts: list[np.ndarray]) -> np.ndarray:
        """Everybody's arrays, combined in the order of ranks: a new array."""
        if len(parts) == 1:
            return parts[0].copy()
        with np.errstate(all="ignore"):
            return self._combine(parts)

    def combine_into(self, parts: list[np.ndarray], out: np.ndarray) -> None:
        """`combine` of two arrays, in the memory of one of them."""
        with np.errstate(all="ignore"):
            _UFUNCS[self.op](parts[0], parts[1], out=out)

    def finish(self, total: np.ndarray, count: int) -> np.ndarray:
        """The result of what ``count`` ranks gave."""
        if self.op is RedOpType.AVG:
            if total.dtype.kind == "c":  # NumPy would divide by a complex number, which rounds more than once
                out = np.empty_like(total)
                out.real, out.imag = self.finish(total.real, count), self.finish(total.imag, count)
                return out
            return (total / np.asarray(count, total.real.dtype)).astype(total.dtype, copy=False)
        return total
