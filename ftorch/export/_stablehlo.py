"""Programs as StableHLO that runs with JAX alone, with symbolic sizes where the program has them.

The program is traced down to kernels, which are JAX functions already; what is a view in the engine has
its JAX form here. `jax.export` then lowers the whole.
"""

from __future__ import annotations

import functools
import math
import operator
import os
from typing import Any, NamedTuple

import jax
import jax.export
import jax.numpy as jnp
import numpy as np

from .._higher_order_ops import HigherOrderOperator
from .._ops import OpOverload, own_name
from ..eager.call import call_checks, kernel_functions
from ..eager.call import op as _op
from ..eager.call.op import to_numpy
from ..eager.call.operands import normalize
from ..eager.core.jax_scope import scoped
from ..eager.core.registry import STATIC
from ..fx.experimental._trace_level import Kernel
from ..fx.experimental.symbolic_shapes import SymInt
from ..fx.graph_module import GraphModule
from ..fx.node import Node, map_aggregate
from ..utils import _pytree as pytree
from ._functionalize import functionalized
from ._generalize import trace_dynamic
from ._jax_forms import FORMS, NoForm
from ._jax_random import Keys, draws, form_of
from ._value_sizes import SIZED
from .dynamic_shapes import Dim
from .exported_program import ExportedProgram, ModuleCallEntry
from .graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    OutputKind,
)

# --- kernels --------------------------------------------------------------------------


def _refuse_values(module):
    """Refuses a program of which values decide sizes or numbers.

    Raises:
        NoForm: it has an operator that does so.
    """
    for inner in module.modules():
        for node in inner.graph.nodes if isinstance(inner, GraphModule) else ():
            name = own_name(node.target)
            sized = name in SIZED and node.target._overloadname != "self_int"
            if sized or name in ("item", "_local_scalar_dense") or (name == "index" and any(map(_is_mask, node.args[1]))):
                raise NoForm(f"{node.target}: values decide how large its result is, or what it is a number for; "
                             "StableHLO has no such sizes")


def _is_mask(index):
    val = index.meta.get("val") if isinstance(index, Node) else None
    return val is not None and val.dtype.category == 0


def _example(value):
    """The tensor or number of the example that an argument was."""
    if isinstance(value, Node):
        val = value.meta["val"]
        return int(val) if isinstance(val, SymInt) else val
    return value


def _kernel_call(node, args, kwargs):
    """Calls a kernel on arrays, promoted as the engine does."""
    overload = node.target
    definition = overload._bound.definition
    bind = overload._bound.bind
    examples = map_aggregate((tuple(node.args), dict(node.kwargs)), _example)
    values = bind(*examples)
    actual = bind_same(definition, overload, args, kwargs)
    if values is None:
        raise RuntimeError(f"the arguments of {overload} do not fit its schema")
    operands = tuple(v for v, k in zip(values, definition.kinds) if k != STATIC)
    given = tuple(v for v, k in zip(actual, definition.kinds) if k != STATIC)
    static = tuple(v for v, k in zip(actual, definition.kinds) if k == STATIC)
    return _run_kernel(_op.op_named(definition.full_name), operands, given, static)


def _run_kernel(op, operands, given, static):
    """An op's kernel on arrays; ``operands`` are the example's, which say what is promoted."""
    definition = op.definition
    operands = normalize(op, operands)
    slots, tensors, scalars, _ = kernel_functions.laid_out(definition, operands, _frozen(static))
    casts, numbers = call_checks.promotion_of(op, definition, slots, tensors, scalars)
    fn = kernel_functions.KernelFunction(definition, slots, casts, numbers, len(tensors), None)
    arrays = [jnp.asarray(a) if isinstance(a, np.ndarray) else a  # a constant of the program
              for g in given for a in (g if isinstance(g, (list, tuple)) else (g,)) if _is_array(a)]
    return fn(*arrays, *_numbers(operands, given))


