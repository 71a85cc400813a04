"""ONNX's operators in programs, beside PyTorch's, and as nodes of models."""

import importlib

import numpy as np
import onnx
import pytest
import torch as pt

import ftorch as ft
from tests.oracle import assert_shows_same, both, both_with_text

OPS = {ft: importlib.import_module("ftorch.onnx.ops"), pt: importlib.import_module("torch.onnx.ops")}


def some(t, *sizes):
    """Numbers between 0 and 1."""
    count = int(np.prod(sizes))
    return t.tensor(np.random.default_rng(count).random(sizes, dtype=np.float32))


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary_embedding(interleaved):
    options = {"interleaved": interleaved}

    def calls(t):
        f, x, cos, sin = OPS[t].rotary_embedding, some(t, 2, 3, 2, 4), some(t, 2, 2, 2), some(t, 2, 2, 2) + 1
        at = t.tensor([[0, 1], [1, 0]])
        return [
            f(x, cos, sin, **options), f(x.reshape(2, 2, 12), cos, sin, num_heads=3, **options),
            f(x, cos[..., :1], sin[..., :1], rotary_embedding_dim=2, **options), f(x, cos[0], sin[0], at, **options),
        ]

    both(calls, strides=True)


@pytest.mark.parametrize("call", [
    lambda f, x, c: f(x, c, c, pair(x, 2, 2)), lambda f, x, c: f(x, c[0], c[0], pair(x, 2)),
    lambda f, x, c: f(x, c[0], c[0], pair(x, 1, 2)), lambda f, x, c: f(x, c[0], c[0], pair(x, 2, 1)),
    lambda f, x, c: f(x, c[0], c[0]), lambda f, x, c: f(x.reshape(2, 2, 12), c, c), lambda f, x, c: f(x, c[..., :1], c),
    lambda f, x, c: f(x, c, c[..., :1]), lambda f, x, c: f(x, c[:1], c), lambda f, x, c: f(x, c, c[:1]),
])
def test_rotary_embeddings_that_do_not_fit(call):
    both_with_text(lambda t: call(OPS[t].rotary_embedding, some(t, 2, 3, 2, 4), some(t, 2, 2, 2)))


def pair(x, *sizes):
    return x.new_zeros(sizes).long()


_MASKED = {
    "nothing": lambda t: {}, "causal": lambda t: {"is_causal": True}, "numbers": lambda t: {"attn_mask": some(t, 3, 5)},
    "bools": lambda t: {"attn_mask": some(t, 3, 5) < 0.9}, "cap": lambda t: {"softcap": 1.5, "attn_mask": some(t, 3, 5)},
    "double": lambda t: {"softmax_precision": 11}, "unknown": lambda t: {"softmax_precision": 7},
    "scale": lambda t: {"scale": 0.3}, "past": lambda t: dict.fromkeys(("past_key", "past_value"), some(t, 2, 2, 4, 8)),
    "both": lambda t: {"is_causal": True, "attn_mask": some(t, 3, 5)},
    **{f"mode {n}": lambda t, n=n: {"qk_matmul_output_mode": n, "softcap": 2.0, "is_causal": True} for n in range(5)},
}


@pytest.mark.parametrize("name", _MASKED)
def test_attention(name):
    def calls(t):
        f, options = OPS[t].attention, _MASKED[name](t)
        return f(some(t, 2, 4, 3, 8), some(t, 2, 2, 5, 8), some(t, 2, 2, 5, 8), **options)

    both(calls, strides=True)


def test_attention_of_flat_heads():
    def calls(t):
        q, k = some(t, 2, 3, 32), some(t, 2, 5, 16)
        return OPS[t].attention(q, k, k, q_num_heads=4, kv_num_heads=2)

    both(calls, strides=True)
    both_with_text(lambda t: OPS[t].attention(some(t, 2, 3, 32), some(t, 2, 5, 16), some(t, 2, 5, 16)))
    both_with_text(lambda t: OPS[t].attention(some(t, 2, 3, 3, 8), some(t, 2, 2, 5, 8), some(t, 2, 2, 5, 8)))


_ATTRIBUTES = {"x": 1, "y": 2.0, "z": [1, 2.0], "b": True, "s": "t", "ss": ["a"], "bs": [True], "zero": 0}


