"""Packed sequences: what PyTorch's attention gives for each alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch as pt

import ftorch as ft
from ftorch.nn.attention.varlen import AuxRequest, varlen_attn, varlen_attn_out

Q, K = [3, 1, 5], [4, 6, 5]


def _data(heads=4, kv_heads=4, features=8, queries=Q, keys=K):
    rng = np.random.RandomState(0)
    shapes = (sum(queries), heads, features), (sum(keys), kv_heads, features), (sum(keys), kv_heads, features)
    return [rng.randn(*shape).astype(np.float32) for shape in shapes]


def _ends(lengths):
    return np.cumsum([0, *lengths]).astype(np.int32)


def _expected(arrays, window=(-1, -1), scale=None, used=K):
    """Each sequence by itself, masked by hand, in PyTorch."""
    out = []
    for i, (q_start, k_start) in enumerate(zip(_ends(Q)[:-1], _ends(K)[:-1])):
        count = used[i]
        parts = (arrays[0][q_start : q_start + Q[i]], *(a[k_start : k_start + count] for a in arrays[1:]))
        q, k, v = (pt.tensor(p).transpose(0, 1)[None] for p in parts)
        distance = pt.arange(count) - (pt.arange(Q[i])[:, None] + count - Q[i])
        mask = pt.ones(Q[i], count, dtype=pt.bool)
        if window[0] >= 0:
            mask &= distance >= -window[0]
        if window[1] >= 0:
            mask &= distance <= window[1]
        y = pt.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale, enable_gqa=True)
        out.append(y[0].transpose(0, 1).nan_to_num())
    return pt.cat(out).numpy()


def _call(arrays, **options):
    q_ends, k_ends = ft.tensor(_ends(Q)), ft.tensor(_ends(K))
    return varlen_attn(*map(ft.tensor, arrays), q_ends, k_ends, max(Q), max(K), **options)


@pytest.mark.parametrize("window", [(-1, -1), (-1, 0), (2, 0), (1, 1)])
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_windows_and_heads(window, kv_heads):
    arrays = _data(kv_heads=kv_heads)
    found = _call(arrays, window_size=window, enable_gqa=True, scale=0.3)
    np.testing.assert_allclose(found.numpy(), _expected(arrays, window, 0.3), rtol=1e-4, atol=1e-5)


def test_lengths_in_a_cache_and_pages():
    arrays, used = _data(), [3, 2, 5]
    expected = _expected(arrays, (-1, 0), used=used)
    found = _call(arrays, window_size=(-1, 0), seqused_k=ft.tensor(used, dtype=ft.int32))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-5)
    table, pages, page = np.array([[5, 1, 0], [2, 7, 4], [3, 6, 0]], np.int32), 8, 2
    pools = [np.zeros((pages, page, 4, 8), np.float32) for _ in range(2)]
    for i, start in enumerate(_ends(K)[:-1]):
        for j in range(used[i]):
            for pool, array in zip(pools, arrays[1:]):
                pool[table[i, j // page], j % page] = array[start + j]
    found = varlen_attn(
        ft.tensor(arrays[0]), *map(ft.tensor, pools), ft.tensor(_ends(Q)), None, max(Q), max(K), window_size=(-1, 0),
        seqused_k=ft.tensor(used), block_table=ft.tensor(table),
    )
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-5)


def test_sums_gradients_and_out():
    arrays = _data()
    out, lse = _call(arrays, return_aux=AuxRequest(lse=True))
    assert lse.shape == (4, sum(Q))
    q, k = (pt.tensor(a)[: n[0]].transpose(0, 1) for a, n in zip(arrays, (Q, K)))
    np.testing.assert_allclose(
        lse[:, : Q[0]].numpy(), (q @ k.transpose(1, 2) / 8**0.5).logsumexp(-1).numpy(), rtol=1e-4, atol=1e-5
    )
    into = ft.empty(sum(Q), 4, 8)
    result = varlen_attn_out(into, *map(ft.tensor, arrays), ft.tensor(_ends(Q)), ft.tensor(_ends(K)), 5, 6)
    assert result is into and ft.equal(into, out)
    leaves = [ft.tensor(a, requires_grad=True) for a in arrays]
    ends = ft.tensor(_ends(Q)), ft.tensor(_ends(K))
    varlen_attn(*leaves, *ends, 5, 6).square().sum().backward()
    theirs = [pt.tensor(a, requires_grad=True) for a in arrays]
    total = 0
    for i, (a, b) in enumerate(zip(_ends(Q)[:-1], _ends(K)[:-1])):
        q, k, v = (t[s : s + n].transpose(0, 1) for t, s, n in zip(theirs, (a, b, b), (Q[i], K[i], K[i])))
        total = total + pt.nn.functional.scaled_dot_product_attention(q, k, v).square().sum()
    total.backward()
    for mine, other in zip(leaves, theirs):
        np.testing.assert_allclose(mine.grad.numpy(), other.grad.numpy(), rtol=1e-3, atol=1e-5)
    call = ft.compile(lambda *a: varlen_attn(*a, 5, 6), fullgraph=True)
    np.testing.assert_allclose(call(*map(ft.tensor, arrays), *ends).numpy(), out.numpy(), rtol=1e-4, atol=1e-5)


def test_errors():
    arrays = _data(kv_heads=2)
    with pytest.raises(ValueError, match="enable_gqa"):
        _call(arrays)
    with pytest.raises(ValueError, match="multiple"):
        _call(_data(kv_heads=3), enable_gqa=True)
    with pytest.raises(RuntimeError, match="tokens, heads"):
        _call([a[0] for a in _data()])
    with pytest.raises(RuntimeError, match="seqused_k"):
        varlen_attn(
            ft.ones(2, 1, 4), ft.ones(2, 2, 1, 4), ft.ones(2, 2, 1, 4), ft.tensor([0, 2]), None, 2, 2,
            block_table=ft.tensor([[0]]),
        )
