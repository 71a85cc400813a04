"""ftorch inside JAX's transformations, and JAX's functions on tensors."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ftorch as torch
import ftorch.nn.functional as F
from tests.oracle import assert_same

A = np.arange(1.0, 5.0).reshape(2, 2)


def _loss(a):
    """A function of arrays that uses tensors inside."""
    x = torch.from_jax(a)
    y = x.clone()
    y[0].mul_(2)
    return (F.softmax(y @ x, -1) * x.sin()).sum().jax()


def _reference(a):
    y = a.at[0].mul(2)
    return (jax.nn.softmax(y @ a, -1) * jnp.sin(a)).sum()


TRANSFORMS = {
    "call": lambda f: f, "jit": jax.jit, "grad": jax.grad, "hessian": jax.hessian,
    "jit of grad": lambda f: jax.jit(jax.grad(f)),
    "vmap": lambda f: lambda a: jax.vmap(f)(jnp.stack([a, -a])),
    "jit of vmap of grad": lambda f: lambda a: jax.jit(jax.vmap(jax.grad(f)))(jnp.stack([a, -a])),
    "jvp": lambda f: lambda a: jax.jvp(f, (a,), (a,))[1],
    "checkpoint": lambda f: jax.grad(jax.checkpoint(f)),
}


@pytest.fixture
def wide():
    """The caller's own JAX has 64-bit types."""
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("x64", [False, True])
def test_inside_jax(name, x64):
    """JAX transforms a function that computes with tensors as one that computes with arrays."""
    transform, tolerance = TRANSFORMS[name], 1e-9 if x64 else 2e-6
    with jax.enable_x64(x64):
        mine, theirs = transform(_loss)(jnp.asarray(A)), transform(_reference)(jnp.asarray(A))
        assert mine.dtype == theirs.dtype
    np.testing.assert_allclose(mine, theirs, tolerance, tolerance)


@pytest.mark.usefixtures("wide")
def test_pytree():
    """Tensors go in and come out of JAX's transformations."""
    x = torch.tensor(A)
    assert_same(jax.jit(lambda x: {"y": x.sin()})(x)["y"], x.sin())
    assert_same(jax.vmap(lambda x, y: x * y, (0, None), 1)(x, x[0]), (x * x[0]).T)
    assert_same(jax.grad(lambda d: (d["a"] ** 2).sum().jax())({"a": x})["a"], 2 * x)
    assert_same(jax.jacfwd(lambda x: x.sin())(x[0]), torch.diag(x[0].cos()))
    carry, ys = jax.lax.scan(lambda c, v: (c + v, c * v), torch.zeros(2, dtype=torch.float64), x)
    assert_same(carry, x.sum(0))
    assert jax.eval_shape(lambda x: x.sum(0), x).shape == (2,)
    leaves, tree = jax.tree_util.tree_flatten([x, {"b": torch.nn.Parameter(x)}])
    assert isinstance(leaves[0], jax.Array)
    assert_same(jax.tree_util.tree_unflatten(tree, leaves)[0], x)


def test_tape_and_transforms_inside():
    """``backward``, ``vmap`` and ``jvp`` work on tensors around tracers."""
    x = torch.tensor(A)

    def backward(x):
        y = x.clone().requires_grad_()
        (y**2).sum().backward()
        return y.grad

    assert_same(jax.jit(backward)(x), 2 * x)
    cubes = torch.vmap(torch.func.grad(lambda x: (x**3).sum()))
    assert_same(jax.jit(cubes)(x), 3 * x**2)
    assert_same(jax.jit(lambda x: torch.func.jvp(torch.sin, (x,), (x,))[1])(x), x.cos() * x)


@pytest.mark.usefixtures("wide")
def test_module():
    """``jax.grad`` of a module by ``functional_call``."""
    module = torch.nn.Linear(2, 1).double()
    x = torch.tensor(A)
    state = {name: p.detach() for name, p in module.named_parameters()}
    gradients = jax.grad(
        lambda state: torch.func.functional_call(module, state, (x,)).square().sum().jax()
    )(state)
    module(x).square().sum().backward()
    for name, p in module.named_parameters():
        assert_same(gradients[name], p.grad)


def test_values_are_not_known():
    """Looking at a traced value raises an error that says so."""
    for look in (bool, float, int, lambda x: x.item(), lambda x: x.numpy(), lambda x: x.tolist()):
        with pytest.raises(RuntimeError, match="not known"):
            jax.jit(lambda x, look=look: (look(x.sum()), x)[1])(torch.ones(2))


@pytest.mark.usefixtures("wide")
def test_jax_numpy():
    """Functions of ``jax.numpy`` take tensors, and tensors take arrays."""
    x = torch.tensor(A)
    np.testing.assert_allclose(jnp.dot(x, x), A @ A)
    np.testing.assert_allclose(jnp.where(x > 2, x, 0), np.where(A > 2, A, 0))
    np.testing.assert_allclose(np.asarray(x + jnp.ones(2)), A + 1)
