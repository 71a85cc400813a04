"""Which tensors a backward pass keeps: the least cut of the joint graph, by memory.

Each node is an edge that weighs what keeping its tensor costs; nodes that are dear to compute again hang on the
source, those of the backward pass on the sink.
"""

from __future__ import annotations

import heapq
import math
import operator

from ..._ops import own_name
from ...eager.tensor import TensorBase
from ...fx import Graph, Node
from .. import config

# Ops that read and write elements, or reduce, and so are cheap to do again; others are kept.
_CHEAP = frozenset(
    "add sub div atan2 mul max min pow remainder fmod __and__ __or__ __xor__ __lshift__ __rshift__ eq ne ge gt le lt "
    "abs bitwise_not ceil floor frac neg relu round silu trunc log log10 log1p log2 lgamma exp expm1 erf erfc cos acos "
    "cosh sin asin sinh tan atan tanh atanh sqrt rsqrt reciprocal sigmoid softplus threshold threshold_backward clamp "
    "where lerp addcmul gelu gelu_backward sum mean _grad_sum_to_size sum_to_size amax to type_as rsub _to_copy clone "
    "full_like var std _unsafe_view reshape broadcast_tensors scalar_tensor ones new_zeros lift_fresh_copy arange triu "
    "var_mean isinf any full zeros empty empty_like argmax maximum minimum index gather zeros_like logical_and "
    "logical_or logical_not logical_xor bitwise_and bitwise_or bitwise_xor isnan isfinite sign signbit square elu "
    "leaky_relu hardswish hardsigmoid hardtanh mish clamp_min clamp_max addcdiv hypot copysign exp2 erfinv digamma "
    "acosh asinh logit sinc xlogy floor_divide masked_fill fill copy angle log_sigmoid_forward".split()
)
_VIEWS = frozenset("squeeze unsqueeze alias view slice t expand as_strided permute select split".split())
_RANDOM = frozenset("native_dropout rand_like randn_like".split())
_MOST_STEPS = 100


def _name(node):
    return own_name(node.target)


def _is_view(node):
    return _name(node) in _VIEWS


def _is_cheap(node):
    if getattr(node.target, "__module__", None) == "_operator":
        return True
    return _name(node) in _CHEAP or _name(node) in _VIEWS


def _fuses(first, second):
    if _name(second) == "cat":
        return True
    return all(_is_cheap(n) or _name(n) in _RANDOM for n in (first, second))


def is_several(node) -> bool:
    """Whether a node gives several tensors, of which only items are read."""
    return bool(node.users) and all(u.target is operator.getitem for u in node.users)


def _bytes(value) -> int:
    if isinstance(value, (list, tuple)):
        return sum(map(_bytes, value))
    return math.prod(int(n) for n in value.shape) * value.dtype.itemsize if isinstance(value, TensorBase) else 0


class Weights:
    """What is known of the nodes of a joint graph.

    Args:
        outputs: its results, and its gradients.
    """

    def __init__(self, graph: Graph, outputs: tuple[list, list]):
        self.nodes = [n for n in graph.nodes if n.op != "output"]
        self.after: set[Node] = {n for n in self.nodes if n.op == "placeholder" and "tangents" in str(n.target)}
        for node in self.nodes:
            if any(i in self.after for i in node.all_input_nodes):
                self.after.add(node)
        results, grads = outputs
        self.backward = self.after | {g for g in grads if isinstance(g, Node)}
        self.forward, stack = set(), [r for r in results if isinstance(r, Node)]
        while stack:
            node = stack.pop()
            if node not in self.forward:
                self.forward.add(node)
                stack.extend(node.all_input_nodes)
        self.forward |= {n for n in self.nodes if n.op == "placeholder" and n not in self.after}
        self.order = {n: i for i, n in enumerate(n for n in self.nodes if n in self.forward)}
        self.distance: dict[Node, int] = {}
        for node in reversed(self.nodes):
            users = [self.distance.get(u, 10**9) for u in node.users]
            self.distance[node] = 0 if node not in self.forward else min([10**9, *(d + 1 for d in users)])

    @property
    def has_backward(self) -> bool:
        """Whether anything depends on the gradients of the results."""
        return any(n not in self.forward for n in self.backward if n.op != "placeholder")

    def weight(self, node) -> float:
        """What keeping a node's tensor costs. Where nobody said what they are, all cost the same."""
        value = node.meta.get("val")
        if isinstance(value, (list, tuple)) or is_several(node):
            return math.inf
        size = int((_bytes(value) if isinstance(value, TensorBase) else 64) * 1.1 ** max(min(self.distance[node], 100), 1))
        is_materialized = node.op == "placeholder" or not all(_fuses(node, u) for u in node.users)
        return size if is_materialized else 2 * size

    def is_kept_from(self, node) -> bool:
        """Whether a node of the forward pass must not be computed again."""
        if node.op != "call_function" or node.target is operator.getitem:
            return False
        if config.recompute_views and _is_view(node) or _name(node) in ("lift_fresh_copy", "lift_fresh"):
            return False
        if config.ban_recompute_not_in_allowlist and not _is_cheap(node):
            return True
        if config.ban_recompute_materialized_backward and self._is_stored_in_backward(node):
            return True
        if config.max_dist_from_bw < self.distance[node] < 1000:
            return True
        if config.ban_recompute_reductions:
            given = sum(_bytes(i.meta.get("val")) for i in node.args if isinstance(i, Node))
            return _bytes(node.meta.get("val")) * 4 < given
        return False

    def _is_stored_in_backward(self, node):
        if _is_view(node):
            return False
        pending = [node]
        while pending:
            current = pending.pop()
            for user in current.users:
                if user.op != "output" and user not in self.forward and not _fuses(current, user):
                    return True
                if user.op == "output":
                    return True
                if _is_view(user):
                    pending.append(user)
        return False


