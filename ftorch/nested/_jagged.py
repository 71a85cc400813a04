"""Functions of nested tensors in the jagged layout that move dimensions, or meet dense tensors."""

from __future__ import annotations

import copy
import functools

import numpy as np

import ftorch as torch

from .._dispatch.aten_schemas import pointwise_names as _tagged
from ..eager.kernels._common import wrap_dim
from ..eager.tensor import Tensor

# Functions of single elements of several operands: dense ones are broadcast to the components.
POINTWISE = frozenset(
    "add sub subtract mul multiply div divide true_divide pow eq ne lt le gt ge maximum minimum where "
    "logical_and logical_or lerp masked_fill add_ sub_ mul_ div_ __radd__ __rmul__ __rsub__ "
    "__rtruediv__".split()
)
# What is of single elements besides, without a tag or composed of what has one.
_COMPOSED = frozenset(
    "isclose ldexp float_power xlogy xlog1py mvlgamma polygamma conj real angle isreal isposinf isneginf byte char short "
    "cdouble cfloat chalf bfloat16 frexp relu6 and or xor mod fill one_hot max min clip invert erf ndtr".split()
)
METHODS: dict = {}


@functools.cache
def pointwise_names() -> frozenset:
    """Functions of single elements, without the underscores of those in place."""
    return _tagged() | _COMPOSED


def _method(function):
    name = function.__name__
    METHODS[name if name.startswith("__") else name.removeprefix("_")] = function
    return function


def _with(input, leaf, at=None):
    """A tensor of the same structure; ``at``: which dimension is ragged, where it is not the same."""
    from ._tensor import made

    return made([leaf], input._offsets, input._ragged, input._at if at is None else at)


def _inner(input, dim, name):
    """A dimension that is neither the batch's nor the ragged one, as one of `values`.

    Raises:
        RuntimeError: for these two.
    """
    if not isinstance(dim, int):
        raise RuntimeError(f"{name}(): not supported for NestedTensor on dim={dim}")
    at = wrap_dim(dim, input.dim())
    if at in (0, input._at):
        raise RuntimeError(f"{name}(): not supported for NestedTensor on {'ragged dim' if at else 'dim=0'}")
    return at - 1


def rows(input, dense, name):
    """What a dense operand is to the rows of a jagged tensor's `values`.

    Raises:
        RuntimeError: unless its ragged dimension is one element long, and its batch the tensor's or one.
    """
    extra = dense.dim() - input.dim()
    if extra < -1 or (extra == -1 and dense.shape[0] == 1):
        return dense
    at = input._at
    if extra == 0 and dense.shape[0] == dense.shape[at] == 1:
        return dense[0]
    if extra == 0 and dense.shape[0] == len(input):
        from ._tensor import _places

        batch, place = (p.to(dense.device) for p in _places(input))
        if dense.shape[at] == 1:
            return dense.squeeze(at).index_select(0, batch).movedim(0, at - 1)
        size = [*dense.shape]
        size[at] = lengths_of(input)[1]
        return dense.expand(size).movedim(at, 1)[batch, place].movedim(0, at - 1)
    sizes = ", ".join(str(n) for n in input.size())
    raise RuntimeError(
        f"cannot call binary pointwise function {name}.Tensor with inputs of shapes torch.Size([{sizes}]) and "
        f"torch.Size({list(dense.shape)})"
    )


def lengths_of(input):
    """The shortest and the longest component's length, (0, 0) without components.

    Raises:
        AttributeError: in the strided layout.
    """
    if input._offsets is None:
        raise AttributeError("'Tensor' object has no attribute '_max_seqlen'")
    counts = input.counts()
    return (int(counts.min()), int(counts.max())) if len(counts) else (0, 0)


def product(input, dense):
    """The product of each component with its matrix of a dense batch (B, n, m)."""
    if dense.shape[0] != len(input):
        raise RuntimeError(
            f"matmul(): expected a batch of {len(input)} matrices, got {tuple(dense.shape)}"
        )
    parts = [x @ y for x, y in zip(input.unbind(), dense.unbind())]
    return _with(input, torch.cat(parts))


def product_over_ragged(a, b):
    """The product of the matrices of two jagged tensors, of which the ragged dimension is summed over: dense.

    Raises:
        RuntimeError: where another one is.
    """
    if a._ragged != b._ragged or a._at != a.dim() - 1 or b._at != b.dim() - 2:
        raise RuntimeError(
            f"matmul(): not supported between inputs of shapes {tuple(a.size())} and {b.size()}"
        )
    return torch.stack([x @ y for x, y in zip(a.unbind(), b.unbind())])


