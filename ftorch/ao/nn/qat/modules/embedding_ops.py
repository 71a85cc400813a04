"""Embeddings that train with rounded rows (``torch.ao.nn.qat.modules.embedding_ops``)."""

from __future__ import annotations

import ftorch as torch
from ftorch import nn

__all__ = ["Embedding", "EmbeddingBag"]


class _RoundedRows:
    """The part that `Embedding` and `EmbeddingBag` share: the fake quantizer of the rows."""

    _FLOAT_MODULE: type
    _options: tuple = ()
    _named = "Embedding"

    def _take(self, qconfig, device, dtype):
        if not qconfig:
            raise AssertionError("qconfig must be provided for QAT module")
        self._check_scheme(qconfig)
        self.qconfig = qconfig
        self.weight_fake_quant = qconfig.weight(factory_kwargs={"device": device, "dtype": dtype})

    @classmethod
    def _check_scheme(cls, qconfig):
        scheme = qconfig.weight().qscheme
        if scheme is not torch.per_channel_affine_float_qparams:
            raise AssertionError(
                f"{cls._named} weights requires a qscheme of torch.per_channel_affine_float_qparams Got {scheme}"
            )

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The layer of one in floating point that has a QConfig."""
        if type(mod) is not cls._FLOAT_MODULE:
            raise AssertionError(f" qat.{cls.__name__}.from_float only works for {cls._FLOAT_MODULE.__name__}")
        if not hasattr(mod, "qconfig"):
            raise AssertionError("Input float module must have qconfig defined")
        if not mod.qconfig:
            raise AssertionError("Input float module must have a valid qconfig")
        cls._check_scheme(mod.qconfig)
        options = {name: getattr(mod, name) for name in cls._options}
        return cls(mod.num_embeddings, mod.embedding_dim, **options, _weight=mod.weight, qconfig=mod.qconfig,
                   device=mod.weight.device)  # type: ignore[call-arg]

    def to_float(self):
        """The layer in floating point."""
        options = {name: getattr(self, name) for name in self._options}
        layer = self._FLOAT_MODULE(self.num_embeddings, self.embedding_dim, **options)  # type: ignore[attr-defined]
        layer.weight = nn.Parameter(self.weight.detach())  # type: ignore[attr-defined]
        layer.train(self.training)  # type: ignore[attr-defined]
        return layer


class Embedding(_RoundedRows, nn.Embedding):
    """An embedding whose rows pass a fake quantizer."""

    _FLOAT_MODULE = nn.Embedding
    _options = ("padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse")

    def __init__(self, num_embeddings, embedding_dim, padding_idx=None, max_norm=None, norm_type=2.0,
                 scale_grad_by_freq=False, sparse=False, _weight=None, device=None, dtype=None, qconfig=None) -> None:
        super().__init__(num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse,
                         _weight, device=device, dtype=dtype)
        self._take(qconfig, device, dtype)

    def forward(self, input):
        return torch.nn.functional.embedding(input, self.weight_fake_quant(self.weight), self.padding_idx,
                                             self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse)


class EmbeddingBag(_RoundedRows, nn.EmbeddingBag):
    """An embedding bag whose rows pass a fake quantizer."""

    _FLOAT_MODULE = nn.EmbeddingBag
    _named = "Embedding Bag"
    _options = ("max_norm", "norm_type", "scale_grad_by_freq", "mode", "sparse", "include_last_offset", "padding_idx")

    def __init__(self, num_embeddings, embedding_dim, max_norm=None, norm_type=2.0, scale_grad_by_freq=False,
                 mode="mean", sparse=False, _weight=None, include_last_offset=False, padding_idx=None, qconfig=None,
                 device=None, dtype=None) -> None:
        super().__init__(num_embeddings, embedding_dim, max_norm, norm_type, scale_grad_by_freq, mode, sparse,
                         _weight, include_last_offset, padding_idx, device=device, dtype=dtype)
        self._take(qconfig, device, dtype)

    def forward(self, input, offsets=None, per_sample_weights=None):
        return torch.nn.functional.embedding_bag(
            input, self.weight_fake_quant(self.weight), offsets, self.max_norm, self.norm_type,
            self.scale_grad_by_freq, self.mode, self.sparse, per_sample_weights, self.include_last_offset,
            self.padding_idx,
        )