def _kept_from(weights: Weights) -> set[Node]:
    """The nodes that must not be computed again."""
    kept = {n for n in weights.nodes
            if n in weights.forward and not _is_view(n) and (n.op == "placeholder" or weights.is_kept_from(n))}
    if config.ban_recompute_used_far_apart:
        for node in weights.nodes:
            users = [u for u in node.users if u in weights.forward]
            if node not in weights.forward or not users:
                continue
            last = max(weights.order[u] for u in users)
            first = _first_that_does_not_fuse(weights, users, last)
            kept |= {u for u in users if weights.order[u] > first and _fuses(node, u) and not _is_view(u)}
    if config.ban_recompute_long_fusible_chains:
        seen: set[Node] = set()
        for start in weights.nodes:
            if start not in weights.forward:
                continue
            begin, heap = weights.order[start], [(weights.order[start], start)]
            while heap:
                at, node = heapq.heappop(heap)
                if node in seen:
                    continue
                seen.add(node)
                if at > begin + _MOST_STEPS and not heap:
                    if not _is_view(node):
                        kept.add(node)
                    break
                for user in node.users:
                    if user in weights.forward and _fuses(node, user) and user not in kept:
                        heapq.heappush(heap, (weights.order[user], user))
    return kept


def _first_that_does_not_fuse(weights, starts, last):
    heap = [(weights.order[n], i, n, True) for i, n in enumerate(starts)]
    heapq.heapify(heap)
    seen = set(starts)
    while heap:
        at, _, node, fuses = heapq.heappop(heap)
        if not fuses:
            return at
        for user in node.users:
            if user in weights.forward and weights.order[user] <= last and (user, fuses) not in seen:
                seen.add((user, fuses))
                heapq.heappush(heap, (weights.order[user], len(seen), user, _fuses(node, user)))
    return last


def saved_by_min_cut(weights: Weights) -> list[Node]:
    """The nodes whose tensors the forward pass gives to the backward pass."""
    import networkx

    graph = networkx.DiGraph()
    graph.add_nodes_from(("source", "sink"))
    for node in _kept_from(weights):
        graph.add_edge("source", (node, 0), capacity=math.inf)
    for node in weights.nodes:
        if node in weights.after:
            graph.add_edge((node, 0), "sink", capacity=math.inf)
            continue
        if node in weights.backward:
            graph.add_edge((node, 1), "sink", capacity=math.inf)
        graph.add_edge((node, 0), (node, 1), capacity=weights.weight(node))
        for user in node.users:
            if user.op != "output":
                graph.add_edge((node, 1), (user, 0), capacity=math.inf)
    try:
        _, (_, behind) = networkx.minimum_cut(graph, "source", "sink")
    except networkx.NetworkXUnbounded:
        raise RuntimeError("AOT Autograd failed to partition the joint forward-backward graph.") from None
    return [n for n in weights.nodes if (n, 0) not in behind and (n, 1) in behind]
