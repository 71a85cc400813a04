"""The passes over traced programs find what they rewrite, in the version of JAX that is installed.

They know operations by the names of JAX's primitives. A primitive that is renamed breaks nothing: programs only
become slow. These tests fail then.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from ftorch.eager import native
from ftorch.eager.core.jaxprs import PLAIN_CALLS
from ftorch.eager.native.passes import (
    epilogue_fusion,
    multi_output_fusion,
    rewrite,
    scans_and_sorts,
)
from ftorch.eager.native.passes.views import Origins

M = np.ones((64, 64), np.float32)
WIDE = np.ones((256, 1024), np.float32)
I32 = np.arange(64, dtype=np.int32)
IMAGES, FILTERS = np.ones((2, 8, 16, 16), np.float32), np.ones((8, 8, 3, 3), np.float32)


def _names(jaxpr, found):
    for eqn in jaxpr.eqns:
        found.add(eqn.primitive.name)
        for value in eqn.params.values():
            for inner in value if isinstance(value, (tuple, list)) else (value,):
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    _names(inner, found)
    return found


def _everything(x, i):
    """Uses of every operation of JAX that the passes know, as programs of tensors contain them."""
    y = jnp.where(x > 0, x, x * 2) + jnp.maximum(x, 0) - jnp.minimum(x, 1) / (jnp.abs(x) + 1)
    y = jnp.sqrt(y) + jnp.sign(-y) + lax.square(y) + jnp.where(~(x <= 0), y, 0) + lax.rsqrt(y) + lax.pow(x, y)
    y = y + lax.exp(x) + lax.log(x) + lax.tanh(x) + lax.logistic(x) + lax.integer_pow(x, 3)
    y = (
        lax.rev(y.T.reshape(32, 128).reshape(64, 64), (0,)) @ y
        + lax.slice(y, (0, 0), (64, 64))
        + lax.squeeze(y[None], (0,))
    )
    for scan in (lax.cumsum, lax.cumprod, lax.cummax, lax.cummin, lax.cumlogsumexp):
        y = y + scan(x, axis=1)
    y = y.at[i].set(x[i]).at[i].add(1.0).at[i].multiply(2.0).at[i].min(3.0).at[i].max(4.0)
    y = lax.optimization_barrier(jax.jit(jnp.sin)(y)) + jnp.sort(x) + lax.top_k(x, 2)[0].sum() + y.sum(1)
    return y + lax.broadcast_in_dim(i.astype(np.float32), (64, 64), (1,)) + lax.iota(np.float32, 64)


def _known():
    """The primitives of JAX that the passes look for."""
    names = {*rewrite._KERNELS, *rewrite._TURNED, *scans_and_sorts._SCANS, *epilogue_fusion._BINARY, *Origins.NAMES}
    names |= {*multi_output_fusion._CODES, "optimization_barrier", "select_n", "le", "not", "broadcast_in_dim", "iota"}
    return {name for name in names if not name.startswith("ftorch_")}


def test_names_are_those_of_jax():
    found = _names(jax.make_jaxpr(_everything)(M, I32).jaxpr, set())
    # Sums of gradients; convolutions.
    found |= _names(jax.make_jaxpr(jax.grad(lambda x: (x @ x).sum()))(M).jaxpr, set())
    found |= _names(jax.make_jaxpr(lambda a, b: lax.conv(a, b, (1, 1), "SAME"))(IMAGES, FILTERS).jaxpr, set())
    assert _known() <= found, _known() - found
    assert found & set(PLAIN_CALLS)  # what a jitted function's call is named; older names are kept beside


@pytest.mark.skipif(not native.available, reason="installed without a C++ compiler")
@pytest.mark.parametrize("target, function, operands", [
    ("ftorch_multiply", lambda a, b: a @ b, (M, M)),
    ("ftorch_multiply", lambda a, b: jnp.einsum("ij,jk->ik", a, b.T), (M, M)),
    ("ftorch_multiply", jax.grad(lambda a, b: (a @ b).sum()), (M, M)),
    ("ftorch_convolve", lambda a, b: lax.conv(a, b, (1, 1), "SAME"), (IMAGES, FILTERS)),
    ("ftorch_weight_gradient", jax.grad(lambda b, a: lax.conv(a, b, (1, 1), "SAME").sum()), (FILTERS, IMAGES)),
    ("ftorch_scan", lambda a: lax.cumsum(a, axis=1), (WIDE,)),
    ("ftorch_scan", lambda a: lax.cumlogsumexp(a, axis=1), (WIDE,)),
    ("ftorch_take", lambda a, i: a[i], (WIDE, I32)),
    ("ftorch_add", lambda a, i: a.at[i].add(1.0), (WIDE, I32)),
    ("ftorch_sum", lambda a: a.sum(1), (WIDE,)),
])
def test_kernels_take_the_place_of(target, function, operands):
    assert f"target_name={target}" in str(jax.make_jaxpr(rewrite.rewritten(function))(*operands))
