"""Rows that are written into parts of larger arrays (caches of keys and values) in compiled functions."""

from __future__ import annotations

import jax
import numpy as np
import pytest
import torch as reference

import ftorch
from ftorch.eager.native.passes import row_updates

DTYPES = ["float32", "bfloat16", "int64", "bool", "complex64"]


@pytest.fixture
def written(monkeypatch):
    """Of how many writes the pass made one into the whole."""
    found, own = [], row_updates.written

    def noted(*given):
        results = own(*given)
        found.append(results is not None)
        return results

    monkeypatch.setattr(row_updates, "written", noted)
    return found


def _numbers(t, shape, dtype, seed=0):
    x = np.random.default_rng(seed).standard_normal(shape) * 3
    return t.tensor(x > 0 if dtype == "bool" else x).to(getattr(t, dtype))


def _as_numpy(x):
    return (x.float() if str(x.dtype).endswith("bfloat16") else x).numpy()


def _compare(function, shapes, dtype="float32", rounds=3):
    """The results of a function of a cache, a place and numbers, and the cache after it, call by call."""
    found = []
    for t in (reference, ftorch):
        call = ftorch.compile(function) if t is ftorch else function
        cache, new = (_numbers(t, s, dtype, i) for i, s in enumerate(shapes))
        own = []
        with t.no_grad():
            for place in range(rounds):
                result = call(cache, t.tensor([place + 1]), new)
                own += [_as_numpy(result), _as_numpy(cache.clone())]
        found.append(own)
    for theirs, mine in zip(*found):
        bound = 3e-2 if dtype == "bfloat16" else 1e-4  # programs round sums of products once
        np.testing.assert_allclose(mine, theirs, bound, bound * max(1, np.abs(theirs).max()))


@pytest.mark.parametrize("dtype", DTYPES)
def test_keys_and_values_of_layers(dtype, written):
    def step(cache, place, x):
        for layer in range(cache.shape[0]):
            cache[layer, 0].index_copy_(2, place, x)
            cache[layer, 1].index_copy_(2, place, x.flip(1))
            x = x + (cache[layer, 0] * cache[layer, 1]).sum(2, keepdim=True).to(x.dtype)
        return x

    _compare(step, [(3, 2, 1, 4, 9, 5), (1, 4, 1, 5)], dtype)
    assert written.count(True) == 6


@pytest.mark.parametrize("dim, shape, new", [(0, (4, 3, 5), (1, 5)), (1, (4, 3, 5), (3, 1)), (0, (3, 6), (1,))])
def test_other_dimensions(dim, shape, new, written):
    def step(cache, place, x):
        cache[2].index_copy_(dim, place, x)
        return cache.sum(0)

    _compare(step, [shape, new], rounds=2)
    assert any(written)


def test_parts_of_several_rows_and_what_is_read_before():
    def step(cache, place, x):
        before = cache[1:3].clone()
        cache[1:3].index_copy_(1, place, x)
        inside = cache[1:3] * 2
        cache[0:2].index_copy_(1, place + 1, x + 1)
        return before + inside + cache[0:2]

    _compare(step, [(4, 8, 3), (2, 1, 3)])


def test_layers_whose_number_changes():
    shape = (5, 2, 6, 3)
    results = []
    for t in (reference, ftorch):
        def step(cache, layer, place, x):
            cache[layer, 1].index_copy_(0, place, x)
            return cache[layer].sum()

        call = ftorch.compile(step, dynamic=True) if t is ftorch else step
        cache, own = _numbers(t, shape, "float32"), []
        with t.no_grad():
            for layer in (0, 3, 4, 1, -1):
                own.append(call(cache, layer, t.tensor([2]), t.ones(1, 3) * layer).item())
        results.append([*own, cache.numpy().copy()])
    for theirs, mine in zip(*results):
        np.testing.assert_allclose(mine, theirs, 1e-5, 1e-5)


def test_what_the_caller_keeps_stays():
    """A whole that somebody else holds is no memory to write to."""
    cache = ftorch.zeros(2, 6, 3)
    held = cache.numpy()
    copy = cache.clone()

    @ftorch.compile
    def step(cache, place, x):
        other = cache + 0
        other[1].index_copy_(0, place, x)
        return other

    for _ in range(3):
        found = step(cache, ftorch.tensor([2]), ftorch.ones(1, 3))
        assert found.sum() == 3 and not held.any() and not copy.any()


@pytest.mark.parametrize("place", [-1, 6, 1 << 20])
def test_nothing_is_written_outside(place, written):
    @ftorch.compile
    def step(cache, place, x):
        cache[1].index_copy_(0, place, x)
        return cache.sum()

    @ftorch.compile
    def computed(cache, place, before, x):  # nobody looks at an index that the program makes of several
        cache[1].index_copy_(0, place + before, x)
        return cache.sum()

    cache, other = ftorch.zeros(3, 6, 2), ftorch.zeros(3, 6, 2)
    assert step(cache, ftorch.tensor([1]), ftorch.ones(1, 2)).item() == 2 and any(written)
    with pytest.raises(IndexError, match="out of bounds"):
        step(cache, ftorch.tensor([place]), ftorch.ones(1, 2) * 5)
    assert cache.sum().item() == 2
    written.clear()
    assert computed(other, ftorch.tensor([1]), ftorch.tensor([0]), ftorch.ones(1, 2)).item() == 2 and any(written)
    assert computed(other, ftorch.tensor([place]), ftorch.tensor([0]), ftorch.ones(1, 2) * 5).item() == 2


def test_no_copy_of_the_whole():
    """The program's temporary memory does not grow with the cache."""
    from ftorch.eager.native.passes.rewrite import rewritten

    def step(cache, place, x):
        for layer in range(cache.shape[0]):
            part = jax.lax.dynamic_slice(cache, (layer, 0, 0), (1, *cache.shape[1:])).reshape(cache.shape[1:])
            part = part.at[place].set(x, mode="promise_in_bounds")
            cache = jax.lax.dynamic_update_slice(cache, part.reshape(1, *part.shape), (layer, 0, 0))
            x = x + jax.lax.dynamic_slice(cache, (layer, 0, 0), (1, *cache.shape[1:])).sum((0, 1), keepdims=False)[None]
        return cache, x

    given = np.zeros((6, 4096, 16), np.float32), np.array([3]), np.ones((1, 16), np.float32)
    compiled = jax.jit(rewritten(step, None), donate_argnums=0).lower(*given).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < given[0].nbytes / 2


def test_attention_reads_cached_keys_where_they_lie():
    """No product's operand is a transpose of the keys."""
    from ftorch.eager.kernels.nn.attention import _products

    given = np.ones((1, 12, 1, 64), np.float32), np.random.default_rng(0).standard_normal((1, 12, 640, 64)).astype(np.float32)
    steps = jax.make_jaxpr(lambda q, k: _products(q, k, np.float32))(*given).jaxpr.eqns
    assert [e.primitive.name for e in steps] == ["dot_general"]
    np.testing.assert_allclose(_products(*given, np.float32), np.matmul(given[0], given[1].swapaxes(-1, -2)), 1e-4, 1e-4)
