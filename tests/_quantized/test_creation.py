"""Quantized tensors made of tensors that require grad."""

from __future__ import annotations

import warnings

import pytest
import torch

import ftorch


@pytest.mark.parametrize("name", ["qint8", "quint8"])
def test_ranges_of_what_requires_grad_are_looked_at_without_a_warning(name):
    results = []
    for t in (torch, ftorch):
        x = t.tensor([[-1.5, 0.25], [2.0, 3.0]], requires_grad=True)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            out = t.quantize_per_tensor_dynamic(x, getattr(t, name), False)
        texts = [str(w.message) for w in said if "quantized tensor creation" not in str(w.message)]
        results.append((out.int_repr().tolist(), out.q_scale(), out.q_zero_point(), out.requires_grad, texts))
    assert results[0] == results[1]
