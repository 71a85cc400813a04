"""Compiled `MultiheadAttention` modules of every kind give what PyTorch's give, masks and weights included."""

import warnings

import pytest
import torch as reference

import ftorch

KINDS = ({}, {"batch_first": True}, {"bias": False}, {"add_bias_kv": True}, {"kdim": 8, "vdim": 4}, {"kdim": 8},
         {"add_zero_attn": True},
         {"add_bias_kv": True, "add_zero_attn": True, "kdim": 8, "batch_first": True})
BOOLS = reference.tensor([[False, False, True, False]] * 3)
CALLS = ({}, {"key_padding_mask": reference.tensor([[False] * 4, [False, False, True, True]])}, {"attn_mask": BOOLS},
         {"attn_mask": BOOLS.float()}, {"need_weights": False}, {"average_attn_weights": False, "attn_mask": BOOLS})


def of(t, value):
    return t.tensor(value.tolist(), dtype=getattr(t, str(value.dtype).removeprefix("torch.")))


@pytest.mark.parametrize("kind", KINDS)
def test_attention(kind):
    draw = reference.Generator().manual_seed(0)
    theirs = reference.nn.MultiheadAttention(16, 2, **kind).eval()
    ours = ftorch.nn.MultiheadAttention(16, 2, **kind).eval()
    ours.load_state_dict({name: of(ftorch, value) for name, value in theirs.state_dict().items()})
    sizes = (16, kind.get("kdim", 16), kind.get("vdim", 16))
    inputs = [reference.randn(length, 2, size, generator=draw) for length, size in zip((3, 4, 4), sizes)]
    inputs = [x.transpose(0, 1) for x in inputs] if kind.get("batch_first") else inputs
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = ftorch.jit.script(ours)
        for call in CALLS:
            got = compiled(*[of(ftorch, x) for x in inputs],
                           **{k: of(ftorch, v) if isinstance(v, reference.Tensor) else v for k, v in call.items()})
            for a, b in zip(got, theirs(*inputs, **call), strict=True):
                assert (a is None) == (b is None)
                assert a is None or reference.allclose(reference.tensor(a.tolist()), b.detach(), atol=1e-5)
