"""Symbolic functions: the older way to say what an op is in ONNX (``register_custom_op_symbolic``).

Such a function takes a graph ``g`` and the op's arguments and makes nodes by ``g.op(kind, *inputs,
attribute_i=...)``, where an attribute's last letters say its type. ``symbolic_opset11.squeeze(g, x, 0)``
is an op of PyTorch within one: the exporter's own translation.
"""

from __future__ import annotations

import enum
import re
import sys
import types
from typing import Any

from .errors import OnnxExporterError

_NAME = re.compile(r"^[\w-]+::[a-zA-Z_-][\w-]*$", re.ASCII)
_registered: dict[str, dict[int, Any]] = {}
OPSETS = range(7, 24)

TensorProtoDataType = enum.IntEnum(
    "TensorProtoDataType",
    "UNDEFINED FLOAT UINT8 INT8 UINT16 INT16 INT32 INT64 STRING BOOL FLOAT16 DOUBLE UINT32 UINT64 COMPLEX64 "
    "COMPLEX128 BFLOAT16 FLOAT8E4M3FN FLOAT8E4M3FNUZ FLOAT8E5M2 FLOAT8E5M2FNUZ",
    start=0,
)
TensorProtoDataType.__doc__ = "ONNX's numbers of dtypes, such as those that ``Cast`` takes."


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn, opset_version: int) -> None:
    """Says what an op is in ONNX.

    Args:
        symbolic_name: ``"namespace::op"``.
        symbolic_fn: ``symbolic_fn(g, *args)`` gives values, or a tuple of them.
        opset_version: the first version of ONNX's operators that it is for; of several the newest counts
            that is not newer than the model's.

    Raises:
        OnnxExporterError: for a name that is none.

    >>> from ftorch import onnx
    >>> onnx.register_custom_op_symbolic("docs::twice", lambda g, x: g.op("Add", x, x), 18)
    >>> onnx.unregister_custom_op_symbolic("docs::twice", 18)
    """
    if not _NAME.match(symbolic_name):
        raise OnnxExporterError(
            f"Failed to register operator {symbolic_name}. The symbolic name must match the format "
            "domain::name, and should start with a letter and contain only alphanumeric characters"
        )
    _registered.setdefault(symbolic_name, {})[opset_version] = symbolic_fn


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Takes back `register_custom_op_symbolic`."""
    versions = _registered.get(symbolic_name, {})
    versions.pop(opset_version, None)
    if not versions:
        _registered.pop(symbolic_name, None)


def translation_of(target, opset: int):
    """The registered function of an op (an `OpOverload`) as a translation of the exporter, or None."""
    name = target.overloadpacket._qualified_op_name
    versions = _registered.get(name) or _registered.get(f"{name}.{target._overloadname}") or {}
    fitting = [version for version in versions if version <= opset]
    if not fitting:
        return None
    symbolic = versions[max(fitting)]

    def translate(g, *args, **kwargs):
        names = [a.name for a in target._schema.arguments[len(args) :]]
        return symbolic(Graph(g), *args, *(kwargs.get(n) for n in names))

    return translate


class Graph:
    """What symbolic functions see of the model that is made."""

    def __init__(self, context):
        self.context = context
        self.opset = context.opset

    def op(self, opname: str, *raw_args, outputs: int = 1, **kwargs):
        """A node; gives its value, or several.

        Args:
            opname: ONNX's name of the operator, with ``domain::`` before it if it is not ONNX's own.
            raw_args: values, tensors or numbers.
            kwargs: attributes, with ``_i``, ``_f``, ``_s`` or ``_t`` for integers, numbers, strings and
                tensors, single or in lists.
        """
        g = self.context
        attributes = dict(_attribute(key, value) for key, value in kwargs.items() if value is not None)
        if opname == "Constant":
            return _constant(g, attributes["value"])
        inputs = [_constant(g, a) if not hasattr(a, "rank") and a is not None else a for a in raw_args]
        domain, _, kind = opname.rpartition("::")
        if domain:
            attributes["domain"] = domain
            g.domains.setdefault(domain, 1)
        names = ["" if value is None else value.name for value in inputs]
        made = g.raw(kind, *names, outputs=outputs, **attributes)
        values = _typed(g, [made] if outputs == 1 else made, inputs)
        return values[0] if outputs == 1 else tuple(values)


def _attribute(key, value):
    name, _, kind = key.rpartition("_")
    if kind not in ("i", "f", "s", "t"):
        raise ValueError(f"Invalid attribute specifier '{key}' names must be suffixed with type, e.g. "
                         "'dim_i' or 'dims_i'")
    if hasattr(value, "detach"):
        from ..eager.call.op import to_numpy
        from ._builder import numpy_helper

        value = to_numpy(value.detach())
        return name, value if name == "value" else numpy_helper.from_array(value)
    return name, int(value) if kind == "i" and isinstance(value, enum.Enum) else value


def _constant(g, value):
    import numpy as np

    from ..eager.call.op import to_numpy
    from ..eager.core import dtype as dtypes
    from ._builder import Value

    array = np.asarray(to_numpy(value.detach()) if hasattr(value, "detach") else value)
    return Value(g.array(array), array.shape, dtypes.from_numpy(array.dtype))


def _typed(g, names, inputs):
    """The values of a node, with what ONNX knows of their shapes and dtypes."""
    from ._builder import Value, inferred

    known = inferred(g, g.nodes[-1], [v for v in inputs if v is not None])
    like = next((v for v in inputs if v is not None), g.result)
    return [Value(n, *(known.get(n) or (tuple(like.shape), like.dtype))) for n in names]


class _Opset(types.ModuleType):
    """``torch.onnx.symbolic_opsetN``: PyTorch's ops as symbolic functions."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)

        def symbolic(g, *args, **kwargs):
            from ._table import lookup

            if lookup(name) is None:
                raise OnnxExporterError(f"aten::{name} has no translation")
            return g.context.translate(name, *args, results=args[:1], **kwargs)

        symbolic.__name__ = name
        return symbolic


def opset_modules(package: str) -> dict[str, types.ModuleType]:
    """The modules ``symbolic_opset7`` ... by name, importable from a package."""
    made = {f"symbolic_opset{n}": _Opset(f"{package}.symbolic_opset{n}") for n in OPSETS}
    sys.modules.update({f"{package}.{name}": module for name, module in made.items()})
    return dict(made)
