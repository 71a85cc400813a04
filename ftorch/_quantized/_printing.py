"""How quantized tensors are printed."""

from __future__ import annotations

from ..eager.call import op as _op
from ..eager.tensor_api.printing import _values, with_suffixes
from ._quantizer import PerTensor
from ._tensor import real


def representation(t) -> str:
    """PyTorch's text for a quantized tensor: its numbers, size, dtype, scheme and quantizer."""
    indent = len("tensor(")
    array = _op.to_numpy(real(t))
    text = f"tensor({_values(array, indent)}" if array.size else "tensor([]"
    quantizer = t._quantizer
    suffixes = [f"size={tuple(t.shape)}", f"dtype={t.dtype}", f"quantization_scheme={quantizer.scheme}"]
    if t.device.type != "cpu":
        suffixes.insert(1, f"device='{t.device}'")
    if isinstance(quantizer, PerTensor):
        suffixes += [f"scale={quantizer.scale}", f"zero_point={quantizer.zero_point}"]
    else:
        suffixes += [f"scale={quantizer.scales}", f"zero_point={quantizer.zero_points}", f"axis={quantizer.axis}"]
    return with_suffixes(text, suffixes, indent, force_newline=False)
