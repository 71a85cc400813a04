"""Signatures of what nodes call, and their arguments with the defaults filled in."""

from __future__ import annotations

import dataclasses
import inspect
import numbers
import types
import typing
from collections.abc import Callable
from typing import Any, NamedTuple, Optional

from .._alias import is_own
from .._ops import OpOverload, OpOverloadPacket, ops
from ..eager.core.device import device
from ..eager.core.dtype import dtype
from ..eager.core.formats import layout, memory_format
from ..eager.core.public_functions import python_of
from ..eager.core.registry import OpDef
from ..eager.core.schema import Alias, Argument, Return, Schema, Type, qualified
from ..eager.tensor import Tensor, TensorBase
from . import _targets
from .node import base_types

_TYPES = {
    "Tensor": Tensor, "int": int, "SymInt": int, "float": float, "bool": bool, "str": str,
    "Scalar": (int, float, complex), "ScalarType": dtype, "Device": device, "Layout": layout,
    "MemoryFormat": memory_format,
}


_NUMBERED = frozenset({"ScalarType", "Layout", "MemoryFormat"})  # numbers to TorchScript


class ArgsKwargsPair(NamedTuple):
    """Arguments of a call."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def _definitions(op) -> list[OpDef]:
    """The declared overloads of a public function."""
    if isinstance(op, OpOverload):
        return [op._bound.definition]
    first = getattr(python_of(op), "__ftorch_op__", None)
    if first is None:
        return []
    from ..eager.core.registry import OVERLOADS

    return [d for d in OVERLOADS[first.name] if "function" in d.forms] or [first]


def _schemas(op) -> list[Schema]:
    """ATen's schemas of an op's overloads."""
    if isinstance(op, OpOverloadPacket):
        return [getattr(op, name)._schema for name in op.overloads()]
    definitions = _definitions(op)
    path = _targets.public_path(op)
    if definitions or path is None or not isinstance(op, types.BuiltinFunctionType):
        return [d.schema for d in definitions]
    *_, namespace, name = path.split(".")
    name = name if namespace in ("torch", "functional") or name.startswith(namespace) else f"{namespace}_{name}"
    return _schemas(getattr(ops.aten, name)) if hasattr(ops.aten, name) else []


def _signature_of(schema: Schema, first: str) -> inspect.Signature:
    parameters = []
    for i, a in enumerate(schema.arguments):
        name = first if i == 0 and a.name == "self" else a.name
        kind = (inspect.Parameter.KEYWORD_ONLY if a.is_keyword_only
                else inspect.Parameter.POSITIONAL_OR_KEYWORD)
        default = a.default if a.has_default else inspect.Parameter.empty
        parameters.append(
            inspect.Parameter(name, kind, default=default, annotation=_python_type(a.type))
        )
    returns = [_python_type(r.type) for r in schema.returns]
    return inspect.Signature(
        parameters, return_annotation=returns[0] if len(returns) == 1 else tuple(returns)
    )


def _python_type(kind) -> Any:
    """A schema's type as Python annotates it."""
    base = _TYPES.get(kind.base, Any)
    base = numbers.Number if isinstance(base, tuple) else base
    base = int if kind.base in _NUMBERED else base
    base = typing.List[base] if kind.is_list else base  # type: ignore[valid-type]  # noqa: UP006  (as PyTorch shows it)
    return Optional[base] if kind.is_optional else base  # noqa: UP045  (dtypes are no types)


def get_signature_for_torch_op(op: Callable, return_schemas: bool = False):
    """The signatures of an op's overloads, or None for functions that are no op.

    Args:
        return_schemas: gives (signatures, schemas).
    """
    schemas = _schemas(op)
    if not schemas:
        return (None, None) if return_schemas else None
    first = "self" if isinstance(op, OpOverload) else "input"
    signatures = [_signature_of(s, first) for s in schemas]
    return (signatures, schemas) if return_schemas else signatures


