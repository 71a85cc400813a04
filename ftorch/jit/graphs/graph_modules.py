"""FX graph modules of captured programs: to be read, and for backends to run."""

from __future__ import annotations

import operator
import re

from ...eager.call.op import read
from ...eager.core.registry import STATIC, OpDef
from ...eager.runtime import executor
from ...eager.runtime.scalars import INT
from ...eager.tensor import TensorBase, wrap
from ...fx import Graph, GraphModule


class Kernel:
    """A step of a program that is no function of ``torch.ops``: a read through strides, a write, an
    optimizer's update."""

    def __init__(self, name, plan):
        self.plan = plan
        self.__name__ = self.__qualname__ = name
        self.__module__ = "kernels"

    def __call__(self, *operands):
        tensors = [o for o in operands if isinstance(o, TensorBase)]
        numbers = [o for o in operands if not isinstance(o, TensorBase)]
        results = executor.record(self.plan, [read(t) for t in tensors], numbers)
        return wrap(results) if self.plan.is_single else tuple(wrap(s) for s in results)


def graph_module(captured, backward: bool = False) -> GraphModule:
    """The graph of a captured program: its forward part, or its backward part."""
    own = getattr(captured, "module", None)  # what a backend was given
    if own is not None:
        return own
    program = captured.backward if backward else captured.forward
    graph, names = Graph(), _input_names(captured, program)
    nodes: dict[int, object] = {}
    for operand, name in zip(program.starts, names):
        nodes[operand] = graph.placeholder(name)
    numbers = graph.placeholder("numbers") if program.places is not None else None
    for step in program.steps:
        plan = step.plan
        scalars = _scalars(program, step, graph, numbers)
        operands = [nodes[o] for o in step.operands]
        target, args, kwargs = _target(plan, operands, scalars)
        node = graph.call_function(target, tuple(args), kwargs, name=_name(plan))
        if plan.is_single:
            nodes[step.slot] = node
            node.meta["geometry"] = plan.geometry
        else:
            for k in range(len(plan.geometries)):
                nodes[step.slot + k] = graph.call_function(operator.getitem, (node, k))
    graph.output([nodes[o] for o in program.outputs])
    for node in list(reversed(graph.nodes)):  # items that nobody takes
        if node.op == "call_function" and node.target is operator.getitem and not node.users:
            graph.erase_node(node)
    from ...nn import Module

    return GraphModule(Module(), graph, "GraphModule")


def _name(plan):
    return re.sub(r"\W", "_", plan.name.partition(".")[0]) or "step"


_KINDS = {"cell": "captured", "draw": "random", "constant": "constant"}


def _input_names(captured, program):
    sources = {i[0]: i for i in captured.inputs}
    names, used = [], {}
    for operand in program.starts:
        found = sources.get(operand)
        if found is None:
            name = "saved" if operand >= 0 else "grad"
        elif found[1] in _KINDS:
            name = _KINDS[found[1]]
        else:
            name = found[2].name
        count = used[name] = used.get(name, 0) + 1
        names.append(name if count == 1 else f"{name}_{count - 1}")
    return names


def _scalars(program, step, graph, numbers):
    values, i, f = [], step.int_at, step.float_at
    table = program.table
    for kind in step.plan.scalars:
        if kind == INT:
            values.append(table.ints[i])
            i += 1
        elif kind == "f":
            at = program.varying.get(f)
            if at is None:
                values.append(table.floats[f])
            else:
                item = graph.call_function(operator.getitem, (numbers, at))
                values.append(graph.call_method("item", (item,)))
            f += 1
        else:
            values.append(complex(table.floats[f], table.floats[f + 1]))
            f += 2
    return values


def _target(plan, operands, scalars):
    """(function, args, kwargs) of a step: of ``torch.ops.aten`` where it is one of its ops."""
    op = plan.op
    definition = getattr(op, "definition", None)
    structure = getattr(plan, "structure", None)
    if isinstance(definition, OpDef) and structure is not None and not plan.inplace:
        from ...fx.experimental.proxy_tensor import TraceLevel

        values, static = [], []
        for kind, slot in zip(definition.kinds, structure.slots):
            if kind == STATIC:
                static.append(slot[1])
            elif slot[0] == "t":
                values.append(operands[slot[1]])
            elif slot[0] == "l":
                values.append([None if j is None else operands[j] for j in slot[1]])
            elif slot[0] == "s":
                values.append(scalars[slot[1]])
            else:
                values.append(slot[1] if slot[0] == "v" else None)
        try:
            target, args, kwargs = TraceLevel()._target(op, values, tuple(static), "function")
            if getattr(target, "__module__", "") != "kernels":
                return target, args, kwargs
        except (AttributeError, KeyError, StopIteration, TypeError):
            pass
    return Kernel(_name(plan), plan), [*operands, *scalars], {}
