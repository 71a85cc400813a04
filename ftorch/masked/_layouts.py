"""Masks and masked operations of the sparse layouts: what is specified of a result is what the mask selects something for."""

from __future__ import annotations

import math

from ..eager.core import api as torch
from ..eager.core import dtype as _dtype
from ..eager.core import formats
from ..sparse._construct import sparse_coo_tensor, sparse_csr_tensor

_COO, _CSR = formats.sparse_coo, formats.sparse_csr
_SPARSE = frozenset(("sum", "prod", "amax", "amin", "mean"))  # the reductions that take sparse tensors
_REDUCTIONS = frozenset("sum prod amax amin argmax argmin mean median norm var std logsumexp".split())
_OVER_A_DIMENSION = frozenset("softmax log_softmax softmin normalize cumsum cumprod".split())


def dense(t):
    """A tensor in the strided layout."""
    return t if t is None or t.layout is formats.strided else t.to_dense()


def in_layout(values, places, layout):
    """Those elements of a dense tensor that ``places`` select as a tensor of a layout."""
    if layout is formats.strided:
        return values
    indices = places.nonzero().t()
    made = sparse_coo_tensor(indices, values[places], values.shape, check_invariants=False, is_coalesced=True)
    return made if layout is _COO else made.to_sparse_csr()


def specified(input):
    """Where a sparse tensor has elements, as a dense mask."""
    if input.layout is _CSR:
        ones = torch.ones_like(input.values(), dtype=_dtype.bool)
        parts = input.crow_indices(), input.col_indices(), ones, input.shape
        return sparse_csr_tensor(*parts, check_invariants=False).to_dense()
    input = input.coalesce()
    ones = torch.ones_like(input.values(), dtype=_dtype.bool)
    return sparse_coo_tensor(input.indices(), ones, input.shape, check_invariants=False).to_dense()


def mask_in_shape(input, mask):
    """The dense boolean mask in the input's shape."""
    if mask.ndim > input.ndim:
        raise IndexError(
            "_input_mask expected broadcastable mask (got mask dimensionality higher than of the input)"
        )
    mask = dense(mask)
    if mask.shape != input.shape:
        mask = mask.broadcast_to(input.shape)
    return mask if mask.dtype is _dtype.bool else mask.bool()


def _input_mask(input, *args, **kwargs):
    """The mask that is given by the name ``mask``, in the input's shape and layout.

    Raises:
        ValueError: there is none, or the input has another layout than strided, COO and CSR.
    """
    if input.layout not in (formats.strided, _COO, _CSR):
        raise ValueError(f"_input_mask expects strided or sparse COO or sparse CSR tensor but got {input.layout}")
    if (mask := kwargs.get("mask")) is None:
        raise ValueError("_input_mask requires explicit mask")
    mask = mask_in_shape(input, mask)
    return in_layout(mask, mask, input.layout)


def canonical_dim(dim, ndim):
    """The dimensions to reduce, in order; None and ``()`` are all."""
    if dim is None or dim == ():
        return tuple(range(ndim)) if ndim else (0,)
    dims: list[int] = []
    for d in (dim,) if isinstance(dim, int) else dim:
        if d in dims:
            raise RuntimeError(f"dim={d} appears multiple times in the list of dims")
        if not -max(ndim, 1) <= d < max(ndim, 1):
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-max(ndim, 1)}, {max(ndim, 1) - 1}], but got {d})"
            )
        dims.append(d % max(ndim, 1))
    return tuple(sorted(dims))


def any_along(mask, dim, keepdim):
    """Whether the mask selects something, by the dimensions that a reduction leaves."""
    if not mask.ndim:
        return mask
    for d in reversed(canonical_dim(dim, mask.ndim)):
        mask = mask.any(d, keepdim=keepdim)
    return mask


def _output_mask(op, input, *args, **kwargs):
    """The mask of what ``op(input, *args, **kwargs)`` of this module gives: where something is selected.

    Raises:
        ValueError: for other functions, or without a mask.
    """
    name = getattr(op, "__name__", "")
    if name in _REDUCTIONS:
        mask = _input_mask(input, *args, **kwargs)
        rest = args[1:] if name == "norm" else args  # the order comes before the dimensions
        return any_along(mask, rest[0] if rest else kwargs.get("dim"), bool(kwargs.get("keepdim", False)))
    if name in _OVER_A_DIMENSION:
        return _input_mask(input, *args, **kwargs)
    raise ValueError(f"_output_mask expected masked operation (got callable {_called(op)})")


