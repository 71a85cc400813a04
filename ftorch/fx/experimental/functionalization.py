"""Recorded calls without their writes: what PyTorch's functionalization makes of a graph of ATen's ops.

A tensor of the graph is a `Functional`: its value now, and the views that lead to it from what owns the memory
(`Owner`). A write gives the tensor a new value, which is carried through the inverses of its views into the
owner; another tensor of that memory is taken anew when it is read next. Views themselves read nothing. The order
of the calls is PyTorch's.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from ..._dispatch.view_replay import SEVERAL, VIEWS, Owner, Replay, copying, functional_form
from ..._ops import OpOverload, ops, own_name
from ..._subclasses.fake_tensor import fake_like
from ..graph import Graph
from ..node import Node, map_arg

aten = ops.aten
_DRAWS = frozenset("bernoulli_ cauchy_ exponential_ geometric_ log_normal_ normal_ random_ uniform_".split())
_META = ("stack_trace", "nn_module_stack", "partitioner_tag", "custom")


class Functional:
    """A tensor: its value, and the views by which it is seen in its memory, ``(target, args, kwargs, example, item)``."""

    def __init__(self, node: Node, owner: Owner, metas: tuple = ()):
        self.node, self.owner, self.metas, self.generation = node, owner, metas, 0


def _is_write(target):
    return isinstance(target, OpOverload) and target._form == "inplace" and own_name(target).endswith("_")


class Functionalization(Replay):
    """Emits calls into a graph, functional ones.

    Args:
        graph: gets the calls.
        copies: views become copies (``view_copy``), too.

    Attributes:
        tensors: {node as it was recorded: what it is now}.
    """

    def __init__(self, graph: Graph, copies: bool = False):
        self.graph, self.copies = graph, copies
        self.tensors: dict[Node, Any] = {}
        self._origin: dict = {}
        self._statistics: dict[Node, list] = {}  # of normalizations that train: what is written next

    def given(self, old: Node, new: Node) -> Functional:
        """Declares a tensor from outside."""
        found = self.tensors[old] = Functional(new, Owner(new))
        return found

    def is_written(self, old: Node) -> bool:
        """Whether somebody wrote to the memory of a tensor."""
        return self.tensors[old].owner.generation > 0

    # --- emitting

    def _call(self, target, args, kwargs=None, like: Any = None, name=None) -> Node:
        if self.copies and own_name(target) in VIEWS:
            target, name = copying(target), None
        name = name or (getattr(target, "_opname", None) or target.__name__).partition(".")[0]
        node = self.graph.call_function(target, tuple(args), kwargs or {}, name=name)
        node.meta.update(self._origin)
        if like is not None:
            node.meta["val"] = like
        return node

    def call(self, target, args, kwargs=None, like: Any = None):
        name = "getitem" if target is operator.getitem else None
        return self._call(target, args, kwargs, like=like, name=name)

    def example(self, value):
        return value.meta["val"]

    def sync(self, t: Functional) -> Node:
        """A tensor's value, taken anew if its memory was written since."""
        if t.generation != t.owner.generation:
            if t.metas:
                t.node = self.seen(t.owner.base, t.metas)
            else:
                t.node = t.owner.base
            t.generation = t.owner.generation
        return t.node

    def value(self, old: Node) -> Any:
        """The node of a recorded node's value."""
        found = self.tensors[old]
        return self.sync(found) if isinstance(found, Functional) else found

    def arguments(self, value):
        """Nested operands with the nodes of their values."""
        return map_arg(value, self.value)

    def write(self, t: Functional, new: Node) -> None:
        """Makes a node's value that of a tensor, and of what lies in its memory."""
        self.written(t.owner, t.metas, new)
        self.sync(t)

    # --- nodes

    def node(self, old: Node) -> None:
        """Emits what stands for a recorded call."""
        target = old.target
        self._origin = {k: old.meta[k] for k in _META if k in old.meta}
        name = own_name(target)
        whole = old.args[0] if old.args and isinstance(old.args[0], Node) else None
        source = None if whole is None else self.tensors[whole]
        if isinstance(source, Functional) and name in VIEWS and isinstance(target, OpOverload):
            self._view(old, source)
        elif target is operator.getitem and isinstance(source, list):
            self.tensors[old] = source[old.args[1]]
        elif target is operator.getitem and whole in self._statistics:
            self._made(old, self.graph.node_copy(old, self.value))
            if old.args[1] == 2:  # the last of the op that was recorded
                for t, i in self._statistics.pop(whole):
                    self.write(t, self.item(self.value(whole), i))
        elif name == "native_batch_norm" and isinstance(target, OpOverload):
            self._batch_norm(old)
        elif _is_write(target):
            assert source is not None
            self._inplace(old, source)
        elif _mutated(target):
            self._mutating(old)
        else:
            if any(isinstance(self.tensors[n], list) for n in old.all_input_nodes):
                raise RuntimeError(f"{target} takes a list of views")
            node = self.graph.node_copy(old, self.value)
            self._made(old, node)

    def _made(self, old, node):
        is_several = isinstance(node.meta.get("val"), (tuple, list))
        self.tensors[old] = node if is_several else Functional(node, Owner(node))

    def _view(self, old, source):
        args, kwargs = self.arguments(tuple(old.args[1:])), self.arguments(dict(old.kwargs))
        example = old.meta.get("val")
        node = self._call(old.target, (source.node, *args), kwargs, like=example)
        if old.target._opname in SEVERAL:
            self.tensors[old] = [
                Functional(self.item(node, i), source.owner,
                           (*source.metas, (old.target, args, kwargs, example, i)))
                for i in range(len(example))
            ]
            return
        meta = (old.target, args, kwargs, example, None)
        self.tensors[old] = Functional(node, source.owner, (*source.metas, meta))

    def _inplace(self, old, source):
        args, kwargs = self.arguments(tuple(old.args)), self.arguments(dict(old.kwargs))
        self.tensors[old] = source
        target, like = old.target, source.node.meta.get("val")
        found = functional_form(target)
        if target._opname == "bernoulli_" and len(args) == 1:
            args = (*args, 0.5)  # the other op has no default
        if found is None:
            fresh = self._call(aten.clone.default, args[:1], like=like)
            new = self._call(target, (fresh, *args[1:]), kwargs, like=like)
        else:
            val = None if target._opname in _DRAWS else _example(found, args, kwargs)  # an example would draw
            new = self._call(found, args, kwargs, like=like if val is None else val)
            if val is not None and like is not None and val.dtype != like.dtype:
                options = {"dtype": like.dtype, "layout": like.layout}
                new = self._call(aten._to_copy.default, (new,), options, like=like)
        self.write(source, new)

    def _batch_norm(self, old):
        """The normalization, whose running statistics are written to where it trains."""
        x, weight, bias, mean, var, training, *rest = self.arguments(tuple(old.args))
        like = old.meta["val"]
        if not training:
            target = aten._native_batch_norm_legit_no_training.default
            self._made(old, self._call(target, (x, weight, bias, mean, var, *rest), like=like))
        elif mean is None:
            target = aten._native_batch_norm_legit.no_stats
            self._made(old, self._call(target, (x, weight, bias, training, *rest), like=like))
        else:
            stats = [n.meta["val"] for n in (mean, var)]
            target = aten._native_batch_norm_legit_functional.default
            node = self._call(target, (x, weight, bias, mean, var, training, *rest), like=(*like, *stats))
            self._made(old, node)
            self._statistics[old] = [(self.tensors[n], i) for n, i in zip(old.args[3:5], (3, 4))]

    def _mutating(self, old):
        """A call of an operator that writes to its arguments: to copies of them, which are their values then."""
        schema = old.target._schema
        written = {a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write}
        names = [a.name for a in schema.arguments]
        copies = []

        def fresh(name, value):
            if name not in written or not isinstance(value, Node):
                return self.arguments(value)
            t, now = self.tensors[value], self.value(value)
            copies.append((t, self._call(aten.clone.default, (now,), like=now.meta.get("val"))))
            return copies[-1][1]

        args = tuple(fresh(n, v) for n, v in zip(names, old.args))
        kwargs = {n: fresh(n, v) for n, v in old.kwargs.items()}
        node = self._call(old.target, args, kwargs, like=old.meta.get("val"), name=old.name)
        self._made(old, node)
        for t, new in copies:
            self.write(t, new)


