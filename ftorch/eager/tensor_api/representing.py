"""``repr`` of tensors of every kind: values come from `printing`, the rest is decided here."""

from __future__ import annotations

from ..autograd.tape import grad_fn_of
from ..call import op as _op
from ..core import device as _device
from ..runtime.executor import IMMEDIATE
from ..tensor import PLAIN
from .printing import tensor_repr


def representation(t) -> str:
    """PyTorch's text for a tensor: ``tensor([1., 2.], grad_fn=<MulBackward0>)``."""
    if t._ftorch_storage.trace is IMMEDIATE:
        return f"Traced<{t._ftorch_storage.array!r}>"
    fn = grad_fn_of(t)
    name = None if fn is None else type(fn).__name__
    g = t._ftorch_geometry
    if g.device is _device.META:
        return _meta(t, name)
    return tensor_repr(
        _op.to_numpy(t), dtype=g.dtype, device=g.device, requires_grad=t._ftorch_requires_grad,
        grad_fn_name=name,
        prefix="tensor(" if type(t) in PLAIN else f"{type(t).__name__}(",
    )


def _meta(t, name):
    parts = ["...", "device='meta'", f"size={tuple(t.shape)}"]
    from ..core.dtype import get_default_dtype

    if t.dtype is not get_default_dtype():
        parts.append(f"dtype={t.dtype}")
    if name is not None:
        parts.append(f"grad_fn=<{name}>")
    elif t._ftorch_requires_grad:
        parts.append("requires_grad=True")
    return f"tensor({', '.join(parts)})"
