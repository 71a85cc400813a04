"""What nested tensors of the strided layout have of their own: views and reductions by component, and what they refuse.

Each function takes nested tensors whose ``_leaves`` are the components.
"""

from __future__ import annotations

from ..eager.core import api as torch
from ..eager.core.errors import could_not_run

_UNSUPPORTED = ("is not supported at the moment if you need this feature, please open an issue on github describing your "
                "use case.")
# Functions whose derivatives ask for the whole size, which there is none of.
SIZED = frozenset("expand repeat index_select cat concat unflatten mm numpy".split())
BINARY = frozenset("add sub mul div add_ sub_ mul_ div_ __add__ __radd__ __mul__ __rmul__ __sub__ __truediv__".split())


def _made(leaves):
    from ._tensor import made

    return made(leaves)


def not_run(name):
    """PyTorch's error for an operator that nested tensors have not."""
    return could_not_run(
        name, "NestedTensorCPU", f"unbind() gives the components, on which {name} can be called."
    )


def wrapped(dim, ndim):
    """A dimension counted from the front.

    Raises:
        IndexError: if there is none such.
    """
    if not -ndim <= dim < ndim:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got {dim})")
    return dim % ndim


def _sizes_of(input, size, name):
    """The size of each component in a view of a size, whose -1 keep what the component had there."""
    size = list(size[0]) if len(size) == 1 and isinstance(size[0], (tuple, list)) else list(size)
    if not size:
        raise RuntimeError("shape '[]' is invalid for a nested tensor")
    if size[0] != len(input._leaves):
        raise RuntimeError(f"{name}: For now nested {name} cannot change or infer the implicit batch dimension")
    if -1 in size[input.dim() :] or size.count(-1) > 1 and -1 in size[input.dim() - 1 :] and len(size) > input.dim():
        raise RuntimeError("nested tensor does not infer shape")
    for x in input._leaves:
        given = [x.shape[d] if n == -1 and d < x.dim() else n for d, n in enumerate(size[1:])]
        count = 1
        for n in given:
            count *= n
        if count != x.numel():
            raise RuntimeError(f"shape '{size}' is invalid for input of size {x.numel()}")
        yield given


def view(input, *size):
    """The components as views; -1 stands for what a component has in that dimension."""
    return _made([x.view(n) for x, n in zip(input._leaves, list(_sizes_of(input, size, "view")))])


def reshape(input, *size, shape=None):
    """As `view`, with copies where no view can be."""
    size = size if shape is None else (shape,)
    return _made([x.reshape(n) for x, n in zip(input._leaves, list(_sizes_of(input, size, "reshape")))])


def chunk(input, chunks, dim=0):
    """The components' last dimension in as many equal parts, each a nested tensor."""
    last = input.dim() - 1
    if wrapped(dim, input.dim()) != last:
        raise RuntimeError("Chunk for nested tensors is currently only supported for the last dimension.")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    width = input.size(last)
    if width % chunks:
        raise RuntimeError("Chunk for nested tensors is only supported for nested tensors with trailing dimension divisible by "
                           f"chunks, got: {width} % {chunks} != 0")
    parts = [x.chunk(chunks, -1) for x in input._leaves]
    return tuple([_made([p[i] for p in parts]) for i in range(chunks)])


def sum_(input, dim=None, keepdim=False, *, dtype=None):
    """The sum over the last dimension, which stays."""
    if dim is None:
        raise not_run("sum")
    dims = [dim] if isinstance(dim, int) else list(dim)
    if dtype is not None:
        raise RuntimeError("NestedTensor does not support dtype argument for now.")
    if not keepdim:
        raise RuntimeError("NestedTensor always requires keepdim=True for now.")
    if len(dims) != 1:
        raise RuntimeError("NestedTensor only allows reduction of a single dimension for now.")
    at = wrapped(dims[0], input.dim())
    if at != input.dim() - 1:
        raise RuntimeError(
            f"NestedTensor can only be reduced across the last dimension for now got dimension {at} instead."
        )
    return _made([x.sum(-1, keepdim=True) for x in input._leaves])


def squeeze(input, dim=None):
    """A dimension of one element taken from all components; where one has more, the tensor as it is."""
    if dim is None:
        raise RuntimeError("squeeze(): For nested tensors, squeeze without the dim argument is not supported at the moment, "
                           "however you can use squeeze(Tensor self, int dim) instead if you need this feature, please open an "
                           "issue on github describing your use case.")
    at = wrapped(dim, input.dim())
    if at == 0:
        raise RuntimeError(f"squeeze(): For nested tensors, squeezing dimension 0 {_UNSUPPORTED}")
    if any(x.shape[at - 1] != 1 for x in input._leaves):
        return input
    return _made([x.squeeze(at - 1) for x in input._leaves])


def unsqueeze(input, dim):
    """A dimension of one element put into all components."""
    at = wrapped(dim, input.dim() + 1)
    if at == 0:
        raise RuntimeError(f"unsqueeze(): For nested tensors, unsqueezing dimension 0 {_UNSUPPORTED}")
    return _made([x.unsqueeze(at - 1) for x in input._leaves])


def select(input, dim, index):
    """A component, or the same index of all components."""
    at = wrapped(dim, input.dim())
    if at == 0:
        return component(input, index)
    for i, x in enumerate(input._leaves):
        if not -x.shape[at - 1] <= index < x.shape[at - 1]:
            raise IndexError(f"index {index} is out of bounds for dimension {at - 1} of the {i}th constituent tensor with size "
                             f"{x.shape[at - 1]}")
    return _made([x.select(at - 1, index) for x in input._leaves])