def _numbers(operands, given):
    """The numbers among operands, where the example has numbers."""
    return [
        jnp.asarray(g) if isinstance(g, (bool, int, float, complex)) else g
        for o, g in zip(operands, given) if isinstance(o, (bool, int, float, complex))
    ]


def _is_array(value):
    return isinstance(value, (jax.Array, np.ndarray)) or isinstance(value, jax.core.Tracer)


def _frozen(static):
    return tuple(tuple(v) if isinstance(v, list) else v for v in static)


def bind_same(definition, overload, args, kwargs):
    """The values of a schema's arguments, by position and name, without looking at their types."""
    schema = definition.schema.arguments
    positional = [i for i, a in enumerate(schema) if not a.is_keyword_only]
    values: list[Any] = [
        (None if k != STATIC and a.default_text is not None else a.default)
        for a, k in zip(schema, definition.kinds)
    ]
    for i, value in zip(positional, args):
        values[i] = value
    names = {a.name: i for i, a in enumerate(schema)}
    for name, value in kwargs.items():
        values[names[name]] = value
    return values


# --- the program ----------------------------------------------------------------------


def _run(module, values, keys):
    """The outputs of a module's functional graph on arrays."""
    env: dict[Node, Any] = dict(values)

    def look(value):
        return env[value] if isinstance(value, Node) else value

    for node in module.graph.nodes:
        if node.op == "get_attr":  # a graph in the graph, as a function of arrays
            env[node] = functools.partial(_run_inner, getattr(module, node.target))
        elif node.op == "call_function" and isinstance(node.target, HigherOrderOperator):
            args = map_aggregate(tuple(node.args), look)
            env[node] = _call_graphs(node, args, keys)
        elif node.op == "call_function" and (form := form_of(node.target)) is not None:
            args = map_aggregate(tuple(node.args), look)
            env[node] = form(
                keys.next(), node, *args, **dict(map_aggregate(dict(node.kwargs), look))
            )
        elif node.op == "call_function":
            args = map_aggregate(tuple(node.args), look)
            kwargs = dict(map_aggregate(dict(node.kwargs), look))
            env[node] = _call(node, args, kwargs)
        elif node.op == "output":
            return map_aggregate(node.args[0], look)
    raise AssertionError("a graph without output")


def _run_inner(module, keys, *arrays):
    inputs = [n for n in module.graph.nodes if n.op == "placeholder"]
    return _run(module, dict(zip(inputs, arrays)), keys)


def _call_graphs(node, args, keys):
    form = FORMS.get(f"higher_order.{node.target}")
    if form is None:
        raise NoForm(f"{node.target} has no form in StableHLO")
    return form(keys, *args)


_DRAWING = frozenset("cauchy exponential geometric log_normal random".split())  # of random numbers, without a form


def _call(node, args, kwargs):
    target = node.target
    if isinstance(target, Kernel) and target.op is not None:
        operands = map_aggregate(tuple(node.args), _example)
        return _run_kernel(target.op, operands, args, target.static)
    if not isinstance(target, OpOverload):
        if target in (operator.pow, operator.truediv) and not _is_array(args[0]):
            # Of symbolic sizes there are only sums and products as such.
            args = tuple(a if isinstance(a, (int, float)) else jnp.asarray(a, jnp.float64) for a in args)
        return target(*args, **kwargs)
    form = FORMS.get(own_name(target))
    if form is not None:
        return form(node, *args, **kwargs)
    if target._schema is None or not hasattr(target._bound, "bind"):
        draws = target._opname in _DRAWING
        hint = "; draw its numbers from torch.rand or torch.randn, or outside the program" if draws else ""
        raise NoForm(f"{target} has no form in StableHLO{hint}")
    return _kernel_call(node, args, kwargs)


def _dims_of(program):
    """{dimension: `Dim`} of each input, as the program has them."""
    placeholders = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}
    ranges = {str(k): v for k, v in program.range_constraints.items()}
    roots: dict[str, Dim] = {}
    found = []
    for spec in program._user_specs():
        dims = {}
        if not isinstance(spec.arg, ConstantArgument):
            for i, n in enumerate(placeholders[spec.arg.name].meta["val"].shape):
                if isinstance(n, SymInt):
                    dims[i] = _dim(n.expr, ranges, roots)
        found.append(dims)
    return found


