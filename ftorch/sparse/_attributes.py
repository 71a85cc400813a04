"""Copies, dtypes, devices and sizes of sparse tensors, and what they refuse to be."""

from __future__ import annotations

from ..eager.core import api as torch
from ..eager.core import formats
from ..eager.core.dtype import int64
from ..eager.core.geometry import Size, geometry
from ..eager.tensor import Tensor, count_write
from ..eager.tensor_api.jax_interop import dlpack
from ..eager.tensor_api.legacy_types import check_place
from ._convert import to_compressed, to_dense, to_sparse
from ._tensor import (
    _LAYOUT_NAME,
    TABLE,
    CompressedPattern,
    CooPattern,
    SparseTensor,
    _blank,
    is_compressed,
    is_coo,
    layout_name,
    not_run,
    rebuilt,
    sparse_op,
    values_of,
)

# --- copies, dtypes and devices ------------------------------------------------------


@sparse_op()
def clone(input, *, memory_format=None):
    return rebuilt(input, values_of(input).clone(), "Clone")


def _outside(input):
    return _blank(input._pattern, input._v)


@sparse_op()
def detach(input):
    return _outside(input)


TABLE["data"] = detach


@sparse_op()
def to(input, *args, **kwargs):
    """Another dtype or device."""
    layout = kwargs.pop("layout", None)
    copy = kwargs.get("copy", False)
    v = values_of(input)
    args = tuple(a._v if isinstance(a, SparseTensor) else a for a in args)
    moved = v.to(*args, **kwargs)
    if moved is v and not copy:
        return input if layout is None else to_sparse(input, layout=layout)
    if moved.device is v.device:
        return rebuilt(input, moved, "ToCopy")
    return _on_device(input._pattern, moved.device).build(moved, "ToCopy")


sparse_op("cpu")(lambda input, memory_format=None: to(input, "cpu"))
sparse_op("cuda")(
    lambda input, device=None, non_blocking=False, memory_format=None: to(
        input, "cuda" if device is None else device
    )
)
sparse_op("type_as")(lambda input, other: to(input, other.dtype))
sparse_op("__format__")(lambda input, spec="": repr(input))


def _on_device(p, device):
    if isinstance(p, CooPattern):
        return CooPattern(p.indices.to(device), p.size, p.coalesced)
    return CompressedPattern(p.compressed.to(device), p.plain.to(device), p.size, p.layout, p.block)


def _conversion(name):
    def convert(input, *args, **kwargs):
        v = values_of(input)
        moved = getattr(v, name)(*args, **kwargs)
        return input if moved is v else rebuilt(input, moved, "ToCopy")

    sparse_op(name)(convert)


for _name in ("float double half bfloat16 int long short char byte bool cfloat cdouble").split():
    _conversion(_name)


@sparse_op("type", "type_")
def type_(input, dtype=None, non_blocking=False, **kwargs):
    """The type's name, or the tensor of another type."""
    if dtype is not None:
        return to(input, dtype)
    if is_compressed(input):
        raise RuntimeError(f"Unimplemented backend SparseCsr{input.device.type.upper()}")
    return input._v.type().replace("torch.", "torch.sparse.", 1)


@sparse_op()
def numpy(input, *, force=False):
    raise TypeError(
        f"can't convert {layout_name(input)} layout tensor to numpy. Use Tensor.to_dense() first."
    )


sparse_op()(dlpack)  # which refuses
sparse_op("__array__")(lambda input, dtype=None, copy=None: numpy(input))


@sparse_op("tolist", "data_ptr")
def tolist(input):
    raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")


@sparse_op("untyped_storage", "storage", "_typed_storage")
def untyped_storage(input):
    raise input._ftorch_storage.error


@sparse_op()
def item(input):
    """The only element as a number."""
    if input.numel() != 1:
        raise RuntimeError(f"a Tensor with {input.numel()} elements cannot be converted to Scalar")
    return to_dense(input).item()


for _name, _kind in (("__float__", float), ("__int__", int), ("__complex__", complex)):
    sparse_op(_name)(lambda input, _kind=_kind: _kind(item(input)))


@sparse_op()
def stride(input, dim=None):
    if is_compressed(input):
        raise RuntimeError(f"Sparse {_short(input)} tensors do not have strides")
    return (0,) * input.dim() if dim is None else 0


def _short(input):
    return {"SparseCsr": "CSR"}.get(layout_name(input), layout_name(input)[6:].upper())


@sparse_op()
def is_contiguous(input, memory_format=None):
    if is_compressed(input):
        raise RuntimeError(f"Sparse {_short(input)} tensors do not have is_contiguous")
    return False


