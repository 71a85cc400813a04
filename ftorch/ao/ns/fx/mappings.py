"""Which operators are the same in floating point and quantized, and what they take (``torch.ao.ns.fx.mappings``)."""

from __future__ import annotations

import operator

import ftorch as torch
import ftorch.nn.functional as F
from ftorch import nn
from ftorch.ao.nn import intrinsic as nni
from ftorch.ao.nn import qat as nnqat
from ftorch.ao.nn import quantized as nnq
from ftorch.ao.nn.intrinsic import qat as nniqat
from ftorch.ao.nn.intrinsic import quantized as nniq
from ftorch.ao.nn.intrinsic.quantized import dynamic as nniqd
from ftorch.ao.nn.qat import dynamic as nnqatd
from ftorch.ao.nn.quantized import dynamic as nnqd
from ftorch.ao.quantization import quantization_mappings
from ftorch.ao.quantization.backend_config import get_native_backend_config
from ftorch.ao.quantization.fx import _lowering_tables as lowering

from .ns_types import NSNodeTargetType

ops = torch.ops.quantized


def _of(module, names: str) -> list:
    return [getattr(module, name) for name in names.split()]


def _sized(module, names: str, sizes=(1, 2, 3)) -> list:
    return [getattr(module, f"{name}{size}d") for name in names.split() for size in sizes]


# What is related at first: the quantized ones come in by the tables of the quantization.
_RELATED: list[set] = [
    *[{op} for op in (*_sized(nn, "Conv"), *_sized(F, "conv"), nn.Linear, F.linear)],
    {nn.AvgPool1d, torch.avg_pool1d}, {nn.AvgPool2d, F.avg_pool2d}, {nn.AvgPool3d, F.avg_pool3d},
    *[{a, b} for a, b in zip(_sized(nn, "AdaptiveAvgPool"), _sized(F, "adaptive_avg_pool"))],
    {nn.LSTM}, {torch.add, operator.add}, {torch.cat}, {torch.mul, operator.mul},
    {F.relu, nn.ReLU, "relu", "relu_", torch.relu},
    *[{a, b} for a, b in zip(_sized(nn, "MaxPool"), _sized(F, "max_pool"))],
    {torch.sigmoid, "sigmoid", "sigmoid_", nn.Sigmoid, F.sigmoid},
    *[{op} for op in (
        *_sized(nn, "BatchNorm", (2, 3)), *_sized(nn, "ConvTranspose"), *_sized(F, "conv_transpose"), nn.ELU,
        nn.Embedding, nn.EmbeddingBag, nn.GroupNorm, nn.Hardswish, *_sized(nn, "InstanceNorm"), nn.LayerNorm,
        nn.LeakyReLU,
    )],
    {nn.ReLU6, F.relu6},
    *[{op} for op in _of(F, "elu hardswish group_norm instance_norm layer_norm leaky_relu")],
    {nn.SiLU, F.silu}, {nn.Mish, F.mish}, {nn.Tanh, F.tanh, torch.tanh, "tanh_", "tanh"},
    {"hardsigmoid_", "hardsigmoid", F.hardsigmoid, nn.Hardsigmoid}, {nn.Hardtanh, F.hardtanh, F.hardtanh_},
    {operator.floordiv},
    *[{op} for op in _of(
        torch, "unsqueeze stack squeeze sort repeat_interleave min mean max transpose flatten clamp chunk"
    )],
    {F.interpolate}, {nn.Dropout}, {F.dropout}, {torch.matmul}, {nn.Softmax}, {nn.PReLU, nnq.PReLU},
    {F.prelu, ops.prelu}, {nn.PixelShuffle}, {F.pixel_shuffle}, {nn.PixelUnshuffle}, {F.pixel_unshuffle},
    {torch.narrow},
]


def _connections():
    """Pairs of related operators, from the tables of the quantization."""
    yield nn.Linear, nn.modules.linear.NonDynamicallyQuantizableLinear
    for pattern, config in get_native_backend_config()._pattern_complex_format_to_config.items():
        first = pattern
        while isinstance(first, (list, tuple)):
            first = first[-1]
        for related in (config.fused_module, config.qat_module, config.reference_quantized_module):
            if related is not None:
                yield first, related
    for table in (lowering.STATIC_LAYERS, lowering.DYNAMIC_LAYERS, lowering.WEIGHT_ONLY_LAYERS, lowering.OTHER_LAYERS):
        yield from table.items()
    for several in (
        lowering.STATIC_FUSED_LAYERS, lowering.STATIC_FUSED_LAYERS_OF_TWO, lowering.DYNAMIC_FUSED_LAYERS,
        lowering.STATIC_FUNCTIONS, lowering.BINARY,
    ):
        for source, targets in several.items():
            # Without a form with a ReLU, transposed convolutions have None there, and by that are one, as in PyTorch.
            yield from ((source, target) for target in targets if several is not lowering.BINARY or target)
    for table in (
        quantization_mappings.DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS,
        quantization_mappings.DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS,
    ):
        yield from table.items()


def get_base_name_to_sets_of_related_ops() -> dict[str, set[NSNodeTargetType]]:
    """{name: operators, layers and methods that are one thing in floating point and quantized}.

    >>> import ftorch as torch
    >>> from ftorch.ao.ns.fx.mappings import get_base_name_for_op, get_base_name_to_sets_of_related_ops
    >>> related = get_base_name_to_sets_of_related_ops()
    >>> get_base_name_for_op(related, torch.nn.Linear) == get_base_name_for_op(related, torch.ao.nn.quantized.Linear)
    True
    """
    found = [set(related) for related in _RELATED]
    for a, b in _connections():
        for related in found:
            if a in related or b in related:
                related |= {a, b}
                break
    return {str(i): related for i, related in enumerate(found)}


