"""Gradients of views as ATen's calls: what the other rules are for ops. `of_view` undoes one view of a tensor."""

from __future__ import annotations

from .gradient_rules import aten_op

_END = 9223372036854775807


def of_view(definition, static, base, grad):
    """The gradient of what a view was taken of, given the view's; None where no rule fits.

    Args:
        static: the view's arguments behind ``self``; ``base`` the geometry of what it was taken of.
    """
    rule = _RULES.get(definition.name)
    return None if rule is None or base.dtype.is_complex else rule(grad, list(base.shape), static)


def _reshaped(grad, shape, _):
    return grad.reshape(shape)


def _transposed(grad, shape, static):
    return grad.transpose(*static)


def _permuted(grad, shape, static):
    order = [d % len(shape) for d in static[0]]
    back = sorted(range(len(order)), key=order.__getitem__)
    return grad.permute(back)


def _moved(grad, shape, static):
    source, destination = (([d] if isinstance(d, int) else list(d)) for d in static)
    return grad.movedim(destination, source)


def _squeezed(grad, shape, static):
    dims = range(len(shape))
    if static:
        given = [static[0]] if isinstance(static[0], int) else list(static[0])
        dims = sorted(d % len(shape) for d in given) if shape else []
    for d in dims:
        if shape[d] == 1:
            grad = grad.unsqueeze(d)
    return grad


def _unsqueezed(grad, shape, static):
    return grad.squeeze(static[0])


def _expanded(grad, shape, static):
    lead = grad.dim() - len(shape)
    dims = [*range(lead), *(i + lead for i, n in enumerate(shape) if n == 1 and grad.shape[i + lead] != 1)]
    if dims:
        grad = grad.sum(dims, keepdim=True)
    return grad.view(shape) if lead else grad


def _selected(grad, shape, static):
    dim, index = static
    return aten_op("select_backward")(grad, shape, dim, index)


def _sliced(grad, shape, static):
    dim, start, end, step = (*static, None, None, 1)[:4] if len(static) < 4 else static
    start, end = 0 if start is None else start, _END if end is None else end
    return aten_op("slice_backward")(grad, shape, dim, start, end, step)


def _narrowed(grad, shape, static):
    dim, start, length = static
    start = start + shape[dim] if start < 0 else start
    return aten_op("slice_backward")(grad, shape, dim, start, start + length, 1)


def _diagonal(grad, shape, static):
    return aten_op("diagonal_backward")(grad, shape, *static)


def _unfolded(grad, shape, static):
    return aten_op("unfold_backward")(grad, shape, *static)


def _indexed(grad, shape, static):
    """``x[...]``, which is one view here and one for each item in PyTorch."""
    steps, dim, sizes = [], 0, list(shape)
    for item in static[0]:
        if item is None:
            steps.append((_unsqueezed, list(sizes), (dim,)))
            sizes.insert(dim, 1)
            dim += 1
        elif isinstance(item, int):
            steps.append((_selected, list(sizes), (dim, item)))
            del sizes[dim]
        else:
            start, step, count = item
            if item != (0, 1, sizes[dim]):
                stop = start + step * (count - 1) + 1 if count else start
                end = _END if stop >= sizes[dim] - step + 1 and start + step * count >= sizes[dim] else stop
                steps.append((_sliced, list(sizes), (dim, start, end, step)))
                sizes[dim] = count
            dim += 1
    for rule, before, arguments in reversed(steps):
        grad = rule(grad, before, arguments)
    return grad if steps else aten_op("alias")(grad)


_RULES = {
    "alias": lambda grad, shape, static: grad,
    "view": _reshaped, "unflatten": _reshaped, "t": lambda grad, shape, static: grad.t(),
    "transpose": _transposed, "swapaxes": _transposed, "swapdims": _transposed,
    "adjoint": lambda grad, shape, static: grad.transpose(-2, -1), "mT": lambda grad, shape, static: grad.transpose(-2, -1),
    "numpy_T": lambda grad, shape, static: grad.permute(list(range(len(shape)))[::-1]),
    "permute": _permuted, "movedim": _moved, "squeeze": _squeezed, "unsqueeze": _unsqueezed,
    "expand": _expanded, "broadcast_to": _expanded, "select": _selected, "slice": _sliced, "narrow": _narrowed,
    "diagonal": _diagonal, "unfold": _unfolded, "_index_select": _indexed, "_index_slice": _indexed,
    "_index_newaxis": _indexed,
}

__all__ = ["of_view"]
