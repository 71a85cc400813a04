"""JAX's transformations around functions that compute with ftorch inside, against the same in JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ftorch as torch
import ftorch.nn.functional as F


def _views(x):
    y = x.clone()
    y[0].zero_()
    return y.mul_(2).add_(x)


def _leaf(x):
    v = x.detach().requires_grad_()
    return torch.autograd.grad((v**2).sum(), v)[0]


PROGRAMS = {
    "views and writes": (_views, lambda x: 2 * x.at[0].set(0) + x),
    "softmax": (lambda x: x.softmax(-1), lambda x: jax.nn.softmax(x)),
    "layer norm": (lambda x: F.layer_norm(x, (4,)), lambda x: (x - x.mean(-1, keepdims=True))
                   / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)),
    "indexing": (lambda x: x[:, torch.tensor([0, 2])], lambda x: x[:, jnp.array([0, 2])]),
    "grad inside": (lambda x: torch.func.grad(lambda v: (v**3).sum())(x), lambda x: 3 * x**2),
    "vmap inside": (lambda x: torch.vmap(lambda v: v.sum() * v)(x),
                    lambda x: x.sum(-1, keepdims=True) * x),
    "jacrev inside": (lambda x: torch.func.jacrev(torch.sin)(x.flatten()),
                      lambda x: jnp.diag(jnp.cos(x.ravel()))),
    "jvp inside": (lambda x: torch.func.jvp(torch.sin, (x,), (x,))[1], lambda x: jnp.cos(x) * x),
    "autograd inside": (_leaf, lambda x: 2 * x),
}


def _squares(f):
    return lambda x: (f(x) ** 2).sum()


TRANSFORMS = {
    "jit": jax.jit,
    "grad": lambda f: jax.grad(_squares(f)),
    "vmap": lambda f: lambda x: jax.vmap(f)(jnp.stack([x, 2 * x])),
    "jit of grad": lambda f: jax.jit(jax.grad(_squares(f))),
    "vmap of grad": lambda f: lambda x: jax.vmap(jax.grad(_squares(f)))(jnp.stack([x, 2 * x])),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_transform(name, transform):
    mine, theirs = PROGRAMS[name]
    x = jnp.linspace(-1, 2, 12, dtype=jnp.float32).reshape(3, 4)
    make = TRANSFORMS[transform]
    result = make(lambda a: mine(torch.from_jax(a)).jax())(x)
    np.testing.assert_allclose(result, make(theirs)(x), rtol=2e-4, atol=2e-4)
