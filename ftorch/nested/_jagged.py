"""Functions of nested tensors in the jagged layout that move dimensions, or meet dense tensors."""

from __future__ import annotations

import copy

import ftorch as torch

from ..eager.tensor import Tensor

# Functions of single elements of several operands: dense ones are broadcast to the components.
POINTWISE = frozenset(
    "add sub subtract mul multiply div divide true_divide pow eq ne lt le gt ge maximum minimum where "
    "logical_and logical_or lerp masked_fill add_ sub_ mul_ div_ __radd__ __rmul__ __rsub__ "
    "__rtruediv__".split()
)
METHODS: dict = {}


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
    if not isinstance(dim, int) or dim % input.dim() in (0, input._at):
        at = dim % input.dim() if isinstance(dim, int) else dim
        raise RuntimeError(f"{name}(): not supported for NestedTensor on dim={at}")
    return dim % input.dim() - 1


def rows(input, dense, name):
    """What a dense operand is to the rows of a jagged tensor's `values`.

    Raises:
        RuntimeError: unless its ragged dimension is one element long, and its batch the tensor's or one.
    """
    extra = dense.dim() - input.dim()
    if extra < -1 or (extra == -1 and dense.shape[0] == 1):
        return dense
    if extra == 0 and dense.shape[1] == 1:
        if dense.shape[0] == 1:
            return dense[0]
        if dense.shape[0] == len(input):
            from ._tensor import _places

            return dense.squeeze(1).index_select(0, _places(input)[0].to(dense.device))
    sizes = ", ".join(str(n) for n in input.size())
    raise RuntimeError(
        f"cannot call binary pointwise function {name}.Tensor with inputs of shapes ({sizes}) and "
        f"{tuple(dense.shape)}"
    )


def product(input, dense):
    """The product of each component with its matrix of a dense batch (B, n, m)."""
    if dense.shape[0] != len(input):
        raise RuntimeError(
            f"matmul(): expected a batch of {len(input)} matrices, got {tuple(dense.shape)}"
        )
    parts = [x @ y for x, y in zip(input.unbind(), dense.unbind())]
    return _with(input, torch.cat(parts))


def from_padded(input, padded):
    """The jagged tensor of a tensor's structure whose components are the beginnings of dense rows."""
    from ._tensor import _places

    batch, place = (p.to(padded.device) for p in _places(input))
    return _with(input, padded[batch, place])


@_method
def unsqueeze(input, dim):
    at = dim % (input.dim() + 1)
    if at < 1 or at == input._at == 1:
        raise RuntimeError(f"unsqueeze(): not supported for NestedTensor on dim={at}")
    return _with(input, input._leaves[0].unsqueeze(at - 1), input._at + (at <= input._at))


@_method
def squeeze(input, dim=None):
    if dim is None:
        raise RuntimeError("squeeze(): not supported for NestedTensor without a dimension")
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
        raise RuntimeError(f"flatten(): not supported for NestedTensor on dim={input._at}")
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
    if len(shape) < 2 or shape[0] not in (len(input), -1) or not (shape[1] is input._ragged or shape[1] == -1):
        raise RuntimeError(f"view(): cannot view shape {tuple(input.size())} as {list(shape)}")
    leaf = input._leaves[0]
    return _with(input, getattr(leaf, name)(leaf.shape[0], *shape[2:]))


@_method
def _all(input):
    return input._leaves[0].all()


@_method
def _any(input):
    return input._leaves[0].any()


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
        found = memo[id(input)] = made([leaf], copy.deepcopy(input._offsets, memo), input._ragged)
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


def dense_operands(input, name, args):
    """Arguments with dense tensors as rows."""
    from ._tensor import NestedTensor

    return [
        rows(input, a, name.strip("_")) if isinstance(a, Tensor) and not isinstance(a, NestedTensor) else a
        for a in args
    ]
