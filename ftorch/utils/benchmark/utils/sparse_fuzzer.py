"""`FuzzedSparseTensor`: random sparse tensors."""

from __future__ import annotations

import math
from numbers import Number

import ftorch as torch

from .fuzzer import FuzzedTensor

__all__ = ["FuzzedSparseTensor"]


class FuzzedSparseTensor(FuzzedTensor):
    """A random sparse tensor in COO format (``torch.utils.benchmark.FuzzedSparseTensor``). It reads
    the parameters ``density``, ``coalesced`` and ``sparse_dim``.

    Args:
        name, size, min_elements, max_elements, dim_parameter, dtype, cuda: as `FuzzedTensor`'s.
        sparse_dim: anything true to read that parameter; else all dimensions are sparse.
    """

    def __init__(
        self,
        name: str,
        size: tuple[str | int, ...],
        min_elements: int | None = None,
        max_elements: int | None = None,
        dim_parameter: str | None = None,
        sparse_dim: str | None = None,
        nnz: str | None = None,
        density: str | None = None,
        coalesced: str | None = None,
        dtype=None,
        cuda=False,
    ) -> None:
        super().__init__(
            name=name, size=size, min_elements=min_elements, max_elements=max_elements,
            dim_parameter=dim_parameter, dtype=dtype, cuda=cuda,
        )
        self._density = density
        self._coalesced = coalesced
        self._sparse_dim = sparse_dim

    @staticmethod
    def sparse_tensor_constructor(size, dtype, sparse_dim, nnz, is_coalesced):
        """A tensor with ``nnz`` values at random places. Uncoalesced ones have each place twice,
        coalesced ones may have fewer values, where places coincided."""
        if isinstance(size, Number):
            size = [size] * sparse_dim
        if all(size[d] <= 0 for d in range(sparse_dim)) and nnz != 0:
            raise AssertionError("invalid arguments")
        values = FuzzedTensor.default_tensor_constructor([nnz, *size[sparse_dim:]], dtype)
        places = torch.rand(sparse_dim, nnz, device="cpu")
        places.mul_(torch.tensor(size[:sparse_dim]).unsqueeze(1).to(places))
        places = places.to(torch.long)
        if not is_coalesced:
            values = torch.cat([values, torch.randn_like(values)], 0)
            places = torch.cat([places, places], 1)
        made = torch.sparse_coo_tensor(places, values, torch.Size(size))
        return made.coalesce() if is_coalesced else made

    def _make_tensor(self, params, state):
        size, _, _ = self._get_size_and_steps(params)
        density = params["density"]
        nnz = math.ceil(sum(size) * density)
        if nnz > sum(size):
            raise AssertionError("nnz cannot exceed total number of elements")
        sparse_dim = min(params["sparse_dim"] if self._sparse_dim else len(size), len(size))
        tensor = self.sparse_tensor_constructor(
            size, self._dtype, sparse_dim, nnz, params["coalesced"]
        )
        if self._cuda:
            tensor = tensor.cuda()
        return tensor, {
            "numel": int(tensor.numel()),
            "shape": tensor.size(),
            "is_coalesced": tensor.is_coalesced(),
            "density": density,
            "sparsity": 1.0 - density,
            "sparse_dim": tensor.sparse_dim(),
            "dense_dim": tensor.dense_dim(),
            "is_hybrid": len(size[tensor.sparse_dim() :]) > 0,
            "dtype": str(self._dtype),
        }
