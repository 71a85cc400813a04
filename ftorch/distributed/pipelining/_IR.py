"""Models cut into stages at marked places (``torch.distributed.pipelining.pipeline``).

Only the modules in whose forward a mark lies are traced; all others are called as they are, so control
flow in them is free. Values that a later stage needs are passed on by the stages between.
"""

from __future__ import annotations

import copy
import operator
from enum import Enum
from typing import Any

import ftorch as torch

from ...fx import Graph, GraphModule, Interpreter, Node, Tracer
from ...utils._pytree import tree_leaves, tree_map
from ._utils import PipeInfo
from .stage import build_stage

__all__ = ["Pipe", "SplitPoint", "annotate_split_points", "pipe_split", "pipeline"]

_callers: list = []  # while an example runs: the modules whose forward marks were met in
_stack: list = []
_tracers: list = []


class SplitPoint(Enum):
    """Where a module's stage begins or ends."""

    BEGINNING = 1
    END = 2


def pipe_split() -> None:
    """Marks the border of two stages in a model's forward; it does nothing else.

    >>> import ftorch as torch
    >>> from ftorch.distributed.pipelining import pipe_split, pipeline
    >>> class Two(torch.nn.Module):
    ...     def forward(self, x):
    ...         x = x * 2
    ...         pipe_split()
    ...         return x + 1
    >>> pipe = pipeline(Two(), (torch.ones(2),))
    >>> pipe.num_stages, pipe(torch.ones(2))
    (2, (tensor([3., 3.]),))
    """
    if _tracers:
        _tracers[-1].create_proxy("call_function", _mark, (), {})
    elif _callers:
        _callers[-1].update(map(id, _stack))


_mark = pipe_split


def annotate_split_points(mod, spec: dict) -> None:
    """Marks the beginning or end of submodules, in place: {path: `SplitPoint`}.

    Raises:
        AttributeError: for a path without a module.
    """
    for path, point in spec.items():
        *outer, last = path.split(".")
        sub = mod
        for i, name in enumerate(outer):
            try:
                sub = getattr(sub, name)
            except AttributeError as error:
                at = ".".join(outer[: i + 1])
                raise AttributeError(f"Specified target {path} referenced nonexistent module {at}") from error
        getattr(sub, last)._pipe_split = point


class _Tracer(Tracer):
    """Traces through the modules in which marks lie."""

    def __init__(self, through):
        super().__init__()
        self.through = through

    def is_leaf_module(self, m, module_qualified_name):
        """Whether it is called as it is."""
        return id(m) not in self.through

    def call_module(self, m, forward, args, kwargs):
        """A call, with the marks before and after it."""
        point = m.__dict__.get("_pipe_split")
        if point is SplitPoint.BEGINNING:
            self.create_proxy("call_function", _mark, (), {})
        result = super().call_module(m, forward, args, kwargs)
        if point is SplitPoint.END:
            self.create_proxy("call_function", _mark, (), {})
        return result


def _modules_with_marks(module, args, kwargs):
    """The ids of the modules in whose forward a mark lies, found by a call."""
    found: set = {id(module)}
    paths = dict(module.named_modules())
    for path, sub in paths.items():
        if "_pipe_split" in sub.__dict__:
            parts = path.split(".")
            found |= {id(paths[".".join(parts[:i])]) for i in range(len(parts))}
    handles = []
    for sub in paths.values():
        handles.append(sub.register_forward_pre_hook(lambda m, _: _stack.append(m)))
        handles.append(sub.register_forward_hook(lambda m, *_: _stack.pop() and None, always_call=True))
    _callers.append(set())
    try:
        with torch.no_grad():
            module(*args, **kwargs)
    finally:
        found |= _callers.pop()
        _stack.clear()
        for handle in handles:
            handle.remove()
    return found


def pipeline(module, mb_args: tuple, mb_kwargs: dict | None = None, split_spec: dict | None = None,
             split_policy=None):
    """A model cut into stages.

    Args:
        mb_args, mb_kwargs: an example of a microbatch: the model is called with it.
        split_spec: {path of a submodule: `SplitPoint`}; without one the model calls `pipe_split`.
        split_policy: instead: a function of the traced graph module that inserts calls of `pipe_split`.

    Raises:
        ValueError: for a spec and a policy at once.
    """
    if split_spec is not None and split_policy is not None:
        raise ValueError("Cannot specify both `split_spec` and `split_policy`. Please use only one of them.")
    if split_spec:
        annotate_split_points(module, split_spec)
    return Pipe.from_tracing(module, mb_args, mb_kwargs, split_policy)


