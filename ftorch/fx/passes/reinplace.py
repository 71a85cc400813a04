"""``reinplace``: ops whose operand nobody reads again write into it."""

from __future__ import annotations

from ... import _ops
from ...eager.tensor import TensorBase
from ...utils import _pytree as pytree
from .._compatibility import compatibility
from ..graph_module import GraphModule
from ..interpreter import Interpreter
from ..node import Node

__all__ = ["reinplace"]


class _Storages(Interpreter):
    """Runs a graph and notes whose memory each result is."""

    def __init__(self, module):
        super().__init__(module, garbage_collect_values=False)
        self.of: dict[Node, set[int]] = {}
        self.alive: list = []  # so that identities stay
        self.shapes: dict[Node, object] = {}

    def run_node(self, n):
        result = super().run_node(n)
        tensors = [t for t in pytree.tree_leaves(result) if isinstance(t, TensorBase)]
        self.alive.extend(tensors)
        self.of[n] = {id(t._ftorch_storage) for t in tensors}
        if isinstance(result, TensorBase):
            self.shapes[n] = (result.shape, result.dtype)
        return result


def _inplace_form(target):
    """``aten.add_.Tensor`` for ``aten.add.Tensor``, or None."""
    if not isinstance(target, _ops.OpOverload) or target.namespace != "aten":
        return None
    if target._opname.endswith("_"):
        return None
    packet = getattr(_ops.ops.aten, f"{target._opname}_", None)
    return None if packet is None else getattr(packet, target._overloadname, None)


@compatibility(is_backward_compatible=True)
def reinplace(gm: GraphModule, *sample_args) -> GraphModule:
    """Replaces ops by their in-place forms where nobody sees the difference, in place.

    An op may write into its first operand if that is neither an input's memory nor read behind it, by
    itself or by what shares its memory.

    Args:
        sample_args: inputs to run the graph with, which shows what shares memory.
    """
    seen = _Storages(gm)
    seen.run(*sample_args)
    nodes = list(gm.graph.nodes)
    kept = set()
    for node in nodes:
        if node.op in ("placeholder", "get_attr"):
            kept |= seen.of[node]
    last: dict[int, int] = {}
    for i, node in enumerate(nodes):
        for used in node.all_input_nodes:
            for storage in seen.of[used]:
                last[storage] = i
    owner: dict[int, int] = {}  # whose memory one's result took

    def root(storage):
        while storage in owner:
            storage = owner[storage]
        return storage

    for i, node in enumerate(nodes):
        form = _inplace_form(node.target) if node.op == "call_function" else None
        operand = node.args[0] if form is not None and node.args else None
        if not isinstance(operand, Node) or seen.shapes.get(operand) != seen.shapes.get(node):
            continue
        memory = {root(s) for s in seen.of[operand]}
        if len(memory) != 1 or memory & kept:
            continue
        if any(last.get(s, -1) > i for s in _shared(seen, root, memory)):
            continue
        if _read_twice(node, operand, seen, root, memory):
            continue
        node.target = form
        (mine,) = seen.of[node]
        owner[mine] = next(iter(memory))
        node.replace_all_uses_with(operand)
    gm.recompile()
    return gm


def _shared(seen, root, memory):
    """All memory that has become this one."""
    return {s for storages in seen.of.values() for s in storages if root(s) in memory}


def _read_twice(node, operand, seen, root, memory) -> bool:
    """Whether another operand shares the memory."""
    others = [a for a in node.all_input_nodes if a is not operand]
    return any(root(s) in memory for a in others for s in seen.of[a])

