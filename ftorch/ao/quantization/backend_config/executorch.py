"""What ExecuTorch's kernels can (``torch.ao.quantization.backend_config.executorch``)."""

from __future__ import annotations

import operator

import ftorch as torch
import ftorch.nn.functional as F
from ftorch import nn

from . import _common_operator_config_utils as _ops
from . import _dtypes
from .backend_config import BackendConfig, DTypeConfig, ObservationType

__all__ = ["get_executorch_backend_config"]

_SHARED = ObservationType.OUTPUT_SHARE_OBSERVER_WITH_INPUT


def get_executorch_backend_config() -> BackendConfig:
    """What ExecuTorch's kernels can."""
    static = [_dtypes.weighted_op_qint8, _dtypes.weighted_op_quint8]
    dynamic_qint8 = DTypeConfig(
        _dtypes.act_qint8_scale_min_2_neg_12, torch.float, _dtypes.weight_qint8_neg_127_to_127_scale_min_2_neg_12,
        torch.float, is_dynamic=True,
    )
    default = [_dtypes.default_op_qint8, _dtypes.default_op_quint8]
    dynamic = [_dtypes.default_dynamic_int8, dynamic_qint8, _dtypes.default_dynamic_float16]
    sums = (operator.add, torch.add, operator.sub, torch.sub, operator.mul, torch.mul)
    rows = [_dtypes.weight_only_quint8]
    embeddings = _ops._get_embedding_op_configs(rows)
    embeddings.insert(2, _ops._config(F.embedding, rows, indices={"weight": 1}))
    return BackendConfig("executorch").set_backend_pattern_configs([
        *_ops._get_linear_configs([*static, *dynamic])[:3],
        *_ops._get_conv_configs(static, (_ops._Conv2dMetadata,), transposed=False),
        *_ops._get_binary_op_configs([_dtypes.default_op_qint8, _dtypes.weighted_op_quint8], sums)[:-1],
        *(_ops._config(op, default, _SHARED) for op in _MOVING), _ops._config(nn.BatchNorm2d, default),
        *(_ops._config(op, default, _SHARED) for op in (torch.cat, torch.concat, torch.concatenate)), *embeddings,
    ])


_MOVING = (
    nn.Flatten,
    F.adaptive_avg_pool2d,
    F.elu,
    F.hardtanh,
    F.max_pool2d,
    F.pad,
    F.relu,
    F.relu6,
    F.leaky_relu,
    F.leaky_relu_,
    nn.AdaptiveAvgPool2d,
    nn.ConstantPad2d,
    nn.ELU,
    nn.MaxPool2d,
    nn.ReLU6,
    nn.Hardtanh,
    nn.LeakyReLU,
    torch.clamp,
    torch.flatten,
    torch.mean,
    torch.permute,
    torch.permute_copy,
    torch.squeeze,
    "clamp",
    "mean",
    "permute",
    "reshape",
    "relu",
    "relu_",
    "squeeze",
    "squeeze_",
    "leaky_relu",
)
