"""Functions for scripts: calls that their constants decide on, constructors of sparse tensors, sizes and tuples."""

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


def size_pair(x: Tensor) -> tuple[int, int]:
    return x.view(2, 3).size(0), x.view(2, 3).size(1)


def sizes_in_variables(x: Tensor):
    y, pair, found = x.view(2, 3), (2, 3), 0
    for other in ((2, 3), (4, 5)):
        if other == y.shape:
            found += 1
    if y.shape != pair and y.dim() == 2:
        found += 10
    return y.shape == pair, pair == y.shape, y.shape != pair, y.shape[:1] == pair[:1], size_pair(x) == y.shape, found


def tuples_behind_lists(x: Tensor):
    pair, sizes = (1, 2), x.view(2, 3).size()
    return sizes + pair, pair + sizes, sizes + pair + (3,), pair + (3, 4)


def no_sizes(x: Tensor):
    return x.shape == [], [] != x.shape


def lists_of_tensors(x: Tensor):
    nothing = [float("nan")]
    return [x[0]] == [x[0]], [x[0]] == [x[2]], [x[0]] != [x[0], x[0]], nothing == nothing, nothing == [float("nan")]


FUNCTIONS = [
    unique, unique_counts, unique_inverse, unique_by_place, unique_all, unique_rows, consecutive, consecutive_counts,
    consecutive_by_place, consecutive_all, consecutive_rows, consecutive_method, unpacked, coordinates, coordinates_alone,
    no_coordinates, compressed, sizes, sizes_in_variables, tuples_behind_lists, no_sizes, lists_of_tensors,
]


def chosen_late(x: Tensor, counts: bool):
    return torch.unique(x, return_counts=counts)


def method(x: Tensor):
    return x.unique()


def sizes_and_floats(x: Tensor):
    return x.shape == (2.0, 3.0)


def floats_in_variables(x: Tensor):
    numbers = [2.0, 3.0]
    return numbers != x.shape


REFUSED = [
    chosen_late, method, sizes_and_floats, floats_in_variables,
]
