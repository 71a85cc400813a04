"""The patterns that backends have in common, each a function of the dtypes that a backend can."""

from __future__ import annotations

import copy
import operator
from collections import namedtuple

import ftorch as torch
import ftorch.nn.functional as F
from ftorch import nn
from ftorch.ao.nn import intrinsic as nni
from ftorch.ao.nn import qat as nnqat
from ftorch.ao.nn.intrinsic import qat as nniqat
from ftorch.ao.nn.quantized import reference as nnqr
from ftorch.ao.quantization.fuser_method_mappings import (
    _sequential_wrapper2,
    fuse_conv_bn,
    fuse_conv_bn_relu,
    fuse_convtranspose_bn,
    fuse_linear_bn,
)

from .backend_config import BackendPatternConfig, DTypeConfig, DTypeWithConstraints, ObservationType

__all__: list[str] = []

_DIFFERENT = ObservationType.OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT
_SHARED = ObservationType.OUTPUT_SHARE_OBSERVER_WITH_INPUT

_ConvMetadata = namedtuple(
    "_ConvMetadata",
    ["root", "transpose", "bn", "reference", "transpose_reference", "fused_conv_relu", "fused_conv_bn",
     "fused_conv_bn_relu", "qat", "relu_qat", "bn_qat", "bn_relu_qat", "func", "func_transpose"],
)


def _convolutions(n: int) -> _ConvMetadata:
    names = {
        nn: ("Conv", "ConvTranspose", "BatchNorm"), nnqr: ("Conv", "ConvTranspose"),
        nni: ("ConvReLU", "ConvBn", "ConvBnReLU"), nnqat: ("Conv",), nniqat: ("ConvReLU", "ConvBn", "ConvBnReLU"),
        F: ("conv", "conv_transpose"),
    }
    return _ConvMetadata(*(getattr(room, f"{name}{n}d") for room, found in names.items() for name in found))


_Conv1dMetadata, _Conv2dMetadata, _Conv3dMetadata = (_convolutions(n) for n in (1, 2, 3))

_FIXED_QPARAMS_OP_0TO1_CONSTRAINTS = DTypeWithConstraints(
    dtype=torch.quint8, quant_min_lower_bound=0, quant_max_upper_bound=255, scale_exact_match=1.0 / 256.0,
    zero_point_exact_match=0,
)
_FIXED_QPARAMS_OP_NEG1TO1_CONSTRAINTS = DTypeWithConstraints(
    dtype=torch.quint8, quant_min_lower_bound=0, quant_max_upper_bound=255, scale_exact_match=2.0 / 256.0,
    zero_point_exact_match=128,
)
_FIXED_QPARAMS_OP_TO_CONSTRAINTS = {
    **dict.fromkeys(
        (nn.Hardsigmoid, F.hardsigmoid, "hardsigmoid", "hardsigmoid_", nn.Sigmoid, torch.sigmoid, "sigmoid", "sigmoid_",
         nn.Softmax), _FIXED_QPARAMS_OP_0TO1_CONSTRAINTS),
    **dict.fromkeys((nn.Tanh, torch.tanh, "tanh", "tanh_"), _FIXED_QPARAMS_OP_NEG1TO1_CONSTRAINTS),
}


def _config(pattern, dtypes, observed=_DIFFERENT, *, root=None, qat=None, reference=None, fused=None, fuser=None,
            indices=None):
    """A pattern's config."""
    config = BackendPatternConfig(pattern).set_observation_type(observed).set_dtype_configs(dtypes)
    config.root_module, config.qat_module, config.reference_quantized_module = root, qat, reference
    config.fused_module, config.fuser_method = fused, fuser
    if indices is not None:
        config._set_input_type_to_index(indices)
    return config


def _weights():
    return {"weight": 1, "bias": 2}


def _get_binary_op_configs(dtype_configs, ops=(operator.add, torch.add, operator.mul, torch.mul)):
    """Sums and products: with a number the result keeps the tensor's observer."""
    by_tensors = {0: _DIFFERENT, 1: _SHARED, 2: _DIFFERENT}
    configs = [
        _config(pattern, dtype_configs)._set_num_tensor_args_to_observation_type(by_tensors)
        for op in ops
        for pattern in ((op, nn.ReLU), (op, F.relu), (op, torch.relu), op)
    ]
    return [*configs, _config(torch.matmul, dtype_configs)]


