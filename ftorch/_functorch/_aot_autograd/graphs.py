"""Graphs of a function of tensors: the forward one, or the joint one of the results and their gradients.

The function runs once at a level that records ATen's ops (`AtenLevel`), on copies of the arguments; what was
recorded then is made functional. In the joint graph ``primals`` are the arguments and ``tangents`` the gradients
of the results; it gives the results, and then the gradients of the arguments.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ... import autograd
from ..._subclasses.fake_tensor import fake_like
from ...eager.tensor import TensorBase, counter_of, modes
from ...fx import Graph, GraphModule
from ...fx._codegen import PyTreeCodeGen, PyTreeInfo
from ...fx.experimental.functionalization import Functionalization
from ...fx.experimental.proxy_tensor import AtenLevel, DecomposingLevel
from ...nn import Module
from ...random import fork_rng
from ...utils import _pytree as pytree


@dataclass
class OutputInfo:
    """What a result is.

    Attributes:
        argument: the number of the argument that it shares memory with, or None; ``is_argument``: it is that argument.
        views: the views that lead to it from the argument, as `Functional.metas`.
        requires_grad: whether it has a place in autograd's graph.
        value: it, if it is no tensor.
    """

    is_tensor: bool
    argument: int | None = None
    is_argument: bool = False
    views: tuple = ()
    requires_grad: bool = False
    value: Any = None


@dataclass
class Traced:
    """A graph, and what it means.

    Attributes:
        module: the graph; ``num_fwd_outputs`` of its outputs are no gradients.
        mutated: the numbers of the arguments that the function writes to, whose new values are the first outputs.
        outputs: the results (`OutputInfo`); ``spec`` their structure.
        tangents: the numbers of the graph's outputs that have gradients.
    """

    module: GraphModule
    mutated: list[int] = field(default_factory=list)
    outputs: list[OutputInfo] = field(default_factory=list)
    spec: Any = None
    tangents: list[int] = field(default_factory=list)

    @property
    def num_fwd_outputs(self) -> int:
        """How many outputs of the joint graph are those of the forward graph."""
        return len(self.mutated) + len(self.outputs)


def trace(function: Callable, args: list, *, joint: bool, decompositions=None, pre_dispatch: bool = False,
          loss: int | None = None, names: list[str] | None = None) -> Traced:
    """The graph of a function of a flat list of arguments.

    Args:
        joint: with the gradients of the arguments that require them; ``loss`` is the number of the result that is
            differentiated then, all by tangents if it is None.
        decompositions: {op: function to run in its place}.
        pre_dispatch: records the ops above autograd.
        names: of the inputs.
    """
    table = {str(op): replacement for op, replacement in (decompositions or {}).items()}
    level = (DecomposingLevel if pre_dispatch else AtenLevel)(table)
    grads = modes.grad if joint else False
    with fork_rng(), autograd.set_grad_enabled(grads), level:
        prefix = "primals_{}" if joint and loss is None else "arg{}_1"
        leaves = []
        for i, a in enumerate(args):
            name = names[i] if names else prefix.format(i + (joint and loss is None))
            leaves.append(_input(level, a, level.graph.placeholder(name)))
        # What is no leaf may be written to.
        inputs = [level.identity(t) if isinstance(t, TensorBase) and t.requires_grad and not a.is_leaf else t
                  for t, a in zip(leaves, args)]
        wanted = [isinstance(t, TensorBase) and t.requires_grad for t in leaves]
        starts = [counter_of(t).version if isinstance(t, TensorBase) else 0 for t in inputs]
        flat, spec = pytree.tree_flatten(function(*inputs))
        mutated = [i for i, t in enumerate(inputs)
                   if isinstance(t, TensorBase) and counter_of(t).version != starts[i]]
        outputs = [_output(t, inputs) for t in flat]
        results = [inputs[i] for i in mutated] + flat
        tangents: list[int] = []
        gradients: list = []
        forward = set(level.graph.nodes)
        if joint:
            gradients, tangents = _differentiated(level, leaves, wanted, results, None if loss is None else len(mutated) + loss)
        given = level.arguments(tuple([t if isinstance(t, TensorBase) else t for t in results] + gradients))
    for node in level.graph.nodes:
        if joint:
            node.meta["partitioner_tag"] = "is_forward" if node in forward else "is_backward"
    graph, functional = _functional(level.graph, level.root, given)
    for info, node in zip(outputs, given[len(mutated) :]):
        if info.argument is not None:
            info.views = functional.tensors[node].metas
    if joint and loss is None:
        _as_joint(graph, len(args), len(tangents), len(given))
    # The names of the functions that PyTorch traces.
    module = GraphModule(level.root, graph, "inner_f" if joint and loss is None else "<lambda>")
    return Traced(module, mutated, outputs, spec, tangents)


def _input(level, a, node):
    if not isinstance(a, TensorBase):
        node.meta["val"] = a
        return a
    with level.below():
        copy = a.detach().clone()
    t = level.track(copy, node)
    t._ftorch_requires_grad = a._ftorch_requires_grad
    return t


def _output(t, inputs) -> OutputInfo:
    if not isinstance(t, TensorBase):
        return OutputInfo(False, value=t)
    argument = next((i for i, a in enumerate(inputs)
                     if isinstance(a, TensorBase) and a._ftorch_storage is t._ftorch_storage), None)
    is_argument = argument is not None and inputs[argument] is t
    return OutputInfo(True, argument, is_argument, (), t.requires_grad)


def _differentiated(level, leaves, wanted, results, loss):
    """The gradients of the inputs, and which results have tangents."""
    sources = [t for t, w in zip(leaves, wanted) if w]
    if loss is not None:
        return list(autograd.grad(results[loss], sources, allow_unused=True)), []
    last = None
    for node in level.graph.nodes:
        if node.op != "placeholder":
            break
        last = node
    tangents, given, at = [], [], level.graph._insert
    for i, t in enumerate(results):
        if not isinstance(t, TensorBase) or not t.requires_grad:
            continue
        with level.graph.inserting_after(last) if last is not None else contextlib.nullcontext():
            last = level.graph.placeholder(f"tangents_{len(tangents) + 1}")
        with level.below():
            value = t._inner.detach().clone()
        tangents.append(i)
        given.append(level.track(value, last))
    level.graph._insert = at
    found: Any = iter(())
    if tangents and sources:
        found = iter(autograd.grad([results[i] for i in tangents], sources, given, allow_unused=True))
    return [next(found, None) if w else None for w in wanted], tangents


def _functional(graph: Graph, root: Module, results) -> tuple[Graph, Functionalization]:
    """A graph without writes, that gives results, as far as they are needed."""
    new = Graph()
    functional = Functionalization(new)
    for node in graph.nodes:
        if node.op == "placeholder":
            made = new.placeholder(node.target)
            made.meta = dict(node.meta)
            functional.given(node, made)
        elif node.op == "get_attr":
            made = new.get_attr(node.target)
            made.meta = dict(node.meta)
            constant = getattr(root, node.target)
            if isinstance(constant, TensorBase):
                made.meta.setdefault("val", fake_like(constant))
                functional.given(node, made)
            else:
                functional.tensors[node] = made
        else:
            functional.node(node)
    new.output(functional.arguments(results))
    new.eliminate_dead_code()
    return new, functional


def _as_joint(graph, primals, tangents, outputs):
    """Gives a joint graph its two lists of inputs."""
    ones = [list(range(primals)), list(range(tangents))]
    _, spec = pytree.tree_flatten(ones)
    _, out_spec = pytree.tree_flatten(list(range(outputs)))
    graph.set_codegen(PyTreeCodeGen(PyTreeInfo(["primals", "tangents"], spec, out_spec)))
    output = graph.output_node()
    output.args = (list(output.args[0]),)


__all__ = ["OutputInfo", "Traced", "fake_like", "trace"]
