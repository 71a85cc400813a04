"""Functions of ``torch`` with a leading underscore that published code calls, as compositions of public ones.

Those that are ATen's operators (``torch._softmax``, ``torch._grouped_mm``) are taken from ``torch.ops.aten``.
"""

from __future__ import annotations

from ..eager.core import api as torch
from ..eager.core import dtype as _dtype
from ..eager.core.errors import size_mismatch
from ..eager.functions.nn import attention_choice as _attention_choice
from ..eager.tensor_api.graph_methods import can_have_data_of


def _convert_indices_from_coo_to_csr(input, size, *, out_int32=False):
    """The row pointers of sorted row indices: a vector of ``size + 1`` offsets.

    >>> import ftorch as torch
    >>> torch._convert_indices_from_coo_to_csr(torch.tensor([0, 0, 2]), 4)
    tensor([0, 2, 2, 3, 3])
    """
    rows = torch.arange(size + 1, dtype=input.dtype, device=input.device)
    return torch.searchsorted(input.contiguous(), rows, out_int32=out_int32)


def _convert_indices_from_csr_to_coo(crow_indices, col_indices, *, out_int32=False, transpose=False):
    """The (row, column) indices, one column for each element, of row pointers and columns.

    >>> import ftorch as torch
    >>> torch._convert_indices_from_csr_to_coo(torch.tensor([0, 2, 3]), torch.tensor([0, 1, 2]))
    tensor([[0, 0, 1],
            [0, 1, 2]])
    """
    lengths = crow_indices.diff()
    rows = torch.arange(lengths.numel(), device=crow_indices.device).repeat_interleave(lengths)
    found = torch.stack(
        [col_indices, rows.to(col_indices.dtype)] if transpose else [rows.to(col_indices.dtype), col_indices]
    )
    return found.to(_dtype.int32 if out_int32 else _dtype.int64)


def _dim_arange(like, dim):
    """0, 1, ... up to the size of ``like`` along ``dim``."""
    return torch.arange(like.shape[dim], device=like.device)


def _cast(kind):
    def cast(input, non_blocking=False):
        return input.to(kind)

    cast.__doc__ = f"The tensor as {kind}."
    return cast


_cast_Byte, _cast_Char, _cast_Short = _cast(_dtype.uint8), _cast(_dtype.int8), _cast(_dtype.int16)
_cast_Int, _cast_Long, _cast_Half = _cast(_dtype.int32), _cast(_dtype.int64), _cast(_dtype.float16)
_cast_Float, _cast_Double = _cast(_dtype.float32), _cast(_dtype.float64)


def _unique(input, sorted=True, return_inverse=False):
    """(the different elements, the index of each element in them, or an empty tensor)."""
    if return_inverse:
        return torch.unique(input, sorted=sorted, return_inverse=True)
    return torch.unique(input, sorted=sorted), torch.empty(0, dtype=_dtype.int64, device=input.device)


def _stack(tensors, dim=0):
    """`torch.stack`."""
    return torch.stack(tensors, dim)


def _euclidean_dist(x1, x2):
    """Distances between rows through one product of matrices (``torch.cdist``'s way of many rows)."""
    squares = x1.pow(2).sum(-1, keepdim=True) + x2.pow(2).sum(-1, keepdim=True).mT
    return (squares - 2 * torch.matmul(x1, x2.mT)).clamp_min(0).sqrt()


def _prelu_kernel(input, weight):
    """``x`` where positive, else ``weight * x``."""
    return torch.where(input > 0, input, weight * input)


def _aminmax(input, dim=None, keepdim=False):
    """`torch.aminmax` as a tuple."""
    return tuple(torch.aminmax(input, dim=dim, keepdim=keepdim))


def _weight_norm_interface(v, g, dim=0):
    """(the weight with direction ``v`` and length ``g`` along ``dim``, the length of ``v``)."""
    norm = torch.norm_except_dim(v, 2, dim)
    return v * (g / norm), norm


