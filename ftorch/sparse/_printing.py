"""How sparse tensors are printed."""

from __future__ import annotations

from ..eager.autograd.tape import grad_fn_of
from ..eager.core import device as _device
from ..eager.core import dtype as _dtype
from ..eager.tensor_api.printing import _values, with_suffixes
from ._tensor import CooPattern, SparseTensor, host

_DEFAULT = (_dtype.int64, _dtype.bool)


def representation(t: SparseTensor) -> str:
    """PyTorch's text for a sparse tensor: its indices, its values, sizes and what else there is."""
    p = t._pattern
    coo = isinstance(p, CooPattern)
    if coo:
        parts = {"indices": p.indices, "values": t._v}
    else:
        first = ("crow", "col") if p.by_row else ("ccol", "row")
        parts = {
            f"{first[0]}_indices": p.compressed,
            f"{first[1]}_indices": p.plain,
            "values": t._v,
        }
    indent = len("tensor(")
    texts = [_part(name, value, indent) for name, value in parts.items()]
    text = "tensor(" + (",\n" + " " * indent).join(texts)
    suffixes = [f"size={tuple(t.shape)}", f"nnz={p.nnz}"]
    if t.device.type != "cpu" and t.device is not _device.META:
        suffixes.append(f"device='{t.device}'")
    default = _dtype.get_default_dtype()
    if t.dtype not in (default, default.to_complex(), *_DEFAULT):
        suffixes.append(f"dtype={t.dtype}")
    suffixes.append(f"layout={p.layout}")
    fn = grad_fn_of(t)
    if fn is not None:
        suffixes.append(f"grad_fn=<{fn.name()}>")
    elif t._ftorch_requires_grad:
        suffixes.append("requires_grad=True")
    return with_suffixes(text, suffixes, indent, force_newline=coo)


def _part(name, value, indent):
    opening = f"{name}=tensor("
    array = host(value)
    if not array.size:
        return f"{opening}[], size={tuple(array.shape)})"
    return f"{opening}{_values(array, indent + len(opening))})"
