"""Quantized linear layers with zeros in blocks (``torch.ao.nn.sparse.quantized.linear``)."""

from __future__ import annotations

from typing import Any

import ftorch as torch
from ftorch.ao.nn.quantized.modules.utils import _hide_packed_params_repr, _quantize_weight

__all__ = ["Linear", "LinearPackedParams"]

ops = torch.ops.sparse


def _checked_blocks(row_block_size, col_block_size) -> None:
    if row_block_size is None or col_block_size is None:
        raise AssertionError(
            f"row_block_size and col_block_size must not be None, got row_block_size={row_block_size}, "
            f"col_block_size={col_block_size}"
        )


def _checked_version(module, local_metadata) -> None:
    version = local_metadata.get("version")
    if version is not None and version > module._version:
        raise AssertionError(f"version {version} > self._version {module._version}")


def quantized_weight(weight, observer):
    """A weight as qint8 by an observer that has seen it.

    Raises:
        AssertionError: for another dtype, or a zero point.
    """
    if observer.dtype != torch.qint8:
        raise AssertionError(f"Weight observer must have dtype torch.qint8, got {observer.dtype}")
    _, zero_point = observer.calculate_qparams()
    if isinstance(zero_point, torch.Tensor):
        if torch.any(zero_point.bool()):
            raise AssertionError("All weight zero points must map to 0")
    elif zero_point != 0:
        raise AssertionError(f"Weight zero point must map to 0, got {zero_point}")
    return _quantize_weight(weight.detach().float(), observer)


class LinearPackedParams(torch.nn.Module):
    """Packed weights with zeros in blocks, as a module: what saves and loads them."""

    _version = 1

    def __init__(self, row_block_size=1, col_block_size=4, dtype=torch.qint8):
        super().__init__()
        if dtype != torch.qint8:
            raise NotImplementedError("Linear prepacking only supports QINT8")
        self.dtype = dtype
        weight = torch._empty_affine_quantized([1, 1], scale=1.0, zero_point=0, dtype=torch.qint8)
        self.set_weight_bias(weight, None, row_block_size, col_block_size)

    def _get_name(self):
        return "SparseQuantizedLinearPackedParams"

    def set_weight_bias(self, weight, bias, row_block_size: int | None, col_block_size: int | None) -> None:
        """Packs a quantized weight and a bias."""
        _checked_blocks(row_block_size, col_block_size)
        self._packed_params = ops.qlinear_prepack(weight, bias, row_block_size, col_block_size)

    def _weight_bias(self):
        weight, bias, blocks = ops.qlinear_unpack(self._packed_params)
        return weight, bias, blocks[0], blocks[1]

    def forward(self, x):
        return x

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "dtype"] = self.dtype
        destination[prefix + "_packed_params"] = self._weight_bias()

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                              error_msgs):
        _checked_version(self, local_metadata)
        self.dtype = state_dict.pop(prefix + "dtype")
        self.set_weight_bias(*state_dict.pop(prefix + "_packed_params"))
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs
        )

    def __getstate__(self):
        return self._packed_params, self.training, self.dtype

    def __setstate__(self, state):
        torch.nn.Module.__init__(self)
        self._packed_params, self.training, self.dtype = state

    def __repr__(self):
        return repr(self._weight_bias())