def _fused_rms_norm(input, normalized_shape, weight=None, eps=None):
    """(the normalized tensor, 1 / its root mean square)."""
    dims = list(range(-len(normalized_shape), 0))
    if eps is None:
        eps = torch.finfo(input.dtype).eps
    wide = input.to(_dtype.float32) if input.dtype.itemsize == 2 else input
    scale = torch.rsqrt(wide.pow(2).mean(dims, keepdim=True) + eps)
    out = (wide * scale).to(input.dtype)
    return (out if weight is None else out * weight), scale


def _masked_softmax(input, mask, dim=None, mask_type=None):
    """Softmax of the elements where ``mask`` is False; NaN in rows without one."""
    if mask_type == 1 and input.dim() == 4 and mask.dim() == 2:  # a padding mask of batch and keys
        mask = mask[:, None, None, :]
    elif mask_type == 0 and input.dim() == 4 and mask.dim() == 2:
        mask = mask[None, None]
    dim = input.dim() - 1 if dim is None else dim
    return torch.softmax(input.masked_fill(mask, float("-inf")), dim)


def _trilinear(i1, i2, i3, expand1, expand2, expand3, sumdim, unroll_dim=1):
    """The sum over ``sumdim`` of the product of three tensors with new dimensions where ``expand`` says."""
    for dims, which in ((expand1, 0), (expand2, 1), (expand3, 2)):
        given = [i1, i2, i3]
        for d in sorted(dims):
            given[which] = given[which].unsqueeze(d)
        i1, i2, i3 = given
    out = i1 * i2 * i3
    return out.sum(list(sumdim)) if sumdim else out


def _nested_view_from_buffer(self, nested_size, nested_strides, offsets):
    """A nested tensor of a flat buffer: sizes, strides and offsets of its parts, one row for each.

    Raises:
        RuntimeError: if the buffer is not one-dimensional.
    """
    if self.dim() != 1:
        raise RuntimeError("Given buffer must be 1 dimensional.")
    parts = [
        self.as_strided(size, stride, self.storage_offset() + int(offset))
        for size, stride, offset in zip(nested_size.tolist(), nested_strides.tolist(), offsets.tolist())
    ]
    from .. import nested

    return nested.as_nested_tensor(parts)


def _nested_compute_contiguous_strides_offsets(nested_size):
    """(strides, offsets) of the parts of a nested tensor whose parts follow each other."""
    strides, offsets, at = [], [], 0
    for size in nested_size.tolist():
        stride, step = [], 1
        for n in reversed(size):
            stride.insert(0, step)
            step *= n
        strides.append(stride)
        offsets.append(at)
        at += step
    return torch.tensor(strides).reshape(len(strides), -1), torch.tensor(offsets)


def matrix_rank(input, tol=None, symmetric=False, *, out=None):
    """Raises RuntimeError: it was removed."""
    raise RuntimeError(
        "This function was deprecated since version 1.9 and is now removed.\\n"
        "Please use the `torch.linalg.matrix_rank` function instead. "
        "The parameter 'symmetric' was renamed in `torch.linalg.matrix_rank()` to 'hermitian'."
    )


def as_strided_(input, size, stride, storage_offset=None):
    """``input.as_strided_(...)``."""
    return input.as_strided_(size, stride, storage_offset)


def get_device(input):
    """``input.get_device()``."""
    return input.get_device()


def is_distributed(input):
    """False: no tensor is of the kind that PyTorch asks for."""
    return False


def __getattr__(name):
    from .._ops import ops

    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(ops.aten, name)


def _has_compatible_shallow_copy_type(input, from_):
    """Whether ``input.data = from_`` is allowed: both are dense tensors, or of one sparse layout, with values or both without.

    >>> import ftorch as torch
    >>> torch._has_compatible_shallow_copy_type(torch.ones(2), torch.eye(2).to_sparse())
    False
    """
    return can_have_data_of(input, from_)


def set_vital(vital: str, attr: str, value: str) -> None:
    """Does nothing: vitals are not kept."""


# --- nested tensors of padded ones -----------------------------------------------------


