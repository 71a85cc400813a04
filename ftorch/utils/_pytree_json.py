"""Structures of trees as JSON, in the format of ``torch.utils._pytree`` (protocol 1)."""

from __future__ import annotations

import functools
import importlib
import json
from collections import defaultdict, namedtuple
from enum import Enum

from ._pytree import TreeSpec, treespec_leaf
from ._pytree_nodes import (
    NO_SERIALIZED_TYPE_NAME_FOUND,
    SERIALIZED_TYPE_TO_PYTHON_TYPE,
    SUPPORTED_SERIALIZED_TYPES,
)

PROTOCOL = 1


class EnumEncoder(json.JSONEncoder):
    """Writes members of enumerations by name."""

    def default(self, o):
        if not isinstance(o, Enum):
            return super().default(o)
        return {
            "__enum__": True,
            "fqn": f"{type(o).__module__}:{type(o).__qualname__}",
            "name": o.name,
        }


def _decode_enum(obj):
    if "__enum__" not in obj:
        return obj
    module, _, path = obj["fqn"].partition(":")
    return functools.reduce(getattr, path.split("."), importlib.import_module(module))[obj["name"]]


def _type_name(cls):
    known = SUPPORTED_SERIALIZED_TYPES.get(cls)
    if known is None:
        raise NotImplementedError(f"Serializing {cls} in pytree is not registered.")
    if known.serialized_type_name == NO_SERIALIZED_TYPE_NAME_FOUND:
        raise NotImplementedError(
            f"No registered serialization name for {cls} found. Please update your "
            "_register_pytree_node call with a `serialized_type_name` kwarg."
        )
    return known.serialized_type_name


def _type_of(name):
    if name not in SERIALIZED_TYPE_TO_PYTHON_TYPE:
        raise NotImplementedError(f"Deserializing {name} in pytree is not registered.")
    return SERIALIZED_TYPE_TO_PYTHON_TYPE[name]


def _dump_context(cls, context):
    if cls is namedtuple:
        return _type_name(context)
    if cls is defaultdict:
        factory, keys = context
        return {
            "default_factory_module": factory.__module__,
            "default_factory_name": factory.__qualname__,
            "dict_context": keys,
        }
    dump = SUPPORTED_SERIALIZED_TYPES[cls].to_dumpable_context
    if dump is not None:
        return dump(context)
    try:
        return json.dumps(context, cls=EnumEncoder)
    except TypeError as e:
        raise TypeError(
            "Unable to serialize context. Please make the context json dump-able, or register a "
            "custom serializer using _register_pytree_node."
        ) from e


def _load_context(cls, dumped):
    if cls is namedtuple:
        return _type_of(dumped)
    if cls is defaultdict:
        module = importlib.import_module(dumped["default_factory_module"])
        return [getattr(module, dumped["default_factory_name"]), dumped["dict_context"]]
    load = SUPPORTED_SERIALIZED_TYPES[cls].from_dumpable_context
    return json.loads(dumped, object_hook=_decode_enum) if load is None else load(dumped)


def _to_json(spec):
    if spec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    return {
        "type": _type_name(spec.type),
        "context": _dump_context(spec.type, spec.context),
        "children_spec": [_to_json(child) for child in spec.children()],
    }


def _from_json(schema):
    if schema["type"] is None:
        return treespec_leaf()
    cls = _type_of(schema["type"])
    children = [_from_json(child) for child in schema["children_spec"]]
    return TreeSpec(cls, _load_context(cls, schema["context"]), children)


def _check(protocol):
    if protocol != PROTOCOL:
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: {[PROTOCOL]}")


def dumps(treespec, protocol=None):
    """See `ftorch.utils._pytree.treespec_dumps`."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            "Expected `treespec` to be an instance of PyTreeSpec but got item of type "
            f"{type(treespec)}."
        )
    protocol = PROTOCOL if protocol is None else protocol
    _check(protocol)
    return json.dumps((protocol, _to_json(treespec)), cls=EnumEncoder)


def loads(serialized):
    """See `ftorch.utils._pytree.treespec_loads`."""
    protocol, schema = json.loads(serialized)
    _check(protocol)
    return _from_json(schema)
