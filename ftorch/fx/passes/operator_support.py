"""Which nodes a backend takes: the question that partitioners ask."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...nn import Module
from .._targets import qualified_name
from ..node import Node
from .shape_prop import TensorMetadata


def get_node_target(submodules: Mapping[str, Module], node: Node) -> str:
    """The name of what a node calls: ``"torch.add"``, a module's class, a method's name."""
    if node.op == "call_module":
        cls = type(submodules[node.target])  # type: ignore[index]
        return qualified_name(cls)
    if node.op == "call_function":
        return qualified_name(node.target)
    return str(node.target)


class OperatorSupportBase(abc.ABC):
    """Says which nodes are supported."""

    @abc.abstractmethod
    def is_node_supported(self, submodules: Mapping[str, Module], node: Node) -> bool:
        """Whether a node is."""


class OperatorSupport(OperatorSupportBase):
    """Supports the ops of a table.

    Args:
        support_dict: {target's name: None, or (dtypes of the args, {name: dtypes of a kwarg})}; the
            dtypes are those of ``meta["tensor_meta"]``.
    """

    _support_dict: Mapping[str, Any] = {}

    def __init__(self, support_dict: Mapping[str, Any] | None = None):
        self._support_dict = self._support_dict if support_dict is None else support_dict

    def is_node_supported(self, submodules, node):
        if node.op not in ("call_function", "call_method", "call_module"):
            return True
        target = get_node_target(submodules, node)
        if target not in self._support_dict:
            return False
        wanted = self._support_dict[target]
        if wanted is None:
            return True
        by_position, by_name = wanted
        pairs = [*zip(by_position, node.args), *((t, node.kwargs[k]) for k, t in by_name.items()
                                                 if k in node.kwargs)]
        return all(not isinstance(a, Node) or _dtype_of(a) in types for types, a in pairs)


def _dtype_of(node):
    meta = node.meta.get("tensor_meta")
    return meta.dtype if isinstance(meta, TensorMetadata) else None


class _Functional(OperatorSupportBase):
    def __init__(self, function):
        self._function = function

    def is_node_supported(self, submodules, node):
        return self._function(submodules, node)


def create_op_support(is_node_supported: Callable[[Mapping[str, Module], Node], bool]):
    """A function as an `OperatorSupportBase`."""
    return _Functional(is_node_supported)


def chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """Supports what all of several support."""
    return _Functional(lambda s, n: all(o.is_node_supported(s, n) for o in op_support))


def any_chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """Supports what one of several supports."""
    return _Functional(lambda s, n: any(o.is_node_supported(s, n) for o in op_support))


class OpSupports:
    """Ready-made answers."""

    @classmethod
    def decline_if_input_dtype(cls, dtype) -> OperatorSupportBase:
        """Not nodes with an argument of a dtype (by ``meta["tensor_meta"]``)."""
        return _Functional(
            lambda _, n: all(_dtype_of(used) != dtype for used in n.all_input_nodes)
        )

    @classmethod
    def decline_if_node_in_names(cls, disallow_set: Sequence[str] | set[str]) -> OperatorSupportBase:
        """Not nodes of some names."""
        return _Functional(lambda _, n: n.name not in disallow_set)


__all__ = [
    "OpSupports", "OperatorSupport", "OperatorSupportBase", "any_chain", "chain", "create_op_support",
    "get_node_target",
]