@pytest.mark.parametrize("call", [
    lambda t, f, x: f("a::B", (x, None), _ATTRIBUTES, dtype=t.int32, shape=[2, 3], version=3, metadata_props={"a": "b"}),
    lambda t, f, x: f("B", (x,), dtype=1, shape=[]), lambda t, f, x: f("B", (x,), dtype=99, shape=[]),
    lambda t, f, x: f("B", (x,), dtype=t.qint8, shape=[]), lambda t, f, x: f("B", (x,), {"a": []}, dtype=1, shape=[]),
    lambda t, f, x: f("B", (x,), {"a": [None]}, dtype=1, shape=[]),
    lambda t, f, x: f("B", (x,), {"a": None}, dtype=1, shape=[]),
    lambda t, f, x: OPS[t].symbolic_multi_out("B", (x,), dtypes=[1, t.bool], shapes=[[2], []]),
    lambda t, f, x: OPS[t].symbolic_multi_out("B", (x,), dtypes=[1, t.bool], shapes=[[2]]),
    lambda t, f, x: [str(op) for op in OPS[t].aten_decompositions()],
    lambda t, f, x: [str(op._schema) for op in OPS[t].aten_decompositions()],
    lambda t, f, x: str(t.ops.onnx_symbolic._symbolic.default._schema),
    lambda t, f, x: vars(OPS[t]._symbolic_impl.EncodedAttrs.from_dict(_ATTRIBUTES)),
    lambda t, f, x: OPS[t]._symbolic_impl.EncodedAttrs.from_dict(_ATTRIBUTES).to_dict(),
])
def test_placeholders(call):
    assert_shows_same(lambda t: call(t, OPS[t].symbolic, t.ones(2)))


class Rotated(ft.nn.Module):
    def forward(self, q, k, cos):
        assert ft.onnx.is_in_onnx_export() is self.exported
        q = ft.onnx.ops.rotary_embedding(q, cos, cos)
        return ft.onnx.ops.attention(q, k, k, scale=0.2)[0]


@pytest.mark.parametrize("opset", [18, 23])
def test_models(opset):
    inputs = some(ft, 2, 4, 3, 8), some(ft, 2, 2, 3, 8), some(ft, 2, 3, 4)
    module = Rotated()
    module.exported = True
    program = ft.onnx.export(module, inputs, opset_version=opset)
    kinds = {node.op_type for node in program.model_proto.graph.node}
    assert ({"RotaryEmbedding", "Attention"} <= kinds) is (opset == 23)
    module.exported = False
    np.testing.assert_allclose(program(*inputs)[0].numpy(), module(*inputs).numpy(), rtol=1e-5)


class Placeholders(ft.nn.Module):
    def forward(self, x):
        y = ft.onnx.ops.symbolic(
            "mine::Op", (x, None, x), _ATTRIBUTES, dtype=ft.float32, shape=(2, x.shape[0]), version=3,
            metadata_props={"key": "value"},
        )
        u, w = ft.onnx.ops.symbolic_multi_out("mine::Two", (y,), dtypes=[ft.int64, ft.float32], shapes=[[2], x.shape])
        return ft.relu(w) + u.sum()


def test_placeholders_are_nodes_of_models():
    program = ft.onnx.export(Placeholders(), (ft.ones(3, 2),), dynamic_shapes=({0: ft.export.Dim("n")},))
    model = program.model_proto
    first, second = (node for node in model.graph.node if node.domain == "mine")
    shown = {a.name: onnx.helper.get_attribute_value(a) for a in first.attribute}
    assert shown == _ATTRIBUTES | {"s": b"t", "ss": [b"a"]}
    assert list(first.input) == ["x", "", "x"] and list(second.input) == list(first.output) and len(second.output) == 2
    assert [(p.key, p.value) for p in first.metadata_props] == [("key", "value")]
    assert {o.domain: o.version for o in model.opset_import} == {"": 18, "mine": 3}


@ft.library.custom_op("onnx_ops_tests::sin", mutates_args=())
def sin(x: ft.Tensor) -> ft.Tensor:
    return x + 1


sin.register_fake(ft.empty_like)


class OfAnother(ft.nn.Module):
    def forward(self, x):
        return ft.ops.onnx_ops_tests.sin(x)


def test_operators_of_other_packages_are_not_what_pytorch_has_of_that_name():
    with pytest.raises(ft.onnx.UnsupportedOperatorError):
        ft.onnx.export(OfAnother(), (ft.ones(2),))