def _get_linear_configs(dtype_configs):
    layers = {"root": nn.Linear, "reference": nnqr.Linear}
    return [
        _config(nn.Linear, dtype_configs, qat=nnqat.Linear, **layers),
        _config(nnqat.Linear, dtype_configs, **layers),
        _config(F.linear, dtype_configs, indices=_weights()),
        *(_config((nn.Linear, relu), dtype_configs, fused=nni.LinearReLU, fuser=_sequential_wrapper2(nni.LinearReLU))
          for relu in (nn.ReLU, F.relu)),
        _config(nni.LinearReLU, dtype_configs, qat=nniqat.LinearReLU, **layers),
        _config(nniqat.LinearReLU, dtype_configs, **layers),
        *(_config((F.linear, relu), dtype_configs) for relu in (nn.ReLU, F.relu)),
        _config((nn.Linear, nn.BatchNorm1d), dtype_configs, fused=nni.LinearBn1d, fuser=fuse_linear_bn),
        _config(nni.LinearBn1d, dtype_configs, qat=nniqat.LinearBn1d, **layers),
        _config(nniqat.LinearBn1d, dtype_configs, **layers),
    ]


def _get_conv_configs(dtype_configs, kinds=(_Conv1dMetadata, _Conv2dMetadata, _Conv3dMetadata), transposed=True):
    configs = []
    for c in kinds:
        layers = {"root": c.root, "reference": c.reference}
        configs += [
            _config(c.root, dtype_configs, qat=c.qat, **layers),
            _config(c.qat, dtype_configs, **layers),
            _config(c.func, dtype_configs, indices=_weights()),
            *(
                _config(
                    (c.root, relu),
                    dtype_configs,
                    fused=c.fused_conv_relu,
                    fuser=_sequential_wrapper2(c.fused_conv_relu),
                )
                for relu in (nn.ReLU, F.relu)
            ),
            _config(c.fused_conv_relu, dtype_configs, qat=c.relu_qat),
            _config(c.relu_qat, dtype_configs, **layers),
            *(_config((c.func, relu), dtype_configs) for relu in (nn.ReLU, F.relu)),
            _config((c.root, c.bn), dtype_configs, fused=c.fused_conv_bn, fuser=fuse_conv_bn),
            _config((c.root, c.bn, nn.ReLU), dtype_configs, fused=c.fused_conv_bn_relu, fuser=fuse_conv_bn_relu),
            _config(
                (c.root, c.bn, F.relu), dtype_configs, root=c.root, fused=c.fused_conv_bn_relu, fuser=fuse_conv_bn_relu
            ),
            _config(c.fused_conv_bn, dtype_configs, qat=c.bn_qat),
            _config(c.fused_conv_bn_relu, dtype_configs, qat=c.bn_relu_qat),
            _config(c.bn_qat, dtype_configs, **layers),
            _config(c.bn_relu_qat, dtype_configs, **layers),
        ]
        if transposed:
            layers = {"root": c.transpose, "reference": c.transpose_reference}
            configs += [
                _config(c.transpose, dtype_configs, **layers),
                _config((c.transpose, c.bn), dtype_configs, fuser=fuse_convtranspose_bn, **layers),
                _config(c.func_transpose, dtype_configs, indices=_weights()),
            ]
    return configs


def _get_cat_config(dtype_configs):
    return _config(torch.cat, dtype_configs, _SHARED)


def _get_ln_configs(dtype_configs):
    return [
        _config(nn.LayerNorm, dtype_configs),
        _config(F.layer_norm, dtype_configs, indices={"weight": 2, "bias": 3}),
    ]


def _get_default_op_configs(dtype_configs):
    ops = (nn.ELU, nn.LeakyReLU, nn.Hardswish, nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d, nn.Dropout,
           nn.PReLU, F.elu, F.hardswish, F.leaky_relu, F.dropout)
    return [
        *(_config(op, dtype_configs) for op in ops),
        _config(F.group_norm, dtype_configs, indices={"weight": 2, "bias": 3}),
        _config(F.instance_norm, dtype_configs, indices={"weight": 3, "bias": 4}),
    ]


