"""Ops of ATen by simpler ones: formulas (``torch._decomp.decompositions``).

Each is a function of tensors with the op's signature. ``tests/fx/test_decompositions.py`` compares all of them
with the ops.
"""

from __future__ import annotations

import math

from .. import _ops
from ..eager.core import api as torch
from . import register_decomposition

aten = _ops.ops.aten


def _of(*ops):
    return register_decomposition(list(ops))


# --- activations


@_of(aten.silu.default)
def silu(self):
    return self * torch.sigmoid(self)


@_of(aten.mish.default)
def mish(self):
    return self * torch.tanh(torch.log1p(torch.exp(self)))


@_of(aten.softplus.default)
def softplus(self, beta=1, threshold=20):
    scaled = self if beta == 1 else self * beta
    soft = torch.log1p(torch.exp(scaled))
    return torch.where(scaled > threshold, self, soft if beta == 1 else soft / beta)


@_of(aten.leaky_relu.default)
def leaky_relu(self, negative_slope=0.01):
    return torch.where(self > 0, self, self * negative_slope)


@_of(aten.elu.default)
def elu(self, alpha=1, scale=1, input_scale=1):
    below = alpha * scale * torch.expm1(torch.clamp(self * input_scale, max=0))
    return torch.where(self > 0, self * scale, below)


@_of(aten.hardtanh.default)
def hardtanh(self, min_val=-1, max_val=1):
    return torch.clamp(self, min_val, max_val)


@_of(aten.hardsigmoid.default)
def hardsigmoid(self):
    return torch.clamp(self + 3, 0, 6) / 6


@_of(aten.hardswish.default)
def hardswish(self):
    return self * torch.clamp(self + 3, 0, 6) / 6


@_of(aten.threshold.default)
def threshold(self, threshold, value):
    return torch.where(self <= threshold, value, self)


@_of(aten.gelu.default)
def gelu(self, approximate="none"):
    if approximate == "tanh":
        inner = math.sqrt(2 / math.pi) * (self + 0.044715 * (self * self * self))
        return 0.5 * self * (1 + torch.tanh(inner))
    return 0.5 * self * (1 + torch.erf(self * math.sqrt(0.5)))


@_of(aten.glu.default)
def glu(self, dim=-1):
    half = self.shape[dim] // 2
    return self.narrow(dim, 0, half) * torch.sigmoid(self.narrow(dim, half, half))


@_of(aten.log_sigmoid.default)
def log_sigmoid(self):
    return torch.clamp(self, max=0) - torch.log1p(torch.exp(-torch.abs(self)))


# --- sums and products


@_of(aten.addmm.default)
def addmm(self, mat1, mat2, *, beta=1, alpha=1):
    return _product_and(self, beta, torch.mm(mat1, mat2), alpha)


@_of(aten.addmv.default)
def addmv(self, mat, vec, *, beta=1, alpha=1):
    return _product_and(self, beta, torch.mv(mat, vec), alpha)


@_of(aten.baddbmm.default)
def baddbmm(self, batch1, batch2, *, beta=1, alpha=1):
    return _sum(self, beta, torch.bmm(batch1, batch2), alpha)


def _product_and(self, beta, product, alpha):
    product = alpha * product
    return product if beta == 0 else product + beta * self


def _sum(self, beta, product, alpha):
    product = product if alpha == 1 else product * alpha
    if beta == 0:  # what is there counts for nothing, were it nan
        return product
    return (self if beta == 1 else self * beta) + product


@_of(aten.linear.default)
def linear(input, weight, bias=None):
    product = torch.matmul(input, weight.transpose(0, 1))
    return product if bias is None else product + bias


@_of(aten.addcmul.default)
def addcmul(self, tensor1, tensor2, *, value=1):
    return self + value * tensor1 * tensor2


@_of(aten.addcdiv.default)
def addcdiv(self, tensor1, tensor2, *, value=1):
    return self + value * tensor1 / tensor2


@_of(aten.lerp.Scalar, aten.lerp.Tensor)
def lerp(self, end, weight):
    return self + weight * (end - self)


@_of(aten.rsub.Scalar, aten.rsub.Tensor)
def rsub(self, other, alpha=1):
    return other - self * alpha


@_of(aten.square.default)
def square(self):
    return self * self


@_of(aten.frac.default)
def frac(self):
    return self - torch.trunc(self)


@_of(aten.xlogy.Tensor)
def xlogy(self, other):
    product = torch.where(self == 0, 0.0, self * torch.log(other))
    return torch.where(torch.isnan(other), other, product)


@_of(aten.logit.default)
def logit(self, eps=None):
    x = self if eps is None else torch.clamp(self, eps, 1 - eps)
    return torch.log(x / (1 - x))


@_of(aten.dot.default)
def dot(self, tensor):
    return torch.sum(self * tensor)


# --- along dimensions


@_of(aten.softmax.int)
def softmax(self, dim, dtype=None):
    x = self if dtype is None else self.to(dtype)
    e = torch.exp(x - torch.amax(x, dim, keepdim=True))
    return e / torch.sum(e, dim, keepdim=True)


@_of(aten.log_softmax.int)
def log_softmax(self, dim, dtype=None):
    x = self if dtype is None else self.to(dtype)
    shifted = x - torch.amax(x, dim, keepdim=True)
    return shifted - torch.log(torch.sum(torch.exp(shifted), dim, keepdim=True))


@_of(aten.layer_norm.default)
def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    dims = list(range(-len(normalized_shape), 0))
    centred = input - torch.mean(input, dims, keepdim=True)
    x = centred * torch.rsqrt(torch.mean(centred * centred, dims, keepdim=True) + eps)
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


# --- losses


def _reduced(loss, reduction):
    return loss if reduction == 0 else torch.mean(loss) if reduction == 1 else torch.sum(loss)


@_of(aten.mse_loss.default)
def mse_loss(self, target, reduction=1):
    difference = self - target
    return _reduced(difference * difference, reduction)


@_of(aten.huber_loss.default)
def huber_loss(self, target, reduction=1, delta=1.0):
    z = torch.abs(self - target)
    return _reduced(torch.where(z < delta, 0.5 * z * z, delta * (z - 0.5 * delta)), reduction)


@_of(aten.smooth_l1_loss.default)
def smooth_l1_loss(self, target, reduction=1, beta=1.0):
    z = torch.abs(self - target)
    return _reduced(torch.where(z < beta, 0.5 * z * z / beta, z - 0.5 * beta), reduction)
