"""``CSEPass``: computes the same thing only once."""

from __future__ import annotations

import copy
import operator
from typing import Any

from ....._ops import OpOverload, ops
from ....graph_module import GraphModule
from ....node import Node, map_aggregate
from ...infra.pass_base import PassBase, PassResult

aten = ops.aten


def _named(names):
    return {getattr(aten, name) for name in names.split() if hasattr(aten, name)}


rand_ops = _named(
    "dropout _fused_dropout _standard_gamma bernoulli multinomial native_dropout normal poisson binomial rrelu "
    "rand_like rand randint randn randperm"
)
inplace_ops = _named("add_ sub_ mul_ div_ pow_ lerp_ relu_ sigmoid_ tanh_")

# Memory of their own that is written later: two calls must stay two.
_FRESH = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"})


def get_CSE_banned_ops() -> set:
    """The ops that PyTorch's users give as ``banned_ops``: those that draw random numbers or write in place."""
    return rand_ops | inplace_ops


class CSEPass(PassBase):
    """Merges calls of the same function with the same arguments.

    Calls that write or draw random numbers stay, and so does everything that comes after a write to
    what it reads, as an op cannot be moved over a write.

    Args:
        banned_ops: functions whose calls stay too.
    """

    def __init__(self, banned_ops=None):
        self.banned_ops = set(banned_ops or ())
        super().__init__()

    def call(self, graph_module: GraphModule) -> PassResult:
        """A module with a graph of its own in which calls are merged; the given one stays as it is."""
        graph = copy.deepcopy(graph_module.graph)
        known: dict[Any, Node] = {}
        epoch = 0  # how many writes came before: calls merge only between two of them
        modified = False
        for node in list(graph.nodes):
            if node.op not in ("call_function", "get_attr"):
                if node.op in ("call_method", "call_module"):
                    epoch += 1
                continue
            if node.op == "call_function" and (node.is_impure() or _is_inplace(node)):
                epoch += 1
                continue
            if (
                node.target in self.banned_ops
                or _packet(node.target) in self.banned_ops
                or _name(node.target) in _FRESH
            ):
                continue
            key = (epoch, node.op, node.target, _key(node.args), _key(node.kwargs))
            try:
                earlier = known.setdefault(key, node)
            except TypeError:  # an argument that cannot be compared
                continue
            if earlier is not node:
                node.replace_all_uses_with(earlier)
                graph.erase_node(node)
                modified = True
        return PassResult(GraphModule(graph_module, graph), modified)


def _packet(target):
    return target.overloadpacket if isinstance(target, OpOverload) else target


def _name(target):
    if isinstance(target, OpOverload):
        return target.overloadpacket.__name__
    return getattr(target, "__name__", "")


def _is_inplace(node):
    name = _name(node.target)
    return (name.endswith("_") and not name.endswith("__") and name not in ("and_", "or_", "not_")) or (
        getattr(operator, name, None) is node.target and name.startswith("i") and
        name not in ("invert", "inv", "index", "indexOf", "is_", "is_not", "itemgetter")
    ) or node.kwargs.get("inplace") is True or "out" in node.kwargs


def _key(arguments):
    """Arguments by value and type: 1, 1.0 and True are different."""
    return _frozen(map_aggregate(arguments, lambda a: a if isinstance(a, Node) else (type(a), a)))


def _frozen(a):
    if isinstance(a, (list, tuple)):
        return (type(a).__name__, *map(_frozen, a))
    if isinstance(a, dict):
        return tuple((k, _frozen(v)) for k, v in sorted(a.items()))
    if isinstance(a, slice):
        return ("slice", _frozen(a.start), _frozen(a.stop), _frozen(a.step))
    return a


__all__ = ["CSEPass", "get_CSE_banned_ops"]