def component(input, index):
    """One of the components.

    Raises:
        IndexError: if there is none such.
    """
    count = len(input._leaves)
    if not -count <= index < count:
        raise IndexError(f"index {index} is out of bounds for dimension 0 with size {count}")
    return input._leaves[index]


def narrow(input, dim, start, length):
    """Some of the components, one after the other."""
    at, count = wrapped(dim, input.dim()), len(input._leaves)
    if at:
        raise RuntimeError(f"narrow(): only dim=0 supported for nested tensors, but got: {at}")
    start += count if start < 0 else 0
    if start + length > count:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({count}).")
    return _made(input._leaves[start : start + length])


def mT(input):
    """The components' last two dimensions swapped."""
    return input.transpose(-2, -1)


def sgn(input):
    """The sign of every element."""
    return _made([x.sgn() for x in input._leaves])


def copy_(input, src, non_blocking=False):
    """Writes the components of a nested tensor of the same sizes."""
    if not src.is_nested:
        raise RuntimeError("get_nested_tensor_impl requires a NestedTensor.")
    if [x.shape for x in input._leaves] != [x.shape for x in src._leaves]:
        raise RuntimeError("copy_ only supports tensors that are the same size for Nested implementations")
    for x, value in zip(input._leaves, src._leaves):
        x.copy_(value)
    return input


def stride(input, dim=None):
    """There are none: each component has its own."""
    raise RuntimeError("Internal error: NestedTensorImpl doesn't support strides. Please file an issue.")


def element_size(input):
    """Bytes per element."""
    return input.dtype.itemsize


def storage_offset(input):
    """Where in its storage the first component begins."""
    return 0


def item(input):
    """The only element."""
    if input.numel() != 1:
        raise RuntimeError(f"a Tensor with {input.numel()} elements cannot be converted to Scalar")
    return next(x for x in input._leaves if x.numel()).item()


def bool_(input):
    """Whether the only element is true."""
    if input.numel() != 1:
        raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
    return bool(item(input))


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5, *_):
    """The components' last dimension normalized."""
    if not isinstance(normalized_shape, (tuple, list)):
        raise TypeError("layer_norm(): argument 'normalized_shape' (position 2) must be tuple of ints, not "
                        f"{type(normalized_shape).__name__}")
    if weight is None or bias is None:
        raise ValueError("NestedTensor layer_norm requires weight and bias")
    for d in range(len(normalized_shape)):
        if len({x.shape[-1 - d] for x in input._leaves}) > 1:
            raise RuntimeError("normalized_shape extends into irregular dimensions for the nested tensor")
    function = torch.nn.functional.layer_norm
    return _made([function(x, normalized_shape, weight, bias, eps) for x in input._leaves])


def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False):
    """Attention of each component to itself or to the component of the same number."""
    if attn_mask is not None:
        raise RuntimeError("Scaled_dot_product_attention: Nested tensors for query / key are not supported when an explicit "
                           "attn_mask is set")
    if is_causal:
        raise RuntimeError("_scaled_dot_product_attention: Nested tensors for query / key are not supported when "
                           "is_causal=True")
    if len({x.dim() for x in (query, key, value)}) > 1:
        raise RuntimeError("matmul: both inputs must have the same rank")
    function = torch.nn.functional.scaled_dot_product_attention
    return _made([
        function(q, k, v, dropout_p=dropout_p, scale=scale, enable_gqa=enable_gqa)
        for q, k, v in zip(query._leaves, key._leaves, value._leaves, strict=True)
    ])


def refuse(first, name, args):
    """Raises PyTorch's errors for binary functions of operands that do not fit, and for what needs the whole size.

    Args:
        first: the first nested operand.
    """
    if name in SIZED and first.requires_grad and torch.is_grad_enabled():
        raise RuntimeError("Internal error: NestedTensorImpl doesn't support sizes. Please file an issue.")
    operands = [a for a in args[:2] if isinstance(a, torch.Tensor)]
    if len(operands) < 2:
        return
    a, b = operands
    if name in ("eq", "__eq__") and b.is_nested:
        raise RuntimeError("eq does not support nested tensor as other value.")
    if name in BINARY:
        if a.is_nested != b.is_nested and (a if b.is_nested else b).dim():
            words = ["nested" if x.is_nested else "non-nested" for x in (a, b)]
            raise RuntimeError(
                f"Expected both self and other to be nested, but got a {words[0]} self and {words[1]} other"
            )
        if a.is_nested and b.is_nested and [x.shape for x in a._leaves] != [x.shape for x in b._leaves]:
            raise RuntimeError(f"{name.strip('_')} does not support broadcasting when given a NestedTensor")


METHODS = {
    "view": view, "reshape": reshape, "chunk": chunk, "sum": sum_, "squeeze": squeeze, "unsqueeze": unsqueeze,
    "select": select, "narrow": narrow, "mT": mT, "mH": mT, "sgn": sgn, "copy_": copy_, "stride": stride,
    "element_size": element_size, "storage_offset": storage_offset, "item": item, "__bool__": bool_,
    "layer_norm": layer_norm, "scaled_dot_product_attention": attention, "_scaled_dot_product_attention": attention,
    "nbytes": lambda input: input.numel() * input.dtype.itemsize,
}