def get_base_name_for_op(base_name_to_sets_of_related_ops: dict[str, set[NSNodeTargetType]],
                         op: NSNodeTargetType) -> str | None:
    """The name of the first set with an operator, or None."""
    return next((name for name, related in base_name_to_sets_of_related_ops.items() if op in related), None)


def add_op_to_sets_of_related_ops(base_name_to_sets_of_related_ops: dict[str, set[NSNodeTargetType]],
                                  op: NSNodeTargetType, related_op: NSNodeTargetType | None) -> None:
    """Puts an operator into the set of another, or, for None, into a new one.

    Raises:
        AssertionError: if the other is in none.
    """
    sets = base_name_to_sets_of_related_ops
    if related_op is None:
        sets[next(str(i) for i in range(len(sets) + 1) if str(i) not in sets)] = {op}
        return
    name = get_base_name_for_op(sets, related_op)
    if name is None:
        raise AssertionError(f"{related_op} was not found")
    sets[name].add(op)


def get_node_type_to_io_type_map() -> dict[str, set[NSNodeTargetType]]:
    """{"funs_io_type_fp32" and so on: what takes and gives floating point, integers, or what it is given}."""
    both = (1, 2, 3)
    return {
        "funs_io_type_fp32": {
            F.linear, *_sized(F, "conv"), torch.cat, *_of(F, "elu hardswish instance_norm layer_norm leaky_relu"),
            *_of(F, "dropout silu mish prelu"), operator.add, torch.add, operator.mul, torch.mul, torch.sum,
        },
        "funs_io_type_fp16": set(),
        "funs_io_type_int8": set(_of(ops, (
            "linear linear_relu conv1d conv1d_relu conv2d conv2d_relu conv3d conv3d_relu cat elu hardswish "
            "instance_norm layer_norm leaky_relu dropout prelu"
        ))),
        "funs_io_type_fp32_or_int8": {
            *_of(F, "relu tanh sigmoid hardsigmoid dropout hardtanh hardtanh_ interpolate relu6 pixel_shuffle"),
            F.pixel_unshuffle, *_sized(F, "max_pool"), *_sized(F, "adaptive_avg_pool", (2, 3)),
            torch.adaptive_avg_pool1d, torch.avg_pool1d, F.avg_pool2d, F.avg_pool3d, operator.floordiv, operator.add,
            *_of(torch, "tanh sigmoid cat chunk clamp flatten transpose max mean min narrow repeat_interleave sort"),
            *_of(torch, "squeeze stack unsqueeze"),
        },
        "mods_io_type_fp32": {
            nn.Linear, nnqat.Linear, nnqatd.Linear, nnqd.Linear, nn.modules.linear.NonDynamicallyQuantizableLinear,
            *_sized(nn, "Conv ConvTranspose InstanceNorm"), *_sized(nnqat, "Conv"), nnqat.Embedding,
            nnqat.EmbeddingBag, nn.LSTM, nnqd.LSTM, *_sized(nn, "BatchNorm", (2, 3)),
            *_of(nn, "Dropout ELU GroupNorm LayerNorm Hardswish LeakyReLU ReLU6 SiLU Mish Softmax PReLU"),
            *_sized(nni, "BNReLU", (2, 3)), *_sized(nni, "ConvReLU ConvBn", both), nni.LinearReLU, nni.LinearBn1d,
            *_sized(nniqat, "ConvBn ConvBnReLU ConvReLU", both), nniqat.LinearReLU, nniqat.LinearBn1d,
            nniqd.LinearReLU, nni.LinearLeakyReLU, nni.LinearTanh, nni.ConvAdd2d, nni.ConvAddReLU2d,
        },
        "mods_io_type_int8": {
            *_sized(nnq, "Conv InstanceNorm"), *_sized(nnq, "BatchNorm", (2, 3)), *_sized(nnq, "ConvTranspose", (1, 2)),
            *_of(nnq, "Linear Dropout ELU LayerNorm Hardswish LeakyReLU Embedding EmbeddingBag Softmax PReLU"),
            *_sized(nniq, "BNReLU", (2, 3)), *_sized(nniq, "ConvReLU"),
            *_of(nniq, "LinearReLU LinearLeakyReLU LinearTanh ConvAdd2d ConvAddReLU2d"),
        },
        "mods_io_type_fp32_or_int8": {
            *_sized(nn, "AdaptiveAvgPool AvgPool MaxPool"),
            *_of(nn, "ReLU Tanh Sigmoid Hardsigmoid Dropout Hardtanh Identity PixelShuffle PixelUnshuffle ReLU6"),
        },
        "meths_io_type_fp32_or_int8": {
            name + end for name in ("sigmoid", "tanh", "hardsigmoid", "relu") for end in ("", "_")
        },
    }


def get_unmatchable_types_map() -> dict[str, set[NSNodeTargetType]]:
    """{"funs_unmatchable" and so on: what is not compared}."""
    return {
        "funs_unmatchable": {torch.quantize_per_tensor, operator.getitem},
        "mods_unmatchable": {nn.Identity},
        "meths_unmatchable": set((
            "to dequantize reshape view unsqueeze_ unsqueeze transpose squeeze_ squeeze size shape resize_ "
            "repeat_interleave repeat permute numel mean detach_ detach contiguous clamp chunk"
        ).split()),
    }
