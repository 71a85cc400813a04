"""Encoder and decoder of "Attention Is All You Need"."""

from __future__ import annotations

import warnings

from ...autograd import is_grad_enabled
from ...eager.core import api as torch
from ...eager.tensor import Tensor as Tensor
from .. import functional as F
from .. import init
from ..init import xavier_uniform_ as xavier_uniform_
from .activation import GELU, ReLU
from .container import ModuleList
from .dropout import Dropout
from .linear import Linear
from .module import Module
from .multihead import MultiheadAttention
from .normalization import LayerNorm
from .utils import clones

__all__ = [
    "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
    "TransformerEncoderLayer",
]


_NOT_BATCH_FIRST = (
    ".self_attn.batch_first was not True(use batch_first for better inference performance)"
)


def _generate_square_subsequent_mask(sz, device=None, dtype=None):
    full = torch.full((sz, sz), float("-inf"), dtype=dtype, device=device)
    return torch.triu(full, diagonal=1)


def _sequence_length(x, batch_first):
    return x.size(0) if x.dim() == 2 else x.size(1 if batch_first else 0)


def _detect_is_causal_mask(mask, is_causal=None, size=None) -> bool:
    """Whether attention is causal: as the caller says, or else by looking at the mask."""
    if is_causal is not None or mask is None:
        return is_causal is True
    size = mask.size(-2) if size is None else size
    causal = _generate_square_subsequent_mask(size, device=mask.device, dtype=mask.dtype)
    return mask.size() == causal.size() and bool((mask == causal).all())


def _get_activation_fn(activation):
    """The function that a string stands for; anything else is one."""
    if not isinstance(activation, str):
        return activation
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    return getattr(F, activation)


class _Layer(Module):
    """What encoder and decoder layers share: feed-forward part, normalisations, dropouts."""

    def _ftorch_add_feed_forward(
        self, d_model, dim_feedforward, dropout, activation, eps, norm_first, bias, blocks, factory
    ):
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **factory)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **factory)
        self.norm_first = norm_first
        for i in range(1, blocks + 1):
            setattr(self, f"norm{i}", LayerNorm(d_model, eps=eps, bias=bias, **factory))
        for i in range(1, blocks + 1):
            setattr(self, f"dropout{i}", Dropout(dropout))
        self.activation = _get_activation_fn(F.relu if activation is None else activation)

    def __setstate__(self, state):
        super().__setstate__(state)
        self.__dict__.setdefault("activation", F.relu)

    def _ftorch_residual(self, x, norm, block):
        """``block`` with its residual connection, normalised before or after."""
        return x + block(norm(x)) if self.norm_first else norm(x + block(x))

    def _ftorch_feed_forward(self, x):
        return self.linear2(self.dropout(self.activation(self.linear1(x))))

    def _sa_block(self, x, attn_mask, key_padding_mask, is_causal=False):
        output, _ = self.self_attn(
            x, x, x, attn_mask=attn_mask, key_padding_mask=key_padding_mask, need_weights=False,
            is_causal=is_causal,
        )
        return self.dropout1(output)


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward network.

    Args:
        d_model: features of input and output.
        nhead: heads of the attention.
        dim_feedforward: width of the feed-forward network.
        activation: ``"relu"`` (default), ``"gelu"`` or a function.
        layer_norm_eps: of the normalisations.
        batch_first: tensors are (N, S, E) instead of (S, N, E).
        norm_first: normalise before each part instead of after it.
        bias: whether linear layers and normalisations have biases.
    """

    def __init__(
        self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation=None,
        layer_norm_eps=1e-5, batch_first=False, norm_first=False, bias=True, device=None,
        dtype=None,
    ):
        super().__init__()
        factory = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **factory
        )
        self._ftorch_add_feed_forward(
            d_model, dim_feedforward, dropout, activation, layer_norm_eps, norm_first, bias, 2,
            factory,
        )
        kinds = ((1, F.relu, ReLU), (2, F.gelu, GELU))
        self.activation_relu_or_gelu = next(
            (n for n, f, m in kinds if self.activation is f or isinstance(self.activation, m)), 0
        )

    def forward(self, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
        """Encodes (S, N, E); the masks are those of `MultiheadAttention.forward`."""
        x = self._ftorch_residual(
            src, self.norm1,
            lambda x: self._sa_block(x, src_mask, src_key_padding_mask, is_causal=is_causal),
        )
        return self._ftorch_residual(x, self.norm2, self._ff_block)

    def _ff_block(self, x):
        return self.dropout2(self._ftorch_feed_forward(x))


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the encoder's result, and a feed-forward network.

    The arguments are those of `TransformerEncoderLayer`.
    """

    def __init__(
        self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation=None,
        layer_norm_eps=1e-5, batch_first=False, norm_first=False, bias=True, device=None,
        dtype=None,
    ):
        super().__init__()
        factory = {"device": device, "dtype": dtype}
        for name in ("self_attn", "multihead_attn"):
            attention = MultiheadAttention(
                d_model, nhead, dropout=dropout, batch_first=batch_first, bias=bias, **factory
            )
            setattr(self, name, attention)
        self._ftorch_add_feed_forward(
            d_model, dim_feedforward, dropout, activation, layer_norm_eps, norm_first, bias, 3,
            factory,
        )

    def forward(
        self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None,
        memory_key_padding_mask=None, tgt_is_causal=False, memory_is_causal=False,
    ):
        """Decodes (T, N, E) with the encoder's ``memory`` of (S, N, E)."""
        x = self._ftorch_residual(
            tgt, self.norm1,
            lambda x: self._sa_block(x, tgt_mask, tgt_key_padding_mask, tgt_is_causal),
        )
        x = self._ftorch_residual(
            x, self.norm2,
            lambda x: self._mha_block(
                x, memory, memory_mask, memory_key_padding_mask, memory_is_causal
            ),
        )
        return self._ftorch_residual(x, self.norm3, self._ff_block)

    def _mha_block(self, x, mem, attn_mask, key_padding_mask, is_causal=False):
        output, _ = self.multihead_attn(
            x, mem, mem, attn_mask=attn_mask, key_padding_mask=key_padding_mask,
            need_weights=False, is_causal=is_causal,
        )
        return self.dropout2(output)

    def _ff_block(self, x):
        return self.dropout3(self._ftorch_feed_forward(x))


