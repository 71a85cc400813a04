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
    "embedding": (lambda x: F.embedding(torch.tensor([0, 2, 2]), x), lambda x: x[jnp.array([0, 2, 2])]),
    "largest": (lambda x: x.topk(2)[0], lambda x: -jnp.sort(-x)[..., :2]),
    "rows in a part": (lambda x: torch.cat([x, x])[1:4].index_fill(0, torch.tensor([1]), 2.0),
                       lambda x: jnp.concatenate([x, x])[1:4].at[1].set(2.0)),
    "cross entropy": (lambda x: F.cross_entropy(x, torch.tensor([1, 2, 3]), reduction="none"),
                      lambda x: -jnp.take_along_axis(jax.nn.log_softmax(x), jnp.array([[1], [2], [3]]), 1)[:, 0]),
    "wide": (lambda x: (x.double().exp().sum(-1) + torch.arange(3)).float(), lambda x: jnp.exp(x).sum(-1) + jnp.arange(3)),
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


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_transform(name, transform, x64):
    """With and without 64-bit types in the caller's JAX."""
    mine, theirs = PROGRAMS[name]
    make = TRANSFORMS[transform]
    with jax.enable_x64(x64):
        x = jnp.linspace(-1, 2, 12, dtype=jnp.float32).reshape(3, 4)
        result = make(lambda a: mine(torch.from_jax(a)).jax())(x)
        np.testing.assert_allclose(result, make(theirs)(x), rtol=2e-4, atol=2e-4)
    assert result.dtype == np.float32
