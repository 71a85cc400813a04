"""Functions that methods have replaced (``torch.autograd._functions.tensor``)."""

from __future__ import annotations

import math
import warnings

from ..function import Function


class Type(Function):
    """Tensors of another type: use ``tensor.type``."""

    @staticmethod
    def forward(ctx, i, dest_type):
        warnings.warn("`torch.autograd._functions.Type` is deprecated as of PyTorch 2.1, please use "
                      "`torch.tensor.to(dtype=dtype)` instead.", FutureWarning, stacklevel=2)
        ctx.former = i.type()
        return i.type(dest_type)

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output.type(ctx.former), None


class Resize(Function):
    """Tensors in another shape of as many elements: use ``tensor.reshape``."""

    @staticmethod
    def forward(ctx, tensor, sizes):
        if tensor.numel() != math.prod(sizes):
            raise RuntimeError(
                f"requested resize to {'x'.join(map(str, sizes))} ({math.prod(sizes)} elements in total), but the given tensor "
                f"has a size of {'x'.join(map(str, tensor.size()))} ({tensor.numel()} elements). autograd's resize can only "
                "change the shape of a given tensor, while preserving the number of elements. "
            )
        ctx.former = tensor.size()
        return tensor.contiguous().view(sizes)

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output.contiguous().view(ctx.former), None
