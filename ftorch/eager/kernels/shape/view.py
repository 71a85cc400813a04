"""View ops, each by its geometry rule: (geometry, arguments) -> (size, stride, offset).

Offsets are relative to the input's. A fourth part of the result is another dtype, a fifth the bits of
the view where they are not the input's. What a view shares, how it is read and written, its gradient and
its batching follow from the rule.
"""

from __future__ import annotations

from ...core.dtype import dtype as Dtype
from ...core.geometry import CONJ, NEG, contiguous_stride, infer_size, view_stride
from ...core.registry import view
from .._common import wrap_dim, wrap_dims


def _ints(values):
    return tuple(int(v) for v in values)


@view("alias(Tensor(a) self) -> Tensor(a)", forms="function")
def alias(g):
    return g.shape, g.stride, 0


@view("view(Tensor(a) self, SymInt[] size) -> Tensor(a)", forms="method")
def view_(g, size):
    size = infer_size(size, g.numel)
    stride = contiguous_stride(size) if g.has_new_stride() else view_stride(g.shape, g.stride, size)
    if stride is None:
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one dimension "
            "spans across two contiguous subspaces). Use .reshape(...) instead."
        )
    return size, stride, 0


def _check_last_stride(g, target):
    if g.stride[-1] != 1:
        raise RuntimeError(
            f"self.stride(-1) must be 1 to view {g.dtype.scalar_name} as {target.scalar_name} "
            f"(different element sizes), but got {g.stride[-1]}"
        )


