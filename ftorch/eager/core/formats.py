"""``torch.layout`` and ``torch.memory_format`` objects."""

from __future__ import annotations

from .geometry import Geometry, channels_last_stride, contiguous_stride


class _Named:
    """A constant that prints and pickles as its name."""

    __slots__ = ("_name",)

    def __init__(self, name):
        self._name = name

    def __repr__(self):
        return f"torch.{self._name}"

    def __reduce__(self):
        return self._name


class layout(_Named):
    """How a tensor's elements are kept: ``torch.strided``, ``torch.sparse_coo``, ..."""

    __module__ = "ftorch"
    __slots__ = ()


class memory_format(_Named):
    """The order of dimensions in memory: ``torch.contiguous_format``, ``torch.channels_last``, ..."""

    __module__ = "ftorch"
    __slots__ = ()


class qscheme(_Named):
    """How numbers are quantized: ``torch.per_tensor_affine``, ..."""

    __module__ = "ftorch"
    __slots__ = ()


(per_tensor_affine, per_channel_affine, per_tensor_symmetric, per_channel_symmetric,
 per_channel_affine_float_qparams) = map(
    qscheme,
    ("per_tensor_affine", "per_channel_affine", "per_tensor_symmetric", "per_channel_symmetric",
     "per_channel_affine_float_qparams"),
)
strided, sparse_coo, sparse_csr, sparse_csc, sparse_bsr, sparse_bsc, jagged = map(
    layout,
    ("strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc", "jagged"),
)
_mkldnn = layout("_mkldnn")
contiguous_format, preserve_format, channels_last, channels_last_3d = map(
    memory_format, ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
)

legacy_contiguous_format = contiguous_format


def strides_for(shape, wanted: memory_format) -> tuple[int, ...]:
    """The strides of a tensor of a shape in a memory format.

    Raises:
        RuntimeError: for channels_last of the wrong rank, in PyTorch's words.
    """
    if wanted is contiguous_format:
        return contiguous_stride(shape)
    rank = 4 if wanted is channels_last else 5
    if len(shape) != rank:
        raise RuntimeError(
            f"required rank {rank} tensor to use {'channels_last' if rank == 4 else 'channels_last_3d'}"
            " format"
        )
    return channels_last_stride(shape)


def is_in_format(g: Geometry, wanted: memory_format) -> bool:
    """``is_contiguous(memory_format=wanted)``."""
    if wanted is contiguous_format:
        return g.is_contiguous
    rank = 4 if wanted is channels_last else 5
    if g.ndim != rank:
        return False
    expected = channels_last_stride(g.shape)
    return all(n == 1 or s == e for n, s, e in zip(g.shape, g.stride, expected))


def suggested(g: Geometry) -> memory_format:
    """The format that a tensor like this one gets (ATen's ``suggest_memory_format``)."""
    for format_ in (channels_last, channels_last_3d):
        if not g.is_contiguous and is_in_format(g, format_):
            return format_
    return contiguous_format
