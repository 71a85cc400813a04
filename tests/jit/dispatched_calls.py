"""Functions for scripts: which function a call means follows from its constants; constructors of sparse tensors."""

import torch
from torch import Tensor


def unique(x: Tensor):
    return torch.unique(x)


def unique_counts(x: Tensor):
    return torch.unique(x, return_counts=True)


def unique_inverse(x: Tensor):
    return torch.unique(x, return_inverse=True)


def unique_by_place(x: Tensor):
    return torch.unique(x, True, True)


def unique_all(x: Tensor):
    return torch.unique(x, return_counts=True, return_inverse=True)


def unique_rows(x: Tensor):
    return torch.unique(x.view(2, -1), dim=0, return_counts=True)


def consecutive(x: Tensor):
    return torch.unique_consecutive(x)


def consecutive_counts(x: Tensor):
    return torch.unique_consecutive(x, return_counts=True)


def consecutive_by_place(x: Tensor):
    return torch.unique_consecutive(x, True)


def consecutive_all(x: Tensor):
    return torch.unique_consecutive(x, True, True)


def consecutive_rows(x: Tensor):
    return torch.unique_consecutive(x.view(2, -1), dim=0, return_counts=True)


def consecutive_method(x: Tensor):
    return x.unique_consecutive(return_counts=True)


def unpacked(x: Tensor) -> tuple[Tensor, Tensor]:
    values, counts = torch.unique(x, return_counts=True)
    return values + 1, counts * 2


def coordinates(x: Tensor):
    s = torch.sparse_coo_tensor(torch.stack([x, x]), x.float(), [4, 4])
    t = s.coalesce()
    return s.to_dense(), t.indices(), t.values(), t.is_sparse, s.is_coalesced(), s.sparse_dim(), s.dense_dim(), s._nnz()


def coordinates_alone(x: Tensor):
    return torch.sparse_coo_tensor(torch.stack([x, x]), x.float()).to_dense()


def no_coordinates(x: Tensor):
    return torch.sparse_coo_tensor([2, 3]).to_dense()


def compressed(x: Tensor):
    return torch.sparse_csr_tensor(torch.tensor([0, 1, 2, 2]), torch.tensor([0, 1]), x[:2].float(), [3, 3]).to_dense()


def sizes(x: Tensor):
    y = x.view(2, 3)
    return y.shape == (y.size(0), 3), y.shape != (2, 3), (2, 3) == y.shape, y.shape == (2, 4), [2, 3] == y.shape


FUNCTIONS = [
    unique, unique_counts, unique_inverse, unique_by_place, unique_all, unique_rows, consecutive, consecutive_counts,
    consecutive_by_place, consecutive_all, consecutive_rows, consecutive_method, unpacked, coordinates, coordinates_alone,
    no_coordinates, compressed, sizes,
]


def chosen_late(x: Tensor, counts: bool):
    return torch.unique(x, return_counts=counts)


def method(x: Tensor):
    return x.unique()


REFUSED = [chosen_late, method]
