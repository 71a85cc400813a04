"""Comparisons that return Python bools, ``norm``, ``unique`` and ``histogramdd``."""

from __future__ import annotations

import functools

from ..bindings import signatures
from ..call.op import at_hand
from ..core import api as torch
from ..core.composite import composite
from ..core.registry import OVERLOADS
from ..core.return_values import return_type
from ..tensor import TensorBase


@functools.cache
def _internal(name):
    """An op that has no public form."""
    return signatures.make(name, OVERLOADS[name], "function")


# --- comparisons ---------------------------------------------------------------------


def _require_tensors(name, **arguments):
    for position, (argument, value) in enumerate(arguments.items(), 1):
        if not isinstance(value, TensorBase):
            raise TypeError(
                f"{name}(): argument '{argument}' (position {position}) must be Tensor, not "
                f"{type(value).__name__}"
            )


@composite(forms="function method")
def allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether all elements satisfy ``|input - other| <= atol + rtol * |other|``.

    Returns:
        A Python bool; the tensors are broadcast against each other.

    Raises:
        RuntimeError: if the dtypes differ, or a tolerance is negative.

    >>> import ftorch as torch
    >>> torch.allclose(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0 + 1e-7]))
    True
    """
    _require_tensors("allclose", input=input, other=other)
    return torch.isclose(input, other, rtol, atol, equal_nan).all().item()


@composite(forms="function method")
def equal(input, other):
    """Whether two tensors have the same size and elements; a Python bool.

    >>> import ftorch as torch
    >>> torch.equal(torch.tensor([1, 2]), torch.tensor([1, 2]))
    True
    """
    _require_tensors("equal", input=input, other=other)
    if input.device != other.device:
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"{input.device} and {other.device}!"
        )
    if input.shape != other.shape:
        return False
    found = _equal_at_hand(input, other)
    return torch.eq(input, other).all().item() if found is None else found


_FEW = 1024  # elements that NumPy compares before an op is recorded


def _equal_at_hand(one, two):
    """`equal` of a few values that are there, else None."""
    if one.dtype is not two.dtype or one.numel() > _FEW:
        return None
    one, two = at_hand(one), at_hand(two)
    return None if one is None or two is None else bool((one == two).all())


# --- norm ----------------------------------------------------------------------------


def _norm(input, p, dim, keepdim, out, dtype):
    dims = [dim] if isinstance(dim, int) else dim
    given = {"keepdim": keepdim, "dtype": dtype}
    if out is not None:
        given["out"] = out
    if isinstance(p, str) and not (p == "fro" and (dims is None or len(dims) <= 2)):
        dims = list(range(input.ndim)) if dims is None else dims
        return torch.linalg.matrix_norm(input, p, dims, **given)
    order = 2.0 if p is None or p == "fro" else p
    if out is None:  # a call whose instruction says what is given by position, as errors do
        return torch.linalg.vector_norm(input, order, dims, keepdim, dtype=dtype)
    return torch.linalg.vector_norm(input, order, dims, **given)


@composite(forms="function", name="norm")
def norm(input, p="fro", dim=None, keepdim=False, out=None, dtype=None):
    """The norm of vectors (``p`` a number or "fro") or of matrices (``p="nuc"``).

    Args:
        dim: the dimensions that make up a vector or matrix; all of them if None.

    >>> import ftorch as torch
    >>> torch.norm(torch.tensor([3.0, 4.0]))
    tensor(5.)
    """
    return _norm(input, p, dim, keepdim, out, dtype)


@composite(forms="method", name="norm")
def _norm_method(self, p="fro", dim=None, keepdim=False, dtype=None):
    return _norm(self, p, dim, keepdim, None, dtype)


_norm_method.__qualname__ = "Tensor.norm"  # as of `split`


# --- unique --------------------------------------------------------------------------


def _chosen(results, return_inverse, return_counts):
    """The values alone, or in a tuple with what was asked for."""
    values, inverse, counts = results
    extra = [r for r, wanted in ((inverse, return_inverse), (counts, return_counts)) if wanted]
    return (values, *extra) if extra else values


@composite(forms="function method")
def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The distinct elements, or the distinct slices along ``dim``.

    Returns:
        The values in ascending order; with ``return_inverse`` also each element's index among
        them, with ``return_counts`` also how often each occurs.

    >>> import ftorch as torch
    >>> torch.unique(torch.tensor([3, 1, 3]), return_counts=True)
    (tensor([1, 3]), tensor([1, 2]))
    """
    if dim is None:
        results = _internal("_unique2")(input, sorted, return_inverse, return_counts)
    else:
        results = _internal("unique_dim")(input, dim, sorted, return_inverse, return_counts)
    return _chosen(results, return_inverse, return_counts)


@composite(forms="function method")
def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    """The elements (or slices along ``dim``) that differ from the one before.

    >>> import ftorch as torch
    >>> torch.unique_consecutive(torch.tensor([1, 1, 2, 1]))
    tensor([1, 2, 1])
    """
    results = _internal("unique_consecutive")(input, return_inverse, return_counts, dim)
    return _chosen(results, return_inverse, return_counts)


# --- histogramdd ---------------------------------------------------------------------

_histogramdd_result = return_type("histogramdd", ("hist", "bin_edges"))


@composite()
def histogramdd(input, bins, range=None, weight=None, density=False):
    """The histogram of points in several dimensions.

    Args:
        input: points, their coordinates in the last dimension.
        bins: the number of bins (one for all dimensions, or a list), or a list of tensors of edges.
        range: low and high of each dimension in one list; the data's if None.

    Returns:
        A named tuple ``(hist, bin_edges)``.

    >>> import ftorch as torch
    >>> torch.histogramdd(torch.tensor([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]]), bins=[2, 2]).hist
    tensor([[0., 1.],
            [1., 1.]])
    """
    if isinstance(bins, int):
        bins = [bins] * (input.shape[-1] if input.ndim else 0)
    if all(isinstance(b, TensorBase) for b in bins):
        from_edges = _internal("_histogramdd_from_bin_tensors")
        hist = from_edges(input, list(bins), weight=weight, density=density)
        return _histogramdd_result((hist, tuple(bins)))
    hist, *edges = _internal("_histogramdd")(input, list(bins), range, weight, density)
    return _histogramdd_result((hist, tuple(edges)))
