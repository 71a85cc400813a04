"""What TensorRT can (``torch.ao.quantization.backend_config.tensorrt``)."""

from __future__ import annotations

import ftorch as torch

from . import _common_operator_config_utils as _ops
from .backend_config import BackendConfig, DTypeConfig

__all__ = ["get_tensorrt_backend_config", "get_tensorrt_backend_config_dict"]


def get_tensorrt_backend_config() -> BackendConfig:
    """What TensorRT can: signed activations and weights."""
    static = [DTypeConfig(torch.qint8, torch.qint8, torch.qint8, torch.float)]
    default = [DTypeConfig(torch.qint8, torch.qint8)]
    return BackendConfig("tensorrt").set_backend_pattern_configs([
        *_ops._get_conv_configs(static), _ops._get_tensorrt_addmm_config(static), _ops._get_cat_config(default),
        *_ops._get_linear_configs(static), *_ops._get_binary_op_configs(static),
        *_ops._get_share_qparams_op_configs(default), *_ops._get_tensor_info_op_configs(default),
    ])


def get_tensorrt_backend_config_dict():
    """`get_tensorrt_backend_config` as a dict."""
    return get_tensorrt_backend_config().to_dict()
