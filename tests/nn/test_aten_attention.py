"""Attention as `torch.ops.aten` has it: PyTorch's values where it has a kernel for the CPU, `F.scaled_dot_product_attention`'s
where its kernels are a GPU's only, and its own shapes and dtypes (which it has for meta tensors)."""

import numpy as np
import pytest

import ftorch
from tests.oracle import assert_same

torch = pytest.importorskip("torch")
F = ftorch.nn.functional


def _arrays(*shapes):
    draw = np.random.default_rng(0)
    return [draw.standard_normal(shape).astype("float32") for shape in shapes]


def _both(case, *shapes):
    return [case(t, *map(t.from_numpy, _arrays(*shapes))) for t in (ftorch, torch)]


CPU = {
    "forward": lambda t, q, k, v, g: t.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v),
    "causal": lambda t, q, k, v, g: t.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, True),
    "mask": lambda t, q, k, v, g: t.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        q, k, v, attn_mask=q @ k.mT, scale=0.3),
    "math": lambda t, q, k, v, g: t.ops.aten._scaled_dot_product_attention_math(q, k, v),
    "math, mask": lambda t, q, k, v, g: t.ops.aten._scaled_dot_product_attention_math(q, k, v, (q @ k.mT) > 0),
    "math, causal": lambda t, q, k, v, g: t._scaled_dot_product_attention_math(q, k, v, is_causal=True, scale=2.0),
    "math, dropout": lambda t, q, k, v, g: t.ops.aten._scaled_dot_product_attention_math(
        q, k, v, None, 0.5, False, ((q @ k.mT) > 0).to(q.dtype)),
    "gradients": lambda t, q, k, v, g: t.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
        g, q, k, v, *t.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v), 0.0, False),
    "gradients, mask": lambda t, q, k, v, g: t.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
        g, q, k, v, *t.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, attn_mask=q @ k.mT), 0.0, False,
        attn_mask=q @ k.mT),
}


@pytest.mark.parametrize("name", CPU)
def test_the_cpus_operators_give_pytorchs_values(name):
    for mine, theirs in zip(*_both(CPU[name], (2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 8), (2, 3, 5, 8))):
        assert_same(mine, theirs, tolerance=(1e-5, 1e-5))


# Each with queries (2, 5, 4, 8), keys and values (2, 5, 4, 8).
FORWARD = {
    "flash": lambda A, q, k, v: A._flash_attention_forward(q, k, v, None, None, 5, 5, 0.0, False, False),
    "efficient": lambda A, q, k, v: A._efficient_attention_forward(q, k, v, *[None] * 5, 0.0, 0, True),
    "efficient, no sums": lambda A, q, k, v: A._efficient_attention_forward(q, k, v, *[None] * 5, 0.0, 0, False),
    "sdpa flash": lambda A, q, k, v: A._scaled_dot_product_flash_attention(*(x.transpose(1, 2) for x in (q, k, v))),
    "sdpa efficient": lambda A, q, k, v: A._scaled_dot_product_efficient_attention(
        *(x.transpose(1, 2) for x in (q, k, v)), None, True),
}


@pytest.mark.parametrize("name", FORWARD)
def test_a_gpus_operators_have_pytorchs_results(name):
    arrays = _arrays(*[(2, 5, 4, 8)] * 3)
    mine = FORWARD[name](ftorch.ops.aten, *map(ftorch.from_numpy, arrays))
    theirs = FORWARD[name](torch.ops.aten, *(torch.from_numpy(x).to("meta") for x in arrays))
    for a, b in zip(mine, theirs, strict=True):
        assert isinstance(a, ftorch.Tensor) == isinstance(b, torch.Tensor)
        if isinstance(b, torch.Tensor):
            assert (tuple(a.shape), str(a.dtype)) == (tuple(b.shape), str(b.dtype))
        else:
            assert a == b
    q, k, v = (ftorch.from_numpy(x).transpose(1, 2) for x in arrays)
    expected = F.scaled_dot_product_attention(q, k, v)
    ftorch.testing.assert_close(mine[0] if "sdpa" in name else mine[0].transpose(1, 2), expected)
    sums = (q @ k.mT / 8**0.5).logsumexp(-1)
    if mine[1].numel():
        ftorch.testing.assert_close(mine[1][..., :5], sums)
        assert (mine[1][..., 5:] == float("inf")).all()


