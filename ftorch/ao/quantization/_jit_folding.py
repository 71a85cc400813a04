"""Batch normalization behind a convolution becomes part of it, in compiled modules."""

from __future__ import annotations

import ftorch as torch

from ...nn import Parameter
from ._jit_modules import MISSING, Rewriter, changed_class

__all__ = ["fold_batch_norms"]

_CONVOLUTIONS = ("aten::conv2d", "aten::conv3d")
_SIZES_ONLY = ("aten::dim", "aten::size", "aten::len")


def fold_batch_norms(rewriter: Rewriter) -> bool:
    """Changes the weights of convolutions and takes the norms out of the graph; says whether there were any."""
    found = [_fold(rewriter, node) for node in list(rewriter.graph.walk()) if node.op == "aten::batch_norm"]
    return any(found)


def _fold(rewriter: Rewriter, node) -> bool:
    convolution = node.operands[0].producer
    if convolution is None or convolution.op not in _CONVOLUTIONS:
        return False
    uses = [u.user for u in node.operands[0].uses()]
    if any(user is not node and (user is None or user.op not in _SIZES_ONLY) for user in uses):
        return False
    path = rewriter.path(convolution.operands[1])
    weight, bias = map(rewriter.known, convolution.operands[1:3])
    scale, shift, mean, var, training = map(rewriter.known, node.operands[1:6])
    eps = rewriter.known(node.operands[7])
    if path is None or path[-1] != "weight" or training is not False or not all(
            isinstance(t, torch.Tensor) for t in (weight, mean, var)) or any(v is MISSING for v in (bias, scale, shift, eps)):
        return False
    new_weight, new_bias = torch.nn.utils.fuse_conv_bn_weights(weight, bias, mean, var, eps, scale, shift)
    owner_path = path[:-1]
    owner = rewriter.data
    for name in owner_path:
        owner = owner.__dict__[name]
    owner.__dict__["weight"] = Parameter(new_weight.detach(), weight.requires_grad)
    made_bias = Parameter(new_bias.detach(), weight.requires_grad)
    if bias is None:
        _give_bias(rewriter, owner_path, made_bias)
        owner_value = convolution.operands[1].producer.operands[0]
        read = rewriter.before(convolution, "prim::GetAttr", [owner_value], name="bias")
        convolution.operands[2] = read.results[0]
    else:
        owner.__dict__["bias"] = made_bias
    rewriter.graph.replace({node.results[0]: node.operands[0]})
    rewriter.graph.forget(node)
    return True


def _give_bias(rewriter: Rewriter, path, bias) -> None:
    """Sets a convolution's bias that was None: it gets a class of its own, as does each module above it."""
    objects = [rewriter.data]
    for name in path:
        objects.append(objects[-1].__dict__[name])
    old = objects[-1]
    prefix = "___folded_" + "_".join(path).replace(".", "_")
    made = changed_class(old, {**old.__dict__, "bias": bias}, {}, prefix=prefix)
    made._type.parameters = [*dict.fromkeys([*made._type.parameters, "bias"])]
    for i in range(len(path) - 1, 0, -1):
        above = objects[i]
        values = {**above.__dict__, path[i]: made}
        made = changed_class(above, values, {}, prefix=prefix)
    rewriter.data.__dict__[path[0]] = made
