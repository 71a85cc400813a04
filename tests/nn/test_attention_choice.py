"""``sdpa_kernel``: on the CPU calls that no allowed kernel takes are refused, with PyTorch's reasons."""

import warnings

import pytest
import torch as pt
import torch.nn.attention  # noqa: F401

import ftorch as ft

CALLS = {
    "plain": lambda m, q, sd: sd(q, q, q),
    "dropout": lambda m, q, sd: sd(q, q, q, dropout_p=0.5),
    "mask": lambda m, q, sd: sd(q, q, q, attn_mask=m.zeros(4, 4)),
    "mask of three dimensions": lambda m, q, sd: sd(q, q, q, attn_mask=m.zeros(2, 4, 4)),
    "mask with a gradient": lambda m, q, sd: sd(q, q, q, attn_mask=m.zeros(4, 4, requires_grad=True)),
    "three dimensions": lambda m, q, sd: sd(q[0], q[0], q[0]),
    "widths": lambda m, q, sd: sd(q, q, q[..., :6]),
    "heads": lambda m, q, sd: sd(q, q[:, :1], q[:, :1]),
    "groups of heads": lambda m, q, sd: sd(q, q[:, :1], q[:, :1], enable_gqa=True),
    "heads that do not divide": lambda m, q, sd: sd(m.ones(1, 3, 4, 8), q, q, enable_gqa=True),
    "batches": lambda m, q, sd: sd(q.expand(2, 2, 4, 8), q, q),
    "strides": lambda m, q, sd: sd(q.mT.contiguous().mT, q, q),
    "integers": lambda m, q, sd: sd(q.long(), q.long(), q.long()),
    "halves": lambda m, q, sd: sd(q.half(), q.half(), q.half()),
    "two dtypes": lambda m, q, sd: sd(q, q.double(), q),
    "nothing": lambda m, q, sd: sd(q[:0], q[:0], q[:0]),
    "mask and order": lambda m, q, sd: sd(q, q, q, attn_mask=m.zeros(4, 4), is_causal=True),
}


def _found(m, call, backends):
    attention = m.nn.attention
    allowed = [getattr(attention.SDPBackend, name) for name in backends]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with attention.sdpa_kernel(allowed):
            try:
                shown = tuple(call(m, m.ones(1, 2, 4, 8), m.nn.functional.scaled_dot_product_attention).shape)
            except RuntimeError as error:
                shown = str(error)
    return shown, [str(w.message).split(" (Triggered")[0] for w in said]


@pytest.mark.parametrize("backends", [
    ("FLASH_ATTENTION",), ("EFFICIENT_ATTENTION",), ("CUDNN_ATTENTION", "EFFICIENT_ATTENTION"), ("OVERRIDEABLE",),
    ("MATH", "FLASH_ATTENTION"),
], ids=" ".join)
@pytest.mark.parametrize("name", CALLS)
def test_calls_that_no_allowed_kernel_takes(name, backends):
    assert _found(ft, CALLS[name], backends) == _found(pt, CALLS[name], backends)


def test_the_choice_itself_is_refused_with_its_reasons():
    x = ft.ones(1, 2, 3, 4)
    with ft.nn.attention.sdpa_kernel(ft.nn.attention.SDPBackend.FLASH_ATTENTION):
        assert ft._fused_sdp_choice(x, x, x) == 1
        with warnings.catch_warnings(record=True) as said, pytest.raises(RuntimeError, match="No available kernel"):
            warnings.simplefilter("always")
            ft._fused_sdp_choice(x, x, x, dropout_p=0.5)
    assert [str(w.message) for w in said][1:] == ["Both fused kernels do not support non-zero dropout."]


@pytest.mark.parametrize("dtype", ["int64", "int32", "int16", "int8", "uint8", "bool"])
@pytest.mark.parametrize("shape", [(2, 4), (1, 2, 4), (3, 2, 2, 4), (0, 2, 4), (3, 0, 4), (2, 0)])
@pytest.mark.parametrize("given", ["nothing", "bool", "float", "order", "dropout"])
def test_integers_are_refused_by_what_multiplies_them(dtype, shape, given):
    def outcome(m):
        q = m.ones(shape, dtype=getattr(m, dtype))
        mask = m.ones(shape[-2], shape[-2], dtype=m.bool)
        more = {"nothing": {}, "bool": {"attn_mask": mask}, "float": {"attn_mask": mask.float()}, "order": {"is_causal": True},
                "dropout": {"dropout_p": 0.5}}[given]
        try:
            out = m.nn.functional.scaled_dot_product_attention(q, q, q, **more)
        except RuntimeError as error:
            return str(error)
        return tuple(out.shape), str(out.dtype).split(".")[1], out.tolist()

    assert outcome(ft) == outcome(pt)


@pytest.mark.parametrize("shape, refused", [
    ((1, 1, 2, 4), ("EFFICIENT_ATTENTION",)), ((2, 4), ("EFFICIENT_ATTENTION", "FLASH_ATTENTION")),
])
def test_compiled_functions_ask_again_where_other_kernels_are_allowed(shape, refused):
    x = ft.randn(*shape)
    attend = ft.compile(lambda q: ft.nn.functional.scaled_dot_product_attention(q, q, q))
    for _ in range(4):
        wanted = attend(x)
    for name in ("EFFICIENT_ATTENTION", "MATH", "FLASH_ATTENTION", "EFFICIENT_ATTENTION", "MATH"):
        for _ in range(3):
            backend = getattr(ft.nn.attention.SDPBackend, name)
            with ft.nn.attention.sdpa_kernel(backend), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if name in refused:
                    with pytest.raises(RuntimeError, match="No viable backend|No available kernel"):
                        attend(x)
                else:
                    assert ft.equal(attend(x), wanted)
    assert ft.equal(attend(x), wanted)


@pytest.mark.parametrize("m", [pt, ft])
def test_compiled_functions_read_what_is_allowed(m):
    m._dynamo.reset()
    more = {"backend": "eager"} if m is pt else {}
    step = m.compile(lambda x: x + 1 if m.backends.cuda.math_sdp_enabled() else x - 1, **more)
    x = m.ones(1)
    found = [step(x).item() for _ in range(3)]
    with m.nn.attention.sdpa_kernel(m.nn.attention.SDPBackend.FLASH_ATTENTION):
        found += [step(x).item() for _ in range(3)]
    found += [step(x).item()]
    assert found == [2, 2, 2, 0, 0, 0, 2]


def test_the_formula_alone_takes_no_mask_beside_the_order():
    for m in (pt, ft):
        q = m.ones(1, 2, 4, 8)
        with m.nn.attention.sdpa_kernel(m.nn.attention.SDPBackend.MATH), pytest.raises(RuntimeError, match="is_causal=True"):
            m.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=m.zeros(4, 4), is_causal=True)
