"""What a graph goes through before it is shown: tuples, constants, and what nobody uses."""

from __future__ import annotations

import operator

from ....eager.core.device import device
from ..program.types import infer
from .ir import Function, Graph, clone_node

__all__ = ["clean", "eliminate", "inline", "pool_constants"]

_EFFECTS = frozenset("prim::Print prim::RaiseException prim::SetAttr prim::CallFunction prim::CallMethod prim::PythonOp "
                     "prim::Enter prim::Exit aten::warn prim::CreateObject aten::Delete aten::manual_seed "
                     "prim::Unknown".split())
_MUTATING = frozenset("append insert extend remove clear reverse pop sort _set_item update setdefault popitem copy_ "
                      "index_put_ manual_seed backward".split())


def clean(graph: Graph) -> None:
    """Removes what the compiler left, in PyTorch's order."""
    lower_tuples(graph)
    eliminate(graph)
    propagate(graph)
    eliminate(graph)
    pool_constants(graph)
    order_results(graph)


def _has_effects(node) -> bool:
    if node.op in _EFFECTS:
        return True
    room, _, name = node.op.partition("::")
    if room not in ("aten", "prim") and _writes(room, name):
        return True
    if room == "aten" and (name in _MUTATING or name.endswith("_") and not name.endswith("__")):
        return True
    return any(_has_effects(n) for b in node.nested for n in b.body)


def _writes(namespace, name) -> bool:
    """Whether an operator of another package writes to what it is given."""
    from ...._ops import ops

    packet = getattr(getattr(ops, namespace), name, None)
    schemas = [] if packet is None else [getattr(packet, overload)._schema for overload in packet.overloads()]
    return any(schema is not None and schema.is_mutable for schema in schemas)


def eliminate(graph: Graph) -> None:
    """Removes nodes without effects whose results nobody uses, and such results of branches and loops."""
    while True:
        used = set(graph.uses())
        dead = []
        for block in list(graph.all_blocks()):
            for node in block.body:
                if node.op == "prim::If":
                    _drop_results(node, used)
                elif node.op == "prim::Loop":
                    _drop_carried(node, graph)
                if not any(v in used for v in node.results) and not _has_effects(node):
                    if node.op != "prim::Loop" or not any(_has_effects(n) for n in node.nested[0].walk()):
                        dead.append(node)
        if not dead:
            return
        for node in reversed(dead):
            if node.block is not None:
                graph.forget(node)


def _drop_results(node, used):
    for i in range(len(node.results) - 1, -1, -1):
        if node.results[i] not in used:
            node.results.pop(i).rename(None)
            for b in node.nested:
                del b.returned[i]


def _drop_carried(node, graph):
    body = node.nested[0]
    uses = graph.uses()
    for i in range(len(node.results) - 1, -1, -1):
        parameter = body.parameters[i + 1]
        inside = [u for u in uses.get(parameter, ()) if u.user is not None or body.returned[i + 1] is not parameter]
        if node.results[i] not in uses and not inside:
            node.results.pop(i).rename(None)
            body.parameters.pop(i + 1).rename(None)
            del body.returned[i + 1]
            del node.operands[i + 2]


def lower_tuples(graph: Graph) -> None:
    """Takes apart tuples where they are made and taken apart again."""
    changed: dict = {}

    def current(v):
        while v in changed:
            v = changed[v]
        return v

    for node in list(graph.walk()):
        if node.op not in ("prim::TupleUnpack", "prim::TupleIndex", "prim::TupleSlice"):
            continue
        made = current(node.operands[0]).producer
        if made is None or made.op != "prim::TupleConstruct":
            continue
        if node.op == "prim::TupleUnpack":
            for v, part in zip(node.results, made.operands):
                changed[v] = part
                if v.name and part.name is None:
                    name = v.name
                    v.rename(None)
                    part.rename(name)
        elif node.op == "prim::TupleIndex":
            i = node.operands[1].toIValue()
            if isinstance(i, int) and -len(made.operands) <= i < len(made.operands):
                changed[node.results[0]] = made.operands[i]
                if node.results[0].name and made.operands[i].name is None:
                    name = node.results[0].name
                    node.results[0].rename(None)
                    made.operands[i].rename(name)
    graph.replace(changed)
    for node in list(graph.walk()):
        if node.op == "prim::TupleUnpack" and all(v in changed for v in node.results):
            graph.forget(node)


