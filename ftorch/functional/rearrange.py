"""``rearrange``: permuting, splitting and merging dimensions by a pattern, as in einops."""

from __future__ import annotations

import functools
import math
import re

_TOKEN = re.compile(r"\s*(?:(\()|(\))|(\.\.\.)|(\w+))")


@functools.lru_cache(maxsize=256)
def _side(text: str) -> tuple[tuple[str, ...], ...]:
    """One side of a pattern: the axes of each dimension; ``("...",)`` stands for several."""
    groups: list[tuple[str, ...]] = []
    inside: list[str] | None = None
    at = 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"unexpected character in {text.strip()!r}")
        opening, closing, dots, name = match.groups()
        at = match.end()
        if opening:
            if inside is not None:
                raise ValueError(f"nested parentheses in {text.strip()!r}")
            inside = []
        elif closing:
            if inside is None:
                raise ValueError(f"unbalanced parentheses in {text.strip()!r}")
            groups.append(tuple(inside))
            inside = None
        elif inside is not None:
            inside.append(dots or name)
        else:
            groups.append(() if name == "1" else (dots or name,))
    if inside is not None:
        raise ValueError(f"unbalanced parentheses in {text.strip()!r}")
    return tuple(groups)


def rearrange(tensor, pattern: str, **axes_lengths: int):
    """A tensor with its dimensions in another order, split or merged.

    Args:
        tensor: or a sequence of tensors, which are stacked first.
        pattern: ``"b (h w) c -> b c h w"``; ``...`` stands for all other dimensions.
        axes_lengths: lengths that cannot be inferred.

    Raises:
        ValueError: for patterns that do not fit the tensor.

    >>> import ftorch as torch
    >>> torch.func.rearrange(torch.zeros(2, 12, 3), "b (h w) c -> b c h w", h=3).shape
    torch.Size([2, 3, 3, 4])
    """
    if not hasattr(tensor, "shape"):
        from ..eager.core import api

        tensor = api.stack(tuple(tensor))
    if pattern.count("->") != 1:
        raise ValueError(f"a pattern has two sides, separated by '->': {pattern!r}")
    left, right = (_side(text) for text in pattern.split("->"))
    extra = tensor.dim() - sum(1 for group in left if group != ("...",))
    has_dots = ("...",) in left
    if extra < 0 or (extra and not has_dots):
        raise ValueError(f"{pattern!r} does not fit a tensor of {tensor.dim()} dimensions")
    dots = tuple(f"...{i}" for i in range(extra if has_dots else 0))
    groups = _spread(left, dots)
    lengths: dict[str, int] = dict(axes_lengths)
    for group, size in zip(groups, tensor.shape):
        _infer(group, size, lengths, pattern)
    axes = [axis for group in groups for axis in group]
    results = _spread(right, dots)
    order = [axis for group in results for axis in group]
    if len(set(axes)) != len(axes) or sorted(axes) != sorted(order):
        raise ValueError(f"both sides of {pattern!r} need the same axes, each once")
    split = tensor.reshape([lengths[axis] for axis in axes])
    permuted = split.permute([axes.index(axis) for axis in order])
    return permuted.reshape([math.prod(lengths[a] for a in group) for group in results])


def _spread(side, dots):
    """The groups with the ellipsis replaced by the axes that it stands for."""
    groups = []
    for group in side:
        if group == ("...",):
            groups.extend((axis,) for axis in dots)
        else:
            groups.append(tuple(a for axis in group for a in (dots if axis == "..." else (axis,))))
    return groups


def _infer(group, size, lengths, pattern):
    """Finds the length of at most one axis of a group from the dimension's size."""
    unknown = [axis for axis in group if axis not in lengths]
    known = math.prod(lengths[axis] for axis in group if axis in lengths)
    if len(unknown) > 1:
        raise ValueError(f"the lengths of {unknown} in {pattern!r} cannot be inferred")
    if unknown and known and size % known == 0:
        lengths[unknown[0]] = size // known
    elif unknown or known != size:
        raise ValueError(f"a dimension of size {size} does not fit {group} in {pattern!r}")