class Section:
    """What a level records from now on, which is made functional when it ends."""

    def __init__(self, level, copies: bool):
        self.level, self.copies, graph = level, copies, level.graph
        self.before = set(graph.nodes)
        self.names = set(graph._graph_namespace._used_names), dict(graph._graph_namespace._counts)

    def end(self, values) -> None:
        """Replaces the recorded calls.

        Args:
            values: tensors that are read on, arguments of the function among them.
        """
        level, graph = self.level, self.level.graph
        recorded = [n for n in graph.nodes if n not in self.before]
        names = graph._graph_namespace
        names._used_names, names._counts = self.names
        outside = list(dict.fromkeys(i for n in recorded for i in n.all_input_nodes if i in self.before))
        aside, olds = Graph(), {}
        for node in outside:
            olds[node] = aside.placeholder(node.name)
            olds[node].meta = node.meta
        for node in recorded:
            olds[node] = aside.node_copy(node, olds.__getitem__)
        for node in reversed(recorded):
            graph.erase_node(node)
        functional, constants = Functionalization(graph, self.copies), {}
        for node in (*outside, *recorded):
            old = olds[node]
            if node.op == "get_attr":
                made = node if node in self.before else graph.get_attr(node.target)
                made.meta["val"] = fake_like(getattr(level.root, node.target))
                constants[node] = made
                functional.given(old, made)
            elif node in self.before:
                functional.given(old, node)
            else:
                functional.node(old)
        for name, node in level._constant_nodes.items():
            level._constant_nodes[name] = constants.get(node, node)
        own = [t for t in values if getattr(t, "_ftorch_level", None) is level and t._node in olds]
        tensors = [functional.tensors[olds[t._node]] for t in own]
        nodes = [functional.sync(t) for t in tensors]
        written = {}
        for node in outside:
            if node.op == "placeholder" and functional.is_written(olds[node]):
                whole = functional.tensors[olds[node]]
                new = functional.sync(whole)
                written[id(whole)] = functional._call(aten.copy_.default, (node, new), like=node.meta["val"])
        for t, found, node in zip(own, tensors, nodes):
            t._node = written.get(id(found), node)


def _mutated(target) -> bool:
    if not isinstance(target, OpOverload) or target.namespace == "aten":
        return False
    return any(a.alias_info is not None and a.alias_info.is_write for a in target._schema.arguments)


def _example(target: Callable, args, kwargs):
    """A fake result of a call, or None where fake tensors cannot say."""
    def example(node):
        return node.meta["val"]

    try:
        return target(*map_arg(args, example), **map_arg(kwargs, example))
    except (RuntimeError, KeyError, TypeError):
        return None