def _called(op):
    return f"{op.__module__}.{op.__name__}".replace("masked.ops.", "masked._ops.")  # PyTorch's name of the module


def _reduction_identity(op_name, input, *args):
    """What an operation ignores, as a tensor of the input's dtype; None where there is no such number.

    Raises:
        NotImplementedError: the operation has none for the dtype.
    """
    dtype, options = input.dtype, {"dtype": input.dtype, "device": input.device}
    if op_name in ("mean", "var", "std"):
        return None
    if op_name in ("sum", "cumsum", "norm"):
        least = op_name == "norm" and args and args[0] == -math.inf
        return torch.tensor(math.inf if least else 0, **options)
    if op_name in ("prod", "cumprod"):
        return torch.tensor(1, **options)
    if op_name == "median":
        return torch.tensor(math.nan, device=input.device, dtype=dtype if dtype.is_floating_point else _dtype.float32)
    sign = {"amax": -1, "argmax": -1, "logaddexp": -1, "logsumexp": -1, "amin": 1, "argmin": 1}.get(op_name)
    if sign is None or dtype is _dtype.bool:
        raise NotImplementedError(f"identity of {op_name} on {dtype} input")
    if dtype.is_floating_point or (dtype.is_complex and op_name == "logsumexp"):
        return torch.tensor(sign * math.inf, **options)
    limits = _dtype.iinfo(dtype)
    return torch.tensor(limits.min if sign < 0 else limits.max, **options)


def _where(mask, input, fill_value):
    """The input where the mask selects, elsewhere ``fill_value``; of sparse masks nothing is there elsewhere."""
    if mask.layout is formats.strided:
        return torch.where(mask, input, fill_value)
    if mask.layout not in (_COO, _CSR):
        raise ValueError(f"_where expects strided or sparse COO or sparse CSR tensor but got {mask.layout}")
    if mask.layout is _COO and input.layout is not _COO:
        raise AssertionError(f"input.layout must be sparse_coo, got {input.layout}")
    return in_layout(dense(input), dense(mask), mask.layout)


def _combine_input_and_mask(op, input, mask, *args):
    """The input with the operation's identity where the mask selects nothing."""
    if hasattr(input, "get_mask"):
        mask = input.get_mask() if mask is None else mask
        input = input.get_data()
    if mask is None:
        return input
    return _where(_input_mask(input, mask=mask), input, _reduction_identity(op.__name__, input, *args))


def of_sparse(name, function, input, args, kwargs):
    """A reduction of a sparse tensor, which has the tensor's layout.

    Raises:
        ValueError: the operation takes no such tensors, or not without a mask. RuntimeError: ``keepdim=False`` of CSR.
    """
    layout, mask = input.layout, kwargs.pop("mask", None)
    if name not in _SPARSE or layout not in (_COO, _CSR) or (name == "mean" and layout is _COO):
        takes = {"mean": "strided or sparse_csr", **dict.fromkeys(_SPARSE - {"mean"}, "strided, sparse_coo or sparse_csr")}
        shown = "std/var" if name in ("std", "var") else name
        raise ValueError(f"masked {shown} expects {takes.get(name, 'strided')} tensor (got {layout} tensor)")
    if mask is None and name != "sum":
        raise ValueError(f"masked {name} expects explicit mask for {str(layout).partition('.')[2]} tensor input")
    keepdim = bool(kwargs.get("keepdim", False))
    if layout is _CSR and not keepdim:
        kind = AssertionError if name in ("amax", "amin", "mean") else RuntimeError
        raise kind("reduction operations on CSR tensors with keepdim=False is unsupported")
    mask = specified(input) if mask is None else mask_in_shape(input, mask)
    dim = args[0] if args else kwargs.get("dim")
    dims = canonical_dim(dim, input.ndim)
    if not dims:  # an empty list, other than an empty tuple, is no dimension here
        return in_layout(dense(input), mask, layout)
    result = function(dense(input), *args, mask=mask, **kwargs)
    if layout is _COO and len(dims) == input.ndim:  # PyTorch makes it of the dense result, without zeros
        return result.to_sparse()
    return in_layout(result, any_along(mask, dim, keepdim), layout)
