"""How a backend's kernel runs: as Python, or called back from the compiled program.

A kernel made of ftorch calls is recorded while it runs. One that looks at values (NumPy, a C library)
cannot be part of a compiled program; where the op has a fake kernel, which says what its results look
like, the program calls it back instead.
"""

from __future__ import annotations

import contextlib

import jax
import numpy as np

from ..eager.autograd.derivative_kernels import Derived
from ..eager.call import op as _op
from ..eager.core.jax_scope import scope
from ..eager.core.registry import OPTIONAL_TENSOR
from ..eager.native.contexts import called_back
from ..eager.runtime import capture_trace
from ..eager.tensor import TensorBase, count_write, from_array
from ..utils import _pytree as pytree

_ALIAS = (
    "{} (with implementation in {}): The output of this custom operator (1) must not also be an "
    "input to this custom operator and (2) may not alias any inputs to this custom operator or other "
    "returns. The most common way to trigger this error is if we have y = custom_op(x) and y and x "
    "are the same Tensor. Please instead return a clone of the offending output tensor(s) (e.g. "
    "return x.clone()) or refactor the custom operator to not return y."
)


def run(op, kernel, tensors, args, kwargs):
    """Runs a kernel; results are checked and writes counted as for a kernel of the engine."""
    if op.definition is None:
        return kernel.run(op._schema, args, kwargs)
    if _is_traced(tensors) and not op.is_mutable and "Meta" in op.kernels:
        if op.definition._fake is not None and not _is_traceable(op, kernel, tensors, args, kwargs):
            return _called_back(op, kernel, args, kwargs)
    for t in _written(op, args, kwargs):  # besides what the kernel's own writes count; also if it fails
        count_write(t)
    result = kernel.run(op._schema, args, kwargs)
    _check_aliases(op, tensors, result)
    return result


def _written(op, args, kwargs):
    values = [*args, *kwargs.values()]
    arguments = [a for a in op._schema.arguments if not a.is_keyword_only]
    arguments += [a for a in op._schema.arguments if a.is_keyword_only]
    found: list = []
    for argument, value in zip(arguments, values):
        if argument.type.alias is not None and argument.type.alias.is_write:
            found += [value] if isinstance(value, TensorBase) else (value or [])
    return found


def _check_aliases(op, tensors, result):
    seen = {id(t._ftorch_storage) for t in tensors}
    for t in pytree.tree_leaves(result):
        if isinstance(t, TensorBase):
            if id(t._ftorch_storage) in seen:
                raise RuntimeError(_ALIAS.format(op._opname, op.definition._module))
            seen.add(id(t._ftorch_storage))


# --- kernels that look at values -----------------------------------------------------


def _is_traced(tensors):
    return capture_trace.capturing() is not None or any(
        isinstance(t._ftorch_storage.array, jax.core.Tracer) for t in tensors
    )


def _with_arrays(args, kwargs, arrays):
    """The arguments with tensors made of arrays, in order."""
    given = iter(arrays)
    return pytree.tree_map(
        lambda v: from_array(next(given)) if isinstance(v, TensorBase) else v, (args, kwargs)
    )


def _key(kernel, args, kwargs):
    leaves, spec = pytree.tree_flatten((args, kwargs))
    return (kernel, str(spec), *[
        v._ftorch_geometry if isinstance(v, TensorBase) else repr(v) for v in leaves
    ])


def _is_traceable(op, kernel, tensors, args, kwargs):
    """Whether the kernel runs on tensors without values; found out by trying, once for each shape."""
    key = _key(kernel, args, kwargs)
    found = op.traceable.get(key)
    if found is None:

        def abstract(*arrays):
            given, named = _with_arrays(args, kwargs, arrays)
            result = kernel.run(op._schema, given, named)
            return [t.jax() for t in pytree.tree_leaves(result) if isinstance(t, TensorBase)]

        capture = capture_trace.capturing()
        trial = contextlib.nullcontext() if capture is None else capture.watch.trial()
        with trial as effects:
            try:
                with scope():
                    jax.eval_shape(abstract, *map(_shape, tensors))
                found = True
            except Exception:  # whatever a library says of what is no array
                found = False
        if effects:
            capture.end(f"the kernel of {op.name()} changes {effects[0]}")
            return True
        op.traceable[key] = found
    return found


def _shape(t):
    return jax.ShapeDtypeStruct(tuple(t._ftorch_geometry.shape), t._ftorch_geometry.dtype.numpy)


def _called_back(op, kernel, args, kwargs):
    key = ("called back", *_key(kernel, args, kwargs))
    made = op.traceable.get(key)
    if made is None:
        made = op.traceable[key] = _make_callback(op, kernel, args, kwargs)
    program, spec = made
    tensors = [v for v in pytree.tree_leaves((args, kwargs)) if isinstance(v, TensorBase)]
    results = _op.call(program, tuple(tensors))
    return pytree.tree_unflatten(
        list(results) if isinstance(results, tuple) else [results], spec
    )


def _make_callback(op, kernel, args, kwargs):
    """(the op that calls the kernel back, the structure of its results)."""
    count = sum(isinstance(v, TensorBase) for v in pytree.tree_leaves((args, kwargs)))
    meta = pytree.tree_map(
        lambda v: v.detach().to("meta") if isinstance(v, TensorBase) else v, (args, kwargs)
    )
    flat, spec = pytree.tree_flatten(op.kernels["Meta"].run(op._schema, *meta))
    shapes = [_shape(t) for t in flat]
    rest = pytree.tree_map(lambda v: _HOLE if isinstance(v, TensorBase) else v, (args, kwargs))

    def compute(results, *arrays):
        given = iter(arrays)
        filled = pytree.tree_map(
            lambda v: from_array(np.array(next(given))) if v is _HOLE else v, rest
        )
        result = kernel.run(op._schema, *filled)
        results += [np.asarray(t.numpy(force=True)) for t in pytree.tree_leaves(result)]

    def host(*arrays):
        return called_back(compute, *arrays)

    def call(*arrays):
        results = jax.pure_callback(host, tuple(shapes), *arrays)
        return results if len(results) > 1 else results[0]

    definition = Derived(str(op), call, [OPTIONAL_TENSOR] * count)
    definition.calls_back = True
    return _op.Op(definition), spec


class _Hole:
    """Stands for a tensor."""


_HOLE = _Hole()
