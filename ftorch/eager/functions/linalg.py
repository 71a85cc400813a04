"""Front ends of products and norms, and decompositions of low rank."""

from __future__ import annotations

import functools
import re
import string

from ..core import api as torch
from ..core.composite import composite
from ..core.dtype import finfo
from ..core.user_warnings import warn_once
from ..kernels.linalg.contraction import best_path, pair_steps
from ..tensor import TensorBase

# --- products -----------------------------------------------------------------------------


def _in_steps(operands, steps):
    """An einsum of several operands as PyTorch computes it, two by two: its results are laid out as the last product's."""
    for equation, places, to in steps:
        made = einsum(equation, *(operands[place] for place in places))
        if to is None:
            for place in reversed(places):
                del operands[place]
            operands.append(made)
        else:
            operands[to] = made
    return operands[0]


# What `torch.backends.opt_einsum` says of einsum.
contraction_order: dict = {"enabled": True, "strategy": "auto"}

_LETTERS = string.ascii_uppercase + string.ascii_lowercase


def _subscripts(labels):
    """A list of integers (and ``...``) as the letters of an equation."""
    text = ""
    for label in labels:
        if label is Ellipsis:
            text += "..."
        elif 0 <= label < len(_LETTERS):
            text += _LETTERS[label]
        else:
            raise ValueError(
                "einsum(): subscript in subscript list is not within the valid range "
                f"[0, {len(_LETTERS)})"
            )
    return text


