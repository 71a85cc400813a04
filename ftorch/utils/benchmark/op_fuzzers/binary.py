"""Inputs of operators of two tensors."""

from __future__ import annotations

from ....eager.core.dtype import float32
from ..utils.fuzzer import FuzzedTensor, Fuzzer
from ._parameters import MAX_BYTES, aliases, dimensions, entropy, named, sizes, steps

__all__ = ["BinaryOpFuzzer"]


class BinaryOpFuzzer(Fuzzer):
    """Draws ``x``, and ``y`` that is broadcast in some dimensions.

    >>> from ftorch.utils.benchmark.op_fuzzers.binary import BinaryOpFuzzer
    >>> [(tensors, _, _)] = BinaryOpFuzzer(seed=0).take(1)
    >>> sorted(tensors), tensors["x"].dim() == tensors["y"].dim()
    (['x', 'y'], True)
    """

    def __init__(self, seed, dtype=float32, cuda=False) -> None:
        options = {
            # Both have the steps of x, as PyTorch has it.
            "steps": named("x_step_"), "probability_contiguous": 0.75, "max_allocation_bytes": MAX_BYTES,
            "dim_parameter": "dim", "dtype": dtype, "cuda": cuda,
        }
        x = FuzzedTensor(name="x", size=named("k"), min_elements=4 * 1024, max_elements=32 * 1024**2, **options)
        y = FuzzedTensor(name="y", size=named("y_k"), **options)
        drawn = [
            dimensions("dim"), *sizes(), aliases("y_k", {"k": 0.8, 1: 0.2}), steps("x_step_", "y_step_"), entropy()
        ]
        super().__init__(parameters=drawn, tensors=[x, y], seed=seed)