@view("view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)", forms="method", differentiable=False)
def view_dtype(g, dtype):
    target: Dtype = dtype
    if g.bits and target is not g.dtype:
        kind = "tensors with negative bit set" if g.bits == NEG else "conjugate view tensors"
        raise RuntimeError(
            f"torch.Tensor.view is not supported for {kind} when converting to a different dtype."
        )
    old, new = g.dtype.itemsize, target.itemsize
    size, stride = list(g.shape), list(g.stride)
    if old == new:
        return size, stride, 0, target
    if not size:
        raise RuntimeError(
            f"self.dim() cannot be 0 to view {g.dtype.scalar_name} as {target.scalar_name} "
            "(different element sizes)"
        )
    if old > new:
        _check_last_stride(g, target)
        ratio = old // new
        stride = [s * ratio for s in stride[:-1]] + [1]
        size[-1] *= ratio
        return size, stride, 0, target
    ratio = new // old
    if size[-1] % ratio:
        raise RuntimeError(
            f"self.size(-1) must be divisible by {ratio} to view {g.dtype.scalar_name} as "
            f"{target.scalar_name} (different element sizes), but got {size[-1]}"
        )
    _check_last_stride(g, target)
    for d, s in enumerate(stride[:-1]):
        if s % ratio:
            raise RuntimeError(
                f"self.stride({d}) must be divisible by {ratio} to view {g.dtype.scalar_name} as "
                f"{target.scalar_name} (different element sizes), but got {s}"
            )
    size[-1] //= ratio
    return size, [s // ratio for s in stride[:-1]] + [1], 0, target


@view("view_as_real(Tensor(a) self) -> Tensor(a)", forms="function")
def view_as_real(g):
    if not g.dtype.is_complex:
        raise RuntimeError("view_as_real is only supported for complex tensors")
    if g.bits & CONJ:
        raise RuntimeError(
            "view_as_real doesn't work on unresolved conjugated tensors.  To resolve the conjugate "
            "tensor so you can view it as real, use self.resolve_conj(); however, be warned that the "
            "resulting tensor will NOT alias the original."
        )
    return (*g.shape, 2), (*(2 * s for s in g.stride), 1), 0, g.dtype.to_real()


@view("view_as_complex(Tensor(a) self) -> Tensor(a)", forms="function")
def view_as_complex(g):
    if g.dtype.name not in ("float16", "float32", "float64"):
        raise RuntimeError(
            "view_as_complex is only supported for half, float and double tensors, but got a tensor "
            f"of scalar type: {g.dtype.scalar_name}"
        )
    if not g.shape:
        raise RuntimeError("Input tensor must have one or more dimensions")
    if g.shape[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    if g.stride[-1] != 1:
        raise RuntimeError("Tensor must have a last dimension with stride 1")
    if any(s % 2 for s in g.stride[:-1]):
        raise RuntimeError("Tensor must have a stride divisible by 2 for all but last dimension")
    return g.shape[:-1], tuple(s // 2 for s in g.stride[:-1]), 0, g.dtype.to_complex()


@view("_real_part(Tensor(a) self) -> Tensor(a)", forms="")
def real_part(g):
    return g.shape, tuple(2 * s for s in g.stride), 0, g.dtype.to_real(), g.bits & NEG


@view("_imag_part(Tensor(a) self) -> Tensor(a)", forms="")
def imag_part(g):
    negated = bool(g.bits & NEG) != bool(g.bits & CONJ)
    return g.shape, tuple(2 * s for s in g.stride), 1, g.dtype.to_real(), NEG * negated


@view("_conj(Tensor(a) self) -> Tensor(a)", forms="")
def conj(g):
    return g.shape, g.stride, 0, g.dtype, g.bits ^ CONJ


@view("_neg_view(Tensor(a) self) -> Tensor(a)", forms="function")
def neg_view(g):
    return g.shape, g.stride, 0, g.dtype, g.bits ^ NEG


@view("permute(Tensor(a) self, int[] dims) -> Tensor(a)")
def permute(g, dims):
    if len(dims) != g.ndim:
        raise RuntimeError(
            f"permute(sparse_coo): number of dimensions in the tensor input does not match the length "
            f"of the desired ordering of dimensions i.e. input.dim() = {g.ndim} is not equal to "
            f"len(dims) = {len(dims)}"
        )
    dims = [wrap_dim(d, g.ndim) for d in dims]
    if len(set(dims)) != len(dims):
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return [g.shape[d] for d in dims], [g.stride[d] for d in dims], 0


def _swap(g, a, b):
    a, b = wrap_dim(a, g.ndim), wrap_dim(b, g.ndim)
    size, stride = list(g.shape), list(g.stride)
    if size:
        size[a], size[b], stride[a], stride[b] = size[b], size[a], stride[b], stride[a]
    return size, stride, 0


@view("transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)")
def transpose(g, dim0, dim1):
    return _swap(g, dim0, dim1)


@view("swapaxes(Tensor(a) self, int axis0, int axis1) -> Tensor(a)")
def swapaxes(g, axis0, axis1):
    return _swap(g, axis0, axis1)


@view("swapdims(Tensor(a) self, int dim0, int dim1) -> Tensor(a)")
def swapdims(g, dim0, dim1):
    return _swap(g, dim0, dim1)


@view("t(Tensor(a) self) -> Tensor(a)")
def t(g):
    if g.ndim > 2:
        raise RuntimeError(
            f"t() expects a tensor with <= 2 dimensions, but self is {g.ndim}D"
        )
    return _swap(g, 0, g.ndim - 1) if g.ndim == 2 else (g.shape, g.stride, 0)


@view("mT(Tensor(a) self) -> Tensor(a)", forms="")
def matrix_transpose(g):
    return _swap(g, -2, -1)


@view("numpy_T(Tensor(a) self) -> Tensor(a)", forms="")
def numpy_T(g):
    return g.shape[::-1], g.stride[::-1], 0


@view("movedim.intlist(Tensor(a) self, int[1] source, int[1] destination) -> Tensor(a)",
      aliases="moveaxis")
def movedim(g, source, destination):
    source = (source,) if isinstance(source, int) else source
    destination = (destination,) if isinstance(destination, int) else destination
    if len(source) != len(destination):
        raise RuntimeError(
            "movedim: Invalid source or destination dims: source "
            f"({list(source)} dims) should contain the same number of dims as destination "
            f"({list(destination)} dims)"
        )
    source = [wrap_dim(d, g.ndim) for d in source]
    destination = [wrap_dim(d, g.ndim) for d in destination]
    if len(set(source)) != len(source):
        raise RuntimeError(f"movedim: repeated dim in `source` ({source})")
    if len(set(destination)) != len(destination):
        raise RuntimeError(f"movedim: repeated dim in `destination` ({destination})")
    if not g.ndim:
        return g.shape, g.stride, 0
    order = [None] * g.ndim
    for s, d in zip(source, destination):
        order[d] = s
    rest = iter(d for d in range(g.ndim) if d not in source)
    order = [next(rest) if d is None else d for d in order]
    return [g.shape[d] for d in order], [g.stride[d] for d in order], 0


@view("expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)", forms="method")
def expand(g, size, implicit):
    gap = len(size) - g.ndim
    if gap < 0:
        raise RuntimeError(
            f"expand(torch.{g.dtype.scalar_name}Tensor{{{list(g.shape)}}}, "
            f"size={list(size)}): the number of sizes provided ({len(size)}) must be greater or equal "
            f"to the number of dimensions in the tensor ({g.ndim})"
        )
    out_size, stride = [], []
    for i in reversed(range(len(size))):  # errors name the last dimension that does not fit
        n = size[i]
        old = g.shape[i - gap] if i >= gap else 1
        if n == -1:
            if i < gap:
                raise RuntimeError(
                    f"The expanded size of the tensor ({n}) isn't allowed in a leading, non-existing "
                    f"dimension {i}"
                )
            n = old
        elif n < 0 and (old == 1 or i < gap):
            raise RuntimeError(
                f"The expanded size of the tensor ({n}) isn't allowed in a leading, non-existing "
                f"dimension {i}"
            )
        if old != n and old != 1:
            raise RuntimeError(
                f"The expanded size of the tensor ({n}) must match the existing size ({old}) at "
                f"non-singleton dimension {i}.  Target sizes: {list(size)}.  Tensor sizes: "
                f"{list(g.shape)}"
            )
        out_size.append(n)
        if i >= gap and old == n:
            stride.append(g.stride[i - gap])
        else:
            stride.append(0 if i >= gap or n != 1 else _outer_stride(g))
    return out_size[::-1], stride[::-1], 0


def _outer_stride(g):
    return g.shape[0] * g.stride[0] if g.ndim else 1


@view("broadcast_to(Tensor(a) self, SymInt[] size) -> Tensor(a)")
def broadcast_to(g, size):
    return expand.kernel(g, size, False)


@view("squeeze(Tensor(a) self) -> Tensor(a)")
def squeeze(g):
    kept = [d for d in range(g.ndim) if g.shape[d] != 1]
    return [g.shape[d] for d in kept], [g.stride[d] for d in kept], 0


@view("squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)")
def squeeze_dim(g, dim):
    return squeeze_dims.kernel(g, (dim,))


@view("squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)")
def squeeze_dims(g, dim):
    dims = wrap_dims(dim, g.ndim, empty_is_all=False)
    kept = [d for d in range(g.ndim) if d not in dims or g.shape[d] != 1]
    return [g.shape[d] for d in kept], [g.stride[d] for d in kept], 0


@view("unsqueeze(Tensor(a) self, int dim) -> Tensor(a)")
def unsqueeze(g, dim):
    dim = wrap_dim(dim, g.ndim + 1)
    step = g.shape[dim] * g.stride[dim] if dim < g.ndim else 1
    size, stride = list(g.shape), list(g.stride)
    size.insert(dim, 1)
    stride.insert(dim, step)
    return size, stride, 0


@view("select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)")
def select(g, dim, index):
    if not g.ndim:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    dim = wrap_dim(dim, g.ndim)
    size = g.shape[dim]
    if not -size <= index < size:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(g.shape)} at dimension "
            f"{dim}"
        )
    index += size if index < 0 else 0
    return (
        g.shape[:dim] + g.shape[dim + 1 :],
        g.stride[:dim] + g.stride[dim + 1 :],
        index * g.stride[dim],
    )


@view("slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, "
      "SymInt step=1) -> Tensor(a)", forms="")
def slice_(g, dim, start, end, step):
    dim = wrap_dim(dim, g.ndim)
    if step <= 0:
        raise ValueError("slice step must be positive")
    size = g.shape[dim]
    start, end, step = slice(start, end, step).indices(size)
    count = max(0, -(-(end - start) // step))
    return (
        g.shape[:dim] + (count,) + g.shape[dim + 1 :],
        g.stride[:dim] + (g.stride[dim] * step,) + g.stride[dim + 1 :],
        start * g.stride[dim],
    )


@view("narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)")
def narrow(g, dim, start, length):
    if not g.ndim:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    dim = wrap_dim(dim, g.ndim)
    size = g.shape[dim]
    if not -size <= start <= size:
        raise IndexError(
            f"start out of range (expected to be in range of [{-size}, {size}], but got {start})"
        )
    start += size if start < 0 else 0
    if start + length > size:
        raise RuntimeError(
            f"start ({start}) + length ({length}) exceeds dimension size ({size})."
        )
    return (
        g.shape[:dim] + (length,) + g.shape[dim + 1 :], g.stride, start * g.stride[dim]
    )


@view("diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)")
def diagonal(g, offset, dim1, dim2):
    a, b = wrap_dim(dim1, g.ndim), wrap_dim(dim2, g.ndim)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    if offset >= 0:
        count = max(min(g.shape[a], g.shape[b] - offset), 0)
        start = offset * g.stride[b]
    else:
        count = max(min(g.shape[a] + offset, g.shape[b]), 0)
        start = -offset * g.stride[a]
    kept = [d for d in range(g.ndim) if d not in (a, b)]
    return (
        [*(g.shape[d] for d in kept), count],
        [*(g.stride[d] for d in kept), g.stride[a] + g.stride[b]],
        start if count else 0,
    )


@view("unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)", forms="method")
def unfold(g, dimension, size, step):
    dim = wrap_dim(dimension, g.ndim)
    extent = g.shape[dim] if g.ndim else 1
    if size < 0:
        raise RuntimeError(f"size is {size} but must be >= 0")
    if size > extent:
        raise RuntimeError(
            f"maximum size for tensor at dimension {dim} is {extent} but size is {size}"
        )
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    shape, stride = list(g.shape), list(g.stride)
    inner = stride[dim] if g.ndim else 1
    if g.ndim:
        shape[dim] = (extent - size) // step + 1
        stride[dim] = step * inner
    return [*shape, size], [*stride, inner], 0


@view("as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) "
      "-> Tensor(a)", forms="")
def as_strided(g, size, stride, storage_offset):
    if len(size) != len(stride):
        raise RuntimeError("mismatch in length of strides and shape")
    for s in stride:
        if s < 0:
            raise RuntimeError(
                f"as_strided: Negative strides are not supported at the moment, got strides: "
                f"{list(stride)}"
            )
    return _ints(size), _ints(stride), storage_offset or 0


@view("unflatten.int(Tensor(a) self, int dim, SymInt[] sizes) -> Tensor(a)")
def unflatten(g, dim, sizes):
    dim = wrap_dim(dim, g.ndim)
    if not sizes:
        raise RuntimeError("unflatten: sizes must be non-empty")
    if not g.ndim:
        raise RuntimeError(f"unflatten got an unexpected error:\nDimension specified as {dim} but tensor has no dimensions")
    extent = g.shape[dim]
    try:
        sizes = infer_size(sizes, extent)
    except RuntimeError as error:
        if "only one" in str(error):
            raise RuntimeError(f"unflatten got an unexpected error:\n{error}") from None
        raise RuntimeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {dim} "
            f"({extent}) in the input tensor"
        ) from None
    return view_.kernel(g, (*g.shape[:dim], *sizes, *g.shape[dim + 1 :]))