def _add_fixed_qparams_to_dtype_configs(dtype_configs, constraints):
    """The same dtypes, where the integers' range is known: results have one scale only."""
    found = []
    for config in dtype_configs:
        given = [config.input_dtype_with_constraints, config.output_dtype_with_constraints]
        for i, dtype in enumerate(given):
            if dtype.dtype == constraints.dtype:
                for name in ("quant_min_lower_bound", "quant_max_upper_bound", "scale_min_lower_bound",
                             "scale_max_upper_bound"):
                    if getattr(dtype, name) is not None:
                        raise ValueError(f"{name} is invalid for fixed qparams ops: {dtype}")
                given[i] = copy.deepcopy(constraints)
        found.append(DTypeConfig(*given, config.weight_dtype_with_constraints, config.bias_dtype, config.is_dynamic))
    return found


def _get_fixed_qparams_op_configs(dtype_configs):
    return [
        _config(op, _add_fixed_qparams_to_dtype_configs(dtype_configs, constraints))
        for op, constraints in _FIXED_QPARAMS_OP_TO_CONSTRAINTS.items()
    ]


def _get_share_qparams_op_configs(dtype_configs):
    """What moves or chooses numbers: results have the scale of the inputs."""
    ops = (
        nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d, nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d,
        nn.Hardtanh, nn.Identity, nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d, nn.PixelShuffle, nn.PixelUnshuffle, nn.ReLU,
        nn.ReLU6, F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d, F.hardtanh, F.hardtanh_,
        F.interpolate, F.max_pool1d, F.max_pool2d, F.max_pool3d, F.pixel_shuffle, F.pixel_unshuffle, F.relu, F.relu6,
        torch.avg_pool1d, F.avg_pool2d, F.avg_pool3d, torch.clamp, torch.flatten, torch.mean,
        torch.narrow, torch.repeat_interleave, torch.transpose, torch.squeeze, torch.stack, torch.unsqueeze,
        operator.floordiv, "contiguous", "clamp", "detach", "detach_", "mean", "permute", "repeat", "repeat_interleave",
        "reshape", "resize_", "relu", "relu_", "squeeze", "squeeze_", "transpose", "unsqueeze", "unsqueeze_", "view",
    )
    return [_config(op, dtype_configs, _SHARED) for op in ops]


def _get_tensor_info_op_configs(dtype_configs):
    return [_config(op, dtype_configs, ObservationType.INPUT_OUTPUT_NOT_OBSERVED) for op in ("shape", "size")]


def _get_bn_configs(dtype_configs):
    configs = []
    for bn, fused in ((nn.BatchNorm2d, nni.BNReLU2d), (nn.BatchNorm3d, nni.BNReLU3d)):
        configs += [
            *(
                _config((bn, relu), dtype_configs, fused=fused, fuser=_sequential_wrapper2(fused))
                for relu in (nn.ReLU, F.relu)
            ),
            _config(bn, dtype_configs),
        ]
    return [*configs, _config(nni.BNReLU2d, dtype_configs), _config(nni.BNReLU3d, dtype_configs)]


def _get_rnn_op_configs(dtype_configs):
    return [
        _config(getattr(nn, name), dtype_configs, root=getattr(nn, name), reference=getattr(nnqr, name))
        for name in ("GRUCell", "LSTMCell", "RNNCell", "LSTM", "GRU")
    ]


def _get_embedding_op_configs(dtype_configs):
    configs = []
    for name in ("Embedding", "EmbeddingBag"):
        layers = {"root": getattr(nn, name), "reference": getattr(nnqr, name)}
        configs += [
            _config(getattr(nn, name), dtype_configs, qat=getattr(nnqat, name), **layers),
            _config(getattr(nnqat, name), dtype_configs, **layers),
        ]
    return configs


def _get_tensorrt_addmm_config(dtype_configs):
    return _config(torch.addmm, dtype_configs, indices={"bias": 0, "input": 1, "weight": 2})
