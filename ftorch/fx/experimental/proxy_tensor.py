"""``make_fx``: the graph of the ops that a function calls, found by running it.

Where `symbolic_trace` records what a program writes, ``make_fx`` records what it does: the inputs are
tensors with values, Python control flow on shapes runs, and the graph has the ops of ``torch.ops.aten``
that were called, gradients and transforms included.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

from ... import _ops
from ..._dispatch import composition, python_dispatch
from ..._subclasses.fake_tensor import fake_like
from ...eager.autograd import saved_tensors, tape
from ...eager.autograd.views import ViewNode
from ...eager.call import op as _op
from ...eager.core.dtype import get_default_dtype
from ...eager.core.registry import OPS, OpDef
from ...eager.dispatch.levels import Wrapped, record_wrapped, wrapped_plan
from ...eager.dispatch.randomness import FILL
from ...eager.tensor import TensorBase, count_write, modes
from ...nn import Module
from ...utils import _pytree as pytree
from .._codegen import PyTreeCodeGen, PyTreeInfo
from ..graph_module import GraphModule
from ..node import Node, map_aggregate
from . import _aten_random
from ._trace_level import Traced, TraceLevel, get_proxy_mode


def _names(f, count) -> list[str]:
    """The parameters' names, or ``arg0``, ``arg1``, ... where the function does not say."""
    unknown = [f"arg{i}" for i in range(count)]
    if isinstance(f, Module) or isinstance(f, functools.partial):
        return unknown
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        return unknown
    names = [p.name for p in parameters
             if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return names[:count] if len(names) >= count else unknown


def make_fx(f, decomposition_table=None, tracing_mode: str = "real", **options):
    """A function that gives the graph of the ops that ``f`` calls on the arguments.

    Args:
        f: a function or module. Tensors that it takes from elsewhere become constants of the graph.
        decomposition_table: {op of ``torch.ops.aten``: function to run in its place}.
        tracing_mode: "real", "fake" or "symbolic". The graph is for the sizes of the example, but with
            "symbolic" for all, for which the function is called several times
            (`ftorch.export._generalize`); a size that decides what it does stays the example's.
        options: have no effect.

    Returns:
        A function from example arguments to a `GraphModule`.

    Raises:
        RuntimeError: the function depends on the value of a tensor.

    >>> import ftorch as torch
    >>> from ftorch.fx.experimental.proxy_tensor import make_fx
    >>> print(make_fx(lambda x: x.sin() + 1)(torch.zeros(2)).code.strip())
    def forward(self, x_1):
        sin = torch.ops.aten.sin.default(x_1);  x_1 = None
        add = torch.ops.aten.add.Tensor(sin, 1);  sin = None
        return add
    """
    if tracing_mode not in ("real", "fake", "symbolic"):
        raise AssertionError(f"tracing_mode must be real/fake/symbolic, got {tracing_mode}")
    table = {str(op): replacement for op, replacement in (decomposition_table or {}).items()}
    @functools.wraps(f)
    def traced(*args):
        trace = _trace_for_all_sizes if tracing_mode == "symbolic" else _trace
        kind = DecomposingLevel if options.get("pre_dispatch") else AtenLevel

        def level():
            made = kind(table)
            made.fakes = tracing_mode != "real"
            return made

        return trace(level, f, args)

    return traced


_PIECES = frozenset("split _method_split chunk unbind".split())


class DecomposingLevel(TraceLevel):
    """Runs functions of a table, {name of an op: function}, in place of some ops."""

    def __init__(self, table=()):
        super().__init__()
        self._table = dict(table)
        self._active: set[str] = set()

    def _replaced(self, target, args, kwargs):
        """The result of the function that stands in for an op, or NotImplemented."""
        name = str(target)
        replacement = None if name in self._active else self._table.get(name)
        if replacement is None:
            return NotImplemented
        self._active.add(name)
        try:
            return replacement(*args, **kwargs)
        finally:
            self._active.discard(name)

    def call(self, op, operands, static):
        if self._table and isinstance(op.definition, OpDef):
            result = self._replaced(*self._target(op, operands, static, "function"))
            if result is not NotImplemented:
                return result
        return self._call(op, operands, static)

    def _call(self, op, operands, static):
        return super().call(op, operands, static)


class AtenLevel(DecomposingLevel):
    """Records ATen's ops, as a ``__torch_dispatch__`` sees them: composites and gradients as what they call."""

    sees_aten = True
    positions_of = TraceLevel._positions

    def __init__(self, table=()):
        super().__init__(table)
        self._constant_nodes: dict[str, Node] = {}
        self._lifted: dict[int, Any] = {}
        self.is_unsafe = False

    @staticmethod
    def is_kept(node):
        return node.op in ("call_function", "placeholder", "output") and not node.name.startswith("sym_size")

    def node_of(self, t):
        own = isinstance(t, Traced) and t._ftorch_level is self
        name = None if own else self._constants.get(id(t), (None,))[0]
        found = self._constant_nodes.get(name) if name is not None else None
        if found is None:
            found = super().node_of(t)
            if not own:
                if id(t) in self._lifted:
                    target = _ops.ops.aten.lift_fresh_copy.default
                    found = self.graph.call_function(target, (found,), name="lift_fresh_copy")
                self._constant_nodes[self._constants[id(t)][0]] = found
        return found

    def lifted(self, t):
        """A tensor of given numbers was made within the trace."""
        self._lifted[id(t)] = t
        self.node_of(t)

    def _target(self, op, operands, static, form):
        return python_dispatch.overload_seen(op, operands, static, form)

    def _own(self, operands):
        """The operands, with constants (parameters) as tensors of the trace."""

        def own(t):
            is_constant = isinstance(t, TensorBase) and not (isinstance(t, Traced) and t._ftorch_level is self)
            return self.track(t, self.node_of(t)) if is_constant else t

        return tuple(map_aggregate(o, own) for o in operands)

    def _call(self, op, operands, static):
        definition = op.definition
        operands = self._own(operands)
        result = composition.composed(op, operands, static)
        if result is not None:
            return result
        found = composition.renamed(definition, operands, static) if isinstance(definition, OpDef) else None
        if found is None:
            return super()._call(op, operands, static)
        target, args, kwargs, pick = found
        result = self._replaced(target, args, kwargs) if self._table else NotImplemented
        if result is not NotImplemented:
            return result if pick is None else result[pick]
        beside = self._call_of(target, args, kwargs)
        plan, tensors, scalars = wrapped_plan(op, operands, static)
        out = beside if pick is None else beside[pick]
        outputs = [out] if isinstance(out, TensorBase) else list(out)
        record_wrapped(plan, self, tensors, scalars, outputs, () if pick is None else beside, pick)
        return out if isinstance(out, TensorBase) else tuple(outputs)

    def _call_of(self, target, args, kwargs):
        """The results of an overload as one node."""
        name = target.__name__.partition(".")[0]
        node = self.graph.call_function(
            target, self.arguments(tuple(args)), dict(self.arguments(kwargs)), name=name
        )
        with self.below():
            value = target(*self._inner(args), **dict(zip(kwargs, self._inner(kwargs.values()))))
        return self.results(value, node)

    def functionalize(self, function, args, kwargs, copies):
        """Runs a function, and records what it calls without writes (`functionalization`)."""
        from .functionalization import Section

        section = Section(self, copies)
        result = function(*args, **kwargs)
        section.end(pytree.tree_leaves((args, kwargs, result)))
        return result

    def detach(self, t):
        node = self.graph.call_function(_ops.ops.aten.detach.default, (t._node,), name="detach")
        return self.track(t._inner.detach(), node)

    def save_result(self, t):
        """Results of their own calls are kept detached, as PyTorch's nodes keep them."""
        if t._grad_fn is None or modes.saved_hooks or modes.differentiating:
            return super().save_result(t)
        return saved_tensors.SavedDetached(t)

    def _is_own(self, values):
        return any(isinstance(v, Traced) and v._ftorch_level is self for v in values)

    def made(self, overload, args, kwargs):
        """A tensor that an overload of ATen makes of nothing, or in the likeness of another."""

        if any(isinstance(a, Wrapped) and a._ftorch_level is not self for a in args):  # of a transform inside
            return overload._function(*args, **kwargs)
        return self._call_of(overload, args, kwargs)

    def random(self, kind, function, args, kwargs):
        if function.__name__ != "_kept":
            described = _aten_random.filling if kind == FILL else _aten_random.overload_of
            found = described(function.__name__, args, kwargs)
            if found is None:
                return super().random(kind, function, args, kwargs)
            return self._drawn(*found, function, args, kwargs, kind == FILL)
        x, p = args
        aten = _ops.ops.aten
        with self.below():
            value = function(*self._inner(args), **kwargs)
        empty = self.graph.call_function(aten.empty_like.default, (self.node_of(x),), name="empty_like")
        empty.meta["val"] = fake_like(value)
        node = self.graph.call_function(aten.bernoulli_.float, (empty, *((p,) if p != 0.5 else ())), name="bernoulli_")
        return self.track(value, node)

    def _drawn(self, target, shown, options, function, args, kwargs, fills):
        """The result of a function that draws, as the node of ATen's overload; ``fills``: its first argument."""
        nodes = [self._parameter(a) if isinstance(a, TensorBase) else a for a in shown]
        node = self.graph.call_function(
            target, self.arguments(tuple(nodes)), dict(self.arguments(options)), name=target._opname
        )
        with self.below():
            value = function(*self._inner(args), **dict(zip(kwargs, self._inner(kwargs.values()))))
        if not fills:
            return self.results(value, node)
        node.meta["val"] = fake_like(value)
        if isinstance(args[0], Traced):
            args[0]._node = node
        return args[0]

    def _parameter(self, t):
        """The node of a distribution's parameter: ATen's op takes it where the function has detached it."""
        node = self.node_of(t)
        if node.target is not _ops.ops.aten.detach.default:
            return node
        (source,) = node.args
        if not node.users:
            self.graph.erase_node(node)
        return source

    composites = True

    def identity(self, t):
        out = self.track(t._inner, t._node)
        history = tape.node_class("AliasBackward0", ViewNode)(OPS["alias"], (), t._ftorch_geometry)
        history._ftorch_edges = (tape.edge_of(t),)
        out._grad_fn, out._ftorch_requires_grad = history, True
        return out

    def _batch_norm(self, x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
        """The normalization by ATen's op, which updates the running statistics."""
        given = (x, weight, bias, running_mean, running_var)
        x, weight, bias, *running = self._own(given)
        args = (x, weight, bias, *running, training, momentum, eps)
        beside = self._call_of(_ops.ops.aten.native_batch_norm.default, args, {})
        for t in running if training else ():
            if t is not None:
                count_write(t)
        if training:
            op, operands = _op.op_named("_batch_norm_train"), (x, *running, weight, bias, momentum)
        else:
            op, operands = _op.op_named("_batch_norm_eval"), (x, *running, weight, bias)
        plan, tensors, scalars = wrapped_plan(op, operands, (eps,))
        record_wrapped(plan, self, tensors, scalars, beside[:1], beside, 0)
        return beside[0]

    def composite(self, function, args, kwargs):
        name = function.__name__
        if name == "batch_norm" and self._is_own(args):
            return self._batch_norm(*args, **kwargs)
        if name not in _PIECES or kwargs or not args or not isinstance(args[0], Traced) or args[0]._ftorch_level is not self:
            return NotImplemented
        x = args[0]
        if x._ftorch_requires_grad and modes.grad:
            return NotImplemented
        target, given = composition.split_call(_ops.ops.aten, name.removeprefix("_method_"), *args)
        return tuple(self._as_view(part, x) for part in self._call_of(target, given, {}))

    def created(self, t, args, **options):
        out = super().created(t, args, **options)
        node = out._node
        if node.args and isinstance(node.args[0], tuple):
            node.args = (list(node.args[0]), *node.args[1:])
        # What the operator makes by default is not written; a range, or one number, is by default of its numbers' dtype.
        by_numbers = args[0] in ("arange", "full") and not any(type(value) is float for value in node.args)
        kwargs = {k: v for k, v in node.kwargs.items() if k != "dtype" or by_numbers or v is not get_default_dtype()}
        node.kwargs = {**kwargs, "device": t.device, "pin_memory": False}
        return out

    def _record_view(self, definition, x, static):
        if definition.name.startswith("_index_"):
            return super()._record_view(definition, x, static)
        if self.is_unsafe:  # a view of a copy that nobody else can reach
            size = list(static[0])
            return self.graph.call_function(_ops.ops.aten._unsafe_view.default, (x._node, size), name="_unsafe_view")
        found = composition.renamed(definition, (x,), static)
        if found is None:
            return super()._record_view(definition, x, static)
        target, args, kwargs = found[:3]
        name = target.__name__.partition(".")[0]
        return self.graph.call_function(target, self.arguments(args), dict(kwargs), name=name)


def _trace(make_level, f, args) -> GraphModule:
    level = make_level()
    _record(level, f, args)
    return _graph_module(f, level)


def _graph_module(f, traced):
    name = type(f).__name__ if isinstance(f, Module) else getattr(f, "__name__", "GraphModule")
    return GraphModule(traced.root, traced.graph, name)


def _trace_for_all_sizes(make_level, f, args) -> GraphModule:
    """The graph for all sizes, as exported programs have it."""

    def trace(args):
        level = make_level()
        _record(level, f, args)
        return level

    return _graph_module(f, _op.hooks.symbolic_graphs().graph_for_all_sizes(trace, args))


def _record(level: TraceLevel, f, args) -> None:
    flat, spec = pytree.tree_flatten(list(args))
    names = _names(f, len(args))
    per_argument = [len(pytree.tree_leaves(a)) for a in args]
    numbered = [f"{name}_{i + 1}" for name, n in zip(names, per_argument) for i in range(n)]
    with level:
        leaves = []
        for name, leaf in zip(numbered, flat):
            node = level.graph.placeholder(name)
            if not isinstance(leaf, TensorBase):
                leaves.append(leaf)
                continue
            t = level.track(leaf.detach(), node)
            t._ftorch_requires_grad = leaf.requires_grad
            leaves.append(t)
        result = f(*pytree.tree_unflatten(leaves, spec))
        declared = getattr(f, "__annotations__", {}).get("return")
        nested = any(isinstance(a, (list, tuple, dict)) for a in args)
        if nested:
            out, out_spec = pytree.tree_flatten(result)
            level.graph.output(level.arguments(out), declared)
            level.graph.set_codegen(PyTreeCodeGen(PyTreeInfo(names, spec, out_spec)))
        else:
            level.graph.output(level.arguments(result), declared)
    level.graph.eliminate_dead_code(level.is_kept)


__all__ = ["get_proxy_mode", "make_fx"]
