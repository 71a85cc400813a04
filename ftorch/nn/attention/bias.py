"""Causal masks as tensors that say what they are (``torch.nn.attention.bias``)."""

from __future__ import annotations

import enum
import warnings

from ...eager.core import api as torch
from ...eager.core import dtype as _dtype
from ...eager.tensor import Tensor
from .. import functional as F

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(enum.IntEnum):
    """Which corner the diagonal of a causal mask begins (or ends) in."""

    UPPER_LEFT = enum.auto()
    LOWER_RIGHT = enum.auto()


class CausalBias(Tensor):
    """A causal mask, to be given as ``attn_mask`` to `scaled_dot_product_attention`.

    Args:
        variant: where the diagonal lies if there are more keys than queries, or less.
        seq_len_q, seq_len_kv: the numbers of queries and keys.
    """

    def __new__(cls, variant, seq_len_q, seq_len_kv):
        return Tensor._make_subclass(cls, torch.empty(0))

    def __init__(self, variant, seq_len_q, seq_len_kv):
        if not isinstance(variant, CausalVariant):
            raise AssertionError(f"variant must be a CausalVariant, got {type(variant).__name__}")
        self.variant = variant
        self.seq_len_q, self.seq_len_kv = seq_len_q, seq_len_kv
        if seq_len_q > seq_len_kv and variant == CausalVariant.LOWER_RIGHT:
            warnings.warn(
                "Lower right causal bias will produce NaNs in the output when seq_len_q > "
                "seq_len_kv!",
                stacklevel=2,
            )

    def _materialize(self, device=None):
        shift = 0
        if self.variant == CausalVariant.LOWER_RIGHT:
            shift = self.seq_len_kv - self.seq_len_q
        ones = torch.ones(self.seq_len_q, self.seq_len_kv, device=device, dtype=_dtype.bool)
        return torch.tril(ones, diagonal=shift)

    def __repr__(self):
        return repr(self._materialize())

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func is not F.scaled_dot_product_attention:
            return super().__torch_function__(func, types, args, kwargs)
        return cls._attention(*args, **kwargs)

    @staticmethod
    def _attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *,
                   scale=None, enable_gqa=False):
        if is_causal:
            raise ValueError("CausalBias should not be used with causal=True")
        square = attn_mask.seq_len_q == attn_mask.seq_len_kv
        causal = square or attn_mask.variant == CausalVariant.UPPER_LEFT
        return F.scaled_dot_product_attention(
            query, key, value, None if causal else attn_mask._materialize(query.device), dropout_p,
            causal, scale=scale, enable_gqa=enable_gqa,
        )


def causal_upper_left(*size) -> CausalBias:
    """The causal mask in which query i sees the keys up to i.

    >>> from ftorch.nn.attention.bias import causal_upper_left
    >>> causal_upper_left(2, 3)
    tensor([[ True, False, False],
            [ True,  True, False]])
    """
    return _bias(CausalVariant.UPPER_LEFT, size)


def causal_lower_right(*size) -> CausalBias:
    """The causal mask in which the last query sees all keys.

    >>> from ftorch.nn.attention.bias import causal_lower_right
    >>> causal_lower_right(2, 3)
    tensor([[ True,  True, False],
            [ True,  True,  True]])
    """
    return _bias(CausalVariant.LOWER_RIGHT, size)


def _bias(variant, size):
    if len(size) != 2:
        raise AssertionError(
            f"causal_{variant.name.lower()} only supports 2D tensors, got {len(size)}D"
        )
    return CausalBias(variant, *size)
