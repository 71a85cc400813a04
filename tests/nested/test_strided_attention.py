"""Attention of nested tensors of the strided layout, component by component, as PyTorch's."""

import warnings

import pytest

from tests.oracle import both, both_with_text


def attention(t, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's, that nested tensors are a prototype
        q = t.nested.nested_tensor([t.arange(24.0).reshape(2, 3, 4) / 9, t.arange(40.0).reshape(2, 5, 4) / 7])
    return t.nn.functional.scaled_dot_product_attention(q, q, q, **options)


def test_components():
    both(lambda t: list(attention(t).unbind()))


@pytest.mark.parametrize("options", [lambda t: {"is_causal": True}, lambda t: {"attn_mask": t.ones(3, 3)}])
def test_refused(options):
    both_with_text(lambda t: attention(t, **options(t)))