@composite(nested=False)
def einsum(*args):
    """The sum of products of elements that an equation in Einstein's notation says.

    Called as ``einsum(equation, *operands)``, ``einsum(equation, operands)`` or with integers for
    the subscripts: ``einsum(op1, [0, 1], op2, [1, 2], [0, 2])``. An ellipsis stands for any number
    of broadcast dimensions; without ``->`` the result has the ellipsis, then the subscripts that
    occur once, in alphabetical order.

    Raises:
        RuntimeError: for a malformed equation, or sizes that do not match.
        ValueError: without operands.

    >>> import ftorch as torch
    >>> torch.einsum("ij,j->i", torch.ones(2, 3), torch.arange(3.0))
    tensor([3., 3.])
    """
    if len(args) < 2:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one "
            "operand and its subscripts list"
        )
    if isinstance(args[0], TensorBase):
        operands = args[: len(args) // 2 * 2 : 2]
        equation = ",".join(_subscripts(labels) for labels in args[1::2])
        if len(args) % 2:
            equation += "->" + _subscripts(args[-1])
    else:
        equation, *operands = args
        if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
            return torch.einsum(equation, *operands[0])
    if len(operands) == 1 and isinstance(operands[0], TensorBase) and isinstance(equation, str):
        way = _rearranged(equation, operands[0].dim())
        if way is not None:
            repeats, order, summed = way
            x = operands[0]
            for first, other in repeats:
                if x.shape[first] != x.shape[other]:
                    break  # the error names both
                x = x.diagonal(0, first, other).movedim(-1, first)
            else:
                x = x.permute(order)
                return x.sum(summed) if summed else x
    path = None
    if len(operands) > 2 and isinstance(equation, str) and all(isinstance(x, TensorBase) for x in operands):
        if contraction_order["enabled"]:
            try:
                path = best_path(equation, tuple(tuple(x.shape) for x in operands), contraction_order["strategy"])
            except ValueError:
                path = None  # the op's own error says what is wrong
        if len({x.dtype for x in operands}) == 1:
            shapes = tuple(tuple(x.shape) for x in operands)
            steps = pair_steps(equation, shapes, None if path is None else tuple(path))
            if steps is not None:
                return _in_steps(list(operands), steps)
    return torch._VF.einsum(equation, list(operands), path=path)


@functools.lru_cache(256)
def _rearranged(equation: str, ndim: int):
    """How an equation of one operand takes diagonals, permutes and sums: a view where it does not sum.

    Returns:
        (pairs of dimensions of each diagonal, the order of dimensions then, those to sum); None for an equation that is wrong.
    """
    found = re.fullmatch(r"([A-Za-z]*)(\.\.\.)?([A-Za-z]*)(?:->([A-Za-z]*)(\.\.\.)?([A-Za-z]*))?", equation.replace(" ", ""))
    if found is None:
        return None
    before, dots, after, out_before, out_dots, out_after = found.groups()
    more = ndim - len(before) - len(after)
    if more < 0 or (more and not dots):
        return None
    extra = [f".{i}" for i in range(more)]
    labels = [*before, *extra, *after]
    if out_before is None:
        once = sorted(n for n in {*before, *after} if labels.count(n) == 1)
        out = [*extra, *once]
    elif out_dots and not dots:
        return None
    else:
        out = [*out_before, *(extra if out_dots else ()), *out_after]
    if len(set(out)) < len(out) or not set(out) <= set(labels):
        return None
    repeats = []
    kept: list[str] = []
    for name in labels:
        if name in kept:
            repeats.append((kept.index(name), len(kept)))
        else:
            kept.append(name)
    order = [kept.index(n) for n in out] + [i for i, n in enumerate(kept) if n not in out]
    return tuple(repeats), tuple(order), tuple(range(len(out), len(kept)))


def _contracted(dims):
    """The two dimension lists of `tensordot`."""
    if isinstance(dims, TensorBase):
        if dims.numel() == 1:
            return _contracted(int(dims.item()))
        return tuple(dims.tolist())
    if isinstance(dims, (tuple, list)):
        left, right = dims
        return left, right
    if not isinstance(dims, int):
        raise RuntimeError(  # noqa: TRY004  (PyTorch's type)
            "tensordot expects dims to be int or tuple[list[int], list[int]] or list[list[int]] "
            f"containing two lists, but got dims={dims}"
        )
    if dims < 0:
        raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
    return list(range(-dims, 0)), list(range(dims))


@composite()
def tensordot(a, b, dims=2, out=None):
    """The contraction of two tensors.

    Args:
        dims: how many of the last dimensions of ``a`` and first ones of ``b`` are summed over, or
            two lists of dimensions.

    Returns:
        The other dimensions of ``a``, then those of ``b``.

    >>> import ftorch as torch
    >>> torch.tensordot(torch.ones(2, 3), torch.ones(3, 4), dims=1).shape
    torch.Size([2, 4])
    """
    if isinstance(dims, int) and dims > min(a.dim(), b.dim()):
        raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
    left, right = _contracted(dims)
    return torch._VF.tensordot(a, b, left, right, **({} if out is None else {"out": out}))


@composite()
def chain_matmul(*matrices, out=None):
    """The product of matrices, in the order that needs the fewest operations.

    >>> import ftorch as torch
    >>> torch.chain_matmul(torch.ones(2, 3), torch.ones(3, 4), torch.ones(4, 1)).shape
    torch.Size([2, 1])
    """
    warn_once(
        "torch.chain_matmul is deprecated and will be removed in a future PyTorch release. Use "
        "torch.linalg.multi_dot instead, which accepts a list of two or more tensors rather than multiple parameters."
    )
    if not matrices:
        raise RuntimeError("chain_matmul(): Expected one or more matrices")
    for matrix in matrices:
        if matrix.dim() != 2:
            raise RuntimeError(f"Tensor dimension is {matrix.dim()}, expected 2 instead.")
    if len(matrices) == 1:
        return matrices[0].clone() if out is None else out.copy_(matrices[0])
    return torch.linalg.multi_dot(list(matrices), **({} if out is None else {"out": out}))


# --- norms and diagonals ------------------------------------------------------------------


@composite(public="linalg", name="norm")
def linalg_norm(input, ord=None, dim=None, keepdim=False, *, out=None, dtype=None):
    """A vector or matrix norm (`torch.linalg.vector_norm`, `torch.linalg.matrix_norm`).

    Args:
        ord: a number, "fro" or "nuc"; None is the 2-norm of the elements.
        dim: one dimension for vectors, two for matrices; by default all of them.

    Raises:
        RuntimeError: if ``ord`` is given without ``dim`` and ``input`` is not 1-D or 2-D.

    >>> import ftorch as torch
    >>> torch.linalg.norm(torch.tensor([3.0, 4.0]))
    tensor(5.)
    """
    given = {"dtype": dtype} | ({} if out is None else {"out": out})
    dims = (dim,) if isinstance(dim, int) else dim
    if ord is None:
        if dims is not None and len(dims) > 2:
            _reject_dims(dims)
        return torch.linalg.vector_norm(input, 2, dims, keepdim, **given)
    if dims is None and input.dim() not in (1, 2):
        raise RuntimeError(
            "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got "
            f"{input.dim()}D."
        )
    if dims is not None and len(dims) not in (1, 2):
        _reject_dims(dims)
    if isinstance(ord, str) or (input.dim() if dims is None else len(dims)) == 2:
        return torch.linalg.matrix_norm(input, ord, (-2, -1) if dims is None else dims, keepdim,
                                        **given)
    return torch.linalg.vector_norm(input, ord, dims, keepdim, **given)


def _reject_dims(dims):
    raise RuntimeError(
        f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dims)}"
    )


