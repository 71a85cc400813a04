"""The TorchScript types of what goes into and comes out of a trace."""

from __future__ import annotations

from ....eager.core.device import device
from ....eager.core.dtype import dtype
from ....eager.tensor import TensorBase

_NAMES = {
    bool: "bool", int: "int", float: "float", complex: "complex", str: "str", type(None): "NoneType", device: "Device",
    dtype: "int",
}


class _NotInferredError(Exception):
    """Why a value has no type."""


def type_of(value) -> str:
    """The type of a value, such as ``List[Tensor]``.

    Raises:
        RuntimeError: in PyTorch's words for containers that are empty or whose elements differ in type, and for objects.
    """
    try:
        return _type(value)
    except _NotInferredError as error:
        raise RuntimeError(f"Tracer cannot infer type of {value}\n:{error}") from None


def _type(value):
    if isinstance(value, TensorBase):
        return "Tensor"
    if isinstance(value, tuple):
        return f"Tuple[{', '.join(map(_type, value))}]"
    if isinstance(value, list):
        if not value:
            raise _NotInferredError("List trace inputs must have elements")
        try:
            return f"List[{_same(value, 'List inputs to traced functions must have consistent element type')}]"
        except _NotInferredError as error:
            if str(error).startswith("List inputs"):
                raise
            raise _NotInferredError(f"Could not infer type of list element: {error}") from None
    if isinstance(value, dict):
        if not value:
            raise _NotInferredError("Dictionary inputs must have entries")
        said = "Dictionary inputs to traced functions must have consistent type"
        return f"Dict[{_same(value, said)}, {_same(value.values(), said)}]"
    name = _NAMES.get(type(value))
    if name is None:
        raise _NotInferredError(
            "Only tensors and (possibly nested) tuples of tensors, lists, or dicts are supported as inputs or outputs of "
            f"traced functions, but instead got value of type {type(value).__name__}."
        )
    return name


def _same(values, said):
    first, *rest = map(_type, values)
    for other in rest:
        if other != first:
            raise _NotInferredError(f"{said}. Found {first} and {other}")
    return first
