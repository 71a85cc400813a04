"""Quantized embeddings (``torch.ao.nn.quantized.modules.embedding_ops``)."""

from __future__ import annotations

import ftorch as torch
from ftorch import nn

from .utils import _hide_packed_params_repr, _quantize_weight

__all__ = ["Embedding", "EmbeddingBag", "EmbeddingPackedParams"]

ops = torch.ops.quantized


class EmbeddingPackedParams(torch.nn.Module):
    """Packed rows as a module: what saves and loads them."""

    _version = 1

    def __init__(self, num_embeddings, embedding_dim, dtype=torch.quint8):
        super().__init__()
        self.dtype = dtype
        if dtype not in (torch.quint8, torch.quint4x2):
            raise NotImplementedError(
                f"Unsupported dtype on quantized embedding! Supports quint8 and quint4x2. Got dtype: {dtype}"
            )
        scales = torch.ones(num_embeddings, dtype=torch.float)
        weight = torch._empty_per_channel_affine_quantized(
            [num_embeddings, embedding_dim], scales=scales, zero_points=torch.zeros_like(scales), axis=0, dtype=dtype
        )
        self.set_weight(weight)

    def set_weight(self, weight) -> None:
        """Packs quantized rows."""
        self._packed_weight = ops.embedding_bag_prepack(weight)

    def _weight(self):
        return ops.embedding_bag_unpack(self._packed_weight)

    def forward(self, x):
        return x

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "dtype"] = self.dtype
        destination[prefix + "_packed_weight"] = self._weight()

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                              error_msgs):
        self.dtype = state_dict.pop(prefix + "dtype")
        self.set_weight(state_dict.pop(prefix + "_packed_weight"))
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs
        )

    def __repr__(self):
        return repr(self._weight())


class Embedding(torch.nn.Module):
    """An embedding whose rows are quantized, each with its scale; float32 results."""

    _version = 1

    def __init__(self, num_embeddings, embedding_dim, padding_idx=None, max_norm=None, norm_type=2.0,
                 scale_grad_by_freq=False, sparse=False, _weight=None, dtype=torch.quint8):
        super().__init__()
        self.num_embeddings, self.embedding_dim, self.dtype = num_embeddings, embedding_dim, dtype
        if _weight is None:
            observer_scale = torch.ones(num_embeddings, dtype=torch.float)
            _weight = torch._empty_per_channel_affine_quantized(
                [num_embeddings, embedding_dim], scales=observer_scale, zero_points=torch.zeros_like(observer_scale),
                axis=0, dtype=dtype,
            )
        elif list(_weight.shape) != [num_embeddings, embedding_dim]:
            raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
        self._packed_params = EmbeddingPackedParams(num_embeddings, embedding_dim, dtype)
        self._packed_params.set_weight(_weight)

    def forward(self, indices):
        name = "embedding_4bit" if self.dtype is torch.quint4x2 else "embedding_byte"
        return getattr(ops, name)(self._packed_params._packed_weight, indices)

    def _get_name(self):
        return "QuantizedEmbedding"

    def __repr__(self):
        return _hide_packed_params_repr(self, EmbeddingPackedParams)

    def extra_repr(self):
        return (
            f"num_embeddings={self.num_embeddings}, embedding_dim={self.embedding_dim}, "
            f"dtype={self._packed_params.dtype}, qscheme={self.weight().qscheme()}"
        )

    def set_weight(self, w) -> None:
        """Packs quantized rows."""
        self._packed_params.set_weight(w)

    def weight(self):
        """The rows, quantized."""
        return self._packed_params._weight()

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The quantized layer of one with a QConfig.

        Raises:
            AssertionError: without one, or for schemes of other zero points.
        """
        weight = _quantized_rows(cls, mod, use_precomputed_fake_quant)
        return cls(mod.num_embeddings, mod.embedding_dim, _weight=weight, dtype=weight.dtype)

    @classmethod
    def from_reference(cls, ref_embedding):
        """The layer of one that computes with rounded numbers."""
        return cls(ref_embedding.num_embeddings, ref_embedding.embedding_dim, ref_embedding.padding_idx,
                   ref_embedding.max_norm, ref_embedding.norm_type, ref_embedding.scale_grad_by_freq,
                   ref_embedding.sparse, ref_embedding.get_quantized_weight(), ref_embedding.weight_dtype)


def _quantized_rows(cls, mod, use_precomputed_fake_quant):
    if hasattr(mod, "weight_fake_quant"):
        observer = mod.weight_fake_quant
    else:
        if type(mod) not in (nn.Embedding, nn.EmbeddingBag):
            raise AssertionError(f"nnq.{cls.__name__}.from_float only works for {cls.__name__}")
        if not hasattr(mod, "qconfig"):
            raise AssertionError("Embedding input float module must have qconfig defined")
        float_qparams_weight_only_qconfig = torch.ao.quantization.float_qparams_weight_only_qconfig
        has = mod.qconfig is not None and mod.qconfig.weight is not None
        observer = mod.qconfig.weight() if has else float_qparams_weight_only_qconfig.weight()
    if observer.dtype not in (torch.quint8, torch.quint4x2):
        raise AssertionError(
            f"The only supported dtype for nnq.{cls.__name__} is torch.quint8 and torch.quint4x2, got {observer.dtype}"
        )
    if observer.qscheme is not torch.per_channel_affine_float_qparams:
        raise AssertionError("Embedding quantization is only supported with float_qparams_weight_only_qconfig.")
    if not use_precomputed_fake_quant:
        observer(mod.weight)
    return _quantize_weight(mod.weight.detach().float(), observer)


class EmbeddingBag(Embedding):
    """Sums of quantized rows; float32 results."""

    def __init__(self, num_embeddings, embedding_dim, max_norm=None, norm_type=2.0, scale_grad_by_freq=False,
                 mode="sum", sparse=False, _weight=None, include_last_offset=False, dtype=torch.quint8):
        super().__init__(num_embeddings, embedding_dim, _weight=_weight, dtype=dtype)
        self.mode, self.pruned_weights = mode, False
        self.include_last_offset = include_last_offset

    def forward(self, indices, offsets=None, per_sample_weights=None, compressed_indices_mapping=None):
        name = "embedding_bag_4bit" if self.dtype is torch.quint4x2 else "embedding_bag_byte"
        return getattr(ops, name)(
            self._packed_params._packed_weight, indices, offsets, False, 0, self.pruned_weights, per_sample_weights,
            compressed_indices_mapping, self.include_last_offset,
        )

    def _get_name(self):
        return "QuantizedEmbeddingBag"

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The quantized layer of one with a QConfig."""
        weight = _quantized_rows(cls, mod, use_precomputed_fake_quant)
        return cls(mod.num_embeddings, mod.embedding_dim, max_norm=mod.max_norm, norm_type=mod.norm_type,
                   mode=mod.mode, include_last_offset=mod.include_last_offset, _weight=weight, dtype=weight.dtype)

    @classmethod
    def from_reference(cls, ref_embedding_bag):
        """The layer of one that computes with rounded numbers."""
        return cls(ref_embedding_bag.num_embeddings, ref_embedding_bag.embedding_dim, mode=ref_embedding_bag.mode,
                   _weight=ref_embedding_bag.get_quantized_weight(), dtype=ref_embedding_bag.weight_dtype,
                   include_last_offset=ref_embedding_bag.include_last_offset)
