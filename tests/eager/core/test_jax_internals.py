"""What is private of JAX does what the public functions do."""

from __future__ import annotations

import gc

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ftorch.eager.core import jax_internals, jax_scope


def _kernel(x, n):
    y = jnp.where(x > 0, x * n, np.float32(2))
    return jax.lax.fori_loop(0, 3, lambda i, z: jnp.sin(z) + y, y), jnp.asarray([1.0, 2.0], np.float32) + y[:2, :2]


@pytest.mark.parametrize("function", [_kernel, lambda x, n: x + n, lambda x, n: (x,), lambda x, n: [x * 2, n]])
def test_a_trace_is_that_of_make_jaxpr(function):
    structs = [jax.ShapeDtypeStruct((7, 5), np.float32), jax.ShapeDtypeStruct((), np.int64)]
    with jax_scope.scope():
        closed, is_single = jax_internals.traced(function, structs)
        expected, shape = jax.make_jaxpr(function, return_shape=True)(*structs)
    assert str(closed) == str(expected) and is_single is (not isinstance(shape, (tuple, list)))
    assert [v.aval for v in closed.jaxpr.outvars] == [v.aval for v in expected.jaxpr.outvars]
    assert len(closed.consts) == len(expected.consts) and all(map(np.array_equal, closed.consts, expected.consts))


def test_an_error_leaves_no_trace():
    def function(x):
        raise ValueError("of a kernel")

    with pytest.raises(ValueError, match="of a kernel"):
        jax_internals.traced(function, [jax.ShapeDtypeStruct((2,), np.float32)])
    assert jax_internals.is_top_level()


def test_traces_at_many_sizes_leave_less_than_make_jaxprs():
    if jax_internals._tracer() is None:
        pytest.skip("this version of JAX traces otherwise")

    def left(trace, first):
        gc.collect()
        before = len(gc.get_objects())
        for n in range(first, first + 50):
            trace(lambda x: jax.lax.sin(x), jax.ShapeDtypeStruct((n,), np.float32))
        gc.collect()
        return len(gc.get_objects()) - before

    def ours(function, struct):
        jax_internals.traced(function, [struct])

    def theirs(function, struct):
        jax.make_jaxpr(function)(struct)

    assert 2 * left(ours, 70_001) < left(theirs, 80_001)
