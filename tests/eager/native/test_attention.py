"""Attention's kernel: PyTorch is the oracle; transforms of it too."""

import jax
import numpy as np
import pytest
import torch

import ftorch
from ftorch.eager import native
from ftorch.eager.kernels.nn import attention as own
from ftorch.eager.native.passes.rewrite import rewritten

SHAPES = [  # batch, heads, queries, keys, width, values
    (2, 3, 17, 17, 16, 16), (1, 1, 1, 1, 1, 1), (1, 2, 5, 9, 7, 3), (1, 2, 9, 5, 7, 3),
    (2, 1, 300, 300, 32, 40), (1, 1, 70, 1200, 16, 16), (1, 1, 1200, 70, 16, 16),
]


def _arrays(shape):
    batch, heads, queries, keys, width, values = shape
    draw = np.random.default_rng(0).standard_normal
    sizes = (queries, width), (keys, width), (keys, values), (queries, values)
    return [2 * draw((batch, heads, *s)).astype(np.float32) for s in sizes]


def _run(lib, arrays, causal, turned):
    turn = (lambda t: t.transpose(1, 2)) if turned else (lambda t: t)
    *inputs, grad = [lib.tensor(a.transpose(0, 2, 1, 3) if turned else a) for a in arrays]
    for x in inputs:
        x.requires_grad_()
    y = lib.nn.functional.scaled_dot_product_attention(*map(turn, inputs), is_causal=causal)
    turn(y).backward(grad)
    return [t.detach().numpy() for t in (y, *(x.grad for x in inputs))]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_attention_and_its_gradient(shape, turned, causal):
    results = [_run(lib, _arrays(shape), causal, turned) for lib in (ftorch, torch)]
    for mine, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5 * abs(theirs).max())


MASKS = {  # of (batch, heads, queries, keys); rows without any key are among them
    "bool": lambda draw, b, h, n, m: draw((b, h, n, m)) > 0.4,
    "padding": lambda draw, b, h, n, m: draw((b, 1, 1, m)) > 0.4,
    "of queries": lambda draw, b, h, n, m: draw((n, 1)) > 0.3,
    "numbers": lambda draw, b, h, n, m: draw((n, m)).astype(np.float32),
    "for each batch": lambda draw, b, h, n, m: draw((b, 1, n, m)).astype(np.float32),
    "turned": lambda draw, b, h, n, m: draw((b, h, m, n)).astype(np.float32).swapaxes(2, 3),
    "with steps": lambda draw, b, h, n, m: (draw((b, h, n, 2 * m)) > 0.5)[..., ::2],
    "causal": lambda *_: None,
}
TOLERANCE = {"float32": 2e-5, "bfloat16": 2e-2, "float16": 3e-3}


def _masked(lib, arrays, mask, dtype, learns):
    def tensor(array):
        return lib.from_numpy(array) if array.base is not None else lib.tensor(array)  # as it lies

    *inputs, grad = [lib.tensor(a).to(getattr(lib, dtype)) for a in arrays]
    added = None if mask is None else tensor(mask)
    learned = [*inputs, added] if learns else inputs
    for x in learned:
        x.requires_grad_()
    attend = lib.nn.functional.scaled_dot_product_attention
    y = attend(*inputs, attn_mask=added, is_causal=mask is None, enable_gqa=inputs[0].shape[1] != inputs[1].shape[1])
    y.backward(grad)
    found = y, *(x.grad for x in learned)
    assert all(t.dtype == inputs[0].dtype for t in found[: len(inputs) + 1])
    return [t.detach().float().numpy() for t in found]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("heads, groups, queries, keys, width, values", [
    (4, 2, 5, 9, 7, 7), (2, 2, 70, 300, 16, 24), (6, 2, 1, 33, 64, 64), (1, 1, 300, 21, 8, 3)], ids=str)
