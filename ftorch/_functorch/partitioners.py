"""A joint graph cut into a forward and a backward one (``torch._functorch.partitioners``).

A joint graph has inputs whose names begin with ``primals`` and ``tangents``, and gives the results and then
the gradients.
"""

from __future__ import annotations

from ..fx import Graph, GraphModule, Node
from ._aot_autograd.min_cut import Weights, is_several, saved_by_min_cut

__all__ = ["default_partition", "min_cut_rematerialization_partition"]


def default_partition(joint_module: GraphModule, _joint_inputs, *, num_fwd_outputs: int,
                      static_lifetime_input_indices=None, static_lifetime_input_nodes=None):
    """(forward, backward): what the function itself calls, and what its gradients call.

    The forward graph gives, besides the results, all that the other one reads of it.

    >>> import ftorch as torch
    >>> from ftorch._functorch.partitioners import default_partition
    >>> class Joint(torch.nn.Module):
    ...     def forward(self, primals_1, tangents_1):
    ...         sin = primals_1.sin()
    ...         return [sin * 2, tangents_1 * 2 * primals_1.cos() * sin]
    >>> forward, backward = default_partition(
    ...     torch.fx.symbolic_trace(Joint()), None, num_fwd_outputs=1)
    >>> result, *saved = forward(torch.zeros(1))
    >>> len(saved), backward(*saved, torch.ones(1))
    (2, (tensor([0.]),))
    """
    joint_module.graph.eliminate_dead_code()
    late = _late(joint_module)
    saved = [
        node for node in joint_module.graph.nodes
        if node.op != "output" and node not in late and not is_several(node)
        and not (node.op == "get_attr" and isinstance(getattr(joint_module, node.target, None), GraphModule))
        and any(user in late or user.op == "output" and _is_gradient(joint_module, node, num_fwd_outputs)
                for user in node.users)
    ]
    return _cut(joint_module, saved, num_fwd_outputs)


def min_cut_rematerialization_partition(joint_module: GraphModule, _joint_inputs, compiler="inductor",
                                        *, num_fwd_outputs: int, static_lifetime_input_indices=None):
    """(forward, backward), where the backward graph computes again what costs less so than to be kept.

    What is kept is the least cut of the graph between the forward and the backward pass, whose edges weigh what
    their tensors take of memory.
    """
    _without_repetitions(joint_module)
    weights = Weights(joint_module.graph, _output_nodes(joint_module, num_fwd_outputs))
    if not weights.has_backward:
        return default_partition(joint_module, _joint_inputs, num_fwd_outputs=num_fwd_outputs)
    forward, backward = _cut(joint_module, saved_by_min_cut(weights), num_fwd_outputs)
    return forward, _as_late_as_needed(backward)


def _is_tangent(node):
    return node.op == "placeholder" and "tangents" in str(node.target)


def _late(joint):
    """The nodes of the backward pass: by their tags, or what depends on tangents."""
    nodes = [n for n in joint.graph.nodes if n.op != "output"]
    late = {n for n in nodes if _is_tangent(n)}
    if any("partitioner_tag" in n.meta for n in nodes):
        ends = [i for i, n in enumerate(nodes)
                if n.meta.get("partitioner_tag") == "is_forward" or n.op == "placeholder" and n not in late]
        return late | set(nodes[max(ends, default=-1) + 1 :])
    for node in nodes:
        if any(i in late for i in node.all_input_nodes):
            late.add(node)
    return late


def _output_nodes(joint, count):
    flat = list(joint.graph.output_node().args[0])
    return flat[:count], flat[count:]


def _is_gradient(joint, node, count):
    return any(node is g for g in _output_nodes(joint, count)[1])


def _cut(joint, saved, count):
    results, grads = _output_nodes(joint, count)
    inputs = joint.graph.find_nodes(op="placeholder")
    tangents = [n for n in inputs if _is_tangent(n)]
    backward = _extract(joint, [*saved, *tangents], grads)
    used = {n.target for n in backward.graph.find_nodes(op="placeholder") if n.users}
    kept = [n for n in saved if n.name in used]
    if len(kept) < len(saved):
        saved, backward = kept, _extract(joint, [*kept, *tangents], grads)
    forward = _extract(joint, [n for n in inputs if n not in tangents], [*results, *saved])
    return forward, backward


def _extract(joint, inputs, outputs):
    """The part of a graph that gives some nodes, from others."""
    graph, known = Graph(), {}
    for node in inputs:
        known[node] = graph.placeholder(node.name)
        known[node].meta = dict(node.meta)
    needed, stack = set(), [o for o in outputs if isinstance(o, Node)]
    while stack:
        node = stack.pop()
        if node not in known and node not in needed:
            needed.add(node)
            stack.extend(node.all_input_nodes)
    for node in joint.graph.nodes:
        if node in needed:
            known[node] = graph.node_copy(node, known.__getitem__)
    graph.output(tuple(known[o] if isinstance(o, Node) else o for o in outputs))
    graph.lint()
    return GraphModule(joint, graph)


def _without_repetitions(joint):
    """Makes equal calls of a graph one."""
    from ..fx.passes.dialect.common.cse_pass import CSEPass

    graph = joint.graph
    graph.eliminate_dead_code()
    if (found := CSEPass()(joint)) is not None and found.modified:
        codegen = graph._codegen
        joint.graph = found.graph_module.graph
        joint.graph.set_codegen(codegen)
        joint.recompile()


def _as_late_as_needed(module):
    """A backward graph in which what is computed again stands before what reads it."""
    nodes = list(module.graph.nodes)
    order = {n: i for i, n in enumerate(nodes)}
    first = min((order[u] for n in nodes if _is_tangent(n) for u in n.users), default=None)
    if first is None:
        return module
    graph, known = Graph(), {}
    for node in nodes:
        if node.op == "placeholder":
            known[node] = graph.node_copy(node, known.__getitem__)
    for node in nodes[first:]:
        needed, stack = set(), [node]
        while stack:
            current = stack.pop()
            if current not in known and current not in needed:
                needed.add(current)
                stack.extend(current.all_input_nodes)
        for current in sorted(needed, key=order.__getitem__):
            known[current] = graph.node_copy(current, known.__getitem__)
    return GraphModule(module, graph)