class DetachExecutor(Interpreter):
    """Runs a graph of stages; what a stage is given leads to no gradients of the stages before it."""

    def __init__(self, module, garbage_collect_values=True):
        super().__init__(module, False)
        self.value_remap: dict = {}

    def run(self, *args, initial_env=None):  # type: ignore[override]
        """The graph's results."""
        self.value_remap = {}
        return super().run(*args, initial_env=initial_env)

    def call_module(self, target, args, kwargs):
        """A stage's call on tensors of their own."""

        def own(t):
            if not isinstance(t, torch.Tensor) or not t.requires_grad:
                return t
            if id(t) not in self.value_remap:
                self.value_remap[id(t)] = t, t.detach().requires_grad_()
            return self.value_remap[id(t)][1]

        return super().call_module(target, tree_map(own, args), tree_map(own, kwargs))


def _chained(stages) -> GraphModule:
    """The stages as submodules ``submod_pp_0``, ``submod_pp_1`` and so on, each called with what the one before gives."""
    root, graph = torch.nn.Module(), Graph()
    given = [graph.node_copy(n) for n in stages[0].graph.nodes if n.op == "placeholder"]
    for i, stage in enumerate(stages):
        root.add_module(f"submod_pp_{i}", stage)
        made = graph.call_module(f"submod_pp_{i}", tuple(given))
        (result,) = stage.graph.output_node().args
        parts = isinstance(result, (tuple, list))
        given = (
            [graph.call_function(operator.getitem, (made, k)) for k in range(len(result))]
            if parts
            else [made]
        )
    graph.output(tuple(given))
    return GraphModule(root, graph)


def _without_constant_defaults(graph, given: int, kwargs) -> None:
    """Inputs that are tensors by default are inputs if the example has them, and these constants if not."""
    for i, node in enumerate(graph.find_nodes(op="placeholder")):
        if not any(isinstance(a, Node) for a in node.args):
            continue
        if i < given or node.target in kwargs:
            node.args = ()
        else:
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    graph.eliminate_dead_code(lambda n: n.target is _mark or n.is_impure())


class Pipe(torch.nn.Module):
    """A model in stages.

    Attributes:
        split_gm: a graph module that calls the stages, its submodules. ``executor``: what runs it.
        num_stages: their number.
        replicated_params: of each parameter that several stages use, its name in each of them. Each has a copy: their gradients
            are to be added up before the optimizer's step.
    """

    def __init__(
        self,
        split_gm: GraphModule,
        num_stages: int,
        has_loss_and_backward: bool = False,
        loss_spec=None,
    ):
        super().__init__()
        self.replicated_params = _replicate(split_gm)
        self.split_gm, self.executor = split_gm, DetachExecutor(split_gm)
        self.num_stages, self.has_loss_and_backward, self.loss_spec = (
            num_stages,
            has_loss_and_backward,
            loss_spec,
        )

    @staticmethod
    def from_tracing(mod, example_args: tuple, example_kwargs: dict | None = None, split_policy=None) -> Pipe:
        """Traces a model and cuts it at its marks."""
        kwargs = example_kwargs or {}
        through = _modules_with_marks(mod, example_args, kwargs)
        tracer = _Tracer(through)
        _tracers.append(tracer)
        try:
            graph = tracer.trace(mod)
        finally:
            _tracers.pop()
        _without_constant_defaults(graph, len(example_args), kwargs)
        traced = GraphModule(mod, graph)
        if split_policy is not None:
            traced = split_policy(traced)
        stages = _cut(traced)
        return Pipe(_chained(stages), len(stages))

    def forward(self, *args, **kwargs):
        """The whole model, stage after stage, in this process: a tuple of the tensors that it gives. Gradients reach the last
        stage's parameters only: those of the others are the schedules'.
        """
        given = list(args)
        for node in list(self.split_gm.graph.find_nodes(op="placeholder"))[len(args) :]:
            given.append(kwargs.get(node.target, node.args[0] if node.args else None))
        return tuple(tree_leaves(self.executor.run(*given)))

    def get_stage_module(self, stage_idx: int):
        """The module of a stage.

        Raises:
            ValueError: for a number out of range.
        """
        if not 0 <= stage_idx < self.num_stages:
            raise ValueError(f"Invalid stage index {stage_idx}!")
        return getattr(self.split_gm, f"submod_pp_{stage_idx}")

    def info(self) -> PipeInfo:
        """The pipe in short."""
        return PipeInfo(self.split_gm.graph, self.num_stages, self.has_loss_and_backward)

    def build_stage(self, stage_index: int, device, group=None):
        """The stage that the calling process runs."""
        return build_stage(self.get_stage_module(stage_index), stage_index, self.info(), device, group)

    def print_readable(self) -> None:
        """Prints the stages' code."""
        for i in range(self.num_stages):
            print(f"# stage {i}")
            self.get_stage_module(i).print_readable()

    def __repr__(self):
        return repr(self.split_gm)


