"""Type promotion and broadcasting: the common dtype, shape and memory layout of a call's operands."""

from __future__ import annotations

from ..core import dtype as _dtype
from ..core.dtype import dtype as Dtype
from ..core.errors import size_mismatch
from ..core.geometry import Geometry, geometry, pointwise_stride
from ..tensor import TensorBase
from .operands import NUMBERS, plain_number


def result_type_of(values) -> Dtype:
    """PyTorch's result type of tensors and Python numbers.

    Tensors with dimensions outrank 0-d ones, which outrank numbers, within a category.
    """
    dims = zeros = numbers = None
    for v in values:
        if isinstance(v, (TensorBase, Geometry)):
            g = v if isinstance(v, Geometry) else v._ftorch_geometry
            if g.is_zero_dim:
                zeros = g.dtype if zeros is None else _dtype._promote(zeros, g.dtype)
            else:
                dims = g.dtype if dims is None else _dtype._promote(dims, g.dtype)
        elif v is not None:
            d = _dtype.from_python(type(v if type(v) in NUMBERS else plain_number(v)))
            numbers = d if numbers is None else _dtype._promote(numbers, d)
    return _combine(dims, _combine(zeros, numbers))


def _combine(higher, lower):
    if higher is None:
        return lower
    if lower is None or higher.category >= lower.category:
        return higher
    if higher.is_floating_point and lower.is_complex:
        # A complex number keeps the precision of the real tensor.
        return higher.to_complex()
    return _dtype._promote(higher, lower)


def broadcast_shape(shapes):
    """The broadcast of several shapes.

    Raises:
        RuntimeError: in PyTorch's words.
    """
    result = ()
    for shape in shapes:
        if shape == result:
            continue
        if len(shape) > len(result):
            longer, shorter = shape, result
        else:
            longer, shorter = result, shape
        gap = len(longer) - len(shorter)
        merged = list(longer)
        for i in reversed(range(len(shorter))):  # errors name the last dimension that does not fit
            n, m = shorter[i], longer[gap + i]
            if n != m:
                if n != 1 and m != 1:
                    a = result[len(result) - len(shorter) + i] if len(result) else m
                    b = shape[len(shape) - len(shorter) + i]
                    raise RuntimeError(size_mismatch(a, b, gap + i))
                merged[gap + i] = n if m == 1 else m
        result = tuple(merged)
    return result


# --- memory layout of results --------------------------------------------------------


def preserved(g: Geometry) -> Geometry:
    """The geometry of a dense copy (``memory_format=preserve_format``)."""
    if g.is_dense:
        return g
    return geometry(g.shape, g.dtype, g.device, pointwise_stride(g.shape, (g,)))
