"""Random ops in StableHLO: numbers that follow from a seed, which is one more argument of the program.

A program of arrays has no generator whose state it could advance. Each op's key is the seed's, folded
with the op's position, and in a loop with the number of the step; so the numbers have the op's
distribution, but are not those of the generator.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from .._ops import own_name

RANDOM: dict[str, Any] = {}


def _random(names: str):
    """Declares the form of functions that draw, by their names: they take a key, the node, arrays."""

    def register(function):
        for name in names.split():
            RANDOM[name] = function
        return function

    return register


def form_of(target):
    """The form of what a node calls, if it draws random numbers."""
    return RANDOM.get(own_name(target) or getattr(target, "__name__", ""))


class Keys:
    """Gives each op a key.

    Args:
        key: of the seed; None where nothing is drawn.
    """

    def __init__(self, key=None):
        self.key, self.count = key, 0

    def next(self):
        """The next op's key."""
        self.count += 1
        return None if self.key is None else jax.random.fold_in(self.key, self.count)

    def of_step(self, key, step):
        """The keys of a step of a loop, whose key `next` gave."""
        return Keys(None if key is None else jax.random.fold_in(key, step))


def _dtype(node):
    return node.meta["val"].dtype.numpy


def _float(dtype):
    """The dtype in which numbers of a dtype are drawn."""
    return dtype if jnp.issubdtype(dtype, jnp.floating) else jnp.float32


def _uniform(key, shape, dtype, low=0.0, high=1.0):
    drawn = jax.random.uniform(key, shape, _float(dtype))
    return (drawn * (high - low) + low).astype(dtype)


def _normal(key, shape, dtype):
    return jax.random.normal(key, shape, _float(dtype)).astype(dtype)


@_random("_new")
def _new(key, node, name, shape, sampler, args, **_):
    dtype, shape = _dtype(node), tuple(shape)
    if name == "rand":
        return _uniform(key, shape, dtype, *args)
    if name == "randn":
        return _normal(key, shape, dtype)
    if name == "normal":
        return _normal(key, shape, dtype) * args[1] + args[0]
    if name == "randint":
        return jax.random.randint(key, shape, args[0], args[1], jnp.int64).astype(dtype)
    if name == "randperm":
        return jax.random.permutation(key, shape[0]).astype(dtype)
    raise RuntimeError(f"torch.{name} has no form in StableHLO")


@_random("rand")
def _rand(key, node, size, **_):
    return _uniform(key, tuple(size), _dtype(node))


@_random("randn")
def _randn(key, node, size, **_):
    return _normal(key, tuple(size), _dtype(node))


@_random("randint")
def _randint(key, node, *bounds_and_size, **_):
    *bounds, size = bounds_and_size
    low, high = (0, *bounds)[-2:]
    return jax.random.randint(key, tuple(size), low, high, jnp.int64).astype(_dtype(node))


@_random("randperm")
def _randperm(key, node, n, **_):
    return jax.random.permutation(key, n).astype(_dtype(node))


@_random("rand_like")
def _rand_like(key, node, x, **_):
    return _uniform(key, x.shape, _dtype(node))


@_random("randn_like")
def _randn_like(key, node, x, **_):
    return _normal(key, x.shape, _dtype(node))


@_random("randint_like")
def _randint_like(key, node, x, *bounds, **_):
    low, high = (0, *bounds)[-2:]
    return jax.random.randint(key, x.shape, low, high, jnp.int64).astype(_dtype(node))


@_random("bernoulli")
def _bernoulli(key, node, x, p=None, **_):
    return jax.random.bernoulli(key, x if p is None else p, x.shape).astype(_dtype(node))


@_random("_bernoulli_by_element")
def _bernoulli_by_element(key, node, p, generator=None):
    return _bernoulli(key, node, p)


@_random("_kept")
def _kept(key, node, x, p):
    return _bernoulli(key, node, x, 1 - p)


@_random("normal _normal_by_element")
def _normal_by_element(key, node, mean, std=1.0, size=None, **_):
    shape = jnp.broadcast_shapes(jnp.shape(mean), jnp.shape(std)) if size is None else tuple(size)
    return _normal(key, shape, _dtype(node)) * std + mean


@_random("multinomial")
def _multinomial(key, node, weights, count, replacement=False, **_):
    logits = jnp.log(weights)
    if replacement:
        drawn = jax.random.categorical(key, logits, shape=(count, *weights.shape[:-1]))
        return jnp.moveaxis(drawn, 0, -1).astype(_dtype(node))
    gumbel = jax.random.gumbel(key, weights.shape, weights.dtype)  # the largest, without replacement
    return jax.lax.top_k(logits + gumbel, count)[1].astype(_dtype(node))


@_random("poisson _poisson_by_element")
def _poisson(key, node, rates, generator=None):
    return jax.random.poisson(key, rates).astype(_dtype(node))


def draws(module) -> bool:
    """Whether a graph or one in it draws random numbers."""
    return any(
        node.op == "call_function" and form_of(node.target) is not None
        for m in module.modules() if hasattr(m, "graph") for node in m.graph.nodes
    )