_EVALUATED = {
    "aten::add": operator.add, "aten::sub": operator.sub, "aten::mul": operator.mul, "aten::div": operator.truediv,
    "aten::floordiv": operator.floordiv, "aten::remainder": operator.mod, "aten::neg": operator.neg,
    "aten::lt": operator.lt, "aten::le": operator.le, "aten::gt": operator.gt, "aten::ge": operator.ge,
    "aten::eq": operator.eq, "aten::ne": operator.ne, "aten::__not__": operator.not_, "aten::Float": float,
    "aten::Int": int, "aten::Bool": bool, "aten::pow": lambda a, b: float(a) ** float(b) if not (
        isinstance(a, int) and isinstance(b, int)) else float(a**b),
    "aten::__and__": operator.and_, "aten::__or__": operator.or_, "prim::abs": abs,
    "aten::__is__": lambda a, b: a is b, "aten::__isnot__": lambda a, b: a is not b, "aten::len": len,
    "aten::device": device, "aten::format": lambda text, *values: text.format(*values),
}
_KNOWN = (bool, int, float, complex, str, type(None))


def _known(value):
    """(whether a value is a constant of Python's own, it)."""
    node = value.producer
    if node is None or node.op != "prim::Constant" or "value" not in node.attributes:
        return False, None
    found = node.attributes["value"]
    plain = isinstance(found, (*_KNOWN, device)) or isinstance(found, tuple)
    return plain and not isinstance(found, Function), found


def propagate(graph: Graph) -> None:
    """Evaluates what depends on constants alone, and chooses branches by them."""
    for block in list(graph.all_blocks()):
        _propagate(graph, block)


def _propagate(graph, block):
    index = 0
    while index < len(block.body):
        node = block.body[index]
        index += 1
        if node.op == "prim::If":
            is_known, test = _known(node.operands[0])
            if is_known:
                chosen = node.nested[0 if test else 1]
                at = block.body.index(node)
                for n in list(chosen.body):
                    chosen.body.remove(n)
                    block.insert(at, n)
                    at += 1
                graph.replace(dict(zip(node.results, chosen.returned)))
                index = block.body.index(node)
                graph.forget(node)
                continue
            _same_results(graph, node)
        elif node.op == "prim::Loop":
            if _known(node.operands[0]) == (True, 0) or _known(node.operands[1]) == (True, False):
                graph.replace(dict(zip(node.results, node.operands[2:])))
                index = block.body.index(node)
                graph.forget(node)
                continue
        elif len(node.results) == 1 and (node.op in _EVALUATED or node.op == "prim::TupleConstruct"):
            values = [_known(v) for v in node.operands]
            if all(k for k, _ in values) and (values or node.op != "prim::TupleConstruct"):
                given = [v for _, v in values]
                try:
                    made = tuple(given) if node.op == "prim::TupleConstruct" else _EVALUATED[node.op](*given)
                except Exception:  # it fails when it runs, too
                    continue
                old = node.results[0]
                constant = graph.create("prim::Constant", (), [infer(made) if isinstance(made, _KNOWN) else old.kind],
                                        node.place, value=made)
                block.insert(block.body.index(node), constant)
                if old.name:
                    name = old.name
                    old.rename(None)
                    constant.results[0].rename(name)
                graph.replace({old: constant.results[0]})
                graph.forget(node)


def _same_results(graph, node):
    """Results of which both branches give the same are that."""
    changed = {}
    for i in range(len(node.results) - 1, -1, -1):
        one, other = node.nested[0].returned[i], node.nested[1].returned[i]
        same = one is other
        if not same:
            (a, x), (b, y) = _known(one), _known(other)
            same = a and b and type(x) is type(y) and x == y and one.producer.block is node.block
        if same:
            changed[node.results[i]] = one
            node.results.pop(i).rename(None)
            for b in node.nested:
                del b.returned[i]
    graph.replace(changed)