@sparse_op()
def storage_offset(input):
    return 0


@sparse_op()
def contiguous(input, memory_format=None):
    return input


@sparse_op()
def as_subclass(input, cls):
    return input


# --- size and contents ---------------------------------------------------------------


def _empty(like, size, sparse_dim, dense_dim=0, dtype=None):
    """A tensor of coordinates without elements."""
    v = like._v if isinstance(like, SparseTensor) else like
    values = torch.zeros(
        (0, *size[len(size) - dense_dim :]), dtype=dtype or v.dtype, device=v.device
    )
    indices = torch.zeros((sparse_dim, 0), dtype=int64, device=v.device)
    return CooPattern(indices, size, True).build(values)


def emptied_to(out, size):
    """``torch.zeros`` with a sparse ``out``."""
    size = tuple(size)
    return become(out, _empty(out, size, len(size)) if is_coo(out) else emptied(out, None, size))


def like(name, x, dtype, layout, device, requires_grad):
    """``torch.zeros_like`` of a dense tensor in a sparse layout; of the others only zeros can be.

    Raises:
        NotImplementedError: another name than ``zeros_like``.
    """
    device = x.device if device is None else device
    made = zeros(x.shape, dtype or x.dtype, layout, device, requires_grad)
    if name != "zeros_like":
        raise not_run("empty_strided", made)
    return made


def zeros(size, dtype, layout, device, requires_grad):
    """``torch.zeros`` and ``torch.empty`` of a sparse layout."""
    if layout is formats.sparse_coo:
        like = torch.zeros(0, dtype=dtype, device=device)
        return _empty(like, tuple(size), len(size)).requires_grad_(requires_grad)
    if len(size) < 2:
        raise RuntimeError(
            "torch.empty: Only batched sparse compressed (non-block) tensors are supported, but got "
            f"size {list(size)}"
        )
    if layout in (formats.sparse_bsr, formats.sparse_bsc):
        raise RuntimeError(
            "torch.empty: Only batched sparse compressed (non-block) tensors are supported, but got "
            f"layout {_LAYOUT_NAME[layout]}"
        )
    out = to_compressed(torch.zeros(size, dtype=dtype, device=device), layout)
    return out.requires_grad_(requires_grad)


def emptied(input, dtype=None, size=None):
    """A tensor like ``input`` without elements."""
    size = tuple(input.shape if size is None else size)
    if is_coo(input):
        sparse = input._pattern.sparse_dim
        return _empty(input, size, sparse, len(size) - sparse, dtype)
    p = input._pattern
    v = torch.zeros((*p.batch, 0, *(p.block or ()), *p.dense_size), dtype=dtype or input.dtype,
                    device=input.device)
    plain = torch.zeros((*p.batch, 0), dtype=p.plain.dtype, device=p.plain.device)
    pattern = CompressedPattern(torch.zeros_like(p.compressed), plain, size, p.layout, p.block)
    return pattern.build(v)


def _of_layout(input, layout, dtype, device, requires_grad):
    """``torch.zeros_like`` of a sparse tensor in another layout than its own.

    Raises:
        RuntimeError: PyTorch's, for a strided layout of a compressed tensor, and for blocks.
    """
    if layout is formats.strided and is_coo(input):
        return torch.zeros(input.shape, dtype=dtype, device=device, requires_grad=requires_grad)
    if layout is formats.strided:
        raise RuntimeError(
            f"empty_like with different sparse layout is not supported (self is {_LAYOUT_NAME[input.layout]} but you requested "
            "Strided)"
        )
    if layout in (formats.sparse_bsr, formats.sparse_bsc):
        raise RuntimeError("sparse_compressed_tensor_with_dims: blocksize needs to be a tuple of size 2, but got 0")
    if input.layout in (formats.sparse_bsr, formats.sparse_bsc) and layout is not formats.sparse_coo:
        raise RuntimeError(
            "sparse_compressed_tensor_with_dims: blocksize cannot be specified for non-block layout "
            f"{_LAYOUT_NAME[layout]}"
        )
    return zeros(input.shape, dtype, layout, device, requires_grad)


@sparse_op("zeros_like", "empty_like")
def zeros_like(input, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False,
               memory_format=None):
    if layout is not None and layout is not input.layout:
        return _of_layout(input, layout, dtype or input.dtype, device or input.device, requires_grad)
    if memory_format is not None and input.layout is formats.sparse_coo:
        raise RuntimeError("memory format option is only supported by strided tensors")
    return emptied(input, dtype).requires_grad_(requires_grad)


