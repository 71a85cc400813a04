"""`MaskedTensor`: a subclass of Tensor with a mask; calls run on the data, masks are carried along.

Elementwise calls keep the mask, which must be the same of all masked operands. Reductions are those of
`torch.masked` under the mask. Calls that move elements do the same to the mask.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

from ...autograd.function import Function
from ...eager.core import api
from ...eager.core import dtype as _dtype
from ...eager.core.formats import sparse_coo, sparse_csr, strided
from ...eager.core.geometry import Size
from ...eager.dispatch.overrides import DisableTorchFunctionSubclass
from ...eager.tensor import Tensor
from ...eager.tensor_api.conversions import retyped
from ...overrides import resolve_name
from .. import ops
from .._layouts import dense, in_layout, specified
from .binary import BINARY_NAMES
from .reductions import REDUCE_NAMES
from .unary import UNARY_NAMES

_UNARY = frozenset((*UNARY_NAMES, "__invert__", "__neg__", "__abs__", "__pow__"))
_BINARY = frozenset((
    *BINARY_NAMES,
    *"__add__ __radd__ __sub__ __mul__ __rmul__ __truediv__ __rtruediv__ __rdiv__ __floordiv__ __mod__ __and__ __or__ __xor__ "
    "__eq__ __ne__ __lt__ __le__ __gt__ __ge__ __lshift__ __rshift__ rtruediv".split(),
))
_REDUCTIONS = frozenset(REDUCE_NAMES)
_MOVING = frozenset(
    "__getitem__ cat stack chunk split tensor_split select narrow transpose swapaxes t view view_as reshape expand "
    "expand_as unsqueeze contiguous flatten ravel unfold clone detach repeat vstack hstack dstack row_stack "
    "column_stack concat concatenate".split()
)
_CONVERSIONS = frozenset("to float double half int long short char bool type cpu ones_like".split())
_ASKING = frozenset(
    "size dim ndimension numel nelement stride storage_offset is_contiguous is_floating_point is_complex is_signed "
    "element_size get_device __len__ __bool__ __float__ __int__ __index__ item backward register_hook retain_grad "
    "requires_grad_ __hash__ __repr__ __str__ __format__ __copy__ __deepcopy__ __reduce_ex__ is_tensor is_same_size "
    "register_post_accumulate_grad_hook _is_view zero_grad is_pinned is_shared dim_order __dir__ data_ptr "
    "untyped_storage as_subclass __setstate__ grad is_conj is_neg is_inference is_nonzero has_names is_distributed".split()
)
_TYPES = frozenset((_dtype.float16, _dtype.float32, _dtype.float64, _dtype.bool, _dtype.int8, _dtype.int16,
                    _dtype.int32, _dtype.int64))
_MISMATCH = "Input masks must match. If you need support for this, please open an issue on Github."


def is_masked_tensor(obj: Any, /) -> bool:
    """Whether an object is a `MaskedTensor`."""
    return isinstance(obj, MaskedTensor)


def _tensors_match(a, b, exact=True, rtol=1e-05, atol=1e-08):
    """Whether two tensors have the same elements, of sparse ones those that are specified, up to a tolerance if not ``exact``.

    Raises:
        ValueError: they have different layouts or dtypes.
    """
    if is_masked_tensor(a) or is_masked_tensor(b):
        raise ValueError("Neither `a` nor `b` can be a MaskedTensor.")
    if a.layout != b.layout:
        raise ValueError(f"`a` and `b` must have the same layout. Got {a.layout} and {b.layout}")
    if a.dtype != b.dtype:
        b = b.type(a.dtype)
    if a.layout == sparse_coo:
        return _tensors_match(a.values(), b.values(), exact) and _tensors_match(a.indices(), b.indices(), exact)
    if a.layout == sparse_csr:
        return (_tensors_match(a.crow_indices(), b.crow_indices(), exact)
                and _tensors_match(a.col_indices(), b.col_indices(), exact)
                and _tensors_match(a.values(), b.values(), exact))
    return api.equal(a, b) if exact else api.allclose(a, b, rtol=rtol, atol=atol)


def _masks_match(a, b):
    """Whether the masks of two masked tensors are the same; True where one of them is none."""
    if is_masked_tensor(a) and is_masked_tensor(b):
        return _tensors_match(a.get_mask(), b.get_mask(), exact=True)
    return True


def _check(data, mask):
    if isinstance(data, MaskedTensor) or not isinstance(data, Tensor):
        raise TypeError("data must be a Tensor")
    if isinstance(mask, MaskedTensor) or not isinstance(mask, Tensor):
        raise TypeError("mask must be a Tensor")
    if data.layout != mask.layout:
        raise TypeError("data and mask must have the same layout.")
    if data.layout not in (strided, sparse_coo, sparse_csr):
        raise TypeError(f"data layout of {data.layout} is not supported.")
    if data.layout is not strided:
        if data.layout is sparse_coo:
            data, mask = data.coalesce(), mask.coalesce()
        _check_places(data, mask)
    if mask.dtype is not _dtype.bool:
        raise TypeError("mask must have dtype bool.")
    if data.dtype not in _TYPES:
        raise TypeError(f"{data.dtype} is not supported in MaskedTensor.")
    if data.dim() != mask.dim():
        raise ValueError("data.dim() must equal mask.dim()")
    if data.size() != mask.size():
        raise ValueError("data.size() must equal mask.size()")


def _check_places(data, mask):
    """Raises ValueError where as many elements of two tensors of a sparse layout are not at the same places."""
    if data._nnz() != mask._nnz():  # the mask says where
        return
    if data.layout is sparse_coo:
        if not _tensors_match(data.indices(), mask.indices(), exact=True):
            raise ValueError("data and mask are both sparse COO tensors but do not have the same indices.")
    elif not (_tensors_match(data.crow_indices(), mask.crow_indices(), exact=True)
              and _tensors_match(data.col_indices(), mask.col_indices(), exact=True)):
        raise ValueError("data and mask are both sparse CSR tensors but do not share either crow or col indices.")


def _dense_parts(data, mask):
    """Data and mask in the strided layout, and `MaskedTensor._sparse` of them."""
    if data.layout is strided:
        return data, mask, None
    return data.to_dense(), mask.to_dense(), (data.layout, specified(mask))


def _announce():
    warnings.warn(
        "The PyTorch API of MaskedTensors is in prototype stage and will change in the near future. Please open a "
        "Github issue for features requests and see our documentation on the torch.masked module for further "
        "information about the project.",
        stacklevel=3,
    )


def _with(data, mask, sparse=None):
    """A plain tensor, with its place in the graph, as a masked tensor."""
    out = retyped(data, MaskedTensor)
    out._mask = mask
    if sparse is not None:
        out._sparse = sparse
    return out


class _Constructor(Function):
    """Makes a masked tensor of data; the gradient of the data is masked, too."""

    @staticmethod
    def forward(ctx, data, mask):
        ctx.mask = mask
        return data.clone()

    @staticmethod
    def backward(ctx, grad):
        with DisableTorchFunctionSubclass():
            plain = retyped(grad, Tensor)
            return _with(api.where(ctx.mask, plain, api.zeros_like(plain)), ctx.mask), None


_Constructor._backward_cls.__name__ = "ConstructorBackward"


class GetData(Function):
    """The data of a masked tensor."""

    @staticmethod
    def forward(ctx, x):
        ctx.mask = x._mask
        with DisableTorchFunctionSubclass():
            return x.detach().as_subclass(Tensor)

    @staticmethod
    def backward(ctx, grad):
        with DisableTorchFunctionSubclass():
            return api.where(ctx.mask, grad, api.zeros_like(grad))


def attached(data, mask):
    """A masked tensor of data, in the graph of the data."""
    _check(data, mask)
    _announce()
    data, mask, sparse = _dense_parts(data, mask)
    return _with(_Constructor.apply(data, mask), mask.clone(), sparse)


class MaskedTensor(Tensor):
    """A tensor whose mask says which elements are specified.

    Args:
        data: a tensor of a real dtype. mask: a bool tensor of the same shape.

    >>> import warnings; warnings.simplefilter("ignore")
    >>> import ftorch as torch
    >>> x = torch.masked.MaskedTensor(torch.arange(4.).view(2, 2), torch.tensor([[True, False], [True, True]]))
    >>> x.mean(0)
    MaskedTensor(
      [  1.0000,   3.0000]
    )
    """

    _mask: Tensor  # dense, as the data is
    _sparse: tuple | None = None  # (the layout, a dense mask of where there are elements), if it is no strided one

    @staticmethod
    def __new__(cls, data, mask, requires_grad=False):
        _check(data, mask)
        _announce()
        if data.requires_grad:
            warnings.warn(
                "It is not recommended to create a MaskedTensor with a tensor that requires_grad. "
                "To avoid this, you can use data.detach().clone()",
                stacklevel=2,
            )
        data, mask, sparse = _dense_parts(data.detach(), mask)
        out = _with(data.detach().clone(), mask.clone(), sparse)
        with DisableTorchFunctionSubclass():
            return out.requires_grad_(requires_grad) if requires_grad else out

    def __init__(self, data, mask, requires_grad=False):
        pass

    def get_mask(self):
        """The mask: True where the tensor is specified."""
        return self._mask if self._sparse is None else in_layout(self._mask, self._sparse[1], self._sparse[0])

    def get_data(self):
        """The data as a plain tensor, whatever it is where it is not specified."""
        data = GetData.apply(self)
        return data if self._sparse is None else in_layout(data, self._sparse[1], self._sparse[0])

    def to_tensor(self, value):
        """A plain tensor that has a value where this one is not specified."""
        return self.get_data().masked_fill(~self._mask, value)

    @property
    def layout(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        """The layout of data and mask."""
        return strided if self._sparse is None else self._sparse[0]

    @property
    def is_sparse(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether data and mask are in a sparse layout."""
        return self._sparse is not None

    def is_sparse_coo(self):
        """Whether data and mask are in the COO layout."""
        return self.layout is sparse_coo

    def is_sparse_csr(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether data and mask are compressed by rows."""
        return self.layout is sparse_csr

    def __repr__(self, *, tensor_contents=None):
        with DisableTorchFunctionSubclass():
            values, mask = self.detach().as_subclass(Tensor).tolist(), self._mask.tolist()
        if self.dim() == 0:
            return f"MaskedTensor({_element(values) if mask else '--'}, {mask})"
        return f"MaskedTensor(\n{_lines(values, mask, 2)}\n)"

    def __iter__(self):
        return iter([self[i] for i in range(len(self))])

    def tolist(self):
        """Refused, as for other subclasses."""
        raise RuntimeError(".tolist() is not supported for tensor subclasses, got MaskedTensor")

    def numpy(self, *, force=False):
        """Refused, as for other subclasses."""
        raise RuntimeError(".numpy() is not supported for tensor subclasses.")

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name, attribute = _name(func)
        if attribute:
            return _attribute(name, func, args, kwargs)
        rule = _rule(name)
        if rule is None:
            raise TypeError(_refusal(f"torch.{name}", "__torch_dispatch__"))
        with DisableTorchFunctionSubclass():
            return rule(name, func, args, kwargs)


def _refusal(function, handler):
    return (f"Multiple dispatch failed for '{function}'; all {handler} handlers returned NotImplemented:\n\n"
            f"  - tensor subclass {MaskedTensor!r}\n")


@functools.cache
def _name(func):
    """(the bare name of a function, whether it is an attribute's getter or setter)."""
    full = resolve_name(func) or getattr(func, "__name__", str(func))
    for end in (".__get__", ".__set__", ".__delete__"):
        if full.endswith(end):
            return full.removesuffix(end).rpartition(".")[2] + end, True
    return full.rpartition(".")[2], False


def _attribute(name, func, args, kwargs):
    if name in ("T.__get__", "mT.__get__", "H.__get__", "mH.__get__", "real.__get__", "imag.__get__"):
        raise TypeError(f"MaskedTensor does not support the attribute {name.partition('.')[0]}")
    with DisableTorchFunctionSubclass():
        out = func(*args, **kwargs)
    if name in ("grad.__get__", "data.__get__") and isinstance(out, Tensor):
        return out if isinstance(out, MaskedTensor) else _with(out, args[0]._mask, args[0]._sparse)
    return out


@functools.cache
def _rule(name):
    own = name.removesuffix("_") if not name.endswith("__") else name
    if name in _UNARY or own in _UNARY:
        return _elementwise
    if name in _BINARY or own in _BINARY:
        return _elementwise
    if name in _REDUCTIONS:
        return _reduced
    if name in _MOVING and name != "contiguous":
        return _moved
    if name in _CONVERSIONS:
        return _elementwise
    if name in ("softmax", "log_softmax", "softmin"):
        return _normalized
    if name in ("contiguous", "is_contiguous"):
        return _of_memory
    if name in ("to_dense", "to_sparse", "to_sparse_coo", "to_sparse_csr"):
        return _in_other_layout
    return {"where": _where, "copy_": _copied}.get(name) or (_asked if name in _ASKING else None)


def _of_memory(name, func, args, kwargs):
    layout = args[0].layout
    if layout is sparse_coo:
        raise ValueError("MaskedTensors with sparse data do not have is_contiguous")
    if layout is sparse_csr:
        raise RuntimeError("Sparse CSR tensors do not have is_contiguous")
    return (_moved if name == "contiguous" else _asked)(name, func, args, kwargs)


def _asked(name, func, args, kwargs):
    return func(*args, **kwargs)


def _in_other_layout(name, func, args, kwargs):
    x, out = args[0], args[0].clone()
    if name == "to_dense":
        return _with(out, x._mask)
    layout = sparse_csr if name == "to_sparse_csr" else sparse_coo
    return _with(out, x._mask, (layout, x._mask if x._sparse is None else x._sparse[1]))


def _elementwise(name, func, args, kwargs):
    if any(isinstance(a, Tensor) and a.layout is not strided for a in args):
        layouts = [a.layout for a in args if isinstance(a, MaskedTensor)]
        if any(layout is not layouts[0] for layout in layouts):
            raise ValueError(f"`a` and `b` must have the same layout. Got {layouts[0]} and {layouts[1]}")
        args = [a if isinstance(a, MaskedTensor) or not isinstance(a, Tensor) else dense(a) for a in args]
    sparse = next(a for a in args if isinstance(a, MaskedTensor))._sparse
    masks = [a._mask for a in args if isinstance(a, MaskedTensor)]
    if any(m is not masks[0] and not api.equal(m, masks[0]) for m in masks[1:]):
        raise ValueError(_MISMATCH)
    if name.removesuffix("_") in _BINARY and kwargs:
        raise ValueError("len(kwargs) must equal 0")
    out = func(*args, **kwargs)
    if isinstance(out, MaskedTensor):  # in place
        return out
    mask = masks[0]
    return _with(out, mask, sparse) if mask.shape == out.shape else _with(out, mask.expand(out.shape))


def _reduced(name, func, args, kwargs):
    x, rest = args[0], args[1:]
    dim = kwargs.pop("dim", rest[0] if rest else None)
    rest = rest[1:]
    keepdim = kwargs.pop("keepdim", rest[0] if rest else False)
    if x._sparse is not None:
        if dim is not None:
            raise TypeError(_refusal(f"torch.Tensor.{name}", "__torch_function__"))
        x = _with(x.clone(), x._mask)
    mask = x._mask
    if name == "all":
        data = api.where(mask, x, api.ones_like(x))
        out = data.all() if dim is None else data.all(dim, keepdim)
    elif name in ("var", "std"):
        unbiased = kwargs.pop("correction", kwargs.pop("unbiased", 1))
        out = getattr(ops, name)(x, dim, bool(unbiased), keepdim=keepdim, mask=mask, **kwargs)
    else:
        out = getattr(ops, name)(x, dim, keepdim=keepdim, mask=mask, **kwargs)
        if name in ("argmax", "argmin"):
            out = out.to(x.dtype)
    any_of = mask.any() if dim is None else mask
    if dim is not None:
        for d in sorted((dim,) if isinstance(dim, int) else (d % max(x.dim(), 1) for d in dim), reverse=True):
            any_of = any_of.any(d, keepdim=keepdim)
    elif keepdim:
        any_of = any_of.reshape(out.shape)
    return _with(out.as_subclass(Tensor), any_of)


def _masks(value):
    """Arguments with the masks in place of the masked tensors."""
    if isinstance(value, MaskedTensor):
        return value._mask
    if isinstance(value, (list, tuple)) and not isinstance(value, Size):
        return type(value)([_masks(v) for v in value])
    return value


def _moved(name, func, args, kwargs):
    out = func(*args, **kwargs)
    keywords = {} if name == "clone" else kwargs
    mask = func(*[_masks(a) for a in args], **{k: _masks(v) for k, v in keywords.items()})
    sparse = getattr(args[0], "_sparse", None)
    if sparse is not None:  # where there are elements, moved in the same way
        sparse = sparse[0], func(sparse[1], *args[1:], **keywords)
        if isinstance(out, (tuple, list)):
            return tuple(_with(o, m, (sparse[0], p)) for o, m, p in zip(out, mask, sparse[1], strict=True))
    if isinstance(out, (tuple, list)):
        return tuple(_with(o, m) for o, m in zip(out, mask, strict=True))
    return _with(out, mask, sparse)


def _normalized(name, func, args, kwargs):
    x, rest = args[0], args[1:]
    dim = kwargs.get("dim", rest[0] if rest else None)
    return _with(getattr(ops, name)(x, dim, mask=x._mask).as_subclass(Tensor), x._mask)


def _where(name, func, args, kwargs):
    condition, a, b = args
    full = api.ones((), dtype=_dtype.bool)
    masks = [v._mask if isinstance(v, MaskedTensor) else full for v in (a, b)]
    plain = _masks(condition) if isinstance(condition, MaskedTensor) else condition
    return _with(func(condition, a, b), api.where(plain, *masks))


def _copied(name, func, args, kwargs):
    target, source = args[:2]
    func(*args, **kwargs)
    if isinstance(source, MaskedTensor):
        target._mask = source._mask.expand(target.shape).clone()
    return target


def _element(value):
    return f"{value:8.4f}" if isinstance(value, float) else str(value)


def _lines(values, mask, indent):
    space = " " * indent
    if not values or not isinstance(values[0], list):
        shown = [_element(v) if m else f"{'--':>8}" for v, m in zip(values, mask)]
        return f"{space}[{', '.join(shown)}]"
    inner = ",\n".join(_lines(v, m, indent + 2) for v, m in zip(values, mask))
    return f"{space}[\n{inner}\n{space}]"
