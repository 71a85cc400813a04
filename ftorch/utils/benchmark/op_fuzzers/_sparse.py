"""What inputs of operators of sparse tensors have in common."""

from __future__ import annotations

from ..utils.fuzzer import FuzzedParameter, Fuzzer
from ..utils.sparse_fuzzer import FuzzedSparseTensor
from ._parameters import aliases, dimensions, entropy, named, sizes

__all__ = ["SparseFuzzer"]


class SparseFuzzer(Fuzzer):
    """Draws sparse tensors of the same sizes, of some densities, coalesced or not."""

    _names: tuple[str, ...] = ("x",)

    def __init__(self, seed, dtype, cuda) -> None:
        drawn = [
            dimensions("dim_parameter"),
            FuzzedParameter(name="sparse_dim", distribution={1: 0.4, 2: 0.4, 3: 0.2}, strict=True), *sizes(),
            *(aliases(f"{name}_k", {"k": 1.0}) for name in self._names[1:]),
            FuzzedParameter(name="density", distribution={0.1: 0.4, 0.05: 0.3, 0.01: 0.3}),
            FuzzedParameter(name="coalesced", distribution={True: 0.5, False: 0.5}), entropy(),
        ]
        tensors = [
            FuzzedSparseTensor(
                name=name, size=named("k" if name == "x" else f"{name}_k"), dim_parameter="dim_parameter",
                sparse_dim="sparse_dim", min_elements=4 * 1024, max_elements=32 * 1024**2, density="density",
                coalesced="coalesced", dtype=dtype, cuda=cuda,
            )
            for name in self._names
        ]
        super().__init__(parameters=drawn, tensors=tensors, seed=seed)
