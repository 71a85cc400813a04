"""Inputs of operators of one tensor."""

from __future__ import annotations

from ....eager.core.dtype import float32
from ..utils.fuzzer import FuzzedTensor, Fuzzer
from ._parameters import MAX_BYTES, dimensions, entropy, named, sizes, steps

__all__ = ["UnaryOpFuzzer"]


class UnaryOpFuzzer(Fuzzer):
    """Draws ``x`` of one to three dimensions, contiguous or not.

    >>> from ftorch.utils.benchmark.op_fuzzers.unary import UnaryOpFuzzer
    >>> [(tensors, _, parameters)] = UnaryOpFuzzer(seed=0).take(1)
    >>> sorted(tensors), "random_value" in parameters
    (['x'], True)
    """

    def __init__(self, seed, dtype=float32, cuda=False) -> None:
        x = FuzzedTensor(
            name="x", size=named("k"), steps=named("x_step_"), probability_contiguous=0.75, min_elements=4 * 1024,
            max_elements=32 * 1024**2, max_allocation_bytes=MAX_BYTES, dim_parameter="dim", dtype=dtype, cuda=cuda,
        )
        super().__init__(
            parameters=[dimensions("dim"), *sizes(), steps("x_step_"), entropy()], tensors=[x], seed=seed
        )
