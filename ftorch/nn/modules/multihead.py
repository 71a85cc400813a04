"""Attention with several heads."""

from __future__ import annotations

from ..._old_names import place_in
from ...eager.tensor import modes
from .. import functional as F
from .. import init
from .linear import NonDynamicallyQuantizableLinear
from .module import Module
from .utils import new_parameter


class MultiheadAttention(Module):
    """Scaled dot-product attention in ``num_heads`` parallel projections.

    Args:
        embed_dim: features of the query and of the result.
        dropout: of the attention weights.
        bias: whether the projections have biases.
        add_bias_kv: append a learned key and value to the sequence.
        add_zero_attn: append a key and value of zeros.
        kdim, vdim: features of keys and values.
        batch_first: tensors are (N, L, E) instead of (L, N, E).

    Raises:
        ValueError: dimensions that are not positive.
        AssertionError: ``num_heads`` does not divide ``embed_dim``.

    >>> import ftorch as torch
    >>> attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    >>> x = torch.randn(3, 5, 8)
    >>> output, weights = attention(x, x, x)
    >>> output.shape, weights.shape
    (torch.Size([3, 5, 8]), torch.Size([3, 5, 5]))
    """

    def __init__(
        self, embed_dim, num_heads, dropout=0.0, bias=True, add_bias_kv=False,
        add_zero_attn=False, kdim=None, vdim=None, batch_first=False, device=None, dtype=None,
    ):
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and "
                f"num_heads={num_heads} instead"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")
        factory = {"device": device, "dtype": dtype}
        same = self._qkv_same_embed_dim
        widths = {"q_proj_weight": embed_dim, "k_proj_weight": self.kdim}
        widths["v_proj_weight"] = self.vdim
        if same:
            self.in_proj_weight = new_parameter(3 * embed_dim, embed_dim, **factory)
        for name, width in widths.items():
            weight = None if same else new_parameter(embed_dim, width, **factory)
            self.register_parameter(name, weight)
        if not same:
            self.register_parameter("in_proj_weight", None)
        in_bias = new_parameter(3 * embed_dim, **factory) if bias else None
        self.register_parameter("in_proj_bias", in_bias)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias, **factory)
        if add_bias_kv:
            self.bias_k = new_parameter(1, 1, embed_dim, **factory)
            self.bias_v = new_parameter(1, 1, embed_dim, **factory)
        else:
            self.bias_k = self.bias_v = None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self):
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            weight = getattr(self, name)
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def __setstate__(self, state):
        state.setdefault("_qkv_same_embed_dim", True)
        super().__setstate__(state)

    def forward(
        self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None,
        average_attn_weights=True, is_causal=False,
    ):
        """Attends.

        Args:
            query: (L, N, E), or (N, L, E) with ``batch_first``, or (L, E).
            key, value: (S, N, E) likewise.
            key_padding_mask: (N, S) or (S), True (or -inf) where a key is left out.
            need_weights: also return the attention weights.
            attn_mask: (L, S) or (N * num_heads, L, S), True (or -inf) where there is no attention.
            average_attn_weights: the weights' mean over the heads, (N, L, S).
            is_causal: a hint that ``attn_mask`` is the causal one.

        Returns:
            the result, of the query's shape, and the weights or None.
        """
        if query.is_nested or key.is_nested or value.is_nested:
            return _of_nested(self, query, key, value, key_padding_mask, attn_mask, need_weights, average_attn_weights)
        swap = self.batch_first and query.dim() == 3
        if swap:
            # What is the same tensor stays so: one projection does for all of them.
            swapped = {id(t): t.transpose(1, 0) for t in (query, key, value)}
            query, key, value = (swapped[id(t)] for t in (query, key, value))
        separate = {}
        if not self._qkv_same_embed_dim:
            separate = {
                "use_separate_proj_weight": True, "q_proj_weight": self.q_proj_weight,
                "k_proj_weight": self.k_proj_weight, "v_proj_weight": self.v_proj_weight,
            }
        output, weights = F.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight,
            self.in_proj_bias, self.bias_k, self.bias_v, self.add_zero_attn, self.dropout,
            self.out_proj.weight, self.out_proj.bias, training=self.training,
            key_padding_mask=key_padding_mask, need_weights=need_weights, attn_mask=attn_mask,
            average_attn_weights=average_attn_weights, is_causal=is_causal, **separate,
        )
        return (output.transpose(1, 0) if swap else output), weights

    def merge_masks(self, attn_mask, key_padding_mask, query):
        """One mask for both, and its kind: 1 a padding mask, 2 a full one, None no mask."""
        if attn_mask is None:
            return key_padding_mask, None if key_padding_mask is None else 1
        batch, length, _ = query.shape
        if attn_mask.dim() == 3:
            merged = attn_mask.view(batch, -1, length, length)
        else:
            merged = attn_mask.view(1, 1, length, length)
            merged = merged.expand(batch, self.num_heads, -1, -1)
        if key_padding_mask is not None:
            padding = key_padding_mask.view(batch, 1, 1, length)
            merged = merged + padding.expand(-1, self.num_heads, -1, -1)
        return merged, 2


def _of_nested(module, query, key, value, key_padding_mask, attn_mask, need_weights, average_attn_weights):
    """`forward` of nested tensors, which only inference of the plainest kind can."""
    import ftorch as torch

    weights = (module.in_proj_weight, module.in_proj_bias, module.out_proj.weight, module.out_proj.bias)
    refusals = _refusals(module, query, key, value, key_padding_mask, attn_mask, weights)
    reason = next((text for refused, text in refusals if refused), None)
    if reason is not None:
        raise AssertionError(
            "MultiheadAttention does not support NestedTensor outside of its fast path. The fast path was not hit because "
            + reason
        )
    return torch._native_multi_head_attention(
        query, key, value, module.embed_dim, module.num_heads, *weights, None, need_weights, average_attn_weights, None
    )


def _refusals(module, query, key, value, key_padding_mask, attn_mask, weights):
    """(whether it is so, why nested tensors are refused), in PyTorch's order."""
    biased = module.in_proj_bias is not None and module.in_proj_weight is not None
    yield query is not key or key is not value, (
        "non-self attention was used (query, key, and value are not the same Tensor)"
    )
    yield biased and query.dtype is not module.in_proj_bias.dtype, (
        f"dtypes of query ({query.dtype}) and self.in_proj_bias ({module.in_proj_bias.dtype}) don't match" if biased else ""
    )
    yield module.in_proj_weight is None, "in_proj_weight was None"
    yield module.training, "training is enabled"
    yield module.num_heads % 2 != 0, "self.num_heads is not even"
    yield not module.batch_first, "batch_first was not True"
    yield module.bias_k is not None, "self.bias_k was not None"
    yield module.add_zero_attn, "add_zero_attn was enabled"
    yield key_padding_mask is not None or attn_mask is not None, (
        f"supplying both src_key_padding_mask and src_mask at the same time{' ' * 34}is not supported "
        "with NestedTensor input"
    )
    yield modes.grad and any([t is not None and t.requires_grad for t in (query, *weights)]), (
        "grad is enabled and at least one of query or the input/output projection weights or biases requires_grad"
    )
    yield not biased, ""

place_in("nn.modules.activation", MultiheadAttention)