class SparseLinear(torch.nn.Module):
    """What the two kinds of sparse linear layers have in common."""

    _version = 1
    _FLOAT_MODULE = torch.nn.Linear
    _described = "Sparse Quantized Linear"

    def __init__(self, in_features, out_features, row_block_size, col_block_size, bias=True, dtype=torch.qint8):
        super().__init__()
        if dtype != torch.qint8:
            raise NotImplementedError(f"Only QINT8 is supported for {self._described}")
        self.in_features, self.out_features = in_features, out_features
        weight = torch._empty_affine_quantized([out_features, in_features], scale=1, zero_point=0, dtype=torch.qint8)
        self._packed_params = LinearPackedParams(row_block_size, col_block_size, dtype)
        self._packed_params.set_weight_bias(
            weight, torch.zeros(out_features, dtype=torch.float) if bias else None, row_block_size, col_block_size
        )

    def __repr__(self):
        return _hide_packed_params_repr(self, LinearPackedParams)

    def _weight_bias(self):
        return self._packed_params._weight_bias()

    def weight(self):
        """The weight, quantized."""
        return self._weight_bias()[0]

    def bias(self):
        """The bias, or None."""
        return self._weight_bias()[1]

    def set_weight_bias(self, w, b, row_block_size: int | None, col_block_size: int | None) -> None:
        """Packs a quantized weight and a bias."""
        self._packed_params.set_weight_bias(w, b, row_block_size, col_block_size)


class Linear(SparseLinear):
    """A linear layer of quantized inputs and results whose weight has zeros in blocks.

    The engine has to be "fbgemm" (``torch.backends.quantized.engine``), with blocks of 1 × 4.

    Attributes:
        scale, zero_point: the results' quantizer.

    >>> import ftorch as torch
    >>> torch.backends.quantized.engine = "fbgemm"
    >>> layer = torch.ao.nn.sparse.quantized.Linear(8, 2, 1, 4)
    >>> layer(torch.quantize_per_tensor(torch.ones(3, 8), 1.0, 0, torch.quint8)).shape
    torch.Size([3, 2])
    >>> torch.backends.quantized.engine = "x86"
    """

    def __init__(self, in_features, out_features, row_block_size, col_block_size, bias=True, dtype=torch.qint8):
        super().__init__(in_features, out_features, row_block_size, col_block_size, bias, dtype)
        self.scale = 1.0
        self.zero_point = 0

    @classmethod
    def _get_name(cls):
        return "SparseQuantizedLinear"

    def extra_repr(self):
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, scale={self.scale}, "
            f"zero_point={self.zero_point}, qscheme={self.weight().qscheme()}"
        )

    def forward(self, x):
        return ops.qlinear(x, self._packed_params._packed_params, self.scale, self.zero_point)

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "scale"] = torch.tensor(self.scale)
        destination[prefix + "zero_point"] = torch.tensor(self.zero_point)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                              error_msgs):
        self.scale = float(state_dict.pop(prefix + "scale"))
        self.zero_point = int(state_dict.pop(prefix + "zero_point"))
        # Its own states have no such entry, so they do not load, as in PyTorch.
        state_dict.pop(prefix + "op_type")
        _checked_version(self, local_metadata)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs
        )

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The layer of one in floating point that was prepared and made sparse.

        Raises:
            AssertionError: for other modules, and without a QConfig or ``sparse_params``.
        """
        if type(mod) is not cls._FLOAT_MODULE:
            raise AssertionError(f"{cls._get_name()}.from_float only works for {cls._FLOAT_MODULE.__name__}")
        if not hasattr(mod, "sparse_params"):
            raise AssertionError(
                "Expecting the Linear to have `sparse_params`. Make sure you have provided arguments in the "
                '`sparsifier.squash_mask(params_to_save=("sparse_block_shape",))` method.'
            )
        layer_of: Any = mod
        block = layer_of.sparse_params.get("sparse_block_shape")
        if not isinstance(block, (tuple, list)):
            raise AssertionError(f"sparse_block_shape must be tuple or list, got {type(block)}")
        if len(block) != 2:
            raise AssertionError(f"sparse_block_shape must have length 2, got {len(block)}")
        if not hasattr(mod, "qconfig"):
            raise AssertionError("Input float module must have qconfig defined")
        observer = layer_of.qconfig.weight()
        observer(mod.weight)
        scale, zero_point = layer_of.activation_post_process.calculate_qparams()
        layer = cls(mod.in_features, mod.out_features, *block, dtype=observer.dtype)
        bias = mod.bias
        layer.set_weight_bias(quantized_weight(mod.weight, observer), bias, *block)
        layer.scale, layer.zero_point = float(scale), int(zero_point)
        return layer
