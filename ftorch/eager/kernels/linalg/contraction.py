"""Contractions of several dimensions or tensors; einsum goes along `opt_einsum`'s path."""

from __future__ import annotations

import functools
import string

import jax.numpy as jnp
import opt_einsum

from ...core.dtype import from_numpy, promote_types
from ...core.geometry import Size, contiguous_stride, geometry, pointwise_stride, view_stride
from ...core.registry import op
from .._common import dtype_name, wrap_dims
from ..nn._windows import sizes
from .matmul import cpp_name, require_arithmetic


@op("tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor",
    forms="function out", public="_VF")
def tensordot(self, other, dims_self, dims_other):
    """The kernel of ``torch.tensordot``: dimensions of both, pairwise, are summed over."""
    if len(dims_self) != len(dims_other):
        raise RuntimeError("both dimension lists should have same length")
    if self.dtype != other.dtype:
        raise RuntimeError("both inputs should have same dtype")
    left = wrap_dims(dims_self, self.ndim, empty_is_all=False)
    right = wrap_dims(dims_other, other.ndim, empty_is_all=False)
    for i, (d, e) in enumerate(zip(left, right, strict=True)):
        # A size of 1 broadcasts: the other operand is summed beforehand.
        if other.shape[e] == 1:
            self = jnp.sum(self, d, keepdims=True, dtype=self.dtype)
        elif self.shape[d] == 1:
            other = jnp.sum(other, e, keepdims=True, dtype=other.dtype)
        elif self.shape[d] != other.shape[e]:
            raise RuntimeError(
                "contracted dimensions need to match, but first has size "
                f"{self.shape[d]} in dim {dims_self[i]} and second has size {other.shape[e]} in "
                f"dim {dims_other[i]}"
            )
    require_arithmetic(self, "addmm_impl_cpu_")
    return jnp.tensordot(self, other, axes=(left, right))


@op("linalg_multi_dot(Tensor[] tensors) -> Tensor", forms="function out")
def linalg_multi_dot(tensors):
    """The product of a list of matrices, in the order with the fewest operations.

    Args:
        tensors: at least two; the first and last may be vectors.

    Raises:
        RuntimeError: for shapes or dtypes that do not fit.

    >>> import ftorch as torch
    >>> torch.linalg.multi_dot([torch.ones(2, 3), torch.ones(3, 4), torch.ones(4)])
    tensor([12., 12.])
    """
    count = len(tensors)
    if count < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {count}")
    for place, x in (("first", tensors[0]), ("last", tensors[-1])):
        if x.ndim not in (1, 2):
            raise RuntimeError(
                f"multi_dot(): the {place} tensor must be 1D or 2D but got {x.ndim}D"
            )
    for i, x in enumerate(tensors):
        if 0 < i < count - 1 and x.ndim != 2:
            raise RuntimeError(f"multi_dot(): tensor {i} must be 2D but got {x.ndim}D")
        if x.dtype != tensors[0].dtype:
            raise RuntimeError(
                "multi_dot(): all tensors must have be the same dtype but tensor 0 is "
                f"{cpp_name(tensors[0])} and tensor {i} {cpp_name(x)}"
            )
        if i and tensors[i - 1].shape[-1] != x.shape[0]:
            raise RuntimeError(
                f"multi_dot(): tensors {i - 1} and {i} with shapes "
                f"{sizes(tensors[i - 1].shape)} and {sizes(x.shape)} cannot be multiplied"
            )
    require_arithmetic(tensors[0], "addmm_impl_cpu_")
    # The order of multiplication with the fewest operations.
    operands = []
    for i, x in enumerate(tensors):
        operands += [x, [i + 1] if x.ndim == 1 and i == 0 else [i, i + 1][: x.ndim]]
    ends = [0] * (tensors[0].ndim == 2) + [count] * (tensors[-1].ndim == 2)
    return jnp.einsum(*operands, ends, optimize="auto")


