"""``cond``, ``while_loop``, ``scan`` and ``map`` while a graph is recorded: their functions become graphs of their own.

A function is run once at a level of its own, a `_Branch`, whose graph has a placeholder for each
operand and for each tensor that the function takes from around it. Meanwhile the level around hands
everything that it is asked to that branch. All functions of one operator get the same operands.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any

from ..._ops import ops
from ...eager.core import api
from ...eager.dispatch.levels import Level
from ...eager.dispatch.randomness import FILL
from ...eager.native.contexts import contextmanager
from ...eager.tensor import TensorBase, modes
from ...functional.control_flow import carry_agrees, dims_agree
from ...utils import _pytree as pytree
from ..graph_module import GraphModule
from ..node import map_aggregate
from ._trace_level import Traced, TraceLevel

_HANDED = ("call", "call_inplace", "view", "composite", "custom", "random", "detach", "rewrapped",
           "alias", "known")


def _refuse(what: str, operator: str, hint: str):
    from ...functional._capture_errors import UncapturedHigherOrderOpError

    raise UncapturedHigherOrderOpError(
        "This higher order operator doesn't work unless it is captured completely with "
        f"torch.compile. Got graph break/error:\n\nEncountered {what} during higher order op tracing\n"
        f"  Higher Order Operator: {operator}\n  Explanation: Higher order ops do not support {what}.\n"
        f"  Hint: {hint}\n"
    )


def _value(t):
    while isinstance(t, Traced):
        t = t._inner
    return t


class _Branch(TraceLevel):
    """The level of one function; see the module.

    Attributes:
        outer: the level around.
        operator: for messages.
        captured: {id: tensor of around}, of all functions of the operator.
        outputs, spec: the example's results, and their structure.
    """

    outer: TraceLevel
    operator: str
    named: bool

    def begin(self, outer, operator, captured, named, names=None):
        self.outer, self.operator, self.captured, self.named = outer, operator, captured, named
        self.names = names or {}  # of operands that are no tensors of around, by their ids
        self.outermost = getattr(outer, "outermost", outer)
        self._standing: dict[int, tuple[Any, Traced]] = {}  # what stands for tensors of around
        self._inputs: set[int] = set()  # ids of placeholders' storages
        self.outputs: list = []
        self.spec: Any = None
        if hasattr(outer, "stack"):
            self.stack = outer.stack
        return self

    @contextmanager
    def below(self):
        levels = modes.levels
        modes.levels = levels[: levels.index(self.outermost)]
        try:
            yield
        finally:
            modes.levels = levels

    # --- inputs

    def input(self, t):
        """The placeholder's value for a tensor of around."""
        count = sum(n.op == "placeholder" for n in self.graph.nodes)
        name = (self.names.get(id(t)) or self.outer.node_of(t).name) if self.named else f"arg{count}_1"
        first = next((n for n in self.graph.nodes if n.op != "placeholder"), None)
        with self.graph.inserting_before(first) if first else contextlib.nullcontext():
            node = self.graph.placeholder(name)
        own = self.track(_value(t), node)
        self._standing[id(t)] = (t, own)
        self._inputs.add(id(own._ftorch_storage))
        return own

    def adopt(self, t):
        """A tensor as one of this level."""
        if isinstance(t, Traced) and t._ftorch_level is self:
            return t
        found = self._standing.get(id(t))
        if found is None:
            self.captured[id(t)] = t
            return self.input(t)
        return found[1]

    def _adopted(self, values):
        """Nested values with the traced tensors of around adopted."""
        return map_aggregate(values, lambda a: self.adopt(a) if isinstance(a, Traced) else a)

    def node_of(self, t):
        return self.adopt(t)._node

    def _inner(self, operands):
        return map_aggregate(tuple(operands), lambda a: _value(a) if isinstance(a, Traced) else a)

    # --- calls

    def call(self, op, operands, static):
        return super().call(op, self._adopted(tuple(operands)), static)

    def call_inplace(self, op, operands, static):
        operands = self._adopted(tuple(operands))
        self._written(operands[0])
        return super().call_inplace(op, operands, static)

    def _written(self, t):
        if id(t._ftorch_storage) in self._inputs or not isinstance(t, Traced):
            _refuse("input mutation", self.operator, "write to a clone, and return it.")

    def view(self, definition, x, static):
        return super().view(definition, self.adopt(x), static)

    def composite(self, function, args, kwargs):
        args, kwargs = self._adopted(tuple(args)), self._adopted(dict(kwargs))
        return super().composite(function, args, kwargs)

    def custom(self, function, args):
        return super().custom(function, self._adopted(tuple(args)))

    def random(self, kind, function, args, kwargs):
        args, kwargs = self._adopted(tuple(args)), self._adopted(dict(kwargs))
        if kind == FILL:
            self._written(args[0])
        return super().random(kind, function, args, kwargs)

    def detach(self, t):
        return super().detach(self.adopt(t))

    def rewrapped(self, t, function):
        return super().rewrapped(self.adopt(t), function)

    def alias(self, t):
        return super().alias(self.adopt(t))

    # --- a run

    def run(self, function, operands):
        """Records a function of tensors of around."""
        with _handed(self.outer, self), self:
            inputs = [self.input(t) for t in operands]
            for t in list(self.captured.values()):
                self.input(t)
            flat, self.spec = pytree.tree_flatten(function(*inputs))
            nodes, given = [], set(self._inputs)
            for t in flat:
                if not isinstance(t, TensorBase):
                    t = api.tensor(t)
                own = self.adopt(t)
                if id(own._ftorch_storage) in given:
                    _refuse("aliasing", self.operator,
                            "Replace `return input` with `return input.clone()` to avoid aliasing.")
                given.add(id(own._ftorch_storage))
                nodes.append(own._node)
                self.outputs.append(_value(own))
            self.graph.output(tuple(nodes))

    def module(self, single=False, listed=False):
        """The graph of the function, which has all captured tensors among its inputs; its results are a tuple.

        Args:
            single: it gives its only result; ``listed``: a list of them.
        """
        for key, t in self.captured.items():
            if key not in self._standing:
                self.input(t)
        vars(self.graph).pop("create_node", None)  # the class's own again
        if single:
            output = self.graph.output_node()
            output.args = (output.args[0][0],)
        elif listed:
            output = self.graph.output_node()
            output.args = (list(output.args[0]),)
        self.graph.eliminate_dead_code()
        return GraphModule(self.root, self.graph)


