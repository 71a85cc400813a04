"""Which quantized layer or operator takes the place of which in floating point."""

from __future__ import annotations

import operator

import ftorch as torch
import ftorch.nn.functional as F
from ftorch import nn
from ftorch.ao.nn import intrinsic as nni
from ftorch.ao.nn import quantized as nnq
from ftorch.ao.nn.intrinsic import quantized as nniq
from ftorch.ao.nn.intrinsic.quantized import dynamic as nniqd
from ftorch.ao.nn.quantized import dynamic as nnqd
from ftorch.ao.nn.quantized import reference as nnqr

ops = torch.ops.quantized

STATIC_LAYERS = {nnqr.Linear: nnq.Linear, nnqr.Conv1d: nnq.Conv1d, nnqr.Conv2d: nnq.Conv2d, nnqr.Conv3d: nnq.Conv3d}
DYNAMIC_LAYERS = {
    nnqr.Linear: nnqd.Linear, nnqr.GRUCell: nnqd.GRUCell, nnqr.LSTMCell: nnqd.LSTMCell, nnqr.RNNCell: nnqd.RNNCell,
    nnqr.LSTM: nnqd.LSTM, nnqr.GRU: nnqd.GRU,
}
WEIGHT_ONLY_LAYERS = {nnqr.Embedding: nnq.Embedding, nnqr.EmbeddingBag: nnq.EmbeddingBag}

#: {joined layer: (its first part, the quantized layer)}
STATIC_FUSED_LAYERS = {
    nni.LinearReLU: (nnqr.Linear, nniq.LinearReLU), nni.LinearLeakyReLU: (nnqr.Linear, nniq.LinearLeakyReLU),
    nni.LinearTanh: (nnqr.Linear, nniq.LinearTanh), nni.ConvReLU1d: (nnqr.Conv1d, nniq.ConvReLU1d),
    nni.ConvReLU2d: (nnqr.Conv2d, nniq.ConvReLU2d), nni.ConvReLU3d: (nnqr.Conv3d, nniq.ConvReLU3d),
}
STATIC_FUSED_LAYERS_OF_TWO = {
    nni.ConvAdd2d: (nnqr.Conv2d, nniq.ConvAdd2d), nni.ConvAddReLU2d: (nnqr.Conv2d, nniq.ConvAddReLU2d),
}
DYNAMIC_FUSED_LAYERS = {nni.LinearReLU: (nnqr.Linear, nniqd.LinearReLU)}

#: layers that are quantized for their results only
OTHER_LAYERS = {
    nn.BatchNorm2d: nnq.BatchNorm2d, nn.BatchNorm3d: nnq.BatchNorm3d, nnqr.ConvTranspose1d: nnq.ConvTranspose1d,
    nnqr.ConvTranspose2d: nnq.ConvTranspose2d, nnqr.ConvTranspose3d: nnq.ConvTranspose3d, nn.ELU: nnq.ELU,
    nn.LeakyReLU: nnq.LeakyReLU, nn.Hardswish: nnq.Hardswish, nn.InstanceNorm1d: nnq.InstanceNorm1d,
    nn.InstanceNorm2d: nnq.InstanceNorm2d, nn.InstanceNorm3d: nnq.InstanceNorm3d, nn.LayerNorm: nnq.LayerNorm,
    nn.Dropout: nnq.Dropout, nn.Softmax: nnq.Softmax, nn.PReLU: nnq.PReLU, nni.BNReLU2d: nniq.BNReLU2d,
    nni.BNReLU3d: nniq.BNReLU3d,
}

CONVOLUTIONS = (F.conv1d, F.conv2d, F.conv3d)
TRANSPOSED_CONVOLUTIONS = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)

#: {function: (quantized operator, the one with a ReLU)}
STATIC_FUNCTIONS = {
    F.linear: (ops.linear, ops.linear_relu), F.conv1d: (ops.conv1d, ops.conv1d_relu),
    F.conv2d: (ops.conv2d, ops.conv2d_relu), F.conv3d: (ops.conv3d, ops.conv3d_relu),
    F.conv_transpose1d: (ops.conv_transpose1d, None), F.conv_transpose2d: (ops.conv_transpose2d, None),
    F.conv_transpose3d: (ops.conv_transpose3d, None),
}