@op("inner(Tensor self, Tensor other) -> Tensor", forms="function method out")
def inner(self, other):
    """The sum of products over the last dimension of both; other dimensions side by side.

    Raises:
        RuntimeError: if the last sizes differ.

    >>> import ftorch as torch
    >>> torch.inner(torch.ones(2, 3), torch.arange(3.0))
    tensor([3., 3.])
    """
    if not self.ndim or not other.ndim:
        if self.ndim != other.ndim and self.dtype.kind == other.dtype.kind:
            # As in any product, a 0-d operand does not widen the other.
            dtype = self.dtype if self.ndim else other.dtype
            self, other = self.astype(dtype), other.astype(dtype)
        return self * other
    if self.shape[-1] != other.shape[-1]:
        raise RuntimeError(
            "inner() the last dimension must match on both input tensors but got shapes "
            f"{sizes(self.shape)} and {sizes(other.shape)}"
        )
    return tensordot(self, other, (-1,), (-1,))


# --- einsum ---------------------------------------------------------------------------------

# Labels of subscripts: PyTorch orders capital letters first. Dimensions under an ellipsis count
# from the end, with negative labels.
_LETTERS = string.ascii_uppercase + string.ascii_lowercase
_ELLIPSIS = None


def _parse_term(text, start, repeated, loose):
    """The labels of one operand or of the output; ``start`` is where the term begins.

    ``repeated`` and ``loose`` are the messages for a second and for an incomplete ellipsis.
    """
    labels, i = [], 0
    while i < len(text):
        c = text[i]
        if c == ".":
            if _ELLIPSIS in labels:
                raise RuntimeError(f"einsum(): {repeated}")
            if text[i : i + 3] != "...":
                raise RuntimeError(f"einsum(): {loose}")
            labels.append(_ELLIPSIS)
            i += 2
        elif c in _LETTERS:
            labels.append(_LETTERS.index(c))
        elif c != " ":
            raise RuntimeError(
                f"einsum(): invalid subscript given at index {start + i} in the equation string, "
                "subscripts must be in [a-zA-Z]"
            )
        i += 1
    return labels


def _parse(equation):
    """The labels of every operand, and those of the output (None where it is implicit)."""
    left, arrow, right = equation.partition("->")
    inputs, start = [], 0
    for number, text in enumerate(left.split(",")):
        found = f"found '.' for operand {number}"
        labels = _parse_term(
            text, start,
            f"{found} for which an ellipsis was already found",
            f"{found} that is not part of any ellipsis",
        )
        inputs.append(labels)
        start += len(text) + 1
    if not arrow:
        return inputs, None
    found = "found '.' for output"
    output = _parse_term(
        right, len(left) + 2,
        f"{found} but an ellipsis (...) was already found",
        f"{found} that is not part of any ellipsis (...)",
    )
    return inputs, output


def _check_counts(inputs, tensors):
    if len(inputs) != len(tensors):
        which = "fewer" if len(inputs) > len(tensors) else "more"
        raise RuntimeError(
            f"einsum(): {which} operands were provided than specified in the equation"
        )
    for number, (labels, x) in enumerate(zip(inputs, tensors, strict=True)):
        count = sum(label is not _ELLIPSIS for label in labels)
        prefix = f"einsum(): the number of subscripts in the equation ({count})"
        if _ELLIPSIS in labels:
            if count > x.ndim:
                raise RuntimeError(
                    f"{prefix} is more than the number of dimensions ({x.ndim}) for operand "
                    f"{number}"
                )
        elif count != x.ndim:
            raise RuntimeError(
                f"{prefix} does not match the number of dimensions ({x.ndim}) for operand {number} "
                "and no ellipsis was given"
            )


def _expand_ellipsis(labels, ndim):
    """Labels with the ellipsis standing for ``ndim`` dimensions."""
    if _ELLIPSIS not in labels:
        return list(labels)
    at = labels.index(_ELLIPSIS)
    return [*labels[:at], *range(-ndim, 0), *labels[at + 1 :]]