class TransformerEncoder(Module):
    """``num_layers`` copies of an encoder layer.

    Args:
        norm: a normalisation of the result.
        enable_nested_tensor: in inference with a padding mask, the result is zero at padding.
        mask_check: do so only if the padding is at the end of each sequence.
    """

    def __init__(
        self, encoder_layer, num_layers, norm=None, enable_nested_tensor=True, mask_check=True
    ):
        super().__init__()
        self.layers = ModuleList(clones(encoder_layer, num_layers))
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.use_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check
        reason = self._ftorch_why_not_nested(encoder_layer)
        if enable_nested_tensor and reason:
            warnings.warn(
                "enable_nested_tensor is True, but self.use_nested_tensor is False because "
                f"encoder_layer{reason}",
                stacklevel=2,
            )
            self.use_nested_tensor = False

    @staticmethod
    def _ftorch_why_not_nested(layer):
        if not isinstance(layer, TransformerEncoderLayer):
            return " was not TransformerEncoderLayer"
        attention = layer.self_attn
        reasons = (
            (layer.norm_first, ".norm_first was True"),
            (not attention.batch_first, _NOT_BATCH_FIRST),
            (not attention._qkv_same_embed_dim, ".self_attn._qkv_same_embed_dim was not True"),
            (attention.in_proj_bias is None, ".self_attn was passed bias=False"),
            (not layer.activation_relu_or_gelu, ".activation_relu_or_gelu was not True"),
            (layer.norm1.eps != layer.norm2.eps,
             ".norm1.eps was not equal to encoder_layer.norm2.eps"),
            (attention.num_heads % 2 == 1, ".self_attn.num_heads is odd"),
        )
        return next((text for applies, text in reasons if applies), "")

    def _ftorch_drops_padding(self, src, mask, padding):
        """Whether PyTorch would compute without the padded positions, which makes them zero."""
        if not self.use_nested_tensor or self.layers[0].training or src.dim() != 3:
            return False
        if padding is None or mask is not None:
            return False
        tensors = (src, *self.layers[0].parameters())
        if is_grad_enabled() and any(t.requires_grad for t in tensors):
            return False
        if not self.mask_check:
            return True
        left_aligned = (padding[:, 1:] | ~padding[:, :-1]).all()
        return bool(left_aligned)

    def forward(self, src, mask=None, src_key_padding_mask=None, is_causal=None):
        """Encodes (S, N, E), or (N, S, E) if the layers are ``batch_first``.

        Args:
            mask: (S, S), True (or -inf) where there is no attention.
            src_key_padding_mask: (N, S), True (or -inf) at padding.
            is_causal: whether ``mask`` is the causal one; None looks at it.
        """
        first, output = self.layers[0], src
        padding = src_key_padding_mask
        if padding is not None and padding.is_floating_point():
            padding = padding == float("-inf")
        drops_padding = self._ftorch_drops_padding(src, mask, padding)
        length = _sequence_length(src, first.self_attn.batch_first)
        is_causal = _detect_is_causal_mask(mask, is_causal, length)
        for layer in self.layers:
            output = layer(
                output, src_mask=mask, is_causal=is_causal,
                src_key_padding_mask=src_key_padding_mask,
            )
        if drops_padding:
            output = output.masked_fill(padding.unsqueeze(-1), 0.0)
        return output if self.norm is None else self.norm(output)


