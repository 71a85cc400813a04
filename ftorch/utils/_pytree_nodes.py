"""The types whose objects are nodes of trees, and the keys of their children.

Part of `ftorch.utils._pytree`.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

PyTree = Any
Context = Any
DumpableContext = Any
FlattenFn = FlattenFunc = Callable[[PyTree], tuple[list, Context]]
UnflattenFn = UnflattenFunc = Callable[[Iterable, Context], PyTree]
FlattenWithKeysFn = FlattenWithKeysFunc = Callable[[PyTree], tuple[list[tuple[Any, Any]], Any]]
ToDumpableContextFn = Callable[[Context], DumpableContext]
FromDumpableContextFn = Callable[[DumpableContext], Context]

NO_SERIALIZED_TYPE_NAME_FOUND = "NO_SERIALIZED_TYPE_NAME_FOUND"


# --- the registry ------------------------------------------------------------------------


class NodeDef(NamedTuple):
    """How nodes of a type are taken apart and put together."""

    type: Any
    flatten_fn: FlattenFn
    unflatten_fn: UnflattenFn
    flatten_with_keys_fn: FlattenWithKeysFn | None


class _SerializeNodeDef(NamedTuple):
    typ: Any
    serialized_type_name: str
    to_dumpable_context: ToDumpableContextFn | None
    from_dumpable_context: FromDumpableContextFn | None


SUPPORTED_NODES: dict[Any, NodeDef] = {}
SUPPORTED_SERIALIZED_TYPES: dict[Any, _SerializeNodeDef] = {}
SERIALIZED_TYPE_TO_PYTHON_TYPE: dict[str, Any] = {}
CONSTANT_NODES: set[type] = set()


def register_pytree_node(cls: type, flatten_fn: FlattenFn, unflatten_fn: UnflattenFn, *,
                         serialized_type_name: str | None = None,
                         to_dumpable_context: ToDumpableContextFn | None = None,
                         from_dumpable_context: FromDumpableContextFn | None = None,
                         flatten_with_keys_fn: FlattenWithKeysFn | None = None) -> None:
    """Makes nodes of the objects of a type.

    Args:
        flatten_fn: from an object to its children and a context.
        unflatten_fn: from children and that context to an object.
        serialized_type_name: the type's name in the text of a spec.
        to_dumpable_context, from_dumpable_context: from a context to what JSON can hold, and back.
        flatten_with_keys_fn: as ``flatten_fn``, with pairs of a key and a child.

    Raises:
        ValueError: if the type is registered already.

    >>> from ftorch.utils import _pytree
    >>> class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> _pytree.register_pytree_node(Pair, lambda p: ([p.a, p.b], None), lambda v, _: Pair(*v))
    >>> _pytree.tree_leaves([Pair(1, (2, 3))])
    [1, 2, 3]
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    _private_register_pytree_node(
        cls, flatten_fn, unflatten_fn, serialized_type_name=serialized_type_name,
        to_dumpable_context=to_dumpable_context, from_dumpable_context=from_dumpable_context,
        flatten_with_keys_fn=flatten_with_keys_fn,
    )


def _private_register_pytree_node(
    cls, flatten_fn, unflatten_fn, *, serialized_type_name=None, to_dumpable_context=None,
    from_dumpable_context=None, flatten_with_keys_fn=None,
):
    if cls in SUPPORTED_NODES:
        warnings.warn(
            f"{cls} is already registered as pytree node. Overwriting the previous registration.",
            stacklevel=3,
        )
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(
            f"Both to_dumpable_context and from_dumpable_context for {cls} must "
            "be None or registered."
        )
    name = serialized_type_name or NO_SERIALIZED_TYPE_NAME_FOUND
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)
    SUPPORTED_SERIALIZED_TYPES[cls] = _SerializeNodeDef(
        cls, name, to_dumpable_context, from_dumpable_context
    )
    SERIALIZED_TYPE_TO_PYTHON_TYPE[name] = cls


def _register_pytree_node(cls, flatten_fn, unflatten_fn, to_str_fn=None, maybe_from_str_fn=None,
                          **arguments):
    """The former name of `register_pytree_node`; it overwrites with a warning."""
    warnings.warn(
        "`torch.utils._pytree._register_pytree_node` is deprecated. "
        "Please use `torch.utils._pytree.register_pytree_node` instead.",
        FutureWarning,
        stacklevel=2,
    )
    _private_register_pytree_node(cls, flatten_fn, unflatten_fn, **arguments)


