"""The fused functions of attention that PyTorch's modules call."""

import pytest
import torch as reference

import ftorch

EMBED, HEADS, BATCH, LENGTH = 8, 2, 3, 5


def scope_of(t):
    generator = reference.Generator().manual_seed(0)

    def draw(*shape):
        return t.tensor(reference.randn(*shape, generator=generator).tolist())

    names = {"x": (BATCH, LENGTH, EMBED), "y": (BATCH, LENGTH, EMBED), "W": (24, EMBED), "b": (24,), "P": (EMBED, EMBED),
             "p": (EMBED,),
             "f1": (16, EMBED), "g1": (16,), "f2": (EMBED, 16), "g2": (EMBED,), "n1": (EMBED,), "n2": (EMBED,), "m1": (EMBED,),
             "m2": (EMBED,), "q": (BATCH, LENGTH, 24)}
    scope = {name: draw(*shape) for name, shape in names.items()}
    keys, pairs, heads = (t.zeros(*shape, dtype=t.bool) for shape in (
        (BATCH, LENGTH), (LENGTH, LENGTH), (BATCH, HEADS, LENGTH, LENGTH)))
    keys[0, -2:], pairs[0, 1], heads[1, 0, 2] = True, True, True
    return {**scope, "keys": keys, "pairs": pairs, "heads": heads, "t": t, "N": t._native_multi_head_attention,
            "E": t._transformer_encoder_layer_fwd}


ATTENTION = "N(x, x, x, 8, 2, W, b, P, p, {})"
LAYER = "E(x, 8, 2, W, b, P, p, {}, 1e-5, n1, m1, n2, m2, f1, g1, f2, g2, {})"


@pytest.mark.parametrize("call", [
    *[ATTENTION.format(f"{mask[0]}, {need}, {average}, {mask[1]}") for need in (True, False) for average in (True, False)
      for mask in (("None", None), ("keys", 1), ("pairs", 0), ("heads", 2), ("keys", None), ("keys.float()", 1))],
    *[LAYER.format(f"{gelu}, {first}", mask) for gelu in (True, False) for first in (True, False)
      for mask in ("None, None", "keys, 1")],
    "N(x, y, y, 8, 2, W, b, P, p)", "N(x, y, x, 8, 2, W, b, P, p)", "N(x[0], x[0], x[0], 8, 2, W, b, P, p)",
    "N(x, x, x, 9, 2, W, b, P, p)", "N(x, x, x, 8, 3, W, b, P, p)", "N(x, x, x, 8, 2, W[:5], b, P, p)",
    "N(x, x, x, 8, 2, W[0], b, P, p)", "N(x, x, x, 8, 2, W, b[:3], P, p)", "N(x, x, x, 8, 2, W, b[None], P, p)",
    "N(x, x[0], x, 8, 2, W, b, P, p)", "N(x, x[:1], x, 8, 2, W, b, P, p)", "t._transform_bias_rescale_qkv(q, b, 2)",
    "t.ops.aten._native_multi_head_attention(x, x, x, 8, 2, W, b, P, p)",
    "t._masked_softmax(t.zeros(2, 2), t.tensor([[True, True], [False, True]]))",
])
def test_calls(call):
    def told(t):
        try:
            made = eval(call, scope_of(t))
        except RuntimeError as error:
            return str(error)
        return [None if x is None else (tuple(x.shape), x.stride(), x.nan_to_num(nan=7.).numpy().round(3).tolist())
                for x in (made if isinstance(made, tuple) else (made,))]

    got, wanted = told(ftorch), told(reference)
    if isinstance(wanted, str):
        assert got == wanted
    else:
        for a, b in zip(got, wanted, strict=True):
            assert a is b is None or (a[:2] == b[:2] and reference.allclose(*map(reference.tensor, (a[2], b[2])), atol=3e-3))