def _left_aligned(t, mask):
    if mask.dtype is not _dtype.bool:
        raise RuntimeError(f"Expected mask to be of ScalarType Bool, but got {mask.dtype.scalar_name} instead.")
    if mask.dim() != 2:
        raise RuntimeError("Padding mask should be 2D")
    if t.dim() != 3:
        raise RuntimeError("Input should be a 3D tensor, N * L * D")
    if tuple(mask.shape) != tuple(t.shape[:2]):
        raise RuntimeError("Mask size should match input size")
    lengths = mask.sum(1)
    return lengths, torch.arange(mask.shape[1], device=mask.device) < lengths[:, None]


def _nested_tensor_from_mask_left_aligned(t, mask) -> bool:
    """Whether each row of ``mask`` (N, L) is True up to a length and False behind it.

    >>> import ftorch as torch
    >>> torch._nested_tensor_from_mask_left_aligned(torch.ones(1, 2, 3), torch.tensor([[False, True]]))
    False
    """
    return bool(torch.equal(_left_aligned(t, mask)[1], mask))


def _nested_tensor_from_mask(t, mask, mask_check=True):
    """The nested tensor of ``t`` (N, L, D) that holds of each row what ``mask`` (N, L) marks, which are its first elements.

    Raises:
        RuntimeError: if shapes or the mask's dtype do not fit, or, if ``mask_check``, for a mask with gaps.

    >>> import ftorch as torch
    >>> mask = torch.tensor([[True, False], [True, True]])
    >>> [x.shape for x in torch._nested_tensor_from_mask(torch.ones(2, 2, 3), mask).unbind()]
    [torch.Size([1, 3]), torch.Size([2, 3])]
    """
    from .. import nested

    lengths, aligned = _left_aligned(t, mask)
    if mask_check and not torch.equal(aligned, mask):
        raise RuntimeError("Mask must be left-aligned without gaps")
    return nested.as_nested_tensor([row[:length] for row, length in zip(t.unbind(), lengths.tolist())])


def _nested_tensor_from_tensor_list(list, dtype=None, layout=None, device=None, pin_memory=None):
    """``torch.nested.as_nested_tensor(list)``."""
    from .. import nested

    return nested.as_nested_tensor(list, dtype=dtype, device=device)


def _nested_from_padded(padded, cpu_nested_shape_example, fuse_transform_0213=False):
    """The nested tensor whose parts are what the first elements of each row of ``padded`` (N, ...) are.

    Args:
        cpu_nested_shape_example: the parts' sizes, int64, a row for each.
        fuse_transform_0213: ``padded`` is (N, H, L, D), a part's sizes are those of (L, H * D).

    Raises:
        RuntimeError: for sizes beyond those of ``padded``, or as many for a part as ``padded`` has.

    >>> import ftorch as torch
    >>> made = torch._nested_from_padded(torch.ones(2, 2, 3), torch.tensor([[2, 3], [1, 2]]))
    >>> [x.shape for x in made.unbind()]
    [torch.Size([2, 3]), torch.Size([1, 2])]
    """
    from .. import nested

    sizes = cpu_nested_shape_example
    if sizes.dtype is not _dtype.int64:
        raise RuntimeError(f"expected scalar type Long but found {sizes.dtype.scalar_name}")
    if fuse_transform_0213:
        padded = padded.permute(0, 2, 1, 3).flatten(2)
    if padded.dim() != sizes.shape[1] + 1:
        raise RuntimeError(f"dim: {padded.dim()}target_size: {sizes.shape[1]}")
    parts = []
    for row, shape in zip(padded.unbind(), sizes.tolist()):
        for dim, size in enumerate(shape):
            if size > row.shape[dim]:
                raise RuntimeError(size_mismatch(size, row.shape[dim], dim + 1))
            row = row.narrow(dim, 0, size)
        parts.append(row)
    return nested.as_nested_tensor(parts)


# --- loss scaling ----------------------------------------------------------------------


