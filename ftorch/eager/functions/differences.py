"""``torch.gradient``: derivatives of sampled functions by finite differences."""

from __future__ import annotations

from ..core import api
from ..core.composite import composite
from ..kernels._common import wrap_dim
from ..tensor import TensorBase


def _along(x, dim):
    """``at(i)``: the slice of one index along ``dim``, which stays; ``at(i, j)``: of a range."""
    size = x.shape[dim]

    def at(start, stop=None):
        start = start + size if start < 0 else start
        return x.narrow(dim, start, 1 if stop is None else stop + size - start)

    return at


def _on_even_grid(x, dim, step, edge_order):
    at = _along(x, dim)
    inner = (at(2, 0) - at(0, -2)) / (2 * step)
    if edge_order == 1:
        first, last = at(1) - at(0), at(-1) - at(-2)
    else:
        first = -1.5 * at(0) + 2 * at(1) - 0.5 * at(2)
        last = 1.5 * at(-1) - 2 * at(-2) + 0.5 * at(-3)
    return api.cat([first / step, inner, last / step], dim)


def _on_grid(x, dim, coordinates, edge_order):
    at, gaps = _along(x, dim), coordinates.diff()
    left, right = gaps[:-1], gaps[1:]
    wide = [1] * x.ndim
    wide[dim] = -1
    low = (-right / (left * (left + right))).reshape(wide)
    middle = ((right - left) / (left * right)).reshape(wide)
    high = (left / (right * (left + right))).reshape(wide)
    inner = low * at(0, -2) + middle * at(1, -1) + high * at(2, 0)
    if edge_order == 1:
        first, last = (at(1) - at(0)) / gaps[0], (at(-1) - at(-2)) / gaps[-1]
    else:
        first = _edge(gaps[0], gaps[1], at(0), at(1), at(2))
        last = -_edge(gaps[-1], gaps[-2], at(-1), at(-2), at(-3))
    return api.cat([first, inner, last], dim)


def _edge(near, far, y0, y1, y2):
    """The one-sided derivative at ``y0`` by the parabola through three points."""
    return (
        -(2 * near + far) / (near * (near + far)) * y0
        + (near + far) / (near * far) * y1
        - near / (far * (near + far)) * y2
    )


def _is_number(spacing):
    return isinstance(spacing, (int, float, complex))


@composite()
def gradient(input, *, spacing=None, dim=None, edge_order=1):
    """The gradient of a function sampled on a grid, by second-order central differences.

    Args:
        input: the samples.
        spacing: the distance of the samples: a number, one for each dimension, or a tensor of
            coordinates for each dimension.
        dim: the dimensions to differentiate along; all if None.
        edge_order: 1 or 2, the order of accuracy at the boundary.

    Returns:
        A tuple of one tensor of the input's shape for each dimension.

    Raises:
        RuntimeError: for dimensions shorter than ``edge_order + 1``.

    >>> import ftorch as torch
    >>> torch.gradient(torch.tensor([1.0, 4.0, 9.0, 16.0]))
    (tensor([3., 4., 6., 7.]),)
    """
    if not isinstance(input, TensorBase):
        raise TypeError(
            "gradient(): argument 'input' (position 1) must be Tensor, not "
            f"{type(input).__name__}"
        )
    _check_spacing(input, spacing, dim)
    dims = _dims(input, dim)
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    for d in dims:
        if input.shape[d] < edge_order + 1:
            raise RuntimeError(
                "torch.gradient expected each dimension size to be at least edge_order+1"
            )
    spacings = [1 if spacing is None else spacing] * len(dims)
    if not (spacing is None or _is_number(spacing)):
        spacings = spacing
    return tuple(
        (_on_grid if isinstance(s, TensorBase) else _on_even_grid)(input, d, s, edge_order)
        for d, s in zip(dims, spacings)
    )


def _dims(input, dim):
    if dim is None:
        return list(range(input.ndim))
    dims = [wrap_dim(d, input.ndim) for d in ([dim] if isinstance(dim, int) else dim)]
    for d in dims:
        if dims.count(d) > 1:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    return dims


def _check_spacing(input, spacing, dim):
    if isinstance(spacing, TensorBase):
        raise TypeError(
            "gradient() received an invalid combination of arguments - got "
            f"({type(input).__name__}, spacing={type(spacing).__name__}), but expected one of:\n"
            " * (Tensor input, *, Number spacing = None, int dim = None, int edge_order = 1)\n"
            " * (Tensor input, *, tuple of Tensors spacing, int dim = None, int edge_order = 1)\n"
        )
    if spacing is None or _is_number(spacing):
        return
    if dim is None and len(spacing) != input.ndim:
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar, or a list of length equal "
            f"to 'self.dim() = {input.ndim}', since dim argument was not given, but got a list of "
            f"length {len(spacing)}"
        )
    count = 1 if isinstance(dim, int) else len(dim or spacing)
    if len(spacing) != count:
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar or it's spacing and dim "
            f"arguments to have the same length, but got a spacing argument of length "
            f"{len(spacing)} and a dim argument of length {count}."
        )
    for s in spacing:
        if not isinstance(s, TensorBase):
            continue
        if s.device != input.device:
            raise RuntimeError(
                "torch.gradient expected each tensor to be on the same device, but got devices "
                f"{input.device} and {s.device}!"
            )
        if s.ndim != 1:
            raise RuntimeError(
                "torch.gradient expected each element of spacing to have one dimension, but got an "
                f"element with {s.ndim} dimensions!"
            )