def _filler(name, operator):
    """``ones_like`` and the like: with the elements' places, which the compressed layouts alone can."""

    def fill(input, *args, layout=None, dtype=None, device=None, requires_grad=False, **kwargs):
        dtype, kwargs["requires_grad"] = dtype or input.dtype, requires_grad
        if layout is formats.strided and is_coo(input):
            return getattr(torch, name)(torch.zeros(input.shape, dtype=dtype, device=device or input.device), *args, **kwargs)
        if layout is not None and layout is not input.layout:
            return _of_layout(input, layout, dtype, device, requires_grad)
        if is_coo(input) or operator in ("uniform_", "random_.from"):
            raise not_run(operator, input)
        values = values_of(input).detach()
        return input._pattern.build(getattr(torch, name)(values, *args, dtype=dtype, device=device, **kwargs))

    return fill


for _name, _operator in (
    ("ones_like", "fill_.Scalar"), ("full_like", "fill_.Scalar"), ("rand_like", "uniform_"), ("randn_like", "normal_"),
    ("randint_like", "random_.from"),
):
    sparse_op(_name)(_filler(_name, _operator))


def _new(input, *size, dtype=None, device=None, layout=None, requires_grad=False, **_):
    size = tuple(size[0]) if len(size) == 1 and isinstance(size[0], (tuple, list)) else size
    dtype, layout = dtype or input.dtype, layout or input.layout
    if layout is formats.strided:
        return torch.zeros(size, dtype=dtype, device=device or input.device, requires_grad=requires_grad)
    if layout in (formats.sparse_bsr, formats.sparse_bsc) and len(size) > 1:
        raise RuntimeError(
            f"empty_sparse_compressed expected sparse compressed (non-block) tensor layout but got {_LAYOUT_NAME[layout]}"
        )
    return zeros(size, dtype, layout, device or input.device, requires_grad)


sparse_op("new_zeros", "new_empty")(_new)


@sparse_op()
def new_ones(input, *size, **options):
    return new_full(input, size[0] if len(size) == 1 and isinstance(size[0], (tuple, list)) else size, 1, **options)


@sparse_op()
def new_full(input, size, fill_value, *, dtype=None, device=None, layout=None, requires_grad=False, **_):
    if layout is formats.strided:
        dtype, device = dtype or input.dtype, device or input.device
        return torch.full(size, fill_value, dtype=dtype, device=device, requires_grad=requires_grad)
    if is_compressed(input):
        _new(input, size)  # which refuses some
    raise not_run("fill_.Scalar", input)


@sparse_op()
def new(input, *args, device=None):
    """The constructor of early PyTorch: of sizes, or of indices and elements."""
    check_place(device, input.device.type, args, "new")
    if len(args) in (2, 3) and isinstance(args[0], Tensor):
        from ._construct import sparse_coo_tensor  # which stands on this module

        indices, values, *size = args
        return sparse_coo_tensor(indices, values, *size, dtype=input.dtype, device=input.device)
    if len(args) == 1 and not isinstance(args[0], (int, Size)):
        raise TypeError(
            "SparseTensor.new(sequence) only accepts sizes.  Please use torch.sparse_coo_tensor() or construct a strided "
            "tensor and convert it to sparse via to_sparse."
        )
    size = tuple(args[0]) if len(args) == 1 and isinstance(args[0], Size) else args or (0,)
    return _empty(input, size, len(size), 0)


@sparse_op()
def __bool__(input):
    if not input.numel():
        raise RuntimeError("Boolean value of Tensor with no values is ambiguous")
    if input.numel() != 1:
        raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
    return bool(input.to_dense())


sparse_op("_dimI")(lambda input: input.sparse_dim())
sparse_op("_dimV")(lambda input: input.dense_dim())


@sparse_op()
def is_same_size(input, other):
    return tuple(input.shape) == tuple(other.shape)


@sparse_op()
def new_tensor(input, data, **kwargs):
    return input._v.new_tensor(data, **kwargs)


def become(input, out):
    """Gives a tensor other contents, without a graph."""
    input._pattern, input._v = out._pattern, out._v
    input._ftorch_geometry = geometry(Size(out.shape), out.dtype, out.device)
    count_write(input)
    return input


@sparse_op()
def zero_(input):
    return become(input, emptied(input))


@sparse_op()
def copy_(input, src, non_blocking=False):
    """Takes over the elements of another sparse tensor."""
    if not isinstance(src, SparseTensor):
        raise RuntimeError(
            "copy_() between dense and sparse Tensors is not implemented! Found self type = "
            f"{input.type()} and src type = {src.type()}"
        )
    if not isinstance(input, SparseTensor):
        raise RuntimeError(
            "copy_() between dense and sparse Tensors is not implemented! Found self type = "
            f"{input.type()} and src type = {src.type()}"
        )
    if is_coo(input) and is_coo(src) and (src.shape != input.shape or src.sparse_dim() != input.sparse_dim()):
        _check_resizable(input, tuple(src.shape), src.sparse_dim(), src.dense_dim(), True)
    return become(input, clone(src.detach()).to(input.dtype))