@composite(public="linalg", name="diagonal")
def linalg_diagonal(A, *, offset=0, dim1=-2, dim2=-1):
    """`torch.diagonal` of the last two dimensions: a view.

    >>> import ftorch as torch
    >>> torch.linalg.diagonal(torch.eye(2))
    tensor([1., 1.])
    """
    return A.diagonal(offset, dim1, dim2)


@composite()
def frobenius_norm(input, dim, keepdim=False, *, out=None):
    """The square root of the sum of squares over ``dim``."""
    return torch.linalg.vector_norm(input, 2, dim, keepdim, **({} if out is None else {"out": out}))


@composite()
def nuclear_norm(input, dim=(-2, -1), keepdim=False, *, out=None):
    """The sum of the singular values of matrices in the two dimensions ``dim``."""
    warn_once(
        "at::nuclear_norm is deprecated and it is just left for JIT compatibility. It will be removed in a future "
        "PyTorch release. Please use `linalg.matrix_norm(A, 'nuc', dim, keepdim)` instead"
    )
    return torch.linalg.matrix_norm(
        input, "nuc", dim, keepdim, **({} if out is None else {"out": out})
    )


# --- decompositions -----------------------------------------------------------------------


@composite(forms="function method")
def lu(A, pivot=True, get_infos=False, out=None):
    """The packed LU factorization and its pivots; with ``get_infos`` also LAPACK's info.

    `torch.linalg.lu_factor` is the newer form.
    """
    results = torch._lu_with_info(A, pivot=pivot, check_errors=not get_infos)
    if not get_infos:
        results = tuple(results[:2])
    if out is not None:
        for target, result in zip(out, results, strict=True):
            target.copy_(result)
    return results


def _approximate_basis(A, q, niter, M):
    """Orthonormal columns that span nearly the range of ``A - M`` (Halko et al., 2009)."""

    def times(X, transposed=False):
        X = X.to(A.dtype)
        product = torch.matmul(A.mH if transposed else A, X)
        if M is None:
            return product
        return product - torch.matmul(M.mH if transposed else M, X)

    Q = torch.linalg.qr(times(torch.randn(A.shape[-1], q, dtype=A.dtype, device=A.device))).Q
    for _ in range(niter):
        Q = torch.linalg.qr(times(Q, transposed=True)).Q
        Q = torch.linalg.qr(times(Q)).Q
    return Q


@composite()
def svd_lowrank(A, q=6, niter=2, M=None):
    """The leading ``q`` singular values and vectors of ``A - M``, by random projection.

    Args:
        niter: how many subspace iterations; more are more accurate.
        M: broadcast to ``A`` and subtracted.

    Returns:
        ``U`` (..., m, q), ``S`` (..., q), ``V`` (..., n, q).

    >>> import ftorch as torch
    >>> _ = torch.manual_seed(0)
    >>> U, S, V = torch.svd_lowrank(torch.ones(5, 4), q=1)
    >>> torch.allclose(S, torch.tensor(20.0).sqrt())
    True
    """
    q = 6 if q is None else q
    m, n = A.shape[-2:]
    q = min(q, m, n)
    if M is not None:
        M = M.broadcast_to(A.shape)
    if m < n:
        V, S, U = _svd_lowrank(A.mH, q, niter, None if M is None else M.mH)
        return U, S, V
    return _svd_lowrank(A, q, niter, M)


def _svd_lowrank(A, q, niter, M):
    Q = _approximate_basis(A, q, niter, M)
    U, S, Vh = torch.linalg.svd(Q.mH @ (A if M is None else A - M), full_matrices=False)
    return Q @ U, S, Vh.mH


@composite()
def pca_lowrank(A, q=None, center=True, niter=2):
    """The leading ``q`` principal components of the rows of ``A``, by random projection.

    Args:
        q: default ``min(6, m, n)``.
        center: whether to subtract the mean row first.

    Returns:
        ``U, S, V`` as from `torch.svd_lowrank`; ``A @ V`` are the projections.

    Raises:
        ValueError: for ``q`` not in 0 ... min(m, n), or a negative ``niter``.
    """
    m, n = A.shape[-2:]
    if q is None:
        q = min(6, m, n)
    elif not 0 <= q <= min(m, n):
        raise ValueError(
            f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}"
        )
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    if center:
        A = A - A.mean(dim=-2, keepdim=True)
    return svd_lowrank(A, q, niter=niter)


