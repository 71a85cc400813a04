"""The rule of convolutions: windows gathered as columns, and a product of matrices."""

from __future__ import annotations

import math

import numpy as np

from .reduction import padded, spread, windows
from .rules import is_narrow, rule


@rule("conv_general_dilated", sizes=("padding",))
def _(params, inputs, outputs):
    numbers = params["dimension_numbers"]
    strides, lhs_dilation, rhs_dilation = (
        params[name] for name in ("window_strides", "lhs_dilation", "rhs_dilation")
    )
    features, batches = params["feature_group_count"], params["batch_group_count"]
    groups = features * batches
    dtype = outputs[0].dtype
    inner = np.dtype(np.float32) if is_narrow(inputs[0].dtype) else dtype
    zero = inner.type(0)
    back = tuple(np.argsort(numbers.out_spec))
    rank = len(strides)

    def convolve(x, kernel, edges):
        x = x.transpose(numbers.lhs_spec).astype(inner, copy=False)
        kernel = kernel.transpose(numbers.rhs_spec).astype(inner, copy=False)
        outer, extent = kernel.shape[0], kernel.shape[2:]
        x = spread(x, (1, 1, *lhs_dilation), zero)
        x = padded(x, [(0, 0), (0, 0), *edges], zero)
        n, channels = x.shape[:2]
        # (batch, channels, places..., window...)
        view = windows(x, (1, 1, *extent), (1, 1, *strides), (1, 1, *rhs_dilation))
        places = view.shape[2 : 2 + rank]
        view = view.reshape(n, channels, *places, *extent) if view.size == 0 else view[
            (slice(None),) * (2 + rank) + (0, 0)
        ]
        count, taps = math.prod(places), math.prod(extent)
        if batches > 1:
            view = view.reshape(batches, n // batches, *view.shape[1:])
        else:
            view = view.reshape(n, features, channels // features, *view.shape[2:]).swapaxes(0, 1)
        # (groups, batch, channels, places..., window...) to (groups, channels, window..., batch, places...)
        own, each = view.shape[1], view.shape[2]
        order = (0, 2, *range(3 + rank, 3 + 2 * rank), 1, *range(3, 3 + rank))
        columns = view.transpose(order).reshape(groups, each * taps, own * count)
        found = np.matmul(kernel.reshape(groups, outer // groups, each * taps), columns)
        found = found.reshape(groups, outer // groups, own, *places)
        found = found.transpose(2, 0, 1, *range(3, 3 + rank)).reshape(own, outer, *places)
        return found.transpose(back).astype(dtype, copy=False)

    return convolve