def _dim(expr, ranges, roots):
    if expr.kind == "symbol":
        name = str(expr)
        if name not in roots:
            limits = ranges.get(name)
            high = None if limits is None or limits.upper == math.inf else int(limits.upper)
            roots[name] = Dim(name, min=None if limits is None else int(limits.lower), max=high)
        return roots[name]
    left, right = expr.parts
    if expr.kind == "mul":
        number, other = (left, right) if left.kind == "number" else (right, left)
        return _dim(other, ranges, roots) * number.parts[0]
    change = right.parts[0]
    return _dim(left, ranges, roots) + (change if expr.kind == "add" else -change)


def kernels_only(program):
    """The program down to kernels, without writes."""
    if program.example_inputs is None:
        raise RuntimeError("the program was saved without example inputs, which are needed here")
    _refuse_values(program.graph_module)
    args, kwargs = program.example_inputs
    module = program.module(check_guards=False)
    names = [s.arg.name for s in program._user_specs()]
    traces, dynamic = trace_dynamic(
        module, args, kwargs, _dims_of(program), names, whole=False
    )
    state = {k: v.detach() for k, v in module.state_dict(keep_vars=True).items()}
    made = ExportedProgram(
        traces.root, traces.graph, ExportGraphSignature(traces.inputs, traces.outputs), state,
        dynamic.range_constraints,
        [ModuleCallEntry("", program.module_call_graph[0].signature)], program.example_inputs,
        traces.constants,
    )
    return functionalized(made, {})


class Flat(NamedTuple):
    """A program as a function of arrays.

    Attributes:
        run: (constants, inputs, key) -> the outputs: {node: array}, {node: array}, a random key or None.
        constants: {placeholder: (name, tensor)} of parameters, buffers and lifted constants that are used.
        inputs: for each leaf of the arguments its placeholder, or None for a constant.
        shapes: `jax.ShapeDtypeStruct` of each placeholder in ``inputs``, with symbols where sizes vary.
        fixed: {placeholder: value} of arguments that are constants.
        outputs: the kind, the target and the node (or constant) of each output.
        seeded: whether it draws random numbers.
    """

    run: Any
    constants: dict[Node, tuple[str, Any]]
    inputs: list[Node | None]
    shapes: list[Any]
    fixed: dict[Node, Any]
    outputs: list[Any]
    seeded: bool


def flat_function(program) -> Flat:
    """A program as a function of arrays, without structure: constants are arguments, writes are outputs."""
    kernels = kernels_only(program)
    module = kernels.graph_module
    constants, inputs, shapes, fixed = {}, [], [], {}
    specs = {s.arg.name: s for s in kernels.graph_signature.input_specs}
    written = {s.target for s in kernels.graph_signature.output_specs if s.kind is not OutputKind.USER_OUTPUT}
    scope_text = []
    for symbol, limits in kernels.range_constraints.items():
        scope_text.append(f"{symbol} >= {max(int(limits.lower), 1)}")
        if limits.upper != math.inf:
            scope_text.append(f"{symbol} <= {int(limits.upper)}")
    scope = jax.export.SymbolicScope(scope_text)
    for node in kernels.graph.nodes:
        if node.op != "placeholder":
            continue
        spec = specs[node.name]
        if spec.kind is not InputKind.USER_INPUT:
            if node.users or spec.target in written:
                constants[node] = spec.target, kernels._tensor_of(spec).detach()
        elif isinstance(spec.arg, ConstantArgument):
            inputs.append(None)
            fixed[node] = spec.arg.value
        else:
            val = node.meta["val"]
            text = ", ".join(str(n) for n in val.shape)
            sizes = jax.export.symbolic_shape(text, scope=scope) if kernels.range_constraints else (
                tuple(val.shape))
            inputs.append(node)
            shapes.append(jax.ShapeDtypeStruct(tuple(sizes), val.dtype.numpy))

    def run(constants, inputs, key):
        outputs = _run(module, {**constants, **fixed, **inputs}, Keys(key))
        return outputs

    kinds = [s.kind for s in kernels.graph_signature.output_specs]
    targets = [s.target for s in kernels.graph_signature.output_specs]
    values = kernels.graph.output_node().args[0]
    outputs = [*zip(kinds, targets, values, strict=True)]
    return Flat(run, constants, inputs, shapes, fixed, outputs, draws(module))