def pool_constants(graph: Graph) -> None:
    """One constant for all of a value, before everything else."""
    seen: dict = {}
    changed: dict = {}

    def walk(block):
        for node in list(block.body):
            if node.nested:
                for inner in node.nested:
                    walk(inner)
                continue
            if node.op != "prim::Constant":
                continue
            value = node.attributes.get("value")
            key = (node.results[0].shown, type(value), _key(value))
            if key in seen:
                changed[node.results[0]] = seen[key]
                graph.forget(node)
                continue
            seen[key] = node.results[0]
            if graph.body[0] is not node:
                node.block.body.remove(node)
                graph.insert(0, node)

    walk(graph)
    graph.replace(changed)


def _key(value):
    if isinstance(value, (*_KNOWN, tuple)):
        return repr(value)
    if isinstance(value, device):
        return str(value)
    if isinstance(value, list):
        return repr(value)
    if isinstance(value, Function):
        return id(value.function)
    return id(value)


def order_results(graph: Graph) -> None:
    """Results of branches, and what loops carry, in the order of their use."""
    for block in list(graph.all_blocks()):
        for node in block.body:
            if node.op not in ("prim::If", "prim::Loop") or len(node.results) < 2:
                continue
            order = {v: i for i, v in enumerate(_used_in_order(graph, node))}
            found = sorted(range(len(node.results)), key=lambda i: order.get(node.results[i], len(order)))
            node.results = [node.results[i] for i in found]
            if node.op == "prim::If":
                for b in node.nested:
                    b.returned = [b.returned[i] for i in found]
            else:
                body = node.nested[0]
                body.parameters = body.parameters[:1] + [body.parameters[i + 1] for i in found]
                body.returned = body.returned[:1] + [body.returned[i + 1] for i in found]
                node.operands = node.operands[:2] + [node.operands[i + 2] for i in found]


def _used_in_order(graph, node):
    wanted, out = set(node.results), []

    def see(values):
        for v in values:
            if v in wanted and v not in out:
                out.append(v)

    def walk(block):
        for n in block.body:
            see(n.operands)
            for inner in n.nested:
                walk(inner)
        see(block.returned)

    walk(graph)
    return out


def inline(graph: Graph, graph_of) -> Graph:
    """A copy of a graph in which calls of the program's own functions and methods are written out.

    Args:
        graph_of: gives (the graph of what a node calls, how many of its operands say what that is, whether the
            nodes note whose they are), or None.
    """
    made = graph.copy()
    _inline(made, made, graph_of)
    return made


def _inline(graph, block, graph_of):
    for node in list(block.body):
        for inner in node.nested:
            _inline(graph, inner, graph_of)
        if node.op not in ("prim::CallFunction", "prim::CallMethod"):
            continue
        found = graph_of(node)
        if found is None:
            continue
        callee, skipped, is_scoped = found
        operands = node.operands[skipped:]
        known = dict(zip(callee.parameters, operands))
        at = block.body.index(node)
        scope = _scope(node) if is_scoped else None
        for n in callee.body:
            copied = clone_node(graph, n, known)
            if scope and n.op != "prim::GetAttr":
                _set_scope(copied, scope)
            block.insert(at, copied)
            at += 1
        changed = {}
        for v, r in zip(node.results, callee.returned):
            new = known.get(r, r)
            changed[v] = new
            if v.name and new not in graph.parameters:
                name = v.name
                v.rename(None)
                new.rename(name)
        graph.replace(changed)
        graph.forget(node)


def _scope(node):
    names, value = [], node.operands[0]
    while value.producer is not None and value.producer.op == "prim::GetAttr":
        names.append(value.producer.attributes["name"])
        value = value.producer.operands[0]
    return f"__module.{'.'.join(reversed(names))}" if names else None


def _set_scope(node, scope):
    node.scope = f"{scope}/{_under(scope, node.scope)}" if node.scope else scope
    for b in node.nested:
        for n in b.body:
            _set_scope(n, scope)


def _under(scope, inner):
    parts = []
    for part in inner.split("/"):
        parts.append(f"{scope}.{part.removeprefix('__module.')}")
    return "/".join(parts)
