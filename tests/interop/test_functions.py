"""JAX functions on tensors, against the same functions on arrays."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ftorch as torch
from ftorch.interop import on_tensors


def _loss(x, weights, *, scale=2.0):
    y = jnp.tanh(x @ weights["w"]) * scale + weights["b"]
    return {"y": y, "rest": (y.sum(), x.shape[0])}


def _weights():
    rng = np.random.default_rng(0)
    return {"w": rng.normal(size=(3, 2)).astype(np.float32), "b": rng.normal(size=2).astype(np.float32)}


def test_values_and_gradients():
    arrays, x = _weights(), np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
    tensors = {k: torch.tensor(v, requires_grad=True) for k, v in arrays.items()}
    f = on_tensors(_loss)
    out = f(torch.tensor(x), tensors)
    expected = _loss(x, arrays)
    np.testing.assert_allclose(out["y"].detach().numpy(), expected["y"], rtol=1e-6)
    assert out["rest"][1].item() == 4
    out["rest"][0].backward()
    gradients = jax.grad(lambda w: _loss(x, w)["rest"][0])(arrays)
    for name, t in tensors.items():
        np.testing.assert_allclose(t.grad.numpy(), gradients[name], rtol=1e-5)
    for rows in (5, 6, 7):  # new sizes, and another structure's place for the same call
        assert f(torch.ones(rows, 3), tensors)["y"].shape == (rows, 2)
        assert f(torch.ones(rows, 3), tensors)["rest"][1].item() == rows


def test_constants_are_told_apart():
    f = on_tensors(lambda x, how, n=1: jnp.roll(x, n) if how == "roll" else x * n)
    x = torch.arange(4.0)
    assert f(x, "roll").tolist() == [3, 0, 1, 2]
    assert f(x, "roll", n=2).tolist() == [2, 3, 0, 1]
    assert f(x, "mul", n=2).tolist() == [0, 2, 4, 6]
    assert f(x, "mul", n=2.5).tolist() == [0, 2.5, 5, 7.5]
    assert f(x, "mul", n=True).tolist() == [0, 1, 2, 3]
    assert f(x, "mul", n=1).dtype is torch.float32
    assert [np.signbit(f(-x - 1, "mul", n=zero)[0].item()) for zero in (0.0, -0.0)] == [True, False]
    assert on_tensors(jnp.add)(x, np.float32([1, 2, 3, 4])).tolist() == [1, 3, 5, 7]
    with pytest.raises(TypeError, match="unhashable"):
        f(x, bytearray(b"roll"))


@pytest.mark.parametrize("x64", [False, True])
def test_the_callers_settings_hold(x64):
    seen = []

    def f(x):
        seen.append((jax.config.jax_enable_x64, jax.config.jax_default_matmul_precision))
        return x * jnp.ones(3), jnp.arange(3)

    call = on_tensors(f)
    with jax.enable_x64(x64), jax.default_matmul_precision("bfloat16"):
        y, n = call(torch.ones(3))
    assert (y.dtype, n.dtype) == ((torch.float64, torch.int64) if x64 else (torch.float32, torch.int32))
    assert set(seen) == {(x64, "bfloat16")}
    with jax.enable_x64(not x64):
        assert call(torch.ones(3))[0].dtype is (torch.float32 if x64 else torch.float64)


def test_transforms_and_programs():
    f = on_tensors(lambda x, y: jnp.sin(x) * y.sum())
    x, y = torch.linspace(0, 1, 6).reshape(2, 3), torch.arange(6.0).reshape(2, 3)
    expected = torch.stack([torch.sin(a) * b.sum() for a, b in zip(x, y)])
    torch.testing.assert_close(torch.vmap(f)(x, y), expected)
    torch.testing.assert_close(torch.func.jacrev(lambda x: f(x, y[0]))(x[0]), torch.diag(x[0].cos() * y[0].sum()))
    torch.testing.assert_close(torch.func.jvp(lambda x: f(x, y[0]), (x[0],), (y[1],))[1], x[0].cos() * y[0].sum() * y[1])
    torch.testing.assert_close(torch.func.hessian(lambda x: f(x, y[0]).sum())(x[0]), torch.diag(-x[0].sin() * y[0].sum()))
    compiled = torch.compile(lambda x, y: f(x, y) + 1, fullgraph=True)
    for _ in range(3):
        torch.testing.assert_close(compiled(x[0], y[0]), expected[0] + 1)
    np.testing.assert_allclose(jax.jit(lambda a: f(torch.from_jax(a), y[0]).jax())(x[0].jax()), expected[0].numpy(), rtol=1e-6)


def test_random_keys_go_in_and_out():
    def f(key, x):
        key, own = jax.random.split(key)
        return key, x + jax.random.normal(own, x.shape)

    key = jax.random.key(3)
    following, y = on_tensors(f)(key, torch.zeros(4))
    expected_key, expected = f(key, jnp.zeros(4))
    np.testing.assert_array_equal(y.numpy(), expected)
    np.testing.assert_array_equal(jax.random.key_data(following), jax.random.key_data(expected_key))


def test_errors_are_the_functions():
    with pytest.raises(ValueError, match="dimension_numbers must be specified"):
        on_tensors(lambda x, y: jax.lax.dot(x, y))(torch.ones(3), torch.ones(4))
