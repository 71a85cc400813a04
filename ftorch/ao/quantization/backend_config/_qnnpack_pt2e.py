"""What QNNPACK quantizes of exported graphs, as patterns (``torch.ao.quantization.backend_config._qnnpack_pt2e``)."""

from __future__ import annotations

import operator

import ftorch as torch
from ftorch.ao.quantization.backend_config import (
    BackendConfig,
    BackendPatternConfig,
    DTypeConfig,
    ObservationType,
)

aten = torch.ops.aten
weighted_op_quint8_dtype_config = DTypeConfig(
    input_dtype=torch.quint8, output_dtype=torch.quint8, weight_dtype=torch.qint8, bias_dtype=torch.float
)
_OWN, _SHARED = (
    ObservationType.OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT, ObservationType.OUTPUT_SHARE_OBSERVER_WITH_INPUT,
)


def _config(pattern=None, observation_type: ObservationType | None = None, places=None) -> BackendPatternConfig:
    found = BackendPatternConfig(pattern).set_dtype_configs([weighted_op_quint8_dtype_config])
    if observation_type is not None:
        found.set_observation_type(observation_type)
    return found._set_input_type_to_index(places) if places else found


def get_linear_configs() -> list[BackendPatternConfig]:
    """Products with a bias and without."""
    return [_config(aten.addmm.default, _OWN, {"weight": 2, "bias": 0}),
            _config(aten.mm.default, _OWN, {"weight": 1})]


def get_conv_configs() -> list[BackendPatternConfig]:
    """Convolutions, with a ReLU and without."""
    own = aten.convolution.default
    patterns = (own, (own, aten.relu.default), (own, aten.relu_.default))
    return [_config(pattern, _OWN, {"weight": 1, "bias": 2}) for pattern in patterns]


def get_pooling_configs() -> list[BackendPatternConfig]:
    """The values of a maximum pooling that gives their places too."""
    pattern = (operator.getitem, aten.max_pool2d_with_indices.default, 0)
    config = _config(None, _SHARED)._set_pattern_complex_format(pattern)
    return [config._set_root_node_getter(lambda nodes: nodes[1])]


def get_relu_configs() -> list[BackendPatternConfig]:
    """ReLUs on their own."""
    return [_config(aten.relu.default, _SHARED)]


def get_binary_op_configs() -> list[BackendPatternConfig]:
    """Sums, with a ReLU and without; with a number, the result has its input's quantizer."""
    found = []
    for op in (aten.add.Tensor, aten.add_.Tensor):
        for pattern in ((op, aten.relu.default), op, (op, aten.relu_.default)):
            found.append(_config(pattern)._set_num_tensor_args_to_observation_type({0: _OWN, 1: _SHARED, 2: _OWN}))
    return found


def get_qnnpack_pt2e_backend_config() -> BackendConfig:
    """All of these."""
    config = BackendConfig("qnnpack_pytorch_2.0_export")
    for get in (get_linear_configs, get_binary_op_configs, get_conv_configs, get_pooling_configs, get_relu_configs):
        config.set_backend_pattern_configs(get())
    return config