def _one(name, value, kind, needed):
    if value.numel() != 1:
        raise RuntimeError(f"{name} must be a 1-element tensor.")
    if value.dtype is not kind:
        raise RuntimeError(f"{name} must be {needed} tensor.")


def _amp_update_scale_(input, growth_tracker, found_inf, scale_growth_factor, scale_backoff_factor, growth_interval):
    """Adapts a loss scale: less after an overflow, more after ``growth_interval`` steps without one. Changes both tensors.

    Raises:
        RuntimeError: unless scale and ``found_inf`` are single float32 numbers and the tracker a single int32 one.
    """
    _one("growth_tracker", growth_tracker, _dtype.int32, "an int")
    _one("current_scale", input, _dtype.float32, "a float")
    _one("found_inf", found_inf, _dtype.float32, "a float")
    overflow, good = found_inf.reshape(()) != 0, growth_tracker + 1
    grows = good == growth_interval
    grown = input * scale_growth_factor
    grown = torch.where(grows & grown.isfinite(), grown, input)
    input.copy_(torch.where(overflow, input * scale_backoff_factor, grown))
    growth_tracker.copy_(torch.where(overflow | grows, torch.zeros_like(good), good))
    return input


def _amp_foreach_non_finite_check_and_unscale_(self, found_inf, inv_scale):
    """Multiplies gradients by ``inv_scale`` in place, and sets ``found_inf`` to 1 if one was infinite or nan."""
    for name, value in (("inv_scale", inv_scale), ("found_inf", found_inf)):
        _one(name, value, _dtype.float32, "a float")
    for gradient in self:
        if not gradient.dtype.is_floating_point or gradient.dtype.itemsize == 1:
            raise NotImplementedError(
                f'"_amp_foreach_non_finite_check_and_unscale_cpu" not implemented for \'{gradient.dtype.scalar_name}\''
            )
        bad = gradient.isfinite().all().logical_not()
        found_inf.copy_(torch.where(bad, torch.ones_like(found_inf), found_inf))
        gradient.mul_(inv_scale.to(gradient.dtype).reshape(()))


# --- which kernel PyTorch would take ----------------------------------------------------


def _fused_sdp_choice(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None,
                      enable_gqa=False) -> int:
    """The value of the `torch.nn.attention.SDPBackend` that PyTorch takes on the CPU: 1 for its fused kernel, 0 for none.

    Raises:
        RuntimeError: if the present `sdpa_kernel` allows neither.
    """
    return _attention_choice.chosen(query, key, value, attn_mask, dropout_p, enable_gqa)


def _nnpack_available() -> bool:
    """True: `torch._nnpack_spatial_convolution` exists, as XLA's convolution."""
    return True


def _nnpack_spatial_convolution(input, weight, bias, padding, stride=1):
    """``torch.nn.functional.conv2d``."""
    return torch.nn.functional.conv2d(input, weight, bias, stride, padding)


def cudnn_is_acceptable(input) -> bool:
    """False: XLA chooses the library of a convolution."""
    return False


def _add_relu(input, other, *, alpha=1, out=None):
    """``relu(input + alpha * other)``."""
    found = torch.relu(torch.add(input, other, alpha=alpha))
    return found if out is None else out.resize_(found.shape).copy_(found)


# --- sparse ------------------------------------------------------------------------------


def _sparse_broadcast_to(input, size):
    """A sparse COO tensor in a larger shape."""
    return torch.broadcast_to(input, tuple(size))


def _validate_sparse_coo_tensor_args(indices, values, size, is_coalesced=None, check_pinning=None):
    """Raises RuntimeError unless the parts make a sparse COO tensor."""
    from ..sparse import _invariants

    _invariants.check_coo_shapes(indices, values, tuple(size))
    _invariants.check_coo(indices, values, tuple(size), bool(is_coalesced))


def _validate_sparse_compressed_tensor_args(compressed_indices, plain_indices, values, size, layout, check_pinning=None):
    """Raises RuntimeError unless the parts make a tensor of a compressed layout."""
    from ..sparse import _invariants

    _invariants.check_compressed(compressed_indices, plain_indices, values, tuple(size), layout)