_BYTES, _HALVES = (torch.quint8, torch.qint8), (torch.float16, torch.float16)

#: {function: {(inputs' dtype, weight's dtype): (quantized operator, the one with a ReLU)}}
DYNAMIC_FUNCTIONS = {
    F.linear: {_BYTES: (ops.linear_dynamic, ops.linear_relu_dynamic),
               _HALVES: (ops.linear_dynamic_fp16, ops.linear_relu_dynamic_fp16)},
    F.conv1d: {_BYTES: (ops.conv1d_dynamic, None)}, F.conv2d: {_BYTES: (ops.conv2d_dynamic, None)},
    F.conv3d: {_BYTES: (ops.conv3d_dynamic, None)},
}

PREPACK = (
    ops.linear_prepack, ops.linear_prepack_fp16, ops.conv1d_prepack, ops.conv2d_prepack, ops.conv3d_prepack,
    ops.conv_transpose1d_prepack, ops.conv_transpose2d_prepack, ops.conv_transpose3d_prepack,
)

#: {function: (quantized operator, the one with a ReLU)}
BINARY = {
    operator.add: (ops.add, ops.add_relu), torch.add: (ops.add, ops.add_relu), operator.mul: (ops.mul, ops.mul_relu),
    torch.mul: (ops.mul, ops.mul_relu), torch.matmul: (ops.matmul, None),
}

# --- what is called on quantized tensors as it is: functions, methods, layers

FIXED = (
    (F.hardsigmoid, torch.sigmoid, torch.tanh),
    ("hardsigmoid", "hardsigmoid_", "sigmoid", "sigmoid_", "tanh", "tanh_"),
    (nn.Hardsigmoid, nn.Sigmoid, nn.Tanh, nn.Softmax),
)
WITH_QUANTIZER = (
    (F.elu, F.hardswish, F.instance_norm, F.layer_norm, F.leaky_relu, F.dropout), (),
    (nnqr.ConvTranspose1d, nnqr.ConvTranspose2d, nnqr.ConvTranspose3d, nn.ELU, nn.LeakyReLU, nn.Hardswish,
     nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d, nn.LayerNorm, nn.Dropout, nn.PReLU, nn.BatchNorm2d,
     nn.BatchNorm3d, nni.BNReLU2d, nni.BNReLU3d),
)
SAME_QUANTIZER = (
    (torch.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d, F.hardtanh, F.hardtanh_, F.interpolate,
     F.max_pool1d, F.max_pool2d, F.max_pool3d, F.relu, F.relu6, torch.avg_pool1d, F.avg_pool2d,
     F.avg_pool3d, torch.clamp, torch.flatten, torch.mean, operator.floordiv, torch.channel_shuffle),
    ("clamp", "mean", "relu", "relu_"),
    (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d, nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d,
     nn.Hardtanh, nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d, nn.ReLU, nn.ReLU6, nn.ChannelShuffle),
)
MOVING = (
    (torch.narrow, torch.transpose, torch.repeat_interleave, torch.squeeze, torch.stack, torch.unsqueeze,
     F.pixel_shuffle, F.pixel_unshuffle),
    ("contiguous", "detach", "detach_", "permute", "repeat", "repeat_interleave", "reshape", "resize_", "shape", "size",
     "squeeze", "squeeze_", "transpose", "unsqueeze", "unsqueeze_", "view"),
    (nn.Identity, nn.PixelShuffle, nn.PixelUnshuffle),
)
OTHER = ((torch.cat,), (), ())

#: arguments that quantized operators do not have
SKIPPED_ARGUMENTS = {
    ops.hardswish: ("inplace",), ops.elu: ("inplace",), ops.dropout: ("inplace",),
    ops.instance_norm: ("running_mean", "running_var", "use_input_stats", "momentum"),
}
