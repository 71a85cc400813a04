"""Matrices of which two of every four elements in a row are zero (``torch.sparse.semi_structured``).

They are kept at half their size: the two others of each four (`packed`) and where they stand, 2 bits for each, 16 bits in an
integer (`meta`). XLA has no instruction for products of such matrices, so a product makes the dense one as it goes.
"""

from __future__ import annotations

import warnings
from collections import namedtuple

import ftorch as torch

__all__ = [
    "SparseSemiStructuredTensor", "SparseSemiStructuredTensorCUTLASS", "SparseSemiStructuredTensorCUSPARSELT",
    "to_sparse_semi_structured",
]

_SEMI_STRUCTURED_SPARSE_CONFIG = namedtuple(
    "_SEMI_STRUCTURED_SPARSE_CONFIG", "sparse_min_rows sparse_min_cols dense_min_rows dense_min_cols"
)
_GROUP, _KEPT = 4, 2
_IN_A_WORD = 16  # elements whose places are in one integer of 16 bits


def compress(dense):
    """(packed, meta) of a matrix (m, k), k a multiple of 16; of more than two elements in four, the first ones are kept."""
    groups = dense.reshape(dense.shape[0], -1, _GROUP)
    is_zero = (groups == 0).to(torch.int8)
    places = is_zero.argsort(dim=-1, stable=True)[..., :_KEPT].sort(-1).values  # those that are not zero come first
    packed = groups.gather(-1, places).reshape(dense.shape[0], -1)
    words = places.reshape(dense.shape[0], -1, _IN_A_WORD // _GROUP * _KEPT).to(torch.int32)
    shifts = torch.arange(0, 2 * words.shape[-1], 2, device=dense.device, dtype=torch.int32)
    return packed, (words << shifts).sum(-1, dtype=torch.int32).to(torch.int16)


def expand(packed, meta):
    """The dense matrix of `compress`'s results."""
    shifts = torch.arange(0, _IN_A_WORD, 2, device=packed.device, dtype=torch.int32)
    places = (meta.to(torch.int32).unsqueeze(-1) >> shifts) & 3
    groups = packed.new_zeros(packed.shape[0], packed.shape[1] // _KEPT, _GROUP)
    places = places.reshape(*groups.shape[:2], _KEPT).to(torch.int64)
    return groups.scatter_(-1, places, packed.reshape(places.shape)).reshape(packed.shape[0], -1)


class SparseSemiStructuredTensor(torch.Tensor):
    """A 2:4 sparse matrix; made by `to_sparse_semi_structured`. It can be transposed, cloned, detached, and multiplied."""

    _DEFAULT_ALG_ID = 0
    _DTYPE_SHAPE_CONSTRAINTS: dict = {}
    _FORCE_CUTLASS = False
    _FUSE_TRANSPOSE = False
    _PROTOTYPE_WARNING_SHOWN = False
    BACKEND = ""

    __slots__ = ("packed", "meta", "packed_t", "meta_t", "compressed_swizzled_bitmask")

    @staticmethod
    def __new__(
        cls,
        shape,
        packed,
        meta,
        packed_t,
        meta_t,
        compressed_swizzled_bitmask,
        fuse_transpose_cusparselt=False,
        alg_id_cusparselt=0,
        requires_grad=False,
    ):
        if not SparseSemiStructuredTensor._PROTOTYPE_WARNING_SHOWN:
            warnings.warn(
                "The PyTorch API of SparseSemiStructuredTensor is in prototype stage and will change in the near future. "
                "Please open a Github issue for features requests and see our documentation on the torch.sparse module "
                "for further information about the project.",
                UserWarning,
                stacklevel=2,
            )
            SparseSemiStructuredTensor._PROTOTYPE_WARNING_SHOWN = True
        known = packed if packed is not None else packed_t
        if known is None:
            raise ValueError("At least one of packed or packed_t must be provided")
        made = torch.Tensor._make_wrapper_subclass(
            cls, shape, dtype=known.dtype, device=known.device, layout=known.layout, requires_grad=requires_grad
        )
        made.packed, made.meta, made.packed_t, made.meta_t = packed, meta, packed_t, meta_t
        made.compressed_swizzled_bitmask = compressed_swizzled_bitmask
        made.fuse_transpose_cusparselt, made.alg_id_cusparselt = fuse_transpose_cusparselt, alg_id_cusparselt
        return made

    def __repr__(self, *, tensor_contents=None):
        return f"{self.__class__.__name__}(shape={self.shape})"

    def __tensor_flatten__(self):
        names = [name for name in self.__slots__ if getattr(self, name) is not None]
        return names, (self.shape, self.fuse_transpose_cusparselt, self.alg_id_cusparselt, self.requires_grad)

    @classmethod
    def __tensor_unflatten__(cls, inner_tensors, tensor_meta, outer_size, outer_stride):
        shape, fuse_transpose, alg_id, requires_grad = tensor_meta
        return cls(shape, *(inner_tensors.get(name) for name in cls.__slots__), fuse_transpose, alg_id, requires_grad)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        rule = _RULES.get(func._overloadpacket.__name__)
        if rule is None:
            raise NotImplementedError(
                f"{cls.__name__} matmul: operation {func} is not implemented for 2:4 sparse tensors; call to_dense() first"
            )
        return rule(*args, **(kwargs or {}))

    @classmethod
    def _validate_device_dim_dtype_shape(cls, original_tensor):
        """Raises RuntimeError for what cannot be compressed, in PyTorch's words."""
        if not original_tensor.is_cuda:
            raise RuntimeError(
                f"Error original_tensor.device= {original_tensor.device} is not supported! "
                "Only CUDA tensors are currently supported."
            )
        if original_tensor.dim() != 2:
            raise RuntimeError(
                f"Error original_tensor.dim = {original_tensor.dim()} is not supported! "
                "Only 2d tensors are currently supported."
            )
        if not original_tensor.is_contiguous():
            raise RuntimeError(
                "Error original_tensor is not contiguous!Only contiguous tensors are currently supported."
            )
        if original_tensor.dtype not in cls._DTYPE_SHAPE_CONSTRAINTS:
            raise RuntimeError(
                f"Error original_tensor.dtype {original_tensor.dtype} is not a supported dtype for {cls}!"
            )
        m, n = original_tensor.shape
        rows, columns = cls._DTYPE_SHAPE_CONSTRAINTS[original_tensor.dtype][:2]
        if m < rows or m % rows or n < columns or n % columns:
            raise RuntimeError(
                f"Error original_tensor.shape {original_tensor.shape} is not supported! "
                f"Both dimensions must be larger or equal than and a multiple of ({rows}, {columns})"
            )

    def to_dense(self):
        """The matrix with its zeros."""
        dense = expand(self.packed, self.meta) if self.packed is not None else expand(self.packed_t, self.meta_t).t()
        return dense.contiguous()

    @classmethod
    def from_dense(cls, original_tensor):
        """The sparse tensor of a dense one, of each dtype's least sizes.

        Raises:
            RuntimeError: for what cannot be compressed.
        """
        cls._validate_device_dim_dtype_shape(original_tensor)
        packed, meta = compress(original_tensor)
        return cls(
            original_tensor.shape, packed, meta, None, None, None, cls._FUSE_TRANSPOSE, cls._DEFAULT_ALG_ID,
            requires_grad=original_tensor.requires_grad,
        )

    def _mm(self, B, *, bias=None, **kwargs):
        """The product with a dense matrix, on its left."""
        if isinstance(B, SparseSemiStructuredTensor):
            raise ValueError(
                "`SparseSemiStructuredTensor @ SparseSemiStructuredTensor` is not supported by the hardware"
            )
        if self.ndim != 2 or B.ndim != 2:
            raise NotImplementedError(
                f"`{self.__class__.__name__}` matmul: Broadcasting is not implemented"
            )
        product = self.to_dense() @ B
        return product if bias is None else product + bias


def _detached(x):
    return x.__class__(
        x.shape, x.packed, x.meta, x.packed_t, x.meta_t, x.compressed_swizzled_bitmask, x.fuse_transpose_cusparselt,
        x.alg_id_cusparselt, False,
    )


def _transposed(x):
    return x.__class__(
        torch.Size((x.shape[1], x.shape[0])), x.packed_t, x.meta_t, x.packed, x.meta, x.compressed_swizzled_bitmask,
        x.fuse_transpose_cusparselt, x.alg_id_cusparselt, False,
    )


def _cloned(x, memory_format=None):
    parts = [None if part is None else part.clone() for part in (x.packed, x.meta, x.packed_t, x.meta_t)]
    return x.__class__(
        x.shape, *parts, x.compressed_swizzled_bitmask, x.fuse_transpose_cusparselt, x.alg_id_cusparselt, False
    )


def _multiplied(a, b):
    if isinstance(a, SparseSemiStructuredTensor):
        return a._mm(b)
    return b.t()._mm(a.t()).t()


def _added(bias, a, b, beta=1, alpha=1):
    if beta != 1 or alpha != 1:
        raise NotImplementedError("`SparseSemiStructuredTensor` matmul: beta and alpha have to be 1")
    return _multiplied(a, b) + bias


def _linear(x, weight, bias=None):
    product = _multiplied(x.reshape(-1, x.shape[-1]), weight.t()).reshape(*x.shape[:-1], weight.shape[0])
    return product if bias is None else product + bias


def _viewed(x, shape):
    if tuple(shape) != tuple(x.shape):
        raise NotImplementedError(f"`view` is not implemented for SparseSemiStructuredTensor with shape {shape}")
    return x


_RULES = {
    "detach": _detached, "alias": _detached, "t": _transposed, "clone": _cloned, "view": _viewed, "mm": _multiplied,
    "matmul": _multiplied, "addmm": _added, "linear": _linear, "values": lambda x: x.packed.detach(),
    "indices": lambda x: x.meta.detach(), "is_same_size": lambda x, y: x.shape == y.shape,
}


def _limits(**by_dtype):
    return {getattr(torch, name): _SEMI_STRUCTURED_SPARSE_CONFIG(*numbers) for name, numbers in by_dtype.items()}


class SparseSemiStructuredTensorCUTLASS(SparseSemiStructuredTensor):
    """With the least sizes of CUTLASS's products."""

    BACKEND = "cutlass"
    _DTYPE_SHAPE_CONSTRAINTS = _limits(
        int8=(16, 128, 16, 16), float16=(32, 64, 8, 8), bfloat16=(32, 64, 8, 8), float32=(32, 32, 4, 4)
    )


class SparseSemiStructuredTensorCUSPARSELT(SparseSemiStructuredTensor):
    """With the least sizes of cuSPARSELt's products."""

    BACKEND = "cusparselt"
    _DTYPE_SHAPE_CONSTRAINTS = _limits(
        float8_e4m3fn=(32, 32, 16, 16), int8=(32, 32, 16, 16), float16=(16, 16, 8, 8), bfloat16=(16, 16, 8, 8)
    )


def to_sparse_semi_structured(original_tensor, transposed=False, alg_id=0):
    """A dense matrix of which two of every four elements in a row are zero, as a sparse tensor.

    Args:
        original_tensor: (m, k) on an accelerator, of float16, bfloat16, float32 or int8.
        transposed: deprecated.

    Raises:
        RuntimeError: for other devices, dtypes and sizes.

    >>> import ftorch as torch
    >>> weight = torch.tensor([0., 0., 1., 1.]).tile((32, 16)).half()
    >>> torch.sparse.to_sparse_semi_structured(weight)
    Traceback (most recent call last):
    RuntimeError: Error original_tensor.device= cpu is not supported! Only CUDA tensors are currently supported.
    """
    if transposed:
        warnings.warn(
            "Setting transpose from `to_sparse_semi_structured` is deprecated and will be removed in a future release. "
            "`SparseSemiStructuredTensor` only support contiguous input tensors.",
            FutureWarning,
            stacklevel=2,
        )
    forced = SparseSemiStructuredTensor._FORCE_CUTLASS
    kind = SparseSemiStructuredTensorCUTLASS if forced else SparseSemiStructuredTensorCUSPARSELT
    if not forced and original_tensor.dtype not in kind._DTYPE_SHAPE_CONSTRAINTS:
        kind = SparseSemiStructuredTensorCUTLASS
    return kind.from_dense(original_tensor)
