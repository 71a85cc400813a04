"""``torch.testing.make_tensor``: random tensors for tests."""

from __future__ import annotations

import math
import warnings

from ..eager.core import api as torch
from ..eager.core import dtype as dtypes
from ..eager.core.dtype import finfo, iinfo

_INTEGERS = (dtypes.uint8, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64)
_UNSIGNED = tuple(getattr(dtypes, n) for n in ("uint16", "uint32", "uint64") if hasattr(dtypes, n))
_FLOATS = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)
_BYTES = tuple(getattr(dtypes, f"float8_{n}") for n in ("e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz"))
_COMPLEX = (dtypes.complex32, dtypes.complex64, dtypes.complex128)


def make_tensor(*shape, dtype, device, low=None, high=None, requires_grad=False,
                noncontiguous=False, exclude_zero=False, memory_format=None):
    """A tensor of random numbers, drawn uniformly from [low, high).

    Args:
        shape: the sizes, as several ints or one sequence.
        low, high: by default 0 and 2 for bool, 0 and 10 for uint8, -9 and 10 for integers, -9 and 9
            for others; cut to what the dtype can hold.
        noncontiguous: makes the last dimension's stride 2 if there is more than one element.
        exclude_zero: replaces zeros by the smallest positive number.

    Raises:
        ValueError: for impossible arguments. TypeError: for a dtype without random numbers.

    >>> import ftorch as torch
    >>> x = torch.testing.make_tensor(3, dtype=torch.float32, device="cpu", low=-1, high=1)
    >>> bool((x >= -1).all() and (x < 1).all())
    True
    """
    if noncontiguous and memory_format is not None:
        raise ValueError(
            "The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got "
            f"{noncontiguous=} and {memory_format=}"
        )
    if requires_grad and dtype.category < 2:
        raise ValueError(
            "`requires_grad=True` is not supported for boolean and integral dtypes, but got "
            f"{dtype=}"
        )
    if len(shape) == 1 and not isinstance(shape[0], int):
        shape = tuple(shape[0])
    is_spread = noncontiguous and math.prod(shape) > 1
    drawn = (*shape[:-1], 2 * shape[-1]) if is_spread else shape
    result = _draw(drawn, dtype, device, low, high)
    if is_spread:
        result = result[..., 1::2]
    elif memory_format is not None:
        result = result.clone(memory_format=memory_format)
    if exclude_zero:
        smallest = finfo(dtype).tiny if dtype.category >= 2 else 1
        result[result == 0] = smallest
    if requires_grad:
        result.requires_grad = True
    return result


def _draw(shape, dtype, device, low, high):
    if dtype is dtypes.bool:
        low, high = _interval(low, high, (0, 2), (0, 2), dtype)
        return torch.randint(low, high, shape, device=device, dtype=dtype)
    if dtype in _INTEGERS or dtype in _UNSIGNED:
        limits = iinfo(dtype)
        default = (0, 10) if limits.min == 0 else (-9, 10)
        low, high = _interval(low, high, default, (limits.min, limits.max + (dtype is not dtypes.int64)), dtype)
        return torch.randint(low, high, shape, device=device, dtype=dtype)
    if dtype in _FLOATS or dtype in _COMPLEX or dtype in _BYTES:
        limits = finfo(dtype)
        low, high = _interval(low, high, (-9, 9), (limits.min, limits.max), dtype)
        result = torch.empty(shape, device=device, dtype=dtypes.float32 if dtype in _BYTES else dtype)
        target = torch.view_as_real(result) if dtype in _COMPLEX else result
        target.uniform_(low, high)
        return result.to(dtype)
    raise TypeError(
        f"The requested dtype '{dtype}' is not supported by torch.testing.make_tensor(). To request "
        "support, file an issue at: https://github.com/pytorch/pytorch/issues"
    )


def _interval(low, high, default, limits, dtype):
    """The interval to draw from, cut to the dtype's range."""
    low, high = (d if v is None else v for v, d in zip((low, high), default))
    if any(isinstance(v, float) and math.isnan(v) for v in (low, high)):
        raise ValueError(f"`low` and `high` cannot be NaN, but got {low=} and {high=}")
    is_exact = dtype.category < 2
    if low == high and not is_exact:
        warnings.warn(
            "Passing `low==high` to `torch.testing.make_tensor` for floating or complex types is "
            "deprecated since 2.1 and will be removed in 2.3. Use `torch.full(...)` instead.",
            FutureWarning, stacklevel=4,
        )
    elif low >= high:
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    lowest, highest = limits
    if high < lowest or low > highest:
        raise ValueError(
            f"The value interval specified by `low` and `high` is [{low}, {high}), but {dtype} only "
            f"supports [{lowest}, {highest})"
        )
    low, high = max(low, lowest), min(high, highest)
    return (math.floor(low), math.ceil(high)) if is_exact else (low, high)
