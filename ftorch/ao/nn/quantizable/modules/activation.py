"""Attention made of linear layers and functionals, which can be observed.

(``torch.ao.nn.quantizable.modules.activation``.)
"""

from __future__ import annotations

import warnings

import ftorch as torch
from ftorch import nn
from ftorch.nn import functional as F

__all__ = ["MultiheadAttention"]


def _as_bool(mask, name):
    """A mask; bytes are taken with a warning."""
    if mask is not None and mask.dtype is torch.uint8:
        warnings.warn(
            f"Byte tensor for `{name}` in `nn.MultiheadAttention` is deprecated. Use bool tensor instead.", stacklevel=4
        )
        return mask.to(torch.bool)
    return mask


def _with_zeros(x):
    """A tensor with one more position of zeros, quantized where it is."""
    zeros = torch.zeros((x.size(0), 1, *x.size()[2:]))
    if x.is_quantized:
        zeros = torch.quantize_per_tensor(zeros, x.q_scale(), x.q_zero_point(), x.dtype)
    return torch.cat([x, zeros], dim=1)


class MultiheadAttention(nn.MultiheadAttention):
    """`torch.nn.MultiheadAttention` whose products with weights are layers, so that they can be observed.

    The arguments are those of `torch.nn.MultiheadAttention`.

    >>> import ftorch as torch
    >>> attention = torch.ao.nn.quantizable.MultiheadAttention(4, 2)
    >>> x = torch.ones(3, 1, 4)
    >>> attention(x, x, x)[0].shape
    torch.Size([3, 1, 4])
    """

    _FLOAT_MODULE = nn.MultiheadAttention
    __constants__ = ["batch_first"]

    def __init__(self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True,
                 add_bias_kv: bool = False, add_zero_attn: bool = False, kdim: int | None = None,
                 vdim: int | None = None, batch_first: bool = False, device=None, dtype=None) -> None:
        factory = {"device": device, "dtype": dtype}
        super().__init__(embed_dim, num_heads, dropout, bias, add_bias_kv, add_zero_attn, kdim, vdim, batch_first,
                         **factory)
        self.linear_Q = nn.Linear(self.embed_dim, self.embed_dim, bias=bias, **factory)
        self.linear_K = nn.Linear(self.kdim, self.embed_dim, bias=bias, **factory)
        self.linear_V = nn.Linear(self.vdim, self.embed_dim, bias=bias, **factory)
        self.out_proj = nn.Linear(self.embed_dim, self.embed_dim, bias=bias, **factory)  # type: ignore[assignment]
        self.q_scaling_product = torch.ao.nn.quantized.FloatFunctional()
        stubs = torch.ao.quantization
        self.quant_attn_output = stubs.QuantStub()
        self.quant_attn_output_weights = stubs.QuantStub()
        self.dequant_q = stubs.DeQuantStub()
        self.dequant_k = stubs.DeQuantStub()
        self.dequant_v = stubs.DeQuantStub()

    def _get_name(self):
        return "QuantizableMultiheadAttention"

    def _projections(self):
        return self.linear_Q, self.linear_K, self.linear_V

    @classmethod
    def from_float(cls, other):
        """The layer of a `torch.nn.MultiheadAttention` that has a QConfig, with observers.

        Raises:
            AssertionError: for other modules, and without a QConfig.
        """
        if type(other) is not cls._FLOAT_MODULE:
            raise AssertionError(f"Expected type {cls._FLOAT_MODULE}, got {type(other)}")
        if not hasattr(other, "qconfig"):
            raise AssertionError("The float module must have 'qconfig'")
        observed = cls(other.embed_dim, other.num_heads, other.dropout, other.in_proj_bias is not None,
                       other.bias_k is not None, other.add_zero_attn, other.kdim, other.vdim, other.batch_first)
        observed.bias_k, observed.bias_v, observed.qconfig = other.bias_k, other.bias_v, other.qconfig
        observed.out_proj.weight, observed.out_proj.bias = other.out_proj.weight, other.out_proj.bias
        if other._qkv_same_embed_dim:
            weights = other.in_proj_weight.chunk(3)
        else:
            weights = other.q_proj_weight, other.k_proj_weight, other.v_proj_weight
        biases = (None,) * 3 if other.in_proj_bias is None else other.in_proj_bias.chunk(3)
        for layer, weight, bias in zip(observed._projections(), weights, biases):
            layer.weight = nn.Parameter(weight, weight.requires_grad)
            layer.bias = None if bias is None else nn.Parameter(bias, bias.requires_grad)
        observed.eval()
        return torch.ao.quantization.prepare(observed, inplace=True)

    @torch.jit.unused
    def dequantize(self):
        """The quantized layer as a `torch.nn.MultiheadAttention`."""
        layers = [layer._weight_bias() for layer in self._projections()]
        made = self._FLOAT_MODULE(self.embed_dim, self.num_heads, self.dropout, layers[0][1] is not None,
                                  self.bias_k is not None, self.add_zero_attn, self.kdim, self.vdim, self.batch_first)
        if self.bias_k is not None:
            made.bias_k = nn.Parameter(self.bias_k.dequantize())
        if self.bias_v is not None:
            made.bias_v = nn.Parameter(self.bias_v.dequantize())
        weight, bias = self.out_proj._weight_bias()
        made.out_proj.weight = nn.Parameter(weight.dequantize())
        if bias is not None:
            made.out_proj.bias = nn.Parameter(bias)
        weights = [w.dequantize() for w, _ in layers]
        with torch.no_grad():
            if made._qkv_same_embed_dim:
                made.in_proj_weight.copy_(torch.cat(weights))
            else:
                made.q_proj_weight, made.k_proj_weight, made.v_proj_weight = map(nn.Parameter, weights)
            if made.in_proj_bias is not None:
                made.in_proj_bias.copy_(torch.cat([bias for _, bias in layers]))
        return made

    @classmethod
    def from_observed(cls, other):
        """Raises NotImplementedError: the quantized layer is `torch.ao.nn.quantized.MultiheadAttention`."""
        raise NotImplementedError(
            "It looks like you are trying to prepare an MHA module. Please, see the examples on quantizable MHAs."
        )

    def forward(self, query, key, value, key_padding_mask=None, need_weights: bool = True, attn_mask=None,
                average_attn_weights: bool = True, is_causal: bool = False):
        """(the results, the weights of attention or None), of the shapes of `torch.nn.MultiheadAttention`.

        Raises:
            AssertionError: for causal masks, sizes that do not fit, and masks of integers.
            RuntimeError: for masks of other sizes.
        """
        return self._forward_impl(query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights,
                                  is_causal)

    def _checked_mask(self, mask, batch, targets, sources):
        """The mask as (1 or batch * heads, targets, sources)."""
        mask = _as_bool(mask, "attn_mask")
        if mask is None:
            return None
        if not mask.is_floating_point() and mask.dtype is not torch.bool:
            raise AssertionError(f"Only float and bool types are supported for attn_mask, not {mask.dtype}")
        if mask.dim() not in (2, 3):
            raise RuntimeError(f"attn_mask's dimension {mask.dim()} is not supported")
        kind, mask = mask.dim(), mask.unsqueeze(0) if mask.dim() == 2 else mask
        if list(mask.size()) != [1 if kind == 2 else batch * self.num_heads, targets, sources]:
            raise RuntimeError(f"The size of the {kind}D attn_mask is not correct.")
        return mask

    def _forward_impl(self, query, key, value, key_padding_mask=None, need_weights: bool = True, attn_mask=None,
                      average_attn_weights: bool = True, is_causal: bool = False):
        if attn_mask is not None and is_causal:
            raise AssertionError("Only allow causal mask or attn_mask")
        if is_causal:
            raise AssertionError("causal mask not supported by AO MHA module")
        if self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        targets, batch, features = query.size()
        if self.embed_dim != features:
            raise AssertionError(f"embed_dim mismatch: {self.embed_dim} != {features}")
        if key.size()[:2] != value.size()[:2]:
            raise AssertionError(
                f"key and value size mismatch: key.size()={key.size()}, value.size()={value.size()}"
            )
        heads, width = self.num_heads, self.embed_dim // self.num_heads
        q, k, v = self.linear_Q(query), self.linear_K(key), self.linear_V(value)
        q = self.q_scaling_product.mul_scalar(q, float(width) ** -0.5)
        attn_mask = self._checked_mask(attn_mask, batch, query.size(0), key.size(0))
        key_padding_mask = _as_bool(key_padding_mask, "key_padding_mask")

        def one_more():
            return (None if mask is None else F.pad(mask, (0, 1)) for mask in (attn_mask, key_padding_mask))

        if self.bias_k is not None and self.bias_v is not None:
            k = torch.cat([k, self.bias_k.repeat(1, batch, 1)])
            v = torch.cat([v, self.bias_v.repeat(1, batch, 1)])
            attn_mask, key_padding_mask = one_more()
        q = q.contiguous().view(targets, batch * heads, width).transpose(0, 1)
        k, v = (x.contiguous().view(-1, batch * heads, width).transpose(0, 1) for x in (k, v))
        if key_padding_mask is not None:
            for dim, size in enumerate((batch, k.size(1))):
                if key_padding_mask.size(dim) != size:
                    raise AssertionError(
                        f"key_padding_mask.size({dim}) must be {size}, got {key_padding_mask.size(dim)}"
                    )
        if self.add_zero_attn:
            k, v = _with_zeros(k), _with_zeros(v)
            attn_mask, key_padding_mask = one_more()
        sources = k.size(1)
        q, k, v = self.dequant_q(q), self.dequant_k(k), self.dequant_v(v)
        weights = torch.bmm(q, k.transpose(1, 2))
        if attn_mask is not None:
            weights = weights.masked_fill(attn_mask, float("-inf")) if attn_mask.dtype is torch.bool else (
                weights + attn_mask)
        if key_padding_mask is not None:
            weights = weights.view(batch, heads, targets, sources)
            weights = weights.masked_fill(key_padding_mask[:, None, None], float("-inf"))
            weights = weights.view(batch * heads, targets, sources)
        weights = F.dropout(F.softmax(weights, dim=-1), p=self.dropout, training=self.training)
        output = torch.bmm(weights, v)
        if self.batch_first:
            # PyTorch reads the heads' memory as positions here; the integers follow that.
            output = output.view(batch, targets, self.embed_dim)
        else:
            output = output.transpose(0, 1).contiguous().view(targets, batch, self.embed_dim)
        output = self.out_proj(self.quant_attn_output(output))
        weights = self.quant_attn_output_weights(weights)
        if not need_weights:
            return output, None
        weights = weights.view(batch, heads, targets, sources)
        return output, weights.mean(dim=1) if average_attn_weights else weights
