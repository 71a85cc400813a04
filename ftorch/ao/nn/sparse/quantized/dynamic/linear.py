"""Sparse linear layers that quantize their inputs by the inputs' range (``torch.ao.nn.sparse.quantized.dynamic``)."""

from __future__ import annotations

from typing import Any

import ftorch as torch
from ftorch.ao.nn.sparse.quantized.linear import (
    SparseLinear,
    _checked_blocks,
    _checked_version,
    ops,
    quantized_weight,
)
from ftorch.ao.nn.sparse.quantized.utils import LinearBlockSparsePattern

__all__ = ["Linear"]


class Linear(SparseLinear):
    """A linear layer of float32 inputs and results whose quantized weight has zeros in blocks.

    The engine has to be "qnnpack" (``torch.backends.quantized.engine``).

    >>> import ftorch as torch
    >>> torch.backends.quantized.engine = "qnnpack"
    >>> torch.ao.nn.sparse.quantized.dynamic.Linear(8, 2, 1, 4)(torch.ones(3, 8)).shape
    torch.Size([3, 2])
    >>> torch.backends.quantized.engine = "x86"
    """

    _op_type = "sparse_dynamic"
    _described = "Sparse Quantized Linear Dynamic"

    def _get_name(self):
        return "SparseQuantizedDynamicLinear"

    def extra_repr(self):
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, qscheme={self.weight().qscheme()}"
        )

    def forward(self, x):
        return ops.qlinear_dynamic(x, self._packed_params._packed_params)

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "op_type"] = self._op_type

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                              error_msgs):
        # A number is asked for though states have a name, so they do not load, as in PyTorch.
        op_type: Any = int(state_dict[prefix + "op_type"])
        if op_type != "sparse":
            raise AssertionError(f"Cannot load from op_type [{op_type}], expecting [{self._op_type}]")
        del state_dict[prefix + "op_type"]
        _checked_version(self, local_metadata)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs
        )

    def set_weight_bias(self, w, b, row_block_size: int | None, col_block_size: int | None) -> None:
        """Packs a quantized weight and a bias."""
        _checked_blocks(row_block_size, col_block_size)
        self.out_features, self.in_features = w.shape
        super().set_weight_bias(w, b, row_block_size, col_block_size)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The layer of one in floating point that has a QConfig; blocks as of `LinearBlockSparsePattern`.

        Raises:
            AssertionError: for other modules, and without a QConfig.
        """
        if type(mod) is not cls._FLOAT_MODULE:
            raise AssertionError(f" nnq.{cls.__name__}.from_float only works for {cls._FLOAT_MODULE.__name__}")
        if not hasattr(mod, "qconfig"):
            raise AssertionError("Input float module must have qconfig defined")
        qconfig: Any = mod.qconfig
        if qconfig is None or qconfig.weight is None:
            observer = torch.ao.quantization.default_dynamic_qconfig.weight()
        else:
            observer = qconfig.weight()
        mask = getattr(qconfig, "mask", None)
        weight = mod.weight if mask is None else mask * mod.weight
        observer(weight)
        blocks = LinearBlockSparsePattern.block_size()
        layer = cls(mod.in_features, mod.out_features, *blocks, dtype=observer.dtype)
        bias = mod.bias
        layer.set_weight_bias(quantized_weight(weight, observer), bias, *blocks)
        return layer
