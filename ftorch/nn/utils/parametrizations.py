"""Ready parametrizations: orthogonal matrices, weight and spectral normalization."""

from __future__ import annotations

from ...autograd import no_grad
from ...eager.core import api as torch
from ...eager.core.dtype import finfo
from ...eager.tensor import Tensor
from .. import functional as F
from ..modules.module import Module
from ._matrix import as_matrix, output_dim
from .parametrize import register_parametrization

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

_MAPS = ("matrix_exp", "cayley", "householder")


def _the_tensor(module, name):
    value = getattr(module, name, None)
    if not isinstance(value, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return value


def _is_orthogonal(q):
    n, k = q.shape[-2:]
    identity = torch.eye(k, dtype=q.dtype, device=q.device)
    return torch.allclose(q.mH @ q, identity, atol=10.0 * n * finfo(q.dtype).eps)


def _made_orthogonal(a):
    """The Q of a QR decomposition whose R has a positive diagonal: unique, uniform for Gaussians."""
    reflectors, tau = torch.geqrf(a)
    q = torch.linalg.householder_product(reflectors, tau)
    return q * reflectors.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


class _Orthogonal(Module):
    """Orthogonal (unitary) matrices from any, around a ``base`` if trivialized."""

    def __init__(self, weight, orthogonal_map, *, use_trivialization=True):
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X):
        wide = X.size(-2) < X.size(-1)
        if wide:
            X = X.mT
        q = self._householder(X) if self.orthogonal_map == "householder" else self._from_skew(X)
        if hasattr(self, "base"):
            q = self.base @ q
        return q.mT if wide else q

    def _from_skew(self, x):
        """The matrix exponential or the Cayley map of the skew matrix with x's lower triangle."""
        n, k = x.shape[-2:]
        x = x.tril()
        if n != k:
            x = torch.cat([x, x.new_zeros(n, n - k).expand(*x.shape[:-2], -1, -1)], dim=-1)
        skew = x - x.mH
        if self.orthogonal_map == "matrix_exp":
            q = torch.matrix_exp(skew)
        else:
            identity = torch.eye(n, dtype=x.dtype, device=x.device)
            q = torch.linalg.solve(identity - skew / 2, identity + skew / 2)
        return q if n == k else q[..., :k]

    @staticmethod
    def _householder(x):
        """The product of the reflections whose vectors are x's columns; x's diagonal are signs."""
        reflectors = x.tril(diagonal=-1)
        tau = 2.0 / (1.0 + (reflectors * reflectors).sum(dim=-2))
        q = torch.linalg.householder_product(reflectors, tau)
        return q * x.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)

    def right_inverse(self, Q):
        with no_grad():
            if Q.shape != self.shape:
                raise ValueError(
                    f"Expected a matrix or batch of matrices of shape {self.shape}. "
                    f"Got a tensor of shape {Q.shape}."
                )
            wide = Q.size(-2) < Q.size(-1)
            tall = Q.mT if wide else Q
            if hasattr(self, "base"):
                self.base = self._completed(tall)
                start = torch.zeros_like(Q)
                start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
                return start
            if self.orthogonal_map != "householder":
                raise NotImplementedError(
                    "It is not possible to assign to the matrix exponential or the Cayley "
                    "parametrizations when use_trivialization=False."
                )
            # The reflections of Q's QR decomposition, with the signs of R in the free diagonal.
            a, tau = torch.geqrf(tall)
            diagonal = a.diagonal(dim1=-2, dim2=-1)
            diagonal.sign_()
            diagonal[tau == 0.0] *= -1
            return a.mT if wide else a

    @staticmethod
    def _completed(q):
        """A square orthogonal matrix that begins with the columns of ``q``."""
        n, k = q.shape[-2:]
        if n != k:
            more = torch.randn(*q.shape[:-2], n, n - k, dtype=q.dtype, device=q.device)
            return _made_orthogonal(torch.cat([q, more], dim=-1))
        return q.clone() if _is_orthogonal(q) else _made_orthogonal(q)


