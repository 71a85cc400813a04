"""Which layers are joined, and how (``torch.ao.quantization.fuser_method_mappings``)."""

from __future__ import annotations

import itertools

from ftorch import nn
from ftorch.ao.nn import intrinsic as nni
from ftorch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

from .utils import get_combined_dict

__all__ = [
    "fuse_conv_bn", "fuse_conv_bn_relu", "fuse_convtranspose_bn", "fuse_linear_bn", "get_fuser_method",
    "get_fuser_method_new",
]

_BN = {nn.Conv1d: nni.ConvBn1d, nn.Conv2d: nni.ConvBn2d, nn.Conv3d: nni.ConvBn3d}
_BN_RELU = {nn.Conv1d: nni.ConvBnReLU1d, nn.Conv2d: nni.ConvBnReLU2d, nn.Conv3d: nni.ConvBnReLU3d}
_RELU = {nn.Conv1d: nni.ConvReLU1d, nn.Conv2d: nni.ConvReLU2d, nn.Conv3d: nni.ConvReLU3d}


def _check(layer, bn, what="Conv"):
    if layer.training != bn.training:
        raise AssertionError(f"{what} and BN both must be in the same mode (train or eval).")


def _check_channels(conv, bn):
    if bn.num_features != conv.out_channels:
        raise AssertionError("Output channel of Conv2d must match num_features of BatchNorm2d")
    if not bn.affine:
        raise AssertionError("Only support fusing BatchNorm2d with affine set to True")
    if not bn.track_running_stats:
        raise AssertionError("Only support fusing BatchNorm2d with tracking_running_stats set to True")


def fuse_conv_bn(is_qat, conv, bn):
    """A convolution with the batch normalization folded in; for training, both together.

    Raises:
        AssertionError: if one trains and the other does not.
        NotImplementedError: for other convolutions in training.
    """
    _check(conv, bn)
    if not is_qat:
        return fuse_conv_bn_eval(conv, bn)
    _check_channels(conv, bn)
    if type(conv) not in _BN:
        raise NotImplementedError(f"Cannot fuse train modules: {(conv, bn)}")
    return _BN[type(conv)](conv, bn)


def fuse_conv_bn_relu(is_qat, conv, bn, relu):
    """`fuse_conv_bn` with a ReLU after it."""
    if not conv.training == bn.training == relu.training:
        raise AssertionError("Conv and BN both must be in the same mode (train or eval).")
    if is_qat:
        _check_channels(conv, bn)
    mapping = _BN_RELU if is_qat else _RELU
    if type(conv) not in mapping:
        raise NotImplementedError(f"Cannot fuse {'train' if is_qat else 'eval'} modules: {(conv, bn, relu)}")
    return mapping[type(conv)](conv, bn, relu) if is_qat else mapping[type(conv)](fuse_conv_bn_eval(conv, bn), relu)


def fuse_linear_bn(is_qat, linear, bn):
    """A linear layer with the batch normalization folded in; for training, both together."""
    _check(linear, bn, "Linear")
    if not is_qat:
        return fuse_linear_bn_eval(linear, bn)
    if bn.num_features != linear.out_features:
        raise AssertionError("Output features of Linear must match num_features of BatchNorm1d")
    return nni.LinearBn1d(linear, bn)


def fuse_convtranspose_bn(is_qat, convt, bn):
    """A transposed convolution with the batch normalization folded in."""
    _check(convt, bn, "ConvTranspose")
    if is_qat:
        raise Exception("Fusing ConvTranspose+BatchNorm not yet supported in QAT.")  # noqa: TRY002
    return fuse_conv_bn_eval(convt, bn, transpose=True)


def _sequential_wrapper2(sequential):
    """The method that makes a sequence of two layers one module."""

    def fuser_method(is_qat, m1, m2):
        return sequential(m1, m2)

    return fuser_method


_DEFAULT_OP_LIST_TO_FUSER_METHOD = {
    **{
        (c, b): fuse_conv_bn
        for c, b in ((nn.Conv1d, nn.BatchNorm1d), (nn.Conv2d, nn.BatchNorm2d), (nn.Conv3d, nn.BatchNorm3d))
    },
    **{
        (c, b, nn.ReLU): fuse_conv_bn_relu
        for c, b in ((nn.Conv1d, nn.BatchNorm1d), (nn.Conv2d, nn.BatchNorm2d), (nn.Conv3d, nn.BatchNorm3d))
    },
    **{(c, nn.ReLU): _sequential_wrapper2(f) for c, f in _RELU.items()},
    (nn.Linear, nn.BatchNorm1d): fuse_linear_bn,
    (nn.Linear, nn.ReLU): _sequential_wrapper2(nni.LinearReLU),
    (nn.BatchNorm2d, nn.ReLU): _sequential_wrapper2(nni.BNReLU2d),
    (nn.BatchNorm3d, nn.ReLU): _sequential_wrapper2(nni.BNReLU3d),
    **{
        (c, b): fuse_convtranspose_bn
        for c, b in (
            (nn.ConvTranspose1d, nn.BatchNorm1d),
            (nn.ConvTranspose2d, nn.BatchNorm2d),
            (nn.ConvTranspose3d, nn.BatchNorm3d),
        )
    },
}


def get_fuser_method(op_list, additional_fuser_method_mapping=None):
    """The function that joins modules of some types.

    Raises:
        AssertionError: if there is none.
    """
    mapping = get_combined_dict(_DEFAULT_OP_LIST_TO_FUSER_METHOD, additional_fuser_method_mapping or {})
    method = mapping.get(op_list)
    if method is None:
        raise AssertionError(f"did not find fuser method for: {op_list} ")
    return method


def get_fuser_method_new(op_pattern, fuser_method_mapping):
    """The function that joins modules of a pattern, whose nodes may stand for any module.

    Raises:
        AssertionError: if there is none.
    """
    for pattern in _get_valid_patterns(op_pattern):
        method = fuser_method_mapping.get(pattern)
        if method is not None:
            return method
    raise AssertionError(f"did not find fuser method for: {op_pattern} ")


def _get_valid_patterns(op_pattern):
    """The patterns that are at least as general: each part, or any node in its place."""
    from .utils import MatchAllNode

    if not isinstance(op_pattern, (tuple, list)):
        return [op_pattern, MatchAllNode]
    return [*itertools.product(*map(_get_valid_patterns, op_pattern)), MatchAllNode]


def _reverse2(f):
    """A function that joins two modules, for patterns from the last call to the first."""

    def reversed(is_qat, x, y):
        return f(is_qat, y, x)

    return reversed


def _reverse3(f):
    """A function that joins three modules, for patterns from the last call to the first."""

    def reversed(is_qat, x, w):
        y, z = w
        return f(is_qat, z, y, x)

    return reversed