@contextmanager
def _handed(level, branch):
    """Within, a level hands its calls to a branch."""
    def hand(name):
        return lambda *args, **kwargs: getattr(branch, name)(*args, **kwargs)

    vars(level).update({name: hand(name) for name in _HANDED})
    try:
        yield
    finally:
        for name in _HANDED:
            del vars(level)[name]


@functools.cache
def _branch_class(kind) -> type[_Branch]:
    return type("Branch", (_Branch, kind), {})


def _branches(level, operator, functions, operands, named, names=None):
    captured: dict[int, Any] = {}
    kind = next(c for c in type(level).__mro__ if not issubclass(c, _Branch))
    made = []
    for f in functions:
        table = (level._table,) if hasattr(level, "_table") else ()  # a branch decomposes what its trace does
        branch = _branch_class(kind)(*table).begin(level, operator, captured, named, names)
        for option in ("composites", "renames"):
            if hasattr(level, option):
                setattr(branch, option, getattr(level, option))
        branch.run(f, operands)
        made.append(branch)
    return made, list(captured.values())


def _install(level, name, module):
    """The node of a graph in the graph."""
    number = 0
    while hasattr(level.root, f"{name}_{number}"):
        number += 1
    level.root.add_module(f"{name}_{number}", module)
    return level.graph.get_attr(f"{name}_{number}")


def _recorded(level, target, args, values):
    node = level.graph.call_function(target, args, name=target.name())
    return level.results(tuple(values), node)