def _cut(traced) -> list:
    """Graph modules of the nodes between marks."""
    stage_of, stage = {}, 0
    nodes = list(traced.graph.nodes)
    for node in nodes:
        if node.op == "call_function" and node.target is _mark:
            stage += 1
            continue
        stage_of[node] = 0 if node.op == "placeholder" else stage
    count = stage + 1
    for node in nodes:  # parameters belong to who uses them, not to where they were first read
        if node.op == "get_attr" and node.users:
            stage_of[node] = min(stage_of[user] for user in node.users)
    _read_where_used(traced, stage_of)
    nodes = list(traced.graph.nodes)
    last_use = {
        node: max((stage_of[user] for user in node.users), default=stage_of[node])
        for node in stage_of
    }
    made, arriving = [], []
    for number in range(count):
        leaving = [
            n for n in nodes if n in stage_of and n.op != "output" and stage_of[n] <= number < last_use[n]
        ]
        made.append(_stage_module(traced, nodes, stage_of, number, arriving, leaving, number == count - 1))
        arriving = leaving
    return made


def _read_where_used(traced, stage_of):
    """Reads a parameter in each stage that uses it: each has a copy of its own."""
    for node in list(traced.graph.nodes):
        if node.op != "get_attr" or node not in stage_of or not isinstance(_value(traced, node.target), torch.nn.Parameter):
            continue
        for number in sorted({stage_of[user] for user in node.users})[1:]:
            users = [user for user in traced.graph.nodes if user in node.users and stage_of[user] == number]
            with traced.graph.inserting_before(users[0]):
                again = traced.graph.node_copy(node)
            stage_of[again] = number
            for user in users:
                user.replace_input_with(node, again)


def _value(module, path):
    for part in path.split("."):
        module = getattr(module, part)
    return module


def _replicate(split) -> list[dict[str, str]]:
    """Gives each stage its own copy of parameters that several use; their names by stage."""
    users: dict = {}
    stages = dict(split.named_children())
    for key, stage in stages.items():
        for name, p in stage.named_parameters():
            users.setdefault(p, {})[key] = name
    shared = {p: places for p, places in users.items() if len(places) > 1}
    for stage in stages.values():
        own: dict[int, Any] = {id(t): t for t in (*stage.parameters(), *stage.buffers()) if t not in shared}
        copies = {p: copy.deepcopy(p) for p in stage.parameters() if p in shared}
        own.update((id(p), made) for p, made in copies.items())
        if not copies:
            continue
        for target in {node.target for node in stage.graph.nodes if node.op == "call_module"}:
            called = stage.get_submodule(target)  # which other stages may call, too
            if any(p in copies for p in called.parameters()):
                stage.set_submodule(target, copy.deepcopy(called, own))
        for name, p in list(stage.named_parameters(remove_duplicate=False)):
            if p in copies:
                parent, _, last = name.rpartition(".")
                setattr(stage.get_submodule(parent), last, copies[p])
    return list(shared.values())


def _stage_module(traced, nodes, stage_of, number, arriving, leaving, is_last):
    graph, known = Graph(), {}
    if number == 0:
        for node in nodes:
            if node.op == "placeholder":
                known[node] = graph.node_copy(node)
    else:
        for node in arriving:
            known[node] = graph.placeholder(node.name)
    result = None
    for node in nodes:
        if stage_of.get(node) != number or node.op == "placeholder":
            continue
        if node.op == "output":
            result = node
            continue
        known[node] = graph.node_copy(node, lambda n: known[n])
    if is_last:
        assert result is not None
        graph.node_copy(result, lambda n: known[n])
    else:
        values = [known[n] for n in leaving]
        graph.output(values[0] if len(values) == 1 else tuple(values))
    return GraphModule(traced, graph)
