"""``torch._higher_order_ops.out_dtype``: an op whose result has another dtype than its operands would give."""

from __future__ import annotations

import ftorch as torch

from .._ops import REGISTERED, OpOverload
from . import HigherOrderOperator


class OutDtypeOperator(HigherOrderOperator):
    """``out_dtype(op, dtype, *args)``: what ``op`` gives in that dtype, computed wide enough for it.

    Products of int8 matrices into int32 are `torch._int_mm`'s.

    Raises:
        ValueError: for what is no op of ATen's without effects, of one result, in its list.

    >>> import ftorch as torch
    >>> from ftorch._higher_order_ops.out_dtype import out_dtype
    >>> x = torch.full((2, 2), 100, dtype=torch.int8)
    >>> out_dtype(torch.ops.aten.mm.default, torch.int32, x, x)
    tensor([[20000, 20000],
            [20000, 20000]], dtype=torch.int32)
    """

    _ftorch_allowed = (
        "linear.default",
        "mm.default",
        "conv2d.default",
        "convolution.default",
        "mul.Tensor",
        "mul.Scalar",
        "div.Tensor",
        "div.Scalar",
    )

    def __init__(self):
        def out_dtype(op, output_dtype, *args):
            return _run(op, output_dtype, args)

        super().__init__(out_dtype)

    def __call__(self, op, output_dtype, *args):
        if not isinstance(op, OpOverload):
            raise ValueError("out_dtype's first argument must be an OpOverload")
        name = op.overloadpacket.__name__
        if name.endswith("_"):
            raise ValueError("out_dtype's first argument needs to be a functional operator")
        returns = [] if op._schema is None else op._schema.returns
        if op._schema is not None and (len(returns) != 1 or str(returns[0].type) != "Tensor"):
            raise ValueError(
                "out_dtype's can only apply to ops that return a single tensor"
                f"Instead got {[r.type for r in returns]}"
            )
        allowed = [
            getattr(getattr(torch.ops.aten, name), overload)
            for name, overload in (n.split(".") for n in self._ftorch_allowed)
        ]
        if op not in allowed:
            raise ValueError(f"out_dtype only allows the following operators: {allowed}.")
        return super().__call__(op, output_dtype, *args)


def _run(op, output_dtype, args):
    if op is torch.ops.aten.mm.default and output_dtype is torch.int32:
        if all(isinstance(a, torch.Tensor) and a.dtype is torch.int8 for a in args) and len(args) == 2:
            return torch._int_mm(*args)
    floating = output_dtype.is_floating_point or output_dtype.is_complex
    wide = [
        a.to(output_dtype) if isinstance(a, torch.Tensor) and (floating or not a.is_floating_point()) else a
        for a in args
    ]
    return op(*wide).to(output_dtype)


out_dtype = OutDtypeOperator()
REGISTERED["higher_order::out_dtype"] = out_dtype