def _check_resizable(input, size, sparse_dim, dense_dim, keep):
    if sparse_dim + dense_dim != len(size):
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(size)}, "
            f"sparse_dim = {sparse_dim}, dense_dim = {dense_dim}"
        )
    p = input._pattern
    if not keep or not p.nnz:
        return
    hint = (
        "You could try the following options:\n1. If you need an empty sparse tensor of this size, "
        "call `x = torch.sparse_coo_tensor(size)`.\n2. If you need to resize this tensor, you have the "
        "following options:\n    1. For both sparse and dense dimensions, keep the number of them "
        "constant and the size of them non-shrinking, and then try the same call again.\n    2. Or, "
        "create a new sparse tensor with the correct indices and values from this sparse tensor."
    )
    for what, was, now in (("sparse", p.sparse_dim, sparse_dim),
                           ("dense", input.dim() - p.sparse_dim, dense_dim)):
        if was != now:
            raise RuntimeError(
                f"changing the number of {what} dimensions (from {was} to {now}) on a non-empty sparse "
                f"tensor is not supported.\n{hint}"
            )
    for what, part in (("sparse", slice(0, sparse_dim)), ("dense", slice(sparse_dim, None))):
        was, now = tuple(input.shape[part]), tuple(size[part])
        if any(b < a for a, b in zip(was, now)):
            raise RuntimeError(
                f"shrinking the size of {what} dimensions (from {list(was)} to {list(now)}) on a "
                f"non-empty sparse tensor is not supported.\n{hint}"
            )


@sparse_op()
def sparse_resize_(input, size, sparse_dim, dense_dim):
    """Another size in place; elements stay."""
    size = tuple(size)
    _check_resizable(input, size, sparse_dim, dense_dim, True)
    p = input._pattern
    if not p.nnz:
        return become(input, _empty(input, size, sparse_dim, dense_dim))
    v = input._v
    if tuple(v.shape[1:]) != size[sparse_dim:]:
        wider = torch.zeros((p.nnz, *size[sparse_dim:]), dtype=v.dtype, device=v.device)
        wider[tuple(slice(0, n) for n in v.shape)] = v
        v = wider
    return become(input, CooPattern(p.indices, size, p.coalesced).build(v))


@sparse_op()
def sparse_resize_and_clear_(input, size, sparse_dim, dense_dim):
    """Another size in place, without elements."""
    size = tuple(size)
    _check_resizable(input, size, sparse_dim, dense_dim, False)
    return become(input, _empty(input, size, sparse_dim, dense_dim))


@sparse_op("resize_as_sparse_", "resize_as_")
def resize_as_sparse_(input, the_template, memory_format=None):
    """The size of another sparse tensor in place."""
    if not isinstance(input, SparseTensor):
        return input.resize_(tuple(the_template.shape))
    if not isinstance(the_template, SparseTensor):
        raise not_run("resize_", input)
    if is_coo(input) and is_coo(the_template):
        t = the_template._pattern
        return sparse_resize_(input, t.size, t.sparse_dim, len(t.size) - t.sparse_dim)
    return become(input, emptied(the_template, input.dtype))


@sparse_op()
def resize_(input, *sizes, memory_format=None):
    size = tuple(sizes[0]) if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    if is_coo(input):
        raise not_run("resize_", input)
    p = input._pattern
    pattern = CompressedPattern(p.compressed, p.plain, size, p.layout, p.block)
    return become(input, pattern.build(input._v))


# Attributes and methods that have a say of their own on every sparse tensor.


def _bind():
    def fixed(function):
        return property(function)

    SparseTensor.layout = fixed(lambda self: self._pattern.layout)
    SparseTensor.is_sparse = fixed(lambda self: isinstance(self._pattern, CooPattern))
    SparseTensor.is_sparse_csr = fixed(lambda self: self.layout is formats.sparse_csr)
    SparseTensor.data = property(_outside, lambda self, value: become(self, value))
    for name, function in list(TABLE.items()):
        own = vars(SparseTensor).get(name)
        if name != "data" and own is None or name in ("numpy", "tolist", "data_ptr", "__array__"):
            setattr(SparseTensor, name, _as_method(function))


def _as_method(function):
    def method(self, *args, **kwargs):
        return function(self, *args, **kwargs)

    method.__name__ = getattr(function, "__name__", "method")
    return method


_bind()