@composite()
def lobpcg(A, k=None, B=None, X=None, n=None, iK=None, niter=None, tol=None, largest=None,
           method=None, tracker=None, ortho_iparams=None, ortho_fparams=None,
           ortho_bparams=None):
    """The ``k`` largest (or smallest) eigenpairs of ``A X = B X diag(E)``, by LOBPCG iterations.

    Args:
        A: symmetric (..., m, m).
        k: how many (default: the columns of ``X``, or 1); ``m`` must be at least ``3 k``.
        B: symmetric positive definite (default: the identity).
        X: the first approximation (..., m, n), otherwise random.
        iK: a preconditioner (..., m, m).
        niter: at most so many iterations (default 1000).
        tol: relative size of the residual to stop at (default the root of the machine precision).
        largest: whether the largest eigenvalues are wanted (the default).

    ``method``, ``tracker`` and the ``ortho`` parameters of PyTorch's implementation are accepted;
    there is one method here, Rayleigh-Ritz on an orthonormal basis. Where a gradient is wanted, the
    eigenpairs come from `torch.linalg.eigh`.

    Returns:
        ``E`` (..., k) and ``X`` (..., m, k).

    Raises:
        ValueError: if ``m`` is smaller than ``3 k``.
    """
    m = A.shape[-1]
    if A.shape[-2] != m:
        raise AssertionError(f"A must be square, got shape {A.shape}")
    k = (1 if X is None else X.shape[-1]) if k is None else k
    n = (k if n is None else n) if X is None else X.shape[-1]
    if m < 3 * n:
        raise ValueError(
            f"LOBPCG algorithm is not applicable when the number of A rows (={m}) is smaller than "
            f"3 x the number of requested eigenpairs (={n})"
        )
    largest = True if largest is None else largest
    if A.requires_grad and B is None:
        E, vectors = torch.linalg.eigh((A + A.mT) / 2)
        order = range(m - 1, m - 1 - k, -1) if largest else range(k)
        index = torch.tensor(list(order), device=A.device)
        return E.index_select(-1, index), vectors.index_select(-1, index)
    niter = 1000 if niter is None else niter
    tol = finfo(A.dtype).eps ** 0.5 if tol is None else tol
    if X is None:
        X = torch.randn((*A.shape[:-2], m, n), dtype=A.dtype, device=A.device)
    A, B, X, iK = (None if x is None else x.detach() for x in (A, B, X, iK))
    E, X = _lobpcg(A, B, X, iK, niter, tol, largest)
    return E[..., :k], X[..., :k]


def _lobpcg(A, B, X, iK, niter, tol, largest):
    """Rayleigh-Ritz on the span of the approximation, its residual and the last direction."""
    n = X.shape[-1]
    P = None
    E, X = _rayleigh_ritz(A, B, X, n, largest)
    scale = torch.linalg.matrix_norm(A) + (0 if B is None else torch.linalg.matrix_norm(B))
    for _ in range(niter if niter >= 0 else 10**9):
        R = A @ X - (X if B is None else B @ X) * E.unsqueeze(-2)
        error = torch.linalg.vector_norm(R, dim=-2) / (
            torch.linalg.vector_norm(X, dim=-2) * scale.unsqueeze(-1)
        )
        if bool((error <= tol).all()):
            break
        W = R if iK is None else iK @ R
        basis = torch.cat([X, W] if P is None else [X, W, P], dim=-1)
        E, next_X = _rayleigh_ritz(A, B, basis, n, largest)
        P = next_X - X @ (X.mT @ (next_X if B is None else B @ next_X))
        X = next_X
    return E, X


def _rayleigh_ritz(A, B, basis, n, largest):
    """The best ``n`` eigenpairs within the span of a basis."""
    Q = torch.linalg.qr(basis).Q
    small = Q.mT @ (A @ Q)
    if B is not None:
        L = torch.linalg.cholesky(Q.mT @ (B @ Q))
        Q = torch.linalg.solve_triangular(L.mT, Q, upper=True, left=False)
        small = Q.mT @ (A @ Q)
    E, Z = torch.linalg.eigh((small + small.mT) / 2)
    if largest:
        E, Z = E.flip(-1), Z.flip(-1)
    return E[..., :n], Q @ Z[..., :n]
