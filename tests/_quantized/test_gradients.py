"""Operators of quantized layers have no derivative: what comes of tensors that require grad has PyTorch's nodes and warns."""

# ruff: noqa: E501

import warnings

import pytest
import torch as pt

import ftorch as ft

pytestmark = pytest.mark.filterwarnings("ignore")

CALLS = {
    "linear": "ops.linear_dynamic(x, packed), ops.linear_relu_dynamic(x * 2, packed)",
    "half": "ops.linear_dynamic_fp16(x, half(bias)), ops.linear_dynamic_fp16(x.detach(), half(bias)), ops.linear_relu_dynamic_fp16(x, half(None))",
    "unpacked": "ops.linear_dynamic_fp16_unpacked_weight(x, w, bias), ops.linear_dynamic_fp16_unpacked_weight(x.detach(), w, bias.detach())",
    "module": "dynamic.Linear(4, 3)(x), dynamic.Linear(4, 3, dtype=torch.float16)(x)",
    "cells": "*dynamic.LSTMCell(4, 3)(x), dynamic.GRUCell(4, 3)(x), dynamic.RNNCell(4, 3)(x)",
    "lstm": "flat(dynamic.LSTM(4, 3)(x[None])), flat(dynamic.LSTM(4, 3)(x[None].detach(), (state, state)))",
    "gru": "flat(dynamic.GRU(4, 3)(x[None])), flat(dynamic.GRU(4, 3)(x[None].detach(), state))",
    "convolution": "ops.conv2d_dynamic(x[None, :, None].transpose(1, 3), ops.conv2d_prepack(q(3, 4, 1, 1), None, [1, 1], [0, 0], [1, 1], 1), False)",
    "bags": "ops.embedding_bag_byte_rowwise_offsets(ops.embedding_bag_byte_prepack(w), index, index[:1] * 0, per_sample_weights=x[0, :2])",
    "from numbers": "ops.linear_with_input_q_dq_qweight_dq_output_fp32(x, 0.1, 0, packed)",
    "quantized": "torch.quantize_per_tensor(x, 0.1, 0, torch.quint8).dequantize(), torch.quantize_per_tensor_dynamic(x, torch.qint8, False).dequantize()",
    "no gradients": "torch.no_grad()(lambda: ops.linear_dynamic(x, packed))(), ops.linear_dynamic(x.detach(), packed)",
}


def _text(warned):
    return str(warned.message).partition(" (Triggered")[0]


def seen(lib, text):
    def leaf(*sizes):
        return lib.ones(*sizes).requires_grad_()

    def flat(found):
        return lib.utils._pytree.tree_leaves(found)

    def q(*sizes):
        return lib.quantize_per_tensor(lib.ones(sizes), 0.1, 0, lib.qint8)

    ops = lib.ops.quantized
    scope = dict(torch=lib, ops=ops, x=leaf(2, 4), w=leaf(3, 4), bias=leaf(3), state=leaf(1, 2, 3), flat=flat, q=q,
                 dynamic=lib.ao.nn.quantized.dynamic, packed=ops.linear_prepack(q(3, 4), lib.ones(3)), index=lib.tensor([1, 2]),
                 half=lambda b: ops.linear_prepack_fp16(lib.ones(3, 4), b))
    lib.manual_seed(0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results = flat(list(eval(f"({text},)", scope)))
        before = len([w for w in caught if "autograd kernel" in str(w.message)])
        nodes = [
            (t.requires_grad, t.is_leaf, t.output_nr, t.grad_fn and t.grad_fn.name(),
             t.grad_fn and [n and n.name() for n, _ in t.grad_fn.next_functions]) for t in results
        ]
        differentiable = [t for t in results if t.requires_grad]
        if differentiable:
            lib.autograd.backward(differentiable, [lib.ones_like(t) for t in differentiable])
    texts = sorted(_text(w) for w in caught if "autograd kernel" in str(w.message))
    gradients = {k: v.grad is None for k, v in scope.items() if k in ("x", "w", "bias", "state")}
    return nodes, before, texts, gradients


@pytest.mark.parametrize("name", CALLS)
def test_history(name):
    assert seen(ft, CALLS[name]) == seen(pt, CALLS[name])


def test_operators_of_libraries_that_compute_elsewhere():
    def seen(lib):
        own = lib.library.Library(f"unregistered_{lib.__name__}", "DEF")
        own.define("twice(Tensor x, Tensor y) -> (Tensor, Tensor)")
        own.impl("twice", lambda x, y: (lib.from_numpy(x.detach().numpy() * 2), y.mul(2)), "CPU")
        x, y = lib.ones(2, requires_grad=True), lib.ones(2, requires_grad=True)
        a, b = getattr(lib.ops, f"unregistered_{lib.__name__}").twice(x, y)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            (a.sum() + b.sum()).backward()
        texts = [_text(w).replace(f"_{lib.__name__}::", "::") for w in caught]
        return a.grad_fn.name(), [n.name() for n, _ in a.grad_fn.next_functions], b.grad_fn.name(), texts, x.grad, y.grad.tolist()

    assert seen(ft) == seen(pt)