def _label_extents(inputs, tensors, ellipsis):
    """The size of each label, operands of size 1 broadcasting."""
    extents: dict[int, int] = {}
    for number, (labels, x) in enumerate(zip(inputs, tensors, strict=True)):
        own: dict[int, int] = {}
        for label, size in zip(labels, x.shape, strict=True):
            if own.setdefault(label, size) != size:
                raise RuntimeError(
                    f"einsum(): subscript {_LETTERS[label]} is repeated for operand {number} but "
                    f"the sizes don't match, {size} != {own[label]}"
                )
        for label, size in own.items():
            seen = extents.get(label, 1)
            if 1 not in (size, seen) and size != seen:
                if label < 0:
                    raise RuntimeError(
                        f"einsum(): dimension {label + ellipsis} covered by ellipsis in operand "
                        f"{number}has size {size} which does not broadcast with previously seen "
                        f"ellipsis with size {seen} for the respective dimension"
                    )
                raise RuntimeError(
                    f"einsum(): subscript {_LETTERS[label]} has size {size} for operand {number} "
                    f"which does not broadcast with previously seen size {seen}"
                )
            extents[label] = size if seen == 1 else seen
    return extents


def _check_output(output, extents):
    for i, label in enumerate(output):
        if label in output[:i]:
            raise RuntimeError(
                f"einsum(): output subscript {_LETTERS[label]} appears more than once in the output"
            )
        if label not in extents:
            raise RuntimeError(
                f"einsum(): output subscript {_LETTERS[label]} does not appear in the equation for "
                "any input operand"
            )


def _result_dtype(labels, dtypes, summed, path):
    """The dtype of PyTorch's result, which contracts operands two by two.

    A dimension of one operand alone is summed there, which widens integers; two operands that share a summed
    dimension go to a matrix product, which asks for one dtype; others are multiplied, which promotes.

    Args:
        labels: of each operand, those of its dimensions whose size is not 1.

    Raises:
        RuntimeError, NotImplementedError: as PyTorch's matrix products.
    """
    counts = {label: sum(label in own for own in labels) for label in summed}
    operands = list(zip(dtypes, map(set, labels), strict=True))
    for i, j in _pairs(path, len(operands)):
        b, a = operands.pop(j), operands.pop(i)
        is_product = False
        for label in counts:
            if label in a[1] and label in b[1]:
                counts[label] -= 1
                if counts[label] == 1:
                    is_product, counts[label] = True, 0
            elif counts[label] == 1:
                if label in a[1]:
                    a, counts[label] = (_widened(a[0]), a[1]), 0
                elif label in b[1]:
                    b, counts[label] = (_widened(b[0]), b[1]), 0
        if is_product:
            if a[0] == jnp.bool_:
                raise NotImplementedError("\"bmm\" not implemented for 'Bool'")
            if a[0] != b[0]:
                raise RuntimeError(f"expected scalar type {dtype_name(a[0])} but found {dtype_name(b[0])}")
        common = promote_types(from_numpy(a[0]), from_numpy(b[0])).numpy
        operands.append((common, {label for label in a[1] | b[1] if counts.get(label, 1)}))
    dtype, own = operands[0]
    return _widened(dtype) if any(counts.get(label) for label in own) else dtype


def _pairs(path, count):
    """The places of the operands that meet, whose product goes to the end; by default from left to right."""
    if path is None:
        return [(0, 1), *((0, n - 1) for n in range(count - 1, 1, -1))][: count - 1]
    return [tuple(sorted(pair)) for pair in zip(path[::2], path[1::2], strict=True)]


@functools.lru_cache(1024)
def best_path(equation, shapes, strategy):
    """The flat list of pairs that opt_einsum's strategy finds for operands of these shapes."""
    pairs, _ = opt_einsum.contract_path(equation, *shapes, shapes=True, optimize=strategy)
    return [place for pair in pairs for place in pair]


