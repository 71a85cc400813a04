"""optax as optimizers, and optimizers as optax's transformations."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import ftorch as torch
from ftorch.optim.optax import OptaxOptimizer, as_gradient_transformation


def _trained(make, steps=4):
    p = torch.nn.Parameter(torch.tensor([[1.0, -2.0], [0.5, 3.0]]))
    optimizer = make([p])
    for _ in range(steps):
        optimizer.zero_grad()
        (p**3).sum().backward()
        optimizer.step()
    return p.detach().numpy()


def test_optax_as_an_optimizer():
    theirs = _trained(lambda params: OptaxOptimizer(params, optax.adam(0.1)))
    np.testing.assert_allclose(theirs, _trained(lambda p: torch.optim.Adam(p, lr=0.1)), rtol=1e-5)


@pytest.mark.parametrize("name", ["Adam", "AdamW", "SGD", "NAdam", "RMSprop", "Adafactor", "Muon"])
def test_an_optimizer_as_a_transformation(name):
    kind = getattr(torch.optim, name)
    transformation = as_gradient_transformation(kind, lr=0.05)
    params = {"w": jnp.array([[1.0, -2.0], [0.5, 3.0]], jnp.float32)}
    state = transformation.init(params)
    for _ in range(4):
        updates, state = transformation.update({"w": 3 * params["w"] ** 2}, state, params)
        params = optax.apply_updates(params, updates)
    expected = _trained(lambda p: kind(p, lr=0.05))
    np.testing.assert_allclose(params["w"], expected, rtol=1e-4, atol=1e-5)


def test_optimizers_without_a_rule():
    with pytest.raises(TypeError, match="LBFGS"):
        as_gradient_transformation(torch.optim.LBFGS)