def test_packed_sequences_are_attended_one_by_one():
    A = ftorch.ops.aten
    q, k, v, g = map(ftorch.from_numpy, _arrays(*[(9, 4, 8)] * 4))
    offsets = ftorch.tensor([0, 4, 9], dtype=ftorch.int32)
    for causal in (False, True):
        leaves = [x.clone().requires_grad_() for x in (q, k, v)]
        parts = [F.scaled_dot_product_attention(*(x[part].transpose(0, 1) for x in leaves), is_causal=causal).transpose(0, 1)
                 for part in (slice(0, 4), slice(4, 9))]
        expected = ftorch.cat(parts)
        expected.backward(g)
        out, sums, state, unused, _ = A._flash_attention_forward(q, k, v, offsets, offsets, 5, 5, 0.0, causal, False)
        assert sums.shape == (4, 9)
        ftorch.testing.assert_close(out, expected.detach())
        grads = A._flash_attention_backward(g, q, k, v, out, sums, offsets, offsets, 5, 5, 0.0, causal, state, unused)
        for mine, leaf in zip(grads, leaves):
            ftorch.testing.assert_close(mine, leaf.grad)
        out, sums, seed, offset, *longest = A._efficient_attention_forward(
            q[None], k[None], v[None], None, offsets, offsets, 5, 5, 0.0, int(causal), True)
        assert longest == [5, 5] and sums.shape == (2, 4, 32)
        ftorch.testing.assert_close(out[0], expected.detach())


def test_windows_slopes_and_lengths():
    A = ftorch.ops.aten
    q, k, v = map(ftorch.from_numpy, _arrays((2, 5, 4, 8), (2, 7, 2, 8), (2, 7, 2, 8)))
    i, j = ftorch.arange(5)[:, None] + 2, ftorch.arange(7)
    masks = {
        "window": ((j - i).abs() <= 1) + 0.0,
        "causal": (j <= i) + 0.0,
        "slopes": None,
        "lengths": None,
    }
    for name, mask in masks.items():
        options = {"window": {"window_size_left": 1, "window_size_right": 1}, "causal": {}}.get(name, {})
        bias = None if mask is None else mask.log()
        if name == "slopes":
            slopes = ftorch.tensor([0.5, 0.25, 0.125, 1.0])
            options, bias = {"alibi_slopes": slopes}, -slopes[:, None, None] * (j - i).abs()
        if name == "lengths":
            options = {"seqused_k": ftorch.tensor([7, 3], dtype=ftorch.int32)}
            bias = (j < ftorch.tensor([7, 3])[:, None, None, None]).float().log()
        out = A._flash_attention_forward(q, k, v, None, None, 5, 7, 0.0, name == "causal", False, **options)[0]
        expected = F.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)), bias, enable_gqa=True)
        ftorch.testing.assert_close(out.transpose(1, 2), expected)


def test_dropout_is_the_same_in_the_gradient():
    A = ftorch.ops.aten
    q, k, v = map(ftorch.from_numpy, _arrays(*[(2, 4, 5, 8)] * 3))
    out, sums, seed, offset = A._scaled_dot_product_efficient_attention(q, k, v, None, True, 0.3)
    grads = A._scaled_dot_product_efficient_attention_backward(
        ftorch.ones_like(out), q, k, v, None, out, sums, seed, offset, 0.3, [False, False, True, False])
    assert grads[0] is None and grads[1] is None and grads[3] is None
    ftorch.testing.assert_close((grads[2] * v).sum(), out.sum())  # linear in the values
    again = A._scaled_dot_product_efficient_attention(q, k, v, None, True, 0.3)[0]
    assert not ftorch.equal(out, again)
