"""Placeholders in a program for any node of ONNX: operators that give zeros, and what they are of as arguments."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import ftorch as torch

from ..._toplevel.basics import _check
from ._dtype_mappings import ONNX_DTYPE_TO_TORCH_DTYPE


def _kind(name, value) -> str:
    """Which lists an attribute's value goes into: "i", "f" or "s", and another "s" for a sequence."""
    for kind, letter in ((int, "i"), (float, "f"), (str, "s")):
        if isinstance(value, kind):
            return letter
    if not isinstance(value, Sequence):
        raise ValueError(f"Unsupported attribute type for {name}: {type(value)}")
    if not value:
        raise ValueError(f"Empty sequence for attribute {name}")
    if any(isinstance(element, float) for element in value):
        return "fs"
    if not isinstance(value[0], (int, str)):
        raise ValueError(f"Unsupported sequence type for attribute {name}")
    return _kind(name, value[0]) + "s"


@dataclasses.dataclass
class EncodedAttrs:
    """A node's attributes as lists, which arguments of operators can be.

    Attributes:
        attr_keys: their names.
        attr_types: of each "i", "f", "s" for an int, float or string, with "s" behind it for a sequence.
        attr_pos: of each the first place in the list of its type, and the one after the last.
        attr_ints, attr_floats, attr_strs: these lists.
    """

    attr_keys: list[str]
    attr_types: list[str]
    attr_pos: list[tuple[int, int]]
    attr_ints: list[int]
    attr_floats: list[float]
    attr_strs: list[str]

    def _of(self, kind):
        return {"i": (self.attr_ints, int), "f": (self.attr_floats, float), "s": (self.attr_strs, str)}[kind[0]]

    @classmethod
    def from_dict(cls, attrs) -> EncodedAttrs:
        """The lists of a dict of attributes."""
        made = cls([], [], [], [], [], [])
        for name, value in attrs.items():
            kind = _kind(name, value)
            values, convert = made._of(kind)
            start = len(values)
            # A single bool stays what it is, as one of a sequence does not.
            values.extend([convert(v) for v in value] if len(kind) == 2 else [value])
            made.attr_keys.append(name)
            made.attr_types.append(kind)
            made.attr_pos.append((start, len(values)))
        return made

    def to_dict(self) -> dict:
        """The attributes."""
        found = {}
        for name, kind, (start, end) in zip(self.attr_keys, self.attr_types, self.attr_pos):
            if len(kind) > 2 or kind[-1:] not in ("i", "f", "s"):
                raise ValueError(f"Unsupported attribute type: {kind}")
            values = self._of(kind)[0]
            found[name] = values[start:end] if len(kind) == 2 else values[start]
        return found


_REST = (
    "str[] attr_keys, str[] attr_types, int[][] attr_pos, int[] attr_ints, float[] attr_floats, str[] attr_strs, "
    "str[] metadata_props_keys, str[] metadata_props_values, str domain='', int? version=None"
)


def _zeros(number, shape):
    known = ONNX_DTYPE_TO_TORCH_DTYPE
    _check(
        number in known, lambda: f"{number} is invalid as an ONNX data type. Valid values are {list(known.keys())}"
    )
    return torch.zeros(shape, dtype=known[number])


@torch.library.custom_op(
    "onnx_symbolic::_symbolic", mutates_args=(),
    schema=f"(Tensor?[] inputs, str op_type, int onnx_dtype, *, SymInt[] shape, {_REST}) -> Tensor",
)
def _symbolic(inputs, op_type, onnx_dtype, *, shape, **_):
    return _zeros(onnx_dtype, shape)


@torch.library.custom_op(
    "onnx_symbolic::_symbolic_multi_out", mutates_args=(),
    schema=f"(Tensor?[] inputs, str op_type, int[] onnx_dtypes, *, SymInt[][] shapes, {_REST}) -> Tensor[]",
)
def _symbolic_multi_out(inputs, op_type, onnx_dtypes, *, shapes, **_):
    _check(
        len(shapes) == len(onnx_dtypes),
        lambda: f"Number of shapes ({len(shapes)}) must match number of ONNX dtypes ({len(onnx_dtypes)})",
    )
    return [_zeros(number, shape) for shape, number in zip(shapes, onnx_dtypes)]


for _operator in (_symbolic, _symbolic_multi_out):
    _operator.register_fake(_operator._init_fn)