def _cond(level, functions, pred, operands):
    leaves, spec = pytree.tree_flatten(operands)
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, TensorBase)]
    tensors = [leaves[i] for i in places]

    def spread(function):
        def run(*own):
            full = list(leaves)
            for i, t in zip(places, own):
                full[i] = t
            return function(*pytree.tree_unflatten(full, spec))

        return run

    branches, captured = _branches(
        level, "torch.cond", [spread(f) for f in functions], tensors, hasattr(level, "stack")
    )
    dims_agree("torch.cond", *branches)
    given = (*tensors, *captured)
    modules = [b.module() for b in branches]

    def forward():
        operands = tuple(level.node_of(t) for t in given)
        names = zip(("true_graph", "false_graph"), modules)
        node = (level.node_of(pred), *(_install(level, *n) for n in names), operands)
        return _recorded(level, ops.higher_order.cond, node, branches[0].outputs)

    if modes.grad and any(t._ftorch_requires_grad for t in given):
        results = _differentiable()(forward, pred, modules, *given)
    else:
        results = forward()
    return pytree.tree_unflatten(list(results), branches[0].spec)


@functools.cache
def _differentiable():
    """``cond`` as a function whose gradient is a ``cond`` of the branches' gradients."""
    from ...autograd import Function, enable_grad, grad
    from ...functional.control_flow import cond

    class CondAutogradOp(Function):
        _is_own = True

        @staticmethod
        def forward(ctx, forward, pred, modules, *given):
            ctx.pred, ctx.modules = pred, modules
            ctx.save_for_backward(*given)
            return tuple(forward())

        @staticmethod
        def backward(ctx, *grads):
            given, wanted = ctx.saved_tensors, ctx.needs_input_grad[3:]

            def pull(module):
                def run(*values):
                    inputs, grads = values[: len(given)], values[len(given) :]
                    with enable_grad():
                        own = [t.detach().requires_grad_() if w else t for t, w in zip(inputs, wanted)]
                        results = [(y, g) for y, g in zip(module(*own), grads) if y.requires_grad]
                    wants = [t for t, w in zip(own, wanted) if w]
                    if not results:
                        return tuple(api.zeros_like(t) for t in wants)
                    ys, gs = zip(*results)
                    # What comes out of a branch is new, and made there.
                    return tuple(
                        g.clone() if isinstance(g, Traced) else api.zeros_like(t) + (0 if g is None else g)
                        for t, g in zip(wants, grad(ys, wants, gs, allow_unused=True))
                    )

                return run

            found = iter(cond(ctx.pred, *map(pull, ctx.modules), (*given, *grads)))
            return None, None, None, *(next(found) if w else None for w in wanted)

    return CondAutogradOp.apply


def _while_loop(level, functions, carried):
    leaves, spec = pytree.tree_flatten(carried)
    leaves = [t if isinstance(t, TensorBase) else api.tensor(t) for t in leaves]

    def spread(function):
        return lambda *own: function(*pytree.tree_unflatten(list(own), spec))

    branches, captured = _branches(
        level, "torch.while_loop", [spread(f) for f in functions], leaves, False
    )
    carry_agrees("while_loop", leaves, branches[1].outputs)
    carried, captured = (tuple(level.node_of(t) for t in ts) for ts in (leaves, captured))
    graphs = [
        _install(level, f"while_loop_{n}_graph", b.module(single=n == "cond"))
        for n, b in zip(("cond", "body"), branches)
    ]
    results = _recorded(
        level, ops.higher_order.while_loop, (*graphs, carried, captured), branches[1].outputs
    )
    return tuple(pytree.tree_unflatten(results, spec))


def _of_values(level, function, *tensors):
    """``function`` of the example values of tensors, which nobody records."""
    levels = modes.levels
    modes.levels = levels[: levels.index(getattr(level, "outermost", level))]
    try:
        return function(*map(_value, tensors))
    finally:
        modes.levels = levels


