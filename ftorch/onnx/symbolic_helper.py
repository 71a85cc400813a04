"""Helpers of symbolic functions (``torch.onnx.symbolic_helper``); see `register_custom_op_symbolic`."""

from __future__ import annotations

import functools

from ._symbolic import TensorProtoDataType
from ._type_utils import _ROWS
from .errors import OnnxExporterError

# What symbolic functions give a Cast, by the dispatcher's names of types.
cast_pytorch_to_onnx = {
    row[0]: getattr(TensorProtoDataType, row[3])
    for row in map(
        _ROWS.__getitem__,
        "UINT8 INT8 DOUBLE FLOAT HALF INT INT64 INT16 BOOL COMPLEX64 COMPLEX128 BFLOAT16 UNDEFINED".split(),
    )
}

_CONVERTERS = {
    "v": lambda value: value, "t": lambda value: value, "none": lambda value: None,
    "i": int, "b": bool, "f": float, "s": str,
    "is": lambda value: [int(v) for v in value], "fs": lambda value: [float(v) for v in value],
}


def parse_args(*arg_descriptors: str):
    """Declares the arguments of a symbolic function, after the graph.

    Args:
        arg_descriptors: for each argument "v" (a value of the graph), "i", "f", "b", "s", "t" (a
            constant integer, number, boolean, string or tensor), "is" or "fs" (lists), or "none".

    >>> from ftorch.onnx.symbolic_helper import parse_args
    >>> @parse_args("v", "f")
    ... def scaled(g, x, factor):
    ...     return g.op("Mul", x, g.op("Constant", value_t=torch.tensor(factor)))
    """

    def decorator(fn):
        @functools.wraps(fn)
        def wrapper(g, *args, **kwargs):
            if len(args) > len(arg_descriptors):
                raise OnnxExporterError(
                    f"A mismatch between the number of arguments ({len(args)}) and their descriptors "
                    f"({len(arg_descriptors)}) was found at symbolic function '{fn.__name__}'."
                )
            return fn(g, *map(_parsed, args, arg_descriptors), **kwargs)

        return wrapper

    return decorator


def _parsed(value, kind):
    if value is None or kind == "v":
        return value
    if hasattr(value, "rank"):
        raise OnnxExporterError(
            f"Expected a constant for an argument of kind '{kind}', got the value {value.name}"
        )
    return _CONVERTERS[kind](value)
