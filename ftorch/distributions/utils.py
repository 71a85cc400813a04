"""What distributions share (``torch.distributions.utils``)."""

from __future__ import annotations

import functools
from numbers import Number

import ftorch as torch
import ftorch.nn.functional as F

from ..eager.tensor import Tensor as Tensor

__all__ = [
    "broadcast_all", "clamp_probs", "lazy_property", "logits_to_probs", "probs_to_logits",
    "tril_matrix_to_vec", "vec_to_tril_matrix",
]

euler_constant = 0.57721566490153286060


def _is_tensor_like(value):
    return isinstance(value, torch.Tensor) or hasattr(type(value), "__torch_function__")


def broadcast_all(*values):
    """The values as tensors of one shape; numbers take the dtype and device of the tensors.

    Numbers among themselves take the default dtype.

    Raises:
        ValueError: for values that are neither tensors nor numbers.

    >>> import ftorch as torch
    >>> torch.distributions.utils.broadcast_all(torch.zeros(2), 1)
    (tensor([0., 0.]), tensor([1., 1.]))
    """
    if not all(_is_tensor_like(v) or isinstance(v, Number) for v in values):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects implementing "
            "__torch_function__."
        )
    first = next((v for v in values if isinstance(v, torch.Tensor)), None)
    if first is None:
        options = {"dtype": torch.get_default_dtype()}
    else:
        options = {"dtype": first.dtype, "device": first.device}
    return torch.broadcast_tensors(
        *(v if _is_tensor_like(v) else torch.tensor(v, **options) for v in values)
    )


def _standard_normal(shape, dtype, device):
    return torch.randn(shape, dtype=dtype, device=device)


def _sum_rightmost(value, dim):
    """The sum over the last ``dim`` dimensions (none: the value itself)."""
    return value if dim == 0 else value.reshape(value.shape[:-dim] + (-1,)).sum(-1)


def logits_to_probs(logits, is_binary=False):
    """Probabilities of log-odds (binary), or of unnormalised log probabilities in the last dim."""
    return torch.sigmoid(logits) if is_binary else F.softmax(logits, dim=-1)


def clamp_probs(probs):
    """Probabilities kept away from 0 and 1 by the dtype's epsilon."""
    eps = torch.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs, is_binary=False):
    """Log-odds (binary) or log probabilities, finite for probabilities of 0 and 1 too."""
    clamped = clamp_probs(probs)
    return torch.log(clamped) - torch.log1p(-clamped) if is_binary else torch.log(clamped)


class lazy_property:
    """A method whose result becomes an attribute of the instance when it is first read.

    It is computed with gradients recorded, so that what is read first under ``no_grad`` can still be
    differentiated later.
    """

    def __init__(self, wrapped):
        self.wrapped = wrapped
        functools.update_wrapper(self, wrapped)

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        with torch.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


def tril_matrix_to_vec(mat, diag=0):
    """The lower triangles of a batch of D x D matrices, row by row, as vectors.

    Args:
        diag: the last diagonal that belongs to the triangle.

    Raises:
        ValueError: if there is no such diagonal.
    """
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    rows, columns = torch.tril_indices(n, n, diag, device=mat.device).unbind()
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec, diag=0):
    """The inverse of `tril_matrix_to_vec`, zeros above the triangle.

    Raises:
        ValueError: for a length that no triangle has.
    """
    # The n with n (n + 1) / 2 elements below and on the diagonal, and diag more columns.
    doubled = 1 + 2 * diag
    root = (doubled**2 + 8 * vec.shape[-1] + 4 * abs(diag) * (diag + 1)) ** 0.5
    n = (-doubled + root) / 2
    eps = torch.finfo(vec.dtype).eps
    if round(n) - n > eps:
        raise ValueError(
            f"The size of last dimension is {vec.shape[-1]} which cannot be expressed as "
            "the lower triangular part of a square D x D matrix."
        )
    n = round(n)
    rows, columns = torch.tril_indices(n, n, diag, device=vec.device).unbind()
    matrix = vec.new_zeros(vec.shape[:-1] + (n, n))
    matrix[..., rows, columns] = vec
    return matrix
