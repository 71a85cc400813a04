"""Shapes of block-sparse operands as kernels want them (``torch.sparse._triton_ops``)."""

from __future__ import annotations

import ftorch as torch


def broadcast_batch_dims(f_name, *tensors):
    """The sizes that the tensors' dimensions before the last two have in common.

    Raises:
        ValueError: if there are none.

    >>> import ftorch as torch
    >>> from ftorch.sparse._triton_ops import broadcast_batch_dims
    >>> broadcast_batch_dims("mm", torch.ones(2, 3, 3), torch.ones(1, 3, 3))
    torch.Size([2])
    """
    try:
        return torch.broadcast_shapes(*(t.shape[:-2] for t in tensors))
    except Exception:
        raise ValueError(f"{f_name}(): inputs' batch dimensions are not broadcastable!") from None


def tile_to_blocksize(t, blocksize):
    """A matrix (or several) as a matrix of blocks: (..., rows, columns, block rows, block columns), a view.

    >>> import ftorch as torch
    >>> from ftorch.sparse._triton_ops import tile_to_blocksize
    >>> tile_to_blocksize(torch.ones(4, 6), (2, 3)).shape
    torch.Size([2, 2, 2, 3])
    """
    *batch, rows, columns = t.shape
    height, width = blocksize
    return t.view(*batch, rows // height, height, columns // width, width).transpose(-3, -2)


def prepare_inputs(bsr, *dense_tensors):
    """Row starts, columns and values of a BSR tensor, and dense matrices: each with one batch dimension in common."""
    crow, column, values = (t.unsqueeze(0) for t in (bsr.crow_indices(), bsr.col_indices(), bsr.values()))
    dense = [t.unsqueeze(0) for t in dense_tensors]
    batch = torch.broadcast_shapes(values.shape[:-3], *(t.shape[:-2] for t in dense))

    def flat(t, own):
        return t.broadcast_to(*batch, *t.shape[-own:]).flatten(0, len(batch) - 1)

    return flat(crow, 1), flat(column, 1), flat(values, 3), *(flat(t, 2) for t in dense)


def ptr_stride_extractor(*tensors):
    """Each tensor followed by its strides, as a kernel's arguments."""
    for t in tensors:
        yield t
        yield from t.stride()


def launch_kernel(kernel, tensor_dims_map, full_grid, grid_blocks=None):
    """Would launch a Triton kernel on parts of tensors.

    Raises:
        RuntimeError: always.
    """
    from ..utils._triton import triton_backend

    triton_backend()
