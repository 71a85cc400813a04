"""A joint graph cut into a forward and a backward one (``torch._functorch.partitioners``).

A joint graph has inputs whose names begin with ``primals`` and ``tangents``, and gives the results and then
the gradients.
"""

from __future__ import annotations

from ..fx import Graph, GraphModule

__all__ = ["default_partition", "min_cut_rematerialization_partition"]

# Ops that cost little beside reading their operands.
_CHEAP = frozenset(
    "add sub mul div neg exp log sin cos tanh sigmoid relu gt lt ge le eq ne where rsqrt sqrt pow abs "
    "clamp t transpose permute view reshape expand unsqueeze squeeze".split()
)


def default_partition(joint_module: GraphModule, _joint_inputs, *, num_fwd_outputs: int, **_):
    """(forward, backward): the forward graph gives, besides its results, all that the other one needs.

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
    (2, [tensor([0.])])
    """
    return _partition(joint_module, num_fwd_outputs, lambda node: True)


def min_cut_rematerialization_partition(joint_module: GraphModule, _joint_inputs, compiler="inductor",
                                        *, num_fwd_outputs: int, **_):
    """`default_partition` whose backward graph computes again what follows cheaply from what is kept."""
    return _partition(joint_module, num_fwd_outputs, lambda node: not _is_cheap(node))


def _is_cheap(node):
    if node.op not in ("call_function", "call_method"):
        return False
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    return name.partition(".")[0] in _CHEAP


def _partition(joint, count, keeps):
    inputs = joint.graph.find_nodes(op="placeholder")
    tangents = {n for n in inputs if n.name.startswith("tangents")}
    late = set(tangents)  # what depends on gradients
    for node in joint.graph.nodes:
        if node.op != "output" and any(i in late for i in node.all_input_nodes):
            late.add(node)
    given = list(joint.graph.output_node().args[0])
    results, grads = given[:count], given[count:]
    saved, again, seen = [], [], set()
    stack = [i for n in joint.graph.nodes if n in late for i in n.all_input_nodes]
    stack += [g for g in grads if g is not None]
    while stack:
        node = stack.pop(0)
        if node in late or node in seen:
            continue
        seen.add(node)
        if node.op == "get_attr" or node.op != "placeholder" and not keeps(node):
            again.append(node)
            stack.extend(node.all_input_nodes)
        else:
            saved.append(node)
    order = {n: i for i, n in enumerate(joint.graph.nodes)}
    saved.sort(key=order.__getitem__)
    taken = [n for n in inputs if n not in tangents]
    forward = _extract(joint, taken, [*results, *saved])
    backward = _extract(joint, [*saved, *(n for n in inputs if n in tangents)], grads)
    return forward, backward


def _extract(joint, inputs, outputs):
    """The part of a graph that gives some nodes, from others."""
    graph, known = Graph(), {}
    for node in inputs:
        known[node] = graph.placeholder(node.name)
        known[node].meta = dict(node.meta)
    needed, stack = set(), [o for o in outputs if o is not None]
    while stack:
        node = stack.pop()
        if node not in known and node not in needed:
            needed.add(node)
            stack.extend(node.all_input_nodes)
    for node in joint.graph.nodes:
        if node in needed:
            known[node] = graph.node_copy(node, known.__getitem__)
    graph.output([None if o is None else known[o] for o in outputs])
    graph.lint()
    return GraphModule(joint, graph)