def test_masks_and_heads_that_share_keys(heads, groups, queries, keys, width, values, kind, dtype):
    draw = np.random.default_rng(2)
    shapes = (heads, queries, width), (groups, keys, width), (groups, keys, values), (heads, queries, values)
    arrays = [draw.standard_normal((2, *s)).astype(np.float32) for s in shapes]
    mask = MASKS[kind](draw.random, 2, heads, queries, keys)
    learns = mask is not None and mask.dtype == np.float32
    results = [_masked(lib, arrays, mask, dtype, learns) for lib in (ftorch, torch)]
    for mine, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=TOLERANCE[dtype] * max(1, abs(theirs).max()))


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_rows_without_keys_and_what_is_no_number(dtype):
    draw = np.random.default_rng(3).standard_normal
    q, k, v = (draw((1, 2, 5, 8)).astype(np.float32) for _ in range(3))
    mask = np.tril(np.ones((5, 5), bool), -1)  # the first row has no key
    k[0, 1, 4] = np.nan  # which is left out everywhere, and is heard of nevertheless
    grad = np.ones_like(q)
    for lay in (mask, np.where(mask, 0, -np.inf).astype(np.float32)):
        mine, theirs = (_masked(lib, [q, k, v, grad], lay, dtype, False) for lib in (ftorch, torch))
        assert np.isnan(theirs[0]).any() and not theirs[0][0, 0, 0].any()
        np.testing.assert_allclose(mine[0], theirs[0], atol=TOLERANCE[dtype])
        np.testing.assert_allclose(mine[1][:, :1], theirs[1][:, :1], atol=4 * TOLERANCE[dtype])


@pytest.mark.parametrize("rank, shape", [
    (4, (5,)), (4, ()), (4, (3, 5, 5)), (4, (2, 1, 5, 5)), (4, (1, 1, 1, 5, 5)), (3, (1, 1, 5, 5)), (4, (5, 4)), (3, (5,))],
    ids=str)
def test_masks_of_other_shapes(rank, shape):
    def outcome(lib):
        x = lib.ones(1, 1, 5, 8)[(0,) * (4 - rank)]
        try:
            return tuple(lib.nn.functional.scaled_dot_product_attention(x, x, x, lib.zeros(shape)).shape)
        except (RuntimeError, IndexError) as error:
            return type(error), str(error)

    assert outcome(ftorch) == outcome(torch)


def test_a_mapped_mask():
    q, k, v = _operands((5,))
    mask = np.random.default_rng(4).random((5, 2, 1, 8, 8)) > 0.3
    how = {"scale": 0.5, "is_causal": False}
    for m, axis in ((mask, 0), (mask[0, :1], None), (mask[:, :1], 0)):
        axes = (0, 0, 0, axis)
        mapped = jax.vmap(lambda *x: own._attention.bind(*x, **how)[0], axes)
        expected = jax.vmap(lambda *x: own._attend(*x, **how), axes)(q, k, v, m)
        np.testing.assert_allclose(jax.jit(rewritten(mapped))(q, k, v, m), expected, rtol=1e-5, atol=1e-6)


def test_extreme_scores():
    q = np.array([[[[np.inf], [-1e30], [3e4], [0.0]]]], np.float32)
    k = np.array([[[[1.0], [-1.0], [0.5], [2.0]]]], np.float32)
    both = [
        lib.nn.functional.scaled_dot_product_attention(*map(lib.tensor, (q, k, k)), scale=1.0).numpy()
        for lib in (ftorch, torch)
    ]
    np.testing.assert_array_equal(*both)


def _operands(batch):
    draw = np.random.default_rng(1).standard_normal
    return [draw((*batch, 2, 3, 8, 4)).astype(np.float32) for _ in range(3)]


HOW = {"scale": 0.5, "is_causal": True}


@pytest.mark.parametrize("axes", [(0, 0, 0), (1, None, 2), (None, 0, None)], ids=str)
def test_mapped(axes):
    operands = [
        x[0] if a is None else np.moveaxis(x, 0, a) for x, a in zip(_operands((5,)), axes, strict=True)
    ]
    mapped = jax.vmap(lambda *x: own._attention.bind(*x, **HOW)[0], axes)
    expected = jax.vmap(lambda *x: own._attend(*x, **HOW), axes)(*operands)
    np.testing.assert_allclose(jax.jit(rewritten(mapped))(*operands), expected, rtol=1e-5, atol=1e-6)


