"""What a trace notes of a call beside the call: where it is in Python, what its values are called there."""

from __future__ import annotations

import os
import sys

from ....eager.core import places
from ....eager.tensor import TensorBase
from .records import Value

__all__ = ["TracedText", "described", "note_call"]

_OWN = tuple(os.path.join(places.PACKAGE, room) + os.sep for room in ("eager", "jit", "fx", "_dispatch", "functional"))
_FUNCTIONAL = os.path.join(places.PACKAGE, "nn", "functional")
_SCALAR_TYPES = {
    "float32": "Float", "float64": "Double", "int64": "Long", "int32": "Int", "int16": "Short", "int8": "Char",
    "uint8": "Byte", "bool": "Bool", "float16": "Half", "bfloat16": "BFloat16", "complex64": "ComplexFloat",
    "complex128": "ComplexDouble", "complex32": "ComplexHalf",
}
# Functions of torch.nn.functional that have no Python frame of their own.
_WITHOUT_FRAME = frozenset(
    "linear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d bilinear gelu softplus softshrink "
    "prelu logsigmoid pixel_shuffle pixel_unshuffle channel_shuffle one_hot avg_pool1d avg_pool2d avg_pool3d "
    "adaptive_avg_pool1d hardshrink cosine_similarity pdist scaled_dot_product_attention".split()
)


class TracedText(str):
    """The text of a traced function, with ``notes``: {variable: (its name in Python, type, place)}."""

    notes: dict


def described(t: TensorBase, operands=()) -> str:
    """A tensor's type as graphs of traces write it.

    Args:
        operands: the values that it was computed from.
    """
    name = str(t.dtype).rpartition(".")[2]
    parts = [str(n) for n in t.shape]
    if parts:
        parts.append(f"strides={list(t.stride())}")
    differentiable = t.is_floating_point() or t.is_complex()
    requires = t.requires_grad or differentiable and any(
        "requires_grad=1" in (v.detail or "") or getattr(v.object, "requires_grad", False) for v in operands)
    parts += [f"requires_grad={int(requires)}", f"device={t.device}"]
    return f"{_SCALAR_TYPES.get(name, name)}({', '.join(parts)})"


def note_call(kind: str, name: str, operands) -> tuple | None:
    """Names operands that have no name yet as the caller does; gives the place of the call.

    Args:
        kind, name: the public function: ("nn.functional", "relu").
        operands: [(tensor, its `Value`)].
    """
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OWN):
        frame = frame.f_back
    if frame is None:
        return None
    variables = frame.f_locals
    inside = kind == "nn.functional" and name not in _WITHOUT_FRAME
    for i, (t, value) in enumerate(operands):
        if value.kind != "result" or value.named:
            continue
        if inside and not i:
            value.named = "input"
            continue
        found = next((k for k, v in variables.items() if v is t), "")
        if found != "self":
            value.named = found
    return frame.f_code.co_filename, frame.f_lineno, 0


def tensors_of(args) -> list:
    """The tensors among arguments, nested ones too."""
    out = []
    for a in args:
        if isinstance(a, TensorBase):
            out.append(a)
        elif isinstance(a, (list, tuple)):
            out += tensors_of(a)
    return out


def operands_of(recorder, args) -> list[tuple[TensorBase, Value]]:
    """[(tensor, its value)] of the arguments that the recorder knows."""
    return [(t, recorder.values[id(t)]) for t in tensors_of(args) if id(t) in recorder.values]
