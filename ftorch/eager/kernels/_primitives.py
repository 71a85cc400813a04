"""Primitives whose meaning is written in JAX, for which the package has kernels (`ftorch.eager.native`); and tables, which
NumPy makes from sizes alone."""

from __future__ import annotations

import functools
import threading

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from ..core.jax_scope import scoped, scoped_trace
from ..native.contexts import repeatable


def primitive(name, function, shapes=None, mapped=None):
    """``function`` as a primitive that `ftorch.eager.native` finds in traces, for any transform.

    Args:
        function: of arrays whose first dimension is a batch, in JAX; what differentiates the primitive
            differentiates this.
        shapes: of the results, from the operands: of float32, or with a dtype (``ShapeDtypeStruct``); None: those
            that ``function`` gives.
        mapped: of (operands, axes), as a batching rule; None from it, or without it: operands that are not mapped are
            repeated.
    """
    own = Primitive(f"ftorch_{name}")
    own.multiple_results = True
    whole = scoped(lambda *operands, **how: jax.tree.leaves(function(*operands, **how)))
    own.meaning = whole  # type: ignore[attr-defined]  (for those who translate traces)
    own.def_impl(scoped_trace(lambda *operands, **how: jax.jit(functools.partial(whole, **how))(*operands)))

    @own.def_abstract_eval
    @scoped
    def abstract(*operands, **how):
        found = shapes(*operands) if shapes else jax.eval_shape(functools.partial(whole, **how), *operands)
        return [jax.core.ShapedArray(getattr(s, "shape", s), getattr(s, "dtype", np.float32)) for s in found]

    @scoped
    def batched(operands, axes, **how):
        found = mapped(operands, axes, **how) if mapped else None
        if found is not None:
            return found
        size = next(x.shape[a] for x, a in zip(operands, axes, strict=True) if a is not None)
        flat = []
        for x, axis in zip(operands, axes, strict=True):
            x = jnp.broadcast_to(x, (size, *x.shape)) if axis is None else jnp.moveaxis(x, axis, 0)
            flat.append(x.reshape(-1, *x.shape[2:]))
        results = own.bind(*flat, **how)
        return [r.reshape(size, -1, *r.shape[1:]) for r in results], [0] * len(results)

    @scoped
    def jvp(operands, tangents, **how):
        tangents = [ad.instantiate_zeros(t) for t in tangents]
        results, slopes = jax.jvp(functools.partial(whole, **how), tuple(operands), tuple(tangents))
        return results, [
            ad.Zero(jax.typeof(r).to_tangent_aval()) if s.dtype == jax.dtypes.float0 else s
            for r, s in zip(results, slopes, strict=True)
        ]

    batching.primitive_batchers[own] = batched
    ad.primitive_jvps[own] = jvp
    mlir.register_lowering(own, mlir.lower_fun(whole, multiple_results=True))
    return own


# --- tables of sizes ---------------------------------------------------------------------


class _Tracing(threading.local):
    for_all_sizes = False


_tracing = _Tracing()
_table = Primitive("ftorch_table")


@_table.def_abstract_eval
def _(*, function, sizes):
    made = function(*sizes)
    return jax.core.ShapedArray(made.shape, made.dtype)


_table_values = scoped(lambda *, function, sizes: jnp.asarray(function(*sizes)))
_table.def_impl(_table_values)
batching.primitive_batchers[_table] = lambda operands, axes, **how: (_table.bind(**how), None)
mlir.register_lowering(
    _table, mlir.lower_fun(_table_values, multiple_results=False)
)


class for_all_sizes:  # noqa: N801
    """Within, the calling thread traces kernels for many sizes: `table_of` leaves a step in the trace."""

    def __enter__(self):
        self._before, _tracing.for_all_sizes = _tracing.for_all_sizes, True

    @repeatable
    def __exit__(self, *_):
        _tracing.for_all_sizes = self._before


def table_of(function, *sizes):
    """``function(*sizes)``, a NumPy array; where a kernel is traced for many sizes, a traced value that is made anew for each.

    Args:
        function: hashable, the same object each time; what it does may depend on sizes in any way, its results' rank
            and dtype may not.
    """
    return _table.bind(function=function, sizes=sizes) if _tracing.for_all_sizes else function(*sizes)


def is_for_all_sizes():
    """Whether `table_of` gives traced values."""
    return _tracing.for_all_sizes