def orthogonal(module, name="weight", orthogonal_map=None, *, use_trivialization=True):
    """Makes a matrix (or each of a batch) orthogonal, or unitary if complex.

    Args:
        orthogonal_map: ``"matrix_exp"``, ``"cayley"`` or ``"householder"``; by default the first
            for square and for complex matrices and the last for others.
        use_trivialization: whether the map is taken around a base that is reset on assignment.

    Raises:
        ValueError: for no such tensor, one with less than two dimensions, or another map.

    >>> import ftorch as torch
    >>> layer = torch.nn.utils.parametrizations.orthogonal(torch.nn.Linear(3, 3))
    >>> torch.dist(layer.weight.T @ layer.weight, torch.eye(3)).item() < 1e-5
    True
    """
    weight = _the_tensor(module, name)
    if weight.ndim < 2:
        raise ValueError(
            f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions."
        )
    if orthogonal_map is None:
        square = weight.size(-2) == weight.size(-1)
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in _MAPS:
        raise ValueError(
            'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". '
            f"Got: {orthogonal_map}"
        )
    made = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    return register_parametrization(module, name, made, unsafe=True)


class _WeightNorm(Module):
    """A direction times a norm."""

    def __init__(self, dim=0):
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g, weight_v):
        return torch._weight_norm(weight_v, weight_g, self.dim)

    def right_inverse(self, weight):
        return torch.norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module, name="weight", dim=0):
    """Splits a tensor into norms (``original0``) and directions (``original1``).

    Args:
        dim: the dimension over which the norms are kept apart; ``None`` for one norm of all.

    Checkpoints of `torch.nn.utils.weight_norm` (``weight_g``, ``weight_v``) can be loaded.

    >>> import ftorch as torch
    >>> layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(3, 2))
    >>> layer.parametrizations.weight.original0.shape
    torch.Size([2, 1])
    """
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def rename(state_dict, prefix, *_):
        keys = [f"{prefix}{name}_g", f"{prefix}{name}_v"]
        if all(key in state_dict for key in keys):
            for i, key in enumerate(keys):
                new = f"{prefix}parametrizations.{name}.original{i}"
                state_dict[new] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(rename)
    return module


class _SpectralNorm(Module):
    """A matrix divided by its largest singular value, which power iterations estimate."""

    def __init__(self, weight, n_power_iterations=1, dim=0, eps=1e-12):
        super().__init__()
        ndim = weight.ndim
        if not -ndim <= dim < ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{ndim}, {ndim - 1}] but got "
                f"{dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.dim = dim % ndim
        self.eps = eps
        if ndim > 1:
            self.n_power_iterations = n_power_iterations
            matrix = as_matrix(weight, self.dim)
            for buffer, length in zip(("_u", "_v"), matrix.shape, strict=True):
                start = matrix.detach().new_empty(length).normal_(0, 1)
                self.register_buffer(buffer, F.normalize(start, dim=0, eps=eps))
            self._power_method(matrix, 15)

    def _power_method(self, matrix, n_power_iterations):
        with no_grad():
            for _ in range(n_power_iterations):
                self._u.copy_(F.normalize(torch.mv(matrix, self._v), dim=0, eps=self.eps))
                self._v.copy_(F.normalize(torch.mv(matrix.mH, self._u), dim=0, eps=self.eps))

    def forward(self, weight):
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        # Copies: the next forward pass changes the buffers, a backward pass may still read them.
        u, v = self._u.clone(), self._v.clone()
        return weight / torch.vdot(u, torch.mv(matrix, v))

    def right_inverse(self, value):
        return value  # of a tensor that is normalized already


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """Divides a tensor, as a matrix, by its spectral norm.

    Each forward pass in training refines the estimate of the largest singular value.

    Args:
        dim: the dimension of outputs; 0 by default, 1 for transposed convolutions.

    Raises:
        ValueError: for no such tensor or ``n_power_iterations <= 0``.
        IndexError: for a ``dim`` out of range.

    >>> import ftorch as torch
    >>> _ = torch.manual_seed(0)
    >>> layer = torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(4, 4))
    >>> round(torch.linalg.matrix_norm(layer.weight, 2).item(), 1)
    1.0
    """
    weight = _the_tensor(module, name)
    made = _SpectralNorm(weight, n_power_iterations, output_dim(module, dim), eps)
    return register_parametrization(module, name, made)
