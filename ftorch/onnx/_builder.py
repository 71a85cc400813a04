"""``Builder``: makes the nodes of an ONNX graph, with shapes and dtypes at hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ..eager.core import dtype as dtypes

_TYPES = {
    "float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE, "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16, "int8": TensorProto.INT8, "int16": TensorProto.INT16,
    "int32": TensorProto.INT32, "int64": TensorProto.INT64, "uint8": TensorProto.UINT8,
    "uint16": TensorProto.UINT16, "uint32": TensorProto.UINT32, "uint64": TensorProto.UINT64,
    "bool": TensorProto.BOOL, "complex64": TensorProto.COMPLEX64,
    "complex128": TensorProto.COMPLEX128,
}


def onnx_type(dtype) -> int:
    """ONNX's number of a dtype."""
    return _TYPES[dtype.name]


@dataclass
class Value:
    """A value of the ONNX graph.

    Attributes:
        name: in the graph.
        shape: its sizes; symbolic ones are `SymInt`.
        dtype: its dtype.
    """

    name: str
    shape: tuple
    dtype: Any

    @property
    def rank(self):
        return len(self.shape)


def is_static(n) -> bool:
    """Whether a size is a plain number."""
    return type(n) is int


class Builder:
    """The ONNX graph that is being made."""

    def __init__(self, opset: int):
        self.opset = opset
        self.nodes: list = []
        self.initializers: dict[str, Any] = {}
        self._names: dict[str, int] = {}
        self._constants: dict[Any, str] = {}
        self.domains: dict[str, int] = {}  # of operators that are not ONNX's own, and their versions
        self.any_size = False  # whether what is made now may say nothing of sizes

    def fresh(self, hint: str) -> str:
        """A new name."""
        n = self._names.get(hint, 0)
        self._names[hint] = n + 1
        return hint if not n else f"{hint}_{n}"

    # --- constants

    def array(self, value: np.ndarray, hint="const") -> str:
        """An array as a constant; equal small ones are shared."""
        value = np.asarray(value)
        key = (value.dtype.str, value.shape, value.tobytes()) if value.size <= 64 else None
        if key is not None and key in self._constants:
            return self._constants[key]
        name = self.fresh(hint)
        self.initializers[name] = numpy_helper.from_array(np.ascontiguousarray(value).reshape(
            value.shape), name)
        if key is not None:
            self._constants[key] = name
        return name

    def ints(self, values) -> str:
        """A 1-D constant of int64."""
        return self.array(np.asarray(list(values), np.int64))

    def number(self, value, dtype) -> Value:
        """A 0-D constant of a dtype."""
        return Value(self.array(np.asarray(value).astype(dtype.numpy)), (), dtype)

    # --- nodes

    def raw(self, kind: str, *inputs: str, outputs: int = 1, **attributes) -> Any:
        """A node on names; gives the names of its results."""
        names = [self.fresh(f"{kind.lower()}") for _ in range(outputs)]
        given = {k: v for k, v in attributes.items() if v is not None}
        self.nodes.append(helper.make_node(kind, list(inputs), names, self.fresh(f"n_{kind}"), **given))
        return names[0] if outputs == 1 else names

    def op(self, kind: str, *inputs, shape=None, dtype=None, **attributes) -> Value:
        """A node on values, with the shape and dtype of the first one unless given."""
        names = [i.name if isinstance(i, Value) else ("" if i is None else i) for i in inputs]
        first = next((i for i in inputs if isinstance(i, Value)), None)
        name = self.raw(kind, *names, **attributes)
        return Value(
            name, tuple(first.shape if shape is None else shape) if first or shape is not None else (),
            dtype or (first.dtype if first else dtypes.float32),
        )

    def cast(self, x, dtype) -> Value:
        """A value or number in a dtype."""
        if not isinstance(x, Value):
            return self.number(x, dtype)
        if x.dtype is dtype:
            return x
        return self.op("Cast", x, dtype=dtype, to=onnx_type(dtype))

    # --- sizes

    def sizes(self, values) -> str:
        """A 1-D int64 value of sizes, of which some may be values of the graph."""
        if all(not isinstance(v, Value) for v in values):
            return self.ints(int(v) for v in values)
        parts, run = [], []
        for v in values:
            if isinstance(v, Value):
                if run:
                    parts.append(self.ints(run))
                    run = []
                parts.append(self.raw("Reshape", v.name, self.ints([1])))
            else:
                run.append(int(v))
        if run:
            parts.append(self.ints(run))
        return parts[0] if len(parts) == 1 else self.raw("Concat", *parts, axis=0)

    def shape_of(self, x: Value, dims=None) -> str:
        """The sizes of a value (or of some dimensions) as a 1-D int64 value."""
        dims = range(x.rank) if dims is None else dims
        if all(is_static(x.shape[d]) for d in dims):
            return self.ints(x.shape[d] for d in dims)
        whole = self.raw("Shape", x.name)
        return self.raw("Gather", whole, self.ints(dims), axis=0)

    def reshape(self, x: Value, shape, values=None) -> Value:
        """A value in another shape; ``values`` are the sizes where they are values of the graph."""
        return self.op("Reshape", x, self.sizes(shape if values is None else values), shape=shape,
                       allowzero=None)

    def squeeze(self, x: Value, dims) -> Value:
        """A value without dimensions of size 1."""
        dims = [d % x.rank for d in dims]
        shape = [n for i, n in enumerate(x.shape) if i not in dims]
        return self.op("Squeeze", x, self.ints(dims), shape=shape)

    def unsqueeze(self, x: Value, dims) -> Value:
        """A value with more dimensions of size 1, at places of the result."""
        rank = x.rank + len(dims)
        dims = sorted(d % rank for d in dims)
        shape = list(x.shape)
        for d in dims:
            shape.insert(d, 1)
        return self.op("Unsqueeze", x, self.ints(dims), shape=shape)

    def transpose(self, x: Value, order) -> Value:
        """Dimensions in another order."""
        order = [d % x.rank for d in order]
        return self.op("Transpose", x, shape=[x.shape[d] for d in order], perm=order)

    def slice(self, x: Value, dim, start, stop, step=1) -> Value:
        """A part of one dimension; start and stop may be values."""
        shape = list(x.shape)
        if is_static(shape[dim]) and not isinstance(start, Value) and not isinstance(stop, Value):
            shape[dim] = len(range(shape[dim])[start:stop:step])
        return self.op("Slice", x, self.sizes([start]), self.sizes([stop]), self.ints([dim]),
                       self.ints([step]), shape=shape)

    def concat(self, values, dim) -> Value:
        """Values side by side."""
        shape = list(values[0].shape)
        shape[dim] = sum(v.shape[dim] for v in values)
        return self.op("Concat", *values, shape=shape, axis=dim)


