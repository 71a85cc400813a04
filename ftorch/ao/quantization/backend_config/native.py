"""What the kernels of this library can, whatever the engine (``torch.ao.quantization.backend_config.native``)."""

from __future__ import annotations

from . import _common_operator_config_utils as _ops
from . import _dtypes
from .backend_config import BackendConfig

__all__ = [
    "get_native_backend_config", "get_native_backend_config_dict", "get_test_only_legacy_native_backend_config",
    "get_test_only_legacy_native_backend_config_dict",
]

_STATIC = [_dtypes.weighted_op_quint8]
_DYNAMIC = [_dtypes.default_dynamic_int8, _dtypes.default_dynamic_float16]
_DEFAULT = [_dtypes.default_op_quint8]


def _patterns(layer_norm=(), others=_DEFAULT):
    """The patterns of the engines with unsigned activations.

    Args:
        others: the dtypes of sums, products, and activations whose range is known.
    """
    weights = [_dtypes.weight_only_quint8, _dtypes.weight_only_quint4x2]
    return [
        *_ops._get_conv_configs(_STATIC), *_ops._get_linear_configs([*_STATIC, *_DYNAMIC]),
        *_ops._get_binary_op_configs(others), _ops._get_cat_config(_DEFAULT), *_ops._get_default_op_configs(_DEFAULT),
        *_ops._get_fixed_qparams_op_configs(others), *_ops._get_share_qparams_op_configs(_DEFAULT),
        *_ops._get_tensor_info_op_configs(_DEFAULT), *_ops._get_bn_configs(_DEFAULT), *layer_norm,
        *_ops._get_rnn_op_configs(_DYNAMIC), *_ops._get_embedding_op_configs(weights),
    ]


def get_native_backend_config() -> BackendConfig:
    """What the kernels of every engine can.

    >>> from ftorch.ao.quantization.backend_config import get_native_backend_config
    >>> get_native_backend_config().name
    'native'
    """
    layer_norm = _ops._get_ln_configs([_dtypes.input_output_weight_quint8])
    return BackendConfig("native").set_backend_pattern_configs(_patterns(layer_norm))


def get_native_backend_config_dict():
    """`get_native_backend_config` as a dict."""
    return get_native_backend_config().to_dict()


def get_test_only_legacy_native_backend_config() -> BackendConfig:
    """`get_native_backend_config` with layers of half precision, which no kernel has."""
    import ftorch as torch

    from .backend_config import DTypeConfig

    static = DTypeConfig(torch.float16, torch.float16, torch.float16, torch.float16)
    plain = DTypeConfig(torch.float16, torch.float16)
    both = [_dtypes.default_op_quint8, plain]
    weights = [_dtypes.weight_only_quint8, _dtypes.weight_only_quint4x2]
    return BackendConfig("_native_and_fp16").set_backend_pattern_configs([
        *_ops._get_conv_configs([*_STATIC, static]), *_ops._get_linear_configs([*_STATIC, *_DYNAMIC, static]),
        *_ops._get_binary_op_configs(both), _ops._get_cat_config(_DEFAULT), *_ops._get_default_op_configs(both),
        *_ops._get_fixed_qparams_op_configs(both), *_ops._get_share_qparams_op_configs(_DEFAULT),
        *_ops._get_tensor_info_op_configs(_DEFAULT), *_ops._get_bn_configs(_DEFAULT), *_ops._get_ln_configs(both),
        *_ops._get_rnn_op_configs(_DYNAMIC), *_ops._get_embedding_op_configs(weights),
    ])


def get_test_only_legacy_native_backend_config_dict():
    """`get_test_only_legacy_native_backend_config` as a dict."""
    return get_test_only_legacy_native_backend_config().to_dict()