def item(input, key):  # noqa: F811  (of an index)
    """``input[key]``: a component, or the same part of the rows of all components."""
    if isinstance(key, int):
        return input.unbind()[key]
    key = key if isinstance(key, tuple) else (key,)
    if key and isinstance(key[0], int):
        return input.unbind()[key[0]][key[1:]]
    if any(isinstance(k, (Tensor, list, np.ndarray)) for k in key):
        raise NotImplementedError("aten.index.Tensor")
    found, dim = input, 0
    for k in key:
        if k is ...:
            dim += input.dim() - sum(j is not None and j is not ... for j in key)
        elif k is None:
            found, dim = unsqueeze(found, dim), dim + 1
        elif isinstance(k, slice):
            at = _inner(found, dim, "slice")
            found, dim = _with(found, found._leaves[0][(slice(None),) * at + (k,)]), dim + 1
        else:
            found = select(found, dim, k)
    return found


def from_padded(input, padded):
    """The jagged tensor of a tensor's structure whose components are the beginnings of dense rows."""
    from ._tensor import _places

    batch, place = (p.to(padded.device) for p in _places(input))
    return _with(input, padded[batch, place])


@_method
def unsqueeze(input, dim):
    at = wrap_dim(dim, input.dim() + 1)
    if at < 1:
        raise RuntimeError(f"unsqueeze(): not supported for NestedTensor on dim={at}")
    return _with(input, input._leaves[0].unsqueeze(at - 1), input._at + (at <= input._at))


@_method
def squeeze(input, dim=None):
    if dim is None:
        raise NotImplementedError("aten.squeeze.default")
    at = _inner(input, dim, "squeeze")
    leaf = input._leaves[0].squeeze(at)
    return _with(input, leaf, input._at - (at < input._at - 1 and leaf.dim() < input.dim() - 1))


@_method
def unflatten(input, dim, sizes):
    at = _inner(input, dim, "unflatten")
    return _with(input, input._leaves[0].unflatten(at, sizes), input._at + (at < input._at - 1) * (len(sizes) - 1))


@_method
def flatten(input, start_dim=0, end_dim=-1):
    start, end = (_inner(input, d, "flatten") for d in (start_dim, end_dim))
    if start < input._at - 1 < end:
        raise RuntimeError("flatten(): not supported for NestedTensor on ragged dim")
    return _with(input, input._leaves[0].flatten(start, end), input._at - (start < input._at - 1) * (end - start))


@_method
def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
                                 enable_gqa=False):
    """Attention within each component; heads, if there are any, come before the ragged dimension.

    Raises:
        ValueError: for a mask, or operands that are not all nested.
    """
    from ._tensor import NestedTensor

    operands = query, key, value
    if attn_mask is not None:
        raise ValueError("Masks are not yet supported!")
    if not all(isinstance(t, NestedTensor) and t._offsets is not None for t in operands):
        which = [f"{name}.is_nested: {t.is_nested}" for name, t in zip(("query", "key", "value"), operands)]
        raise ValueError("Expected query, key, and value to be nested tensors, but got "
                         f"{which[0]}, {which[1]}, and {which[2]} instead.")
    attend = torch.nn.functional.scaled_dot_product_attention
    parts = [
        attend(*(x.unsqueeze(0) for x in one), dropout_p=dropout_p, is_causal=is_causal, scale=scale,
               enable_gqa=enable_gqa).squeeze(0)
        for one in zip(*(t.unbind() for t in operands), strict=True)
    ]
    at = query._at - 1
    return _with(query, torch.cat([x.transpose(0, at) for x in parts]).transpose(0, at))


@_method
def view(input, *shape):
    return _reshaped(input, shape, "view")


@_method
def reshape(input, *shape):
    return _reshaped(input, shape, "reshape")


def _reshaped(input, shape, name):
    shape = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    is_ragged = len(shape) > 1 and (shape[1] == input._ragged or shape[1] == -1 and (len(shape) > 2 or input.dim() == 2))
    if not is_ragged or shape[0] not in (len(input), -1):
        raise RuntimeError(f"view(): cannot view shape {tuple(input.size())} as {list(shape)}")
    leaf = input._leaves[0]
    return _with(input, getattr(leaf, name)(leaf.shape[0], *shape[2:]))


@_method
def permute(input, *dims):
    dims = tuple(dims[0]) if len(dims) == 1 and isinstance(dims[0], (tuple, list)) else dims
    dims = [wrap_dim(d, input.dim()) for d in dims]
    if dims and dims[0] != 0:
        raise ValueError("Permute is not supported on the batch dimension for jagged NT")
    return _with(input, input._leaves[0].permute([d - 1 for d in dims[1:]]), dims.index(input._at))


@_method
def T(input):  # noqa: N802
    return permute(input, *range(input.dim() - 1, -1, -1))


@_method
def mT(input):  # noqa: N802
    return input.transpose(-2, -1)


@_method
def expand(input, *size):
    size = tuple(size[0]) if len(size) == 1 and isinstance(size[0], (tuple, list)) else size
    if len(size) != input.dim() or size[0] != len(input) or size[input._at] != input._ragged:
        raise RuntimeError(f"expand(): cannot expand shape {tuple(input.size())} -> {list(size)}")
    inner = list(size[1:])
    inner[input._at - 1] = -1
    return _with(input, input._leaves[0].expand(inner))


