"""Inputs of Fourier transforms."""

from __future__ import annotations

from ....eager.core.dtype import float64
from ..utils.fuzzer import FuzzedTensor, Fuzzer
from ._parameters import MAX_BYTES, dimensions, named, sizes, steps

__all__ = ["SpectralOpFuzzer"]

MIN_DIM_SIZE, MAX_DIM_SIZE = 16, 16 * 1024
# Sizes without prime factors above 5, which transforms are fastest of.
REGULAR_SIZES = sorted(
    size for i in range(15) for j in range(9) for k in range(7)
    if MIN_DIM_SIZE < (size := 2**i * 3**j * 5**k) <= MAX_DIM_SIZE
)


class SpectralOpFuzzer(Fuzzer):
    """Draws ``x``, of sizes that are products of 2, 3 and 5 by a chance.

    >>> from ftorch.utils.benchmark.op_fuzzers.spectral import REGULAR_SIZES, SpectralOpFuzzer
    >>> [(tensors, _, _)] = SpectralOpFuzzer(seed=0).take(1)
    >>> all(size in REGULAR_SIZES for size in tensors["x"].shape)
    True
    """

    def __init__(self, *, seed: int, dtype=float64, cuda: bool = False, probability_regular: float = 1.0) -> None:
        x = FuzzedTensor(
            name="x", size=named("k"), steps=named("step_"), probability_contiguous=0.75, min_elements=4 * 1024,
            max_elements=32 * 1024**2, max_allocation_bytes=MAX_BYTES, dim_parameter="ndim", dtype=dtype, cuda=cuda,
        )
        drawn = sizes("regular", REGULAR_SIZES, probability_regular, MAX_DIM_SIZE, special_first=True)
        super().__init__(parameters=[dimensions("ndim"), *drawn, steps("step_")], tensors=[x], seed=seed)