def _register_namedtuple(cls, *, serialized_type_name: str) -> None:
    """Gives a named tuple's type a name, so that specs with it can become text."""
    _private_register_pytree_node(
        cls, _namedtuple_flatten, _namedtuple_unflatten, serialized_type_name=serialized_type_name,
        flatten_with_keys_fn=SUPPORTED_NODES[namedtuple].flatten_with_keys_fn,
    )


def _deregister_pytree_node(cls) -> None:
    del SUPPORTED_NODES[cls]
    SERIALIZED_TYPE_TO_PYTHON_TYPE.pop(SUPPORTED_SERIALIZED_TYPES.pop(cls).serialized_type_name)
    CONSTANT_NODES.discard(cls)


def register_dataclass(cls: type, *, field_names: list[str] | None = None,
                       drop_field_names: list[str] | None = None,
                       serialized_type_name: str | None = None) -> None:
    """Makes nodes of a dataclass's objects; fields that are None are no children.

    Args:
        field_names: the fields that are children; those of ``__init__`` by default, which another
            kind of class must list.
        drop_field_names: fields to leave out, which need defaults.

    Raises:
        ValueError: if the names do not fit the dataclass.
    """
    if dataclasses.is_dataclass(cls):
        initialised = {f.name for f in dataclasses.fields(cls) if f.init}
        if field_names is None:
            field_names = [f.name for f in dataclasses.fields(cls) if f.init]
        initialised -= set(drop_field_names or ())
        field_names = [name for name in field_names if name not in (drop_field_names or ())]
        problems = [
            f"{kind} fields in `field_names`: {names}"
            for kind, names in (
                ("Missing", initialised - set(field_names)),
                ("Unexpected", set(field_names) - initialised),
            )
            if names
        ]
        if problems:
            raise ValueError(
                f"{'. '.join(problems)}. `field_names` must be the fields of __init__ that are "
                "not in `drop_field_names`.\n"
            )
    elif field_names is None:
        raise ValueError("field_names must be specified with a list of all fields used to "
                         f"initialize {cls}, as it is not a dataclass.")

    def flatten(obj):
        values = {name: getattr(obj, name) for name in field_names}
        present = [name for name, value in values.items() if value is not None]
        absent = [name for name, value in values.items() if value is None]
        return [values[name] for name in present], [present, absent]

    def unflatten(values, context):
        present, absent = context
        return cls(**dict(zip(present, values)), **dict.fromkeys(absent))

    def flatten_with_keys(obj):
        values, context = flatten(obj)
        return [(GetAttrKey(name), v) for name, v in zip(context[0], values)], context

    _private_register_pytree_node(
        cls, flatten, unflatten, serialized_type_name=serialized_type_name,
        flatten_with_keys_fn=flatten_with_keys,
    )


@dataclasses.dataclass(frozen=True)
class ConstantNode:
    """The context of a node that is a constant."""

    value: Any


def register_constant(cls: type) -> None:
    """Makes nodes without leaves of a type's objects.

    Raises:
        TypeError: if the type does not define equality and a hash.
    """
    for method, missing in (("__eq__", cls.__eq__ is object.__eq__), ("__hash__", not cls.__hash__)):
        if missing:
            raise TypeError(
                "register_constant(cls) expects `cls` to have a non-default "
                f"`{method}` implementation."
            )

    def flatten(constant):
        return [], ConstantNode(constant)

    _private_register_pytree_node(
        cls, flatten, lambda _, context: context.value, flatten_with_keys_fn=flatten
    )
    CONSTANT_NODES.add(cls)


def is_constant_class(cls: type) -> bool:
    """Whether a type was registered by `register_constant`."""
    return isinstance(cls, type) and cls in CONSTANT_NODES


# --- keys --------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class SequenceKey:
    """The index of a child."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence):
        return sequence[self.idx]


@dataclasses.dataclass(frozen=True)
class MappingKey:
    """The key of a child."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping):
        return mapping[self.key]


@dataclasses.dataclass(frozen=True)
class GetAttrKey:
    """The name of a child."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj):
        return getattr(obj, self.name)


KeyPath = tuple[Any, ...]


def keystr(kp: KeyPath) -> str:
    """A key path as it would stand in code."""
    return "".join(map(str, kp))


def key_get(obj: Any, kp: KeyPath) -> Any:
    """What a key path leads to."""
    for key in kp:
        obj = key.get(obj)
    return obj


# --- the built-in nodes ------------------------------------------------------------------


def is_namedtuple_class(cls: Any) -> bool:
    """Whether a type is a named tuple's."""
    if not (isinstance(cls, type) and issubclass(cls, tuple)):
        return False
    fields = getattr(cls, "_fields", None)
    return (
        isinstance(fields, tuple)
        and all(type(field) is str for field in fields)
        and callable(getattr(cls, "_make", None))
        and callable(getattr(cls, "_asdict", None))
    )