def check_for_mutable_operation(target: Callable, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuses calls that write into a tensor.

    Raises:
        RuntimeError: the op's only overload that takes the arguments writes to one of them.
    """
    schemas = [] if isinstance(target, types.FunctionType) else _schemas(target)
    if schemas and not isinstance(target, (OpOverload, OpOverloadPacket)):
        schemas = [*schemas, *_schemas(getattr(ops.aten, schemas[0].name.removeprefix("aten::")))]
    given = {k: v for k, v in kwargs.items() if k != "out"}
    fitting = {}
    for schema in schemas:
        try:
            _signature_of(schema, "self" if isinstance(target, OpOverload) else "input").bind(*args, **given)
        except TypeError:
            continue
        fitting[schema.overload] = schema
    if len(fitting) != 1:
        return
    schema = next(iter(fitting.values()))
    schema = schema if schema.name.startswith("aten::") else qualified(schema)
    schema = schema if kwargs.get("out") is None else _of_out(schema)
    if schema.is_mutable:
        raise RuntimeError(
            f"Tried to trace mutable operation {schema}. FX only supports functional code, so operations that mutate "
            "operands in-place (e.g. via `out` arguments) are not supported"
        )


def _of_out(schema: Schema) -> Schema:
    """The schema of an op with one result that is written into ``out``."""
    written = Type("Tensor", (), Alias(("a",), is_write=True))
    return dataclasses.replace(
        schema, overload=f"{schema.overload}_out" if schema.overload else "out",
        arguments=(*schema.arguments, Argument(written, "out", is_keyword_only=True)), returns=(Return(written),),
    )


def _accepts(annotation, value) -> bool:
    """Whether a value, or a type, fits a schema's type; unknown types fit everything."""
    is_type = isinstance(value, type)
    if value is None or value is type(None):
        return annotation.is_optional
    wanted = _TYPES.get(annotation.base)
    if wanted is None:
        return True
    if annotation.is_list:
        if is_type or isinstance(value, (types.GenericAlias, typing._GenericAlias)):  # type: ignore[attr-defined]
            return typing.get_origin(value) in (list, tuple) or value in (list, tuple)
        if isinstance(value, (list, tuple)):
            return all(_fits_one(v, wanted) for v in value)
        return annotation.size is not None and _fits_one(value, wanted)
    if is_type:
        kinds = wanted if isinstance(wanted, tuple) else (wanted,)
        return any(issubclass(value, k) for k in kinds)
    return _fits_one(value, wanted)


def _fits_one(value, wanted):
    from .node import Node

    if isinstance(value, Node):
        return True
    if wanted is Tensor:
        return isinstance(value, TensorBase) or hasattr(type(value), "__torch_function__")
    if isinstance(value, bool) and wanted is not bool:
        return wanted is not float and wanted is not int
    return isinstance(value, wanted) or (wanted is float and isinstance(value, int))


def create_type_hint(x):
    """A type for a list or tuple of types: ``list[T]`` or ``tuple[T, ...]`` of their common class.

    >>> from ftorch.fx.operator_schemas import create_type_hint
    >>> create_type_hint([int, int])
    list[int]
    """
    if not isinstance(x, (list, tuple)):
        return x
    made = (lambda t: list[t]) if isinstance(x, list) else (lambda t: tuple[t, ...])
    if not x:
        return made(Any)
    common = x[0]
    for kind in x:
        if not (isinstance(kind, type) and isinstance(common, type)):
            return made(common) if all(k == x[0] for k in x) else made(Any)
        if issubclass(common, kind):
            common = kind
        elif not issubclass(kind, common):
            return made(Any)
    return made(common)


def type_matches(signature_type: Any, argument_type: Any) -> bool:
    """Whether a value of a type can be the argument of a parameter of another type."""
    origin = typing.get_origin(signature_type)
    if signature_type is argument_type:
        return True
    if origin in (typing.Union, types.UnionType) and signature_type != argument_type:
        return any(type_matches(c, argument_type) for c in typing.get_args(signature_type))
    if signature_type is typing.List[int] and argument_type is int:  # noqa: UP006
        return True
    if origin is list:
        inner = typing.get_args(signature_type)[0]
        if not isinstance(inner, type):
            return False
        given = typing.get_origin(argument_type)
        return given in (list, tuple) and all(
            isinstance(a, type) and issubclass(a, inner)
            for a in typing.get_args(argument_type) if a is not Ellipsis
        )
    if isinstance(signature_type, type) and isinstance(argument_type, type):
        if signature_type is numbers.Number:
            return argument_type in (int, float)
        return issubclass(argument_type, signature_type)
    return False


def normalize_function(target: Callable, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None,
                       arg_types: tuple[Any, ...] | None = None,
                       kwarg_types: dict[str, Any] | None = None,
                       normalize_to_only_use_kwargs: bool = False) -> ArgsKwargsPair | None:
    """The arguments of a call with defaults filled in.

    Args:
        arg_types, kwarg_types: types that choose among overloads that the values fit alike.
        normalize_to_only_use_kwargs: gives all arguments by keyword.

    Returns:
        None for functions whose signature is not known.

    Raises:
        RuntimeError: several overloads fit.
    """
    kwargs = {} if kwargs is None else kwargs
    definitions = _definitions(target)
    if definitions:
        return _normalize_op(target, args, kwargs, arg_types, kwarg_types,
                             normalize_to_only_use_kwargs)
    if _targets.public_path(target) is not None:
        return args_kwargs_to_normalized(inspect.signature(python_of(target)), args, kwargs,
                                         normalize_to_only_use_kwargs)
    return None


def _normalize_op(target, args, kwargs, arg_types, kwarg_types, only_kwargs):
    pairs = list(zip(*get_signature_for_torch_op(target, return_schemas=True)))
    fitting = _fitting(pairs, args, kwargs)
    if len(fitting) != 1 and (arg_types is not None or kwarg_types is not None):
        typed = _fitting(pairs, arg_types or (), kwarg_types or {})
        fitting = [s for s in typed if s in fitting or not fitting]
    if not fitting:
        return None
    if len(fitting) > 1:
        texts = "\n".join(map(str, fitting))
        raise RuntimeError(
            f"Tried to normalize arguments to {_targets.qualified_name(target)} but the schema match "
            "was ambiguous! Please provide argument types to the normalize_arguments() call. "
            f"Available schemas:\n{texts}"
        )
    return args_kwargs_to_normalized(fitting[0], args, kwargs, only_kwargs)


def _fitting(pairs, args, kwargs):
    """The signatures that take some arguments, or arguments of some types."""
    found = []
    for signature, schema in pairs:
        kinds = {n: a.type for n, a in zip(signature.parameters, schema.arguments)}
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            continue
        if all(_accepts(kinds[n], v) for n, v in bound.arguments.items()):
            found.append(signature)
    return found


def args_kwargs_to_normalized(signature: inspect.Signature, args, kwargs,
                              normalize_to_only_use_kwargs: bool = False):
    """Binds a call to a signature: `ArgsKwargsPair` with the defaults, or None if it does not fit."""
    supported = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    if any(p.kind not in supported for p in signature.parameters.values()):
        return None
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return None
    positional, named = [], {}
    for i, (name, parameter) in enumerate(signature.parameters.items()):
        value = bound.arguments.get(name, parameter.default)
        if not normalize_to_only_use_kwargs and i < len(args):
            positional.append(value)
        else:
            named[name] = value
    return ArgsKwargsPair(tuple(positional), named)


def normalize_module(root, target: str, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None,
                     normalize_to_only_use_kwargs: bool = False) -> ArgsKwargsPair | None:
    """The arguments of a module's call with defaults filled in; None for users' own modules.

    Raises:
        RuntimeError: there is no such submodule.
    """
    try:
        module = root.get_submodule(target)
    except AttributeError as e:
        raise RuntimeError(
            f"Tried to normalize node with target {target} but root did not have that target!"
        ) from e
    if not is_own(type(module).__module__, "nn"):
        return None
    signature = inspect.signature(module.forward)
    return args_kwargs_to_normalized(signature, args, kwargs or {}, normalize_to_only_use_kwargs)


__all__ = [
    "ArgsKwargsPair", "args_kwargs_to_normalized", "base_types", "check_for_mutable_operation", "create_type_hint",
    "get_signature_for_torch_op", "normalize_function", "normalize_module", "type_matches",
]