@functools.lru_cache(1024)
def pair_steps(equation, shapes, path):
    """An equation as those of one and two operands that PyTorch computes one after the other.

    Args:
        path: as the op's, a tuple.

    Returns:
        A list of (equation, places of its operands, which are taken out; the result goes to the end), or None for an
        equation that is refused, or has more labels than there are letters.
    """
    inputs, output = _parse(equation)
    if len(inputs) != len(shapes):
        return None
    most = max(len(shape) - len(own) + 1 if _ELLIPSIS in own else 0 for own, shape in zip(inputs, shapes, strict=True))
    inputs = [_expand_ellipsis(own, len(shape) - len(own) + 1) for own, shape in zip(inputs, shapes, strict=True)]
    every = [label for own in inputs for label in own]
    if output is None:
        output = sorted(label for label in set(every) if label < 0 or every.count(label) == 1)
    else:
        output = _expand_ellipsis(output, most)
    if len(set(every)) > len(_LETTERS):
        return None
    free = (c for c in reversed(_LETTERS) if _LETTERS.index(c) not in every)
    names = {label: _LETTERS[label] if label >= 0 else next(free) for label in dict.fromkeys(every)}
    if any(len(own) != len(shape) for own, shape in zip(inputs, shapes, strict=True)) or not set(output) <= set(every):
        return None
    long = {(label, n) for own, shape in zip(inputs, shapes, strict=True) for label, n in zip(own, shape) if n != 1}
    if len({label for label, _ in long}) < len(long) or len(set(output)) < len(output):
        return None

    def text(labels):
        return "".join(names[label] for label in labels)

    order = [*output, *sorted(set(every) - set(output))]
    steps = []
    operands = [(own, {label for label, n in zip(own, shape) if n != 1}) for own, shape in zip(inputs, shapes, strict=True)]
    for i, j in _pairs(path, len(operands)):
        b, a = operands.pop(j), operands.pop(i)
        needed = set(output).union(*(own for _, own in operands))
        for place, mine, other in ((i, a, b), (j, b, a)):
            # What one operand alone has is summed there, before the product.
            kept = [c for c in order if c in mine[0] and (c in needed or (c in mine[1] and c in other[1]))]
            if len(kept) < len(mine[0]):
                steps.append((f"{text(mine[0])}->{text(kept)}", (place,), place))
                mine[0][:] = kept
        result = [c for c in order if c in needed and c in a[0] + b[0]]
        steps.append((f"{text(a[0])},{text(b[0])}->{text(result)}", (i, j), None))
        operands.append((result, {c for c in a[1] | b[1] if c in needed}))
    if operands[0][0] != output:
        steps.append((f"{text(operands[0][0])}->{text(output)}", (0,), 0))
    return steps


def _widened(dtype):
    return jnp.dtype(jnp.int64) if dtype == jnp.bool_ or jnp.issubdtype(dtype, jnp.integer) else dtype


def _path(path):
    """PyTorch's flat list of operand pairs as opt_einsum's."""
    return "auto" if path is None else list(zip(path[::2], path[1::2], strict=True))