def is_namedtuple_instance(obj: object) -> bool:
    """Whether an object is a named tuple."""
    return is_namedtuple_class(type(obj))


def is_namedtuple(obj: Any) -> bool:
    """Whether an object, or a type, is a named tuple('s)."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_class(cls: Any) -> bool:
    """Whether a type is one of CPython's tuples with names (``time.struct_time``)."""
    names = ("n_fields", "n_sequence_fields", "n_unnamed_fields")
    return (
        isinstance(cls, type)
        and cls.__bases__ == (tuple,)
        and all(isinstance(getattr(cls, name, None), int) for name in names)
        and not cls.__flags__ & (1 << 10)  # Py_TPFLAGS_BASETYPE: it cannot be subclassed
    )


def is_structseq_instance(obj: object) -> bool:
    """Whether an object is one of CPython's tuples with names."""
    return is_structseq_class(type(obj))


def is_structseq(obj: Any) -> bool:
    """Whether an object, or a type, is one of CPython's tuples with names."""
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


def _list_flatten(d):
    return d, None


def _tuple_flatten(d):
    return list(d), None


def _deque_flatten(d):
    return list(d), d.maxlen


def _namedtuple_flatten(d):
    return list(d), type(d)


def _dict_flatten(d):
    return list(d.values()), list(d)


def _defaultdict_flatten(d):
    return list(d.values()), [d.default_factory, list(d)]


def _list_unflatten(values, context):
    return list(values)


def _tuple_unflatten(values, context):
    return tuple(values)


def _deque_unflatten(values, context):
    return deque(values, maxlen=context)


def _namedtuple_unflatten(values, context):
    return context(*values)


def _dict_unflatten(values, context):
    return dict(zip(context, values))


def _ordereddict_unflatten(values, context):
    return OrderedDict(zip(context, values))


def _defaultdict_unflatten(values, context):
    default_factory, keys = context
    return defaultdict(default_factory, zip(keys, values))


_ordereddict_flatten = _odict_flatten = _dict_flatten
_odict_unflatten = _ordereddict_unflatten


def _with_keys(flatten, keys_of):
    def flatten_with_keys(d):
        values, context = flatten(d)
        return list(zip(keys_of(values, context), values)), context

    return flatten_with_keys


_BUILT_IN = {
    tuple: ("builtins.tuple", _tuple_flatten, _tuple_unflatten),
    list: ("builtins.list", _list_flatten, _list_unflatten),
    dict: ("builtins.dict", _dict_flatten, _dict_unflatten),
    namedtuple: ("collections.namedtuple", _namedtuple_flatten, _namedtuple_unflatten),
    OrderedDict: ("collections.OrderedDict", _ordereddict_flatten, _ordereddict_unflatten),
    defaultdict: ("collections.defaultdict", _defaultdict_flatten, _defaultdict_unflatten),
    deque: ("collections.deque", _deque_flatten, _deque_unflatten),
}
_KEYS_OF = {
    dict: lambda values, context: map(MappingKey, context),
    OrderedDict: lambda values, context: map(MappingKey, context),
    defaultdict: lambda values, context: map(MappingKey, context[1]),
    namedtuple: lambda values, context: map(GetAttrKey, context._fields),
}


def _index_keys(values, context):
    return map(SequenceKey, range(len(values)))


for _type, (_name, _flatten, _unflatten) in _BUILT_IN.items():
    _private_register_pytree_node(
        _type, _flatten, _unflatten, serialized_type_name=_name,
        flatten_with_keys_fn=_with_keys(_flatten, _KEYS_OF.get(_type, _index_keys)),
    )

STANDARD_DICT_TYPES = frozenset({dict, OrderedDict, defaultdict})
BUILTIN_TYPES = frozenset(_BUILT_IN)


def _get_node_type(tree: Any) -> Any:
    cls = type(tree)
    # Most types are decided by the first look-up.
    if cls is not tuple and isinstance(tree, tuple) and is_namedtuple_class(cls):
        return namedtuple
    return cls
