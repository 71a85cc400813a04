"""Large products and convolutions run in the program's order, which bounds what is in memory at one time."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ftorch.eager import native
from ftorch.eager.native.passes.rewrite import rewritten

pytestmark = pytest.mark.skipif(not native.available, reason="the kernels were not built")

LAYERS = 12
OPTIONS = {"xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"}


def dense(x, weight):
    return jnp.tanh(x @ weight.T)  # its derivative reads its result alone


def convolved(x, weight):
    return jnp.tanh(jax.lax.conv_general_dilated(x, weight, (1, 1), "SAME"))


def temporary_bytes(layer, weights, x):
    """Bytes of temporaries of a training step of SGD."""

    def loss(weights, x):
        for weight in weights:
            x = layer(x, weight)
        return x.sum()

    def step(x, weights):
        return [w - 0.1 * g for w, g in zip(weights, jax.grad(loss)(weights, x), strict=True)]

    compiled = jax.jit(rewritten(step, donated=1), donate_argnums=(1,), compiler_options=OPTIONS).lower(x, weights).compile()
    return compiled.memory_analysis().temp_size_in_bytes


@pytest.mark.parametrize(
    "layer, weight, x", [(dense, (128, 128), (4096, 128)), (convolved, (16, 16, 3, 3), (8, 16, 64, 64))]
)
def test_gradients_of_activations_go_as_they_come(layer, weight, x):
    weights = [jnp.full(weight, 0.01, np.float32) for _ in range(LAYERS)]
    activation = 4 * np.prod(x)
    assert temporary_bytes(layer, weights, jnp.ones(x, np.float32)) < (LAYERS + 4) * activation


def test_what_is_computed_again_is_not_kept():
    def block(x, weight):
        for _ in range(4):
            x = dense(x, weight)
        return x

    weights = [jnp.full((128, 128), 0.01, np.float32) for _ in range(LAYERS)]
    x = jnp.ones((4096, 128), np.float32)
    kept = temporary_bytes(block, weights, x)
    assert kept > 4 * LAYERS * x.nbytes
    assert temporary_bytes(jax.checkpoint(block), weights, x) < (LAYERS + 10) * x.nbytes