@_method
def select(input, dim, index):
    at = wrap_dim(dim, input.dim())
    if at == 0:
        return input.unbind()[index]
    at = _inner(input, dim, "select")
    return _with(input, input._leaves[0].select(at, index), input._at - (at < input._at - 1))


@_method
def narrow(input, dim, start, length):
    return _with(input, input._leaves[0].narrow(_inner(input, dim, "narrow"), start, length))


@_method
def split(input, split_size_or_sections, dim=0):
    split_size = split_size_or_sections
    at = _inner(input, dim, "split" if isinstance(split_size, int) else "split_with_sizes")
    return tuple(_with(input, part) for part in input._leaves[0].split(split_size, at))


@_method
def split_with_sizes(input, split_sizes, dim=0):
    return split(input, list(split_sizes), dim)


@_method
def masked_select(input, mask):
    from ._tensor import made

    if input.dim() > 2:
        raise RuntimeError("masked_select only support 2-D selections currently")
    kept = [m.sum() for m in mask.unbind()]
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), torch.stack(kept).cumsum(0)])
    return made([input._leaves[0].masked_select(mask._leaves[0])], offsets)


@_method
def index_put(input, indices, values, accumulate=False):
    return _with(input, _written(input, indices, values, accumulate))


@_method
def index_put_(input, indices, values, accumulate=False):
    input._leaves[0].copy_(_written(input, indices, values, accumulate))
    return input


def _written(input, indices, values, accumulate):
    """The rows with values at places of components: (component, a place in each of its dimensions)."""
    at, (component, *rest) = input._at, indices
    leaf = input._leaves[0]
    if len(rest) >= at:
        rest[at - 1] = input._offsets[component] + rest[at - 1]
        return leaf.index_put(tuple(rest), values, accumulate)
    leaf, bounds = leaf.clone(), input._offsets.tolist()
    for i, c in enumerate(component.reshape(-1).tolist()):  # whole rows of the components
        part = leaf.narrow(at - 1, bounds[c], bounds[c + 1] - bounds[c])
        place = tuple(p.reshape(-1)[i] for p in rest)
        part[place] = part[place] + values if accumulate else values
    return leaf


@_method
def _item(input):
    raise RuntimeError(f"a Tensor with {input.numel()} elements cannot be converted to Scalar")


@_method
def __bool__(input):
    raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")


@_method
def embedding_bag(input, weight, *args, per_sample_weights=None, **kwargs):
    if per_sample_weights is not None:
        kwargs["per_sample_weights"] = per_sample_weights._leaves[0]
    offsets = input._offsets if kwargs.get("include_last_offset") else input._offsets[:-1]
    return torch.nn.functional.embedding_bag(input._leaves[0], weight, offsets, *args, **kwargs)


@_method
def stack(tensors, dim=0):
    if dim % (tensors[0].dim() + 1) < 2:
        raise RuntimeError(f"stack(): not supported for NestedTensor on dim={dim}")
    at = dim % (tensors[0].dim() + 1) - 1
    return _with(tensors[0], torch.stack([t._leaves[0] for t in tensors], at))


@_method
def __deepcopy__(input, memo):
    from ._tensor import made

    found = memo.get(id(input))
    if found is None:
        leaf = copy.deepcopy(input._leaves[0], memo)
        found = memo[id(input)] = made([leaf], copy.deepcopy(input._offsets, memo), input._ragged, input._at)
        found.__dict__.update(copy.deepcopy(input.__dict__, memo))
    return found


def chunk(input, chunks, dim=0):
    """Pieces along the batch's dimension, or along one beyond the ragged one."""
    if dim % input.dim() == 0:
        return _of_batch(input, max(-(-len(input) // chunks), 1))
    at = _inner(input, dim, "chunk")
    return tuple(_with(input, piece) for piece in input._leaves[0].chunk(chunks, at))


def _of_batch(input, size):
    from ._tensor import made

    starts, pieces = [0, *input.counts().cumsum().tolist()], []
    for first in range(0, len(input), size):
        last = min(first + size, len(input))
        leaf = input._leaves[0].narrow(0, starts[first], starts[last] - starts[first])
        pieces.append(made([leaf], input._offsets[first : last + 1] - starts[first]))
    return tuple(pieces)


def softmax(func, input, *args, **kwargs):
    """Normalized over the ragged dimension."""
    return from_padded(input, func(input.to_padded_tensor(-float("inf")), 1, *args, **kwargs))


def extreme(func, name, input, keepdim=False):
    """The largest or smallest elements over the ragged dimension."""
    padding = float("inf") if "min" in name else -float("inf")
    return func(input.to_padded_tensor(padding), 1, keepdim)


def dense_operands(input, name, args, kwargs):
    """Arguments with dense tensors as rows."""
    from ._tensor import NestedTensor

    def row(a):
        return rows(input, a, name.strip("_")) if isinstance(a, Tensor) and not isinstance(a, NestedTensor) else a

    return [row(a) for a in args], {key: row(a) for key, a in kwargs.items()}