class TransformerDecoder(Module):
    """``num_layers`` copies of a decoder layer, and a normalisation of the result."""

    def __init__(self, decoder_layer, num_layers, norm=None):
        super().__init__()
        self.layers = ModuleList(clones(decoder_layer, num_layers))
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None,
        memory_key_padding_mask=None, tgt_is_causal=None, memory_is_causal=False,
    ):
        """Decodes (T, N, E) with the encoder's ``memory``; see `TransformerDecoderLayer`."""
        length = _sequence_length(tgt, self.layers[0].self_attn.batch_first)
        tgt_is_causal = _detect_is_causal_mask(tgt_mask, tgt_is_causal, length)
        output = tgt
        for layer in self.layers:
            output = layer(
                output, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=tgt_is_causal,
                memory_is_causal=memory_is_causal,
            )
        return output if self.norm is None else self.norm(output)


class Transformer(Module):
    """An encoder and a decoder.

    Args:
        d_model, nhead, dim_feedforward, ...: those of `TransformerEncoderLayer`.
        num_encoder_layers, num_decoder_layers: how many layers.
        custom_encoder, custom_decoder: modules to use instead.

    >>> import ftorch as torch
    >>> model = torch.nn.Transformer(8, 2, 1, 1, 16, batch_first=True)
    >>> model(torch.rand(3, 5, 8), torch.rand(3, 4, 8)).shape
    torch.Size([3, 4, 8])
    """

    def __init__(
        self, d_model=512, nhead=8, num_encoder_layers=6, num_decoder_layers=6,
        dim_feedforward=2048, dropout=0.1, activation=None, custom_encoder=None,
        custom_decoder=None, layer_norm_eps=1e-5, batch_first=False, norm_first=False, bias=True,
        device=None, dtype=None,
    ):
        super().__init__()
        factory = {"device": device, "dtype": dtype}

        def stack(layer_class, stack_class, n):
            layer = layer_class(
                d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
                norm_first, bias, **factory,
            )
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **factory)
            return stack_class(layer, n, norm)

        self.encoder = custom_encoder
        if custom_encoder is None:
            self.encoder = stack(TransformerEncoderLayer, TransformerEncoder, num_encoder_layers)
        self.decoder = custom_decoder
        if custom_decoder is None:
            self.decoder = stack(TransformerDecoderLayer, TransformerDecoder, num_decoder_layers)
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def forward(
        self, src, tgt, src_mask=None, tgt_mask=None, memory_mask=None, src_key_padding_mask=None,
        tgt_key_padding_mask=None, memory_key_padding_mask=None, src_is_causal=None,
        tgt_is_causal=None, memory_is_causal=False,
    ):
        """Encodes ``src`` (S, N, E) and decodes ``tgt`` (T, N, E) with the result.

        Raises:
            RuntimeError: batch sizes differ, or features are not ``d_model``.
        """
        batch = 0 if self.batch_first else 1
        if src.dim() == 3 and src.size(batch) != tgt.size(batch):
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(
            src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal
        )
        return self.decoder(
            tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz, device=None, dtype=None):
        """The causal mask: (sz, sz) with -inf above the diagonal and 0 elsewhere."""
        return _generate_square_subsequent_mask(sz, dtype=dtype, device=device)

    def _reset_parameters(self):
        for parameter in self.parameters():
            if parameter.dim() > 1:
                init.xavier_uniform_(parameter)
