"""Primitives whose meaning is written in JAX, for which the package has kernels (`ftorch.eager.native`)."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir


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
    whole = lambda *operands, **how: jax.tree.leaves(function(*operands, **how))  # noqa: E731
    own.meaning = whole  # type: ignore[attr-defined]  (for those who translate traces)
    own.def_impl(lambda *operands, **how: jax.jit(functools.partial(whole, **how))(*operands))

    @own.def_abstract_eval
    def abstract(*operands, **how):
        found = shapes(*operands) if shapes else jax.eval_shape(functools.partial(whole, **how), *operands)
        return [jax.core.ShapedArray(getattr(s, "shape", s), getattr(s, "dtype", np.float32)) for s in found]

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

    def jvp(operands, tangents, **how):
        tangents = [ad.instantiate_zeros(t) for t in tangents]
        results, slopes = jax.jvp(functools.partial(whole, **how), tuple(operands), tuple(tangents))
        return results, [
            ad.Zero.from_primal_value(r) if s.dtype == jax.dtypes.float0 else s
            for r, s in zip(results, slopes, strict=True)
        ]

    batching.primitive_batchers[own] = batched
    ad.primitive_jvps[own] = jvp
    mlir.register_lowering(own, mlir.lower_fun(whole, multiple_results=True))
    return own
