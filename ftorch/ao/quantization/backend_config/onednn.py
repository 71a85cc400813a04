"""What oneDNN's kernels can (``torch.ao.quantization.backend_config.onednn``): sums and activations after products, too."""

from __future__ import annotations

import operator

import ftorch as torch
import ftorch.nn.functional as F
from ftorch import nn
from ftorch.ao.nn import intrinsic as nni
from ftorch.ao.nn.quantized import reference as nnqr
from ftorch.ao.quantization.fuser_method_mappings import _sequential_wrapper2
from ftorch.ao.quantization.utils import MatchAllNode
from ftorch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

from . import _common_operator_config_utils as _ops
from . import _dtypes
from .backend_config import BackendConfig, BackendPatternConfig, DTypeConfig

__all__ = ["get_onednn_backend_config"]


def _fuse_linear_bn_leaky_relu(is_qat, linear, bn, leaky_relu):
    """A linear layer with the batch normalization folded in, and a leaky ReLU after it."""
    if not linear.training == bn.training == leaky_relu.training:
        raise AssertionError("Linear, BN and LeakyReLU all must be in the same mode (train or eval).")
    if is_qat:
        raise NotImplementedError(f"Cannot fuse train modules: {(linear, bn, leaky_relu)}")
    return nni.LinearLeakyReLU(fuse_linear_bn_eval(linear, bn), leaky_relu)


class _ConvAdd:
    """A pattern of a convolution that is added to something: ``relu(add(bn(conv(x)), y))``, in either order."""

    def __init__(self, add, left, bn, relu):
        self.left, self.bn, self.relu = left, bn, relu
        conv = (nn.BatchNorm2d, nn.Conv2d) if bn else nn.Conv2d
        total = (add, conv, MatchAllNode) if left else (add, MatchAllNode, conv)
        self.pattern = (nn.ReLU, total) if relu else total

    def _parts(self, matched):
        """(relu, add, conv or (bn, conv), the other operand) of what matched."""
        relu, matched = matched if self.relu else (None, matched)
        add, first, second = matched
        return (relu, add, first, second) if self.left else (relu, add, second, first)

    def fuse(self, is_qat, *matched):
        """The joined layer."""
        relu, add, conv, _ = self._parts(matched)
        if self.bn:
            bn, conv = conv
            if is_qat:
                raise NotImplementedError(f"Cannot fuse train modules: {(conv, bn)}")
            if bn.training != conv.training:
                raise AssertionError("Conv and BN both must be in the same mode (train or eval).")
            conv = fuse_conv_bn_eval(conv, bn)
        return nni.ConvAddReLU2d(conv, add, relu) if self.relu else nni.ConvAdd2d(conv, add)

    def root(self, matched):
        """The convolution's node."""
        conv = self._parts(matched)[2]
        return conv[1] if self.bn else conv

    def others(self, matched):
        """The nodes that are added to the convolution."""
        return [self._parts(matched)[3]]

    def config(self, dtypes):
        """The pattern's config."""
        config = BackendPatternConfig()._set_pattern_complex_format(self.pattern).set_dtype_configs(dtypes)
        config.set_fuser_method(self.fuse)._set_root_node_getter(self.root)._set_extra_inputs_getter(self.others)
        return config.set_fused_module(nni.ConvAddReLU2d if self.relu else nni.ConvAdd2d)


def _get_conv_add_configs(dtypes):
    configs = []
    for relu, fused in ((False, nni.ConvAdd2d), (True, nni.ConvAddReLU2d)):
        configs += [
            _ConvAdd(add, left, bn, relu).config(dtypes)
            for left in (True, False)
            for bn in (True, False)
            for add in (torch.add, operator.add)
        ]
        configs.append(_ops._config(fused, dtypes, root=nn.Conv2d, reference=nnqr.Conv2d))
    return configs


def _get_linear_activation_configs(dtypes):
    configs = []
    for activation, function, fused in (
        (nn.LeakyReLU, F.leaky_relu, nni.LinearLeakyReLU), (nn.Tanh, torch.tanh, nni.LinearTanh),
    ):
        fuser = _sequential_wrapper2(fused)
        configs += [
            *(_ops._config((nn.Linear, a), dtypes, fused=fused, fuser=fuser) for a in (activation, function)),
            _ops._config(fused, dtypes, root=nn.Linear, reference=nnqr.Linear),
            *(_ops._config((F.linear, a), dtypes) for a in (activation, function)),
        ]
        if activation is nn.LeakyReLU:
            with_bn = (nn.Linear, nn.BatchNorm1d, nn.LeakyReLU)
            configs.append(_ops._config(with_bn, dtypes, fused=fused, fuser=_fuse_linear_bn_leaky_relu))
    return configs


def get_onednn_backend_config() -> BackendConfig:
    """What oneDNN's kernels can: as `get_x86_backend_config`, with sums and activations after products."""
    static, dynamic = [_dtypes.weighted_op_quint8], [_dtypes.default_dynamic_int8]
    default = [_dtypes.default_op_quint8]
    rows = [DTypeConfig(torch.float, torch.float, torch.qint8)]
    return BackendConfig("onednn").set_backend_pattern_configs([
        *_ops._get_conv_configs(static), *_get_conv_add_configs(static), *_ops._get_linear_configs([*static, *dynamic]),
        *_get_linear_activation_configs([*static, *dynamic]), *_ops._get_binary_op_configs(default),
        _ops._get_cat_config(default), *_ops._get_default_op_configs(default),
        *_ops._get_fixed_qparams_op_configs(default), *_ops._get_share_qparams_op_configs(default),
        *_ops._get_bn_configs(default), *_ops._get_ln_configs([_dtypes.input_output_weight_quint8]),
        *_ops._get_rnn_op_configs(dynamic), *_ops._get_embedding_op_configs(rows),
    ])