def _over_slices(level, operator, function, carried, slices, shared=()):
    """(the branch of a function of tensors and slices of others, what it captured): (the carried, the slices, the shared)."""
    parts = [_of_values(level, lambda t: t[0], t) for t in slices]
    names = {id(part): level.node_of(t).name for part, t in zip(parts, slices)} if operator == "map_impl" else None
    (branch,), captured = _branches(
        level, f"torch.ops.higher_order.{operator}", [function], [*carried, *parts, *shared], operator == "map_impl", names
    )
    return branch, captured


def _stacked(level, steps, outputs):
    return [_of_values(level, lambda t: api.stack([t] * steps), t) for t in outputs]


def _scan(level, functions, init, xs, dim, reverse):
    starts, restart = _flat(init)
    slices, join = _flat(xs)
    count = len(starts)
    if dim:
        slices = [t.movedim(dim, 0) for t in slices]
    if reverse:
        slices = [t.flip([0]) for t in slices]
    specs = []

    def step(*own):
        found = functions[0](restart(own[:count]), join(own[count:]))
        if not isinstance(found, tuple) or len(found) != 2:
            _refuse_returns(found)
        carry, y = found
        leaves, spec = pytree.tree_flatten(y)
        specs.append(spec)
        return [*pytree.tree_leaves(carry), *leaves]

    branch, captured = _over_slices(level, "scan", step, starts, slices)
    carry_agrees("scan", starts, branch.outputs[:count])
    values = [*branch.outputs[:count], *_stacked(level, slices[0].shape[0], branch.outputs[count:])]
    given, parts, captured = ([level.node_of(t) for t in ts] for ts in (starts, slices, captured))
    graph = _install(level, "scan_combine_graph", branch.module(listed=True))
    results = _recorded(level, ops.higher_order.scan, (graph, given, parts, tuple(captured)), values)
    ys = list(results[count:])
    if reverse:
        ys = [y.flip([0]) for y in ys]
    if dim:
        ys = [y.movedim(0, dim) for y in ys]
    return restart(results[:count]), pytree.tree_unflatten(ys, specs[0])


def _refuse_returns(found):
    from ...functional._capture_errors import UncapturedHigherOrderOpError

    raise UncapturedHigherOrderOpError(
        "This higher order operator doesn't work unless it is captured completely with torch.compile. Got graph break/error:\n"
        "\ntorch.scan: improper combine_fn number of returns\n  Higher Order Operator: torch.ops.higher_order.scan\n"
        f"  Explanation: Expect combine_fn to return a tuple (next_carry, y) but got {found}.\n"
    )


def _map(level, functions, xs, args):
    slices, join = _flat(xs)
    leaves, spec = pytree.tree_flatten(args)
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, TensorBase)]
    shared, count = [leaves[i] for i in places], len(slices)

    def run(*own):
        full = list(leaves)
        for i, t in zip(places, own[count:]):
            full[i] = t
        return functions[0](join(own[:count]), *pytree.tree_unflatten(full, spec))

    branch, captured = _over_slices(level, "map_impl", run, (), slices, shared)
    values = _stacked(level, slices[0].shape[0], branch.outputs)
    parts, others = ([level.node_of(t) for t in ts] for ts in (slices, [*shared, *captured]))
    graph = _install(level, "body_graph", branch.module())
    results = _recorded(level, ops.higher_order.map_impl, (graph, parts, others), values)
    return pytree.tree_unflatten(list(results), branch.spec)


def _flat(tree):
    """(the tensors of a tree, a function that makes the tree of others)."""
    leaves, spec = pytree.tree_flatten(tree)
    leaves = [t if isinstance(t, TensorBase) else api.tensor(t) for t in leaves]
    return leaves, lambda own: pytree.tree_unflatten(list(own), spec)


_RECORDERS = {"cond": _cond, "while_loop": _while_loop, "scan": _scan, "map": _map}


def record(level: Level, name: str, functions, arguments):
    """Records a control flow operator at a level; NotImplemented where it has no form in graphs.

    Args:
        functions: its functions; ``arguments`` the others, tensors among them.

    Raises:
        UncapturedHigherOrderOpError: a function writes to its inputs or returns them.
    """
    recorder = _RECORDERS.get(name)
    return NotImplemented if recorder is None else recorder(level, functions, *arguments)