def test_derivatives_of_the_gradient():
    operands = _operands(())
    grad = np.ones_like(operands[0])

    def slope(of):
        return lambda *x: sum(g.sum() for g in of(grad, *x, **HOW))

    mine = jax.grad(slope(own._attention_gradient.bind), (0, 1, 2))(*operands)
    expected = jax.grad(slope(own._attend_gradient), (0, 1, 2))(*operands)
    for a, b in zip(mine, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(not native.available, reason="built without a compiler")
def test_a_program_calls_the_kernel():
    operands = _operands(())
    text = jax.jit(rewritten(lambda *x: own._attention.bind(*x, **HOW)[0])).lower(*operands).as_text()
    assert "ftorch_attention" in text and "exponential" not in text
    q, k, v = (x.astype(jax.numpy.bfloat16) for x in operands)
    k, v = (x[:, :1] for x in (k, v))
    mask = np.ones((1, 1, 1, k.shape[2]), bool)
    text = jax.jit(rewritten(lambda *x: own._attention.bind(*x, **HOW)[0])).lower(q, k, v, mask).as_text()
    assert "ftorch_attention" in text and "exponential" not in text


@pytest.mark.skipif(not native.available, reason="built without a compiler")
def test_parts_are_read_where_they_lie():
    """Of a cache that all layers share, a layer's part; of a projection its third."""
    rng = np.random.default_rng(5)
    cache = rng.standard_normal((3, 2, 1, 2, 8, 4)).astype(np.float32)
    packed = rng.standard_normal((1, 2, 8, 12)).astype(np.float32)
    mask = rng.random((4, 8, 8)) > 0.3
    how = {"scale": 0.5, "is_causal": False}

    def attend(bind, cache, packed, mask, layer):
        k, v = (jax.lax.dynamic_slice(cache.reshape(12, 8, 4), (i, 0, 0), (2, 8, 4)).reshape(1, 2, 8, 4)
                for i in (4 * layer, 4 * layer + 2))
        q = packed[..., 4:8]
        first = bind(q, k, v, mask[1:3][None], **how)[0]
        return first, bind(q, packed[..., 8:], packed[:, :, :, :4], mask[3:][None], **how)[0]

    own_, plain = own._attention.bind, lambda *x, **how: [own._attend(*x, **how)]
    for layer in (0, 1, 2, 5):  # the last part is the one that is there
        run = jax.jit(rewritten(lambda *x: attend(own_, *x)))
        expected = attend(plain, cache, packed, mask, np.int64(layer))
        for mine, theirs in zip(run(cache, packed, mask, np.int64(layer)), expected, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)
    text = run.lower(cache, packed, mask, np.int64(0)).compile().as_text()
    assert "dynamic-slice" not in text.split("ENTRY")[1].split("custom-call")[0]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("masked", [False, True])
def test_what_lies_behind_the_keys_that_there_are_is_not_read(masked, dtype):
    rng = np.random.default_rng(6)
    q, k, v = (jax.numpy.asarray(rng.standard_normal((2, 2, n, 8)), dtype) for n in (3, 9, 9))
    mask = [rng.random((2, 1, 3, 9)) > 0.3] * masked
    how = {"scale": 0.5, "is_causal": False}
    for count in (1, 5, 9):
        spoilt = [x.at[:, :, count:].set(np.nan) for x in (k, v)]
        expected = own._attend(q, k[:, :, :count], v[:, :, :count], *(m[..., :count] for m in mask), **how)
        for call in (rewritten(lambda *x: own._attention.bind(*x, counted=True, **how)[0]),
                     lambda *x: own._attend(*x, counted=True, **how)):
            found = jax.jit(call)(q, *spoilt, *mask, np.array([count]))
            np.testing.assert_allclose(
                np.asarray(found, np.float32), np.asarray(expected, np.float32), rtol=0, atol=TOLERANCE[dtype])
