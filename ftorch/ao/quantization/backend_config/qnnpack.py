"""What the kernels of phones can (``torch.ao.quantization.backend_config.qnnpack``)."""

from __future__ import annotations

from . import _common_operator_config_utils as _ops
from . import _dtypes
from .backend_config import BackendConfig

__all__ = ["get_qnnpack_backend_config"]


def get_qnnpack_backend_config() -> BackendConfig:
    """What QNNPACK's kernels can: signed or unsigned activations."""
    static = [_dtypes.weighted_op_qint8, _dtypes.weighted_op_quint8]
    dynamic = [_dtypes.default_dynamic_int8, _dtypes.default_dynamic_float16]
    default = [_dtypes.default_op_qint8, _dtypes.default_op_quint8]
    return BackendConfig("qnnpack").set_backend_pattern_configs([
        *_ops._get_conv_configs(static), *_ops._get_linear_configs([*static, *dynamic]),
        *_ops._get_binary_op_configs(default), _ops._get_cat_config(default), *_ops._get_default_op_configs(default),
        *_ops._get_fixed_qparams_op_configs(default), *_ops._get_share_qparams_op_configs(default),
        *_ops._get_bn_configs(default), *_ops._get_rnn_op_configs(dynamic),
        *_ops._get_embedding_op_configs([_dtypes.weight_only_quint8, _dtypes.weight_only_quint4x2]),
    ])