def inferred(g, node, inputs):
    """{name of a result: (shape, dtype)} as far as ONNX tells them for a node of its own."""
    if node.domain or not onnx.defs.has(node.op_type, g.opset):
        return {}
    schema = onnx.defs.get_schema(node.op_type, g.opset)
    types = {v.name: helper.make_tensor_type_proto(onnx_type(v.dtype), [
        n if is_static(n) else str(n) for n in v.shape]) for v in inputs}
    data = {name: g.initializers[name] for name in node.input if name in g.initializers}
    try:
        found = onnx.shape_inference.infer_node_outputs(
            schema, node, types, data, opset_imports=[helper.make_opsetid("", g.opset)]
        )
    except onnx.shape_inference.InferenceError:
        return {}
    by_number = {number: name for name, number in _TYPES.items()}
    return {
        name: (
            tuple(d.dim_value if d.HasField("dim_value") else d.dim_param for d in t.tensor_type.shape.dim),
            getattr(dtypes, by_number[t.tensor_type.elem_type]),
        )
        for name, t in found.items()
        if t.tensor_type.HasField("shape") and t.tensor_type.elem_type in by_number
    }


def value_info(name, shape, dtype, names):
    """The description of an input or output; symbolic sizes get their names."""
    sizes = [names.get(str(n), str(n)) if not is_static(n) else n for n in shape]
    return helper.make_tensor_value_info(name, onnx_type(dtype), sizes)


__all__ = ["Builder", "Value", "inferred", "is_static", "onnx", "onnx_type", "value_info"]