def jax_function(program):
    """(function of JAX arrays in the program's own structure, specifications of its arguments).

    The parameters and buffers are constants of the function; what it writes to buffers is left out.
    If the program draws random numbers, ``seed`` is one more keyword argument, an uint32.
    """
    flat = flat_function(program)
    if flat.seeded and "seed" in program._argument_names()[1]:
        raise RuntimeError(
            "the program draws random numbers, whose seed would be the keyword argument seed; give the "
            "module's own another name"
        )
    constants = {node: to_numpy(t) for node, (_, t) in flat.constants.items()}
    in_spec, out_spec = program.call_spec.in_spec, program.call_spec.out_spec

    @scoped
    def function(*args, **kwargs):
        key = jax.random.key(kwargs.pop("seed")) if flat.seeded else None
        leaves = pytree.tree_leaves((args, kwargs))
        values = {n: v for n, v in zip(flat.inputs, leaves) if n is not None}
        outputs = flat.run(constants, values, key)
        users = [o for o, (kind, _, _) in zip(outputs, flat.outputs) if kind is OutputKind.USER_OUTPUT]
        return _plain(out_spec, [o if _is_array(o) or o is None else jnp.asarray(o) for o in users])

    rest = iter(flat.shapes)
    leaves = [None if n is None else next(rest) for n in flat.inputs]
    args, kwargs = pytree.tree_unflatten(leaves, in_spec)
    if flat.seeded:
        kwargs = {**kwargs, "seed": jax.ShapeDtypeStruct((), np.uint32)}
    return function, args, kwargs


def _plain(out_spec, outputs):
    """The result in its structure, if JAX knows the containers; else flat."""
    kinds = {spec.type for spec in _specs(out_spec)}
    if kinds <= {tuple, list, dict, None}:
        return pytree.tree_unflatten(outputs, out_spec)
    return tuple(outputs)


def _specs(spec):
    yield spec
    for child in spec.children():
        yield from _specs(child)


@scoped
def to_stablehlo(program, *, platforms=None) -> bytes:
    """The program as serialized StableHLO.

    ``jax.export.deserialize(data).call(*arrays)`` runs it, without ftorch (and within ``jax.enable_x64(True)``, if arguments
    are of 64 bits); sizes that vary in the program vary there. Parameters are part of it; updates of buffers are not. A
    program that draws random numbers (dropout in training, ``torch.rand``) has one more argument, ``seed=numpy.uint32(0)``;
    the same seed gives the same numbers, which are not the generator's.

    Args:
        platforms: ``["cpu", "cuda", "tpu"]`` or some of them; the default is the current one.

    Raises:
        RuntimeError: an op has no form there, or the sizes cannot be symbolic.

    >>> import ftorch as torch, jax, numpy
    >>> program = torch.export.export(torch.nn.ReLU(), (torch.ones(2),))
    >>> jax.export.deserialize(program.to_stablehlo()).call(numpy.float32([-1, 2]))
    Array([0., 2.], dtype=float32)
    """
    function, args, kwargs = jax_function(program)
    exported = jax.export.export(jax.jit(function), platforms=platforms)(*args, **kwargs)
    return bytes(exported.serialize())


def save_stablehlo(program, f, *, platforms=None) -> None:
    """Writes `to_stablehlo` to a path or binary file."""
    data = to_stablehlo(program, platforms=platforms)
    if isinstance(f, (str, os.PathLike)):
        with open(f, "wb") as file:
            file.write(data)
    else:
        f.write(data)


__all__ = ["jax_function", "save_stablehlo", "to_stablehlo"]