def _einsum_stride(inputs, static, shapes):
    """The strides of a result of two operands, as the product that PyTorch makes of them leaves it."""
    terms, output = _parse(static["equation"])
    if len(inputs) != 2 or any(len(set(own)) < len(own) for own in terms):
        return [None]
    most = max(len(g.shape) - len(own) + 1 if _ELLIPSIS in own else 0 for own, g in zip(terms, inputs, strict=True))
    terms = [_expand_ellipsis(own, len(g.shape) - len(own) + 1) for own, g in zip(terms, inputs, strict=True)]
    every = [label for own in terms for label in own]
    if output is None:
        output = sorted(label for label in set(every) if label < 0 or every.count(label) == 1)
    else:
        output = _expand_ellipsis(output, most)
    order = [*output, *sorted(set(every) - set(output))]
    x, y = (_aligned(own, g, order) for own, g in zip(terms, inputs, strict=True))
    sizes = [max(a, b) if 0 not in (a, b) else 0 for a, b in zip(x.shape, y.shape, strict=True)]
    long = [(a != 1, b != 1) for a, b in zip(x.shape, y.shape, strict=True)]
    summed = range(len(output), len(order))
    if not any(all(long[d]) for d in summed):  # multiplied elementwise, after sums over what one operand alone has
        whole = tuple(1 if d in summed else n for d, n in enumerate(sizes))
        x, y = (geometry(Size(1 if d in summed else n for d, n in enumerate(g.shape)), g.dtype, g.device)
                if any(g.shape[d] != 1 for d in summed) else g for g in (x, y))
        stride = pointwise_stride(Size(whole), [x, y]) or contiguous_stride(whole)
        return [view_stride(whole, tuple(stride), whole[: len(output)])]
    batch, left, right = ([d for d in range(len(output)) if kind(*long[d])] for kind in _DIMS)
    is_summed_before = any(a != b for a, b in (long[d] for d in summed))
    if left and not is_summed_before and any(d < left[0] and long[d][1] for d in right):  # so that the result is contiguous
        left = [d for d in range(len(output)) if d in right and long[d][1]]
        right = [d for d in range(len(output)) if d not in batch and d not in left]
    places = [*batch, *left, *summed, *right]
    whole = [1 if d in summed else sizes[d] for d in range(len(order))]
    made = contiguous_stride([whole[d] for d in places])
    stride = [made[places.index(d)] for d in range(len(order))]
    return [view_stride(tuple(whole), tuple(stride), tuple(whole[: len(output)]))]


# Which dimensions of a product are both operands', the first one's alone, and the others, by whether they are longer than one.
_DIMS = (lambda a, b: a and b, lambda a, b: a and not b, lambda a, b: not a)


def _aligned(own, g, order):
    """The geometry of an operand with the dimensions of a list of labels, of size one where it has none."""
    places = {label: d for d, label in enumerate(own)}
    shape = [g.shape[places[c]] if c in places else 1 for c in order]
    stride = [g.stride[places[c]] if c in places else 1 for c in order]
    return geometry(Size(shape), g.dtype, g.device, tuple(stride))


@op("einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor", public="_VF", layout=_einsum_stride)
def einsum(equation, tensors, path):
    """The kernel of ``torch.einsum``, for an equation of letters.

    Args:
        path: pairs of operands to contract, flat; by default opt_einsum chooses.
    """
    inputs, output = _parse(equation)
    _check_counts(inputs, tensors)
    ellipsis = max(
        x.ndim - len(labels) + 1 if _ELLIPSIS in labels else 0
        for labels, x in zip(inputs, tensors, strict=True)
    )
    inputs = [
        _expand_ellipsis(labels, x.ndim - len(labels) + 1)
        for labels, x in zip(inputs, tensors, strict=True)
    ]
    extents = _label_extents(inputs, tensors, ellipsis)
    if output is None:
        labels = [label for term in inputs for label in term]
        output = sorted(label for label in extents if label < 0 or labels.count(label) == 1)
    else:
        output = _expand_ellipsis(output, ellipsis)
        _check_output(output, extents)

    summed = set(extents) - set(output)
    full = [{label for label, n in zip(own, x.shape) if n != 1} for own, x in zip(inputs, tensors, strict=True)]
    dtype = _result_dtype(full, [x.dtype for x in tensors], summed, path)
    tensors = [x.astype(dtype) for x in tensors]

    operands = []
    for labels, x in zip(inputs, tensors, strict=True):
        # Operands of size 1 broadcast: dropping such a dimension leaves the contraction to a
        # matrix product.
        dropped = [i for i, label in enumerate(labels) if x.shape[i] == 1 != extents[label]]
        kept = [label + ellipsis for i, label in enumerate(labels) if i not in dropped]
        operands += [jnp.squeeze(x, dropped), kept]
    order = [label + ellipsis for label in output]
    return jnp.einsum(*operands, order, optimize=_path(path))
