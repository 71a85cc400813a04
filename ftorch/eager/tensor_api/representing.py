"""``repr`` of tensors of every kind: values come from `printing`, the rest is decided here."""

from __future__ import annotations

import math
import textwrap

import numpy as np

from ..autograd.tape import grad_fn_of
from ..call import op as _op
from ..core import device as _device
from ..dispatch.levels import Wrapped
from ..runtime.executor import IMMEDIATE
from ..tensor import PLAIN, Tensor, modes
from .printing import tensor_repr, with_suffixes


def representation(t, contents=None) -> str:
    """PyTorch's text for a tensor: ``tensor([1., 2.], grad_fn=<MulBackward0>)``; ``contents`` in place of the elements."""
    if contents is not None:
        return _text(t, contents)
    if modes.differentiating or isinstance(t, Wrapped):
        return _in_transforms(t, math.inf)
    return _text(t)


def _in_transforms(t, ceiling):
    """A tensor with the transforms around it, of those whose numbers are less than ``ceiling``."""
    around = [(number, own) for started, own, number in modes.differentiating
              if number < ceiling and (t._ftorch_storage.level >= started or _innermost(t)._ftorch_storage in own)]
    if isinstance(t, Wrapped):
        level = t._ftorch_level
        bound = level.number if level.is_shown else ceiling
        text = level.describe(t, lambda inner: _in_transforms(inner, bound))
        around = [(number, own) for number, own in around if level.is_shown and number > bound]
    else:
        text = _text(t if not around or _leads_outside(t) else t.detach())
    for number, _ in around:
        text = f"GradTrackingTensor(lvl={number}, value=\n{textwrap.indent(text, '    ')}\n)"
    return text


def _innermost(t):
    while isinstance(t, Wrapped):
        t = t._inner
    return t


def _leads_outside(t):
    """Whether a tensor's graph reaches a leaf that no running transform made."""
    own = {storage for _, inputs, _ in modes.differentiating for storage in inputs}
    fn = grad_fn_of(t)
    seen, pending = {fn}, [fn]
    while pending:
        node = pending.pop()
        if node is None:
            continue
        if node._ftorch_is_accumulate:
            if node.variable._ftorch_storage not in own:
                return True
            continue
        fresh = {edge[0] for edge in node._ftorch_edges if edge is not None} - seen
        seen |= fresh
        pending.extend(fresh)
    return False


def _text(t, contents=None):
    if contents is None and t._ftorch_storage.trace is IMMEDIATE:
        return f"Traced<{t._ftorch_storage.array!r}>"
    kind = type(t)
    if kind is Tensor or kind in PLAIN and kind.__name__ == "Parameter":
        return _named("tensor", t, contents)
    text = _named(kind.__name__, t, contents)
    return f"Parameter({text})" if getattr(t, "_is_param", isinstance(t, _parameters())) else text


def _parameters():
    return tuple(kind for kind in PLAIN if kind.__name__ == "Parameter")


def _named(start, t, contents):
    try:
        fn = grad_fn_of(t)
        name = None if fn is None else type(fn).__name__
    except RuntimeError:  # a view whose history is forbidden can be looked at
        name = "Invalid"
    g = t._ftorch_geometry
    if g.device is _device.META and contents is None:
        return _meta(start, t, name)
    return tensor_repr(
        _op.to_numpy(t) if contents is None else np.broadcast_to(0, tuple(t.shape)), contents=contents,
        dtype=g.dtype, device=g.device, requires_grad=t._ftorch_requires_grad, grad_fn_name=name,
        prefix=f"{start}(",
    )


def _meta(start, t, name):
    parts = ["device='meta'", f"size={tuple(t.shape)}"]
    from ..core.dtype import get_default_dtype

    if t.dtype is not get_default_dtype():
        parts.append(f"dtype={t.dtype}")
    if name is not None:
        parts.append(f"grad_fn=<{name}>")
    elif t._ftorch_requires_grad:
        parts.append("requires_grad=True")
    return with_suffixes(f"{start}(...", parts, len(start) + 1)
