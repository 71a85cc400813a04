"""What PyTorch says of functions that will go: the same text, kind and place."""

from __future__ import annotations

import warnings

import pytest
import torch as pt

import ftorch as ft
from ftorch.eager.core import user_warnings


def _eager(t):
    q = t.ao.quantization
    model = t.nn.Sequential(q.QuantStub(), t.nn.Linear(2, 2), q.DeQuantStub()).eval()
    model.qconfig = q.get_default_qconfig("fbgemm")
    prepared = q.prepare(model)
    prepared(t.ones(1, 2))
    return q.convert(prepared)


def _dynamic(t):
    return t.ao.quantization.quantize_dynamic(t.nn.Sequential(t.nn.Linear(2, 2)))


def _training(t):
    model = t.nn.Sequential(t.nn.Linear(2, 2)).train()
    model.qconfig = t.ao.quantization.get_default_qat_qconfig("fbgemm")
    return t.ao.quantization.prepare_qat(model)


def _traced(t):
    fx = __import__(f"{t.__name__}.ao.quantization.quantize_fx", fromlist=["x"])
    mapping = t.ao.quantization.get_default_qconfig_mapping("fbgemm")
    prepared = fx.prepare_fx(t.nn.Sequential(t.nn.Linear(2, 2)).eval(), mapping, (t.ones(1, 2),))
    return fx.convert_fx(prepared)


def _said(make, t):
    __import__(f"{t.__name__}.ao.quantization")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        make(t)
    return [
        (w.category, str(w.message)) for w in caught
        if w.filename == __file__ and "torch.ao.quantization is deprecated" in str(w.message)
    ]


@pytest.mark.parametrize("make", (_eager, _dynamic, _training, _traced), ids=lambda f: f.__name__)
def test_quantization_of_models(make):
    said = _said(make, pt)
    assert said and _said(make, ft) == said


def test_quantized_tensors(monkeypatch):
    """Once in a process; PyTorch has most likely done so."""
    monkeypatch.setattr(user_warnings, "_given", set())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            ft.quantize_per_tensor(ft.ones(2), 0.1, 0, ft.quint8)
    (only,) = caught
    assert only.category is UserWarning and only.filename == __file__
    assert str(only.message).startswith("torch.quantize_per_tensor, torch.quantize_per_channel and other quantized tensor")


@pytest.mark.parametrize("scheme", ("tensor", "channel"))
def test_empty_like_another(scheme):
    found = []
    for t in (pt, ft):
        if scheme == "tensor":
            like = t.quantize_per_tensor(t.ones(2, 3), 0.1, 3, t.quint8)
        else:
            like = t.quantize_per_channel(t.ones(2, 3), t.tensor([0.1, 0.2]), t.tensor([0, 1]), 0, t.qint8)
        made = t.empty_quantized([2, 2], like)
        found.append((tuple(made.shape), str(made.dtype), str(made.qscheme()), made.is_quantized))
    assert found[0] == found[1]
