"""Rules of matrix decompositions and transforms: LAPACK's routines, matrix by matrix, and FFTs.

They are the routines that JAX calls on the CPU, so results are the same. Where one fails, the matrix is NaN.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from .rules import MissingRule, rule


@functools.cache
def _lapack(name, dtype):
    from scipy.linalg import get_lapack_funcs

    return get_lapack_funcs(name, dtype=dtype)


@functools.cache
def _blas(name, dtype):
    from scipy.linalg import get_blas_funcs

    return get_blas_funcs(name, dtype=dtype)


def _needs_lapack(dtype):
    if np.dtype(dtype).char not in "fdFD":
        raise MissingRule(f"no rule for decompositions of {dtype} on the host")


def _by_matrix(function, results):
    """``function`` of one matrix (or several of a batch) as one of batches.

    Args:
        results: for each result its dtype and, from the operands' last dimensions, its own.
    """

    def run(*operands):
        lead = operands[0].shape[:-2]
        shapes = [(dtype, shape(*operands)) for dtype, shape in results]
        if not lead:
            found = function(*operands)
            return tuple([np.asarray(r, d).reshape(s) for r, (d, s) in zip(found, shapes)])
        found = [np.empty((*lead, *shape), dtype) for dtype, shape in shapes]
        for place in np.ndindex(*lead):
            for out, part in zip(found, function(*[x[place] for x in operands])):
                out[place] = part
        return tuple(found)

    return run


def _square(x, *_):
    return x.shape[-2:]


def _side(x, *_):
    return x.shape[-1:]


def _shorter(x, *_):
    return (min(x.shape[-2:]),)


def _nan(*shapes, dtype):
    value = complex(np.nan, np.nan) if np.dtype(dtype).kind == "c" else np.nan
    return [np.full(shape, value, dtype) for shape in shapes]


@rule("cholesky")
def _(params, inputs, outputs):
    dtype = inputs[0].dtype
    _needs_lapack(dtype)

    def cholesky(x):
        if not x.size:
            return (x,)
        found, info = _lapack("potrf", dtype)(x, lower=1, clean=1)
        return (found,) if info == 0 else _nan(x.shape, dtype=dtype)

    run = _by_matrix(cholesky, [(dtype, _square)])
    return lambda x: run(x)[0]


def permutation_of(pivots, size):
    """The permutation that exchanges of rows make."""
    order = list(range(size))
    for i, p in enumerate(pivots.tolist()):
        order[i], order[p] = order[p], order[i]
    return order


@rule("lu")
def _(params, inputs, outputs):
    dtype = inputs[0].dtype
    _needs_lapack(dtype)

    def lu(x):
        if not x.size:
            return x, np.zeros(0, np.int32), np.arange(x.shape[0], dtype=np.int32)
        found, pivots, info = _lapack("getrf", dtype)(x)
        if info < 0:
            (found,) = _nan(x.shape, dtype=dtype)
        return found, pivots, permutation_of(pivots, x.shape[0])

    rows = lambda x: (x.shape[-2],)  # noqa: E731
    return _by_matrix(lu, [(dtype, _square), (np.int32, _shorter), (np.int32, rows)])


@rule("lu_pivots_to_permutation", sizes=("permutation_size",))
def _(params, inputs, outputs):
    dtype = outputs[0].dtype

    def permutation(pivots, size):
        found = np.empty((*pivots.shape[:-1], size), dtype)
        for place in np.ndindex(*pivots.shape[:-1]):
            found[place] = permutation_of(pivots[place], size)
        return found

    return permutation


@rule("eigh", sizes=("subset_by_index",))
def _(params, inputs, outputs):
    dtype, real = inputs[0].dtype, outputs[1].dtype
    _needs_lapack(dtype)
    routine, lower = ("heevd" if dtype.kind == "c" else "syevd"), int(params["lower"])

    def eigh(x):
        if not x.size:
            return x, np.zeros(0, real)
        values, vectors, info = _lapack(routine, dtype)(x, lower=lower)
        if info:
            (vectors,), (values,) = _nan(x.shape, dtype=dtype), _nan(x.shape[:1], dtype=real)
        return vectors, values

    run = _by_matrix(eigh, [(dtype, _square), (real, _side)])

    def checked(x, subset):
        if subset is not None and tuple(subset) != (0, x.shape[-1]):
            raise MissingRule("no rule for parts of a spectrum on the host")
        return run(x)

    return checked


@rule("eig")
def _(params, inputs, outputs):
    dtype, out = inputs[0].dtype, outputs[0].dtype
    _needs_lapack(dtype)
    left, right = params["compute_left_eigenvectors"], params["compute_right_eigenvectors"]

    def eig(x):
        if not x.size:
            return [np.zeros(0, out), *[x] * (left + right)]
        *values, lefts, rights, info = _lapack("geev", dtype)(x, int(left), int(right))
        if info:
            return _nan(x.shape[:1], *[x.shape] * (left + right), dtype=out)
        values = values[0] + 1j * values[1] if dtype.kind == "f" else values[0]
        found = [values]
        for wanted, vectors in ((left, lefts), (right, rights)):
            if wanted:
                found.append(_unpacked(values, vectors) if dtype.kind == "f" else vectors)
        return found

    return _by_matrix(eig, [(out, _side), *[(out, _square)] * (left + right)])


def _unpacked(values, vectors):
    """Complex eigenvectors from LAPACK's columns of their real and imaginary parts."""
    found = vectors.astype(np.result_type(vectors.dtype, np.complex64))
    column = 0
    while column < len(values):
        if values[column].imag != 0 and column + 1 < len(values):
            real, imaginary = vectors[:, column], vectors[:, column + 1]
            found[:, column].imag = imaginary
            found[:, column + 1].real, found[:, column + 1].imag = real, -imaginary
            column += 1
        column += 1
    return found


@rule("svd", sizes=("subset_by_index",))
def _(params, inputs, outputs):
    dtype, real = inputs[0].dtype, outputs[0].dtype
    _needs_lapack(dtype)
    full, vectors = params["full_matrices"], params["compute_uv"]
    routine = "gesvd" if getattr(params.get("algorithm"), "name", "") == "QR" else "gesdd"

    def left(x):
        return (x.shape[-2], x.shape[-2] if full else min(x.shape[-2:]))

    def right(x):
        return (x.shape[-1] if full else min(x.shape[-2:]), x.shape[-1])

    def svd(x):
        rank = min(x.shape)
        if not rank:
            return np.zeros(0, real), np.eye(*left(x), dtype=dtype), np.eye(*right(x), dtype=dtype)
        u, s, vt, info = _lapack(routine, dtype)(x, compute_uv=int(vectors), full_matrices=int(full))
        if info:
            (s,), (u, vt) = _nan((rank,), dtype=real), _nan(left(x), right(x), dtype=dtype)
        return (s, u, vt) if vectors else (s,)

    kinds = [(real, _shorter)] + [(dtype, left), (dtype, right)] * bool(vectors)
    run = _by_matrix(svd, kinds)

    def checked(x, subset):
        if subset is not None and tuple(subset) != (0, min(x.shape[-2:])):
            raise MissingRule("no rule for parts of a spectrum on the host")
        return run(x)

    return checked


# --- Householder's reflections -----------------------------------------------------------


def _reflections(x, dtype):
    if not x.size:
        return x, np.zeros(min(x.shape), dtype)
    routine = _lapack("geqrf", dtype)
    found, taus, _, _ = routine(x, lwork=_work("geqrf", dtype, *x.shape))
    return found, taus


@functools.lru_cache(256)
def _work(name, dtype, rows, columns):
    size, _ = _lapack(f"{name}_lwork", dtype)(rows, columns)
    return int(size.real)


@rule("geqrf")
def _(params, inputs, outputs):
    dtype = inputs[0].dtype
    _needs_lapack(dtype)
    return _by_matrix(lambda x: _reflections(x, dtype), [(dtype, _square), (dtype, _shorter)])


def _product(x, taus, dtype):
    """The matrix whose reflections are the columns of ``x``."""
    if not x.size:
        return np.eye(*x.shape, dtype=dtype)
    routine = _lapack("ungqr" if np.dtype(dtype).kind == "c" else "orgqr", dtype)
    return routine(x, taus, lwork=max(1, 32 * x.shape[1]))[0]


@rule("householder_product")
def _(params, inputs, outputs):
    dtype = inputs[0].dtype
    _needs_lapack(dtype)

    def product(x, taus):
        found = np.empty(x.shape, dtype)
        for place in np.ndindex(*x.shape[:-2]):
            found[place] = _product(x[place], taus[place], dtype)
        return found

    return product


@rule("qr")
def _(params, inputs, outputs):
    dtype, full = inputs[0].dtype, params["full_matrices"]
    _needs_lapack(dtype)
    if params["pivoting"]:
        raise MissingRule("no rule for the primitive 'qr' with pivoting on the host")

    def rank(x):
        return x.shape[-2] if full else min(x.shape[-2:])

    def qr(x):
        m, n = x.shape
        k = rank(x)
        packed, taus = _reflections(x, dtype)
        start = np.zeros((m, k), dtype)
        start[:, : min(n, k)] = packed[:, : min(n, k)]
        return _product(start, taus, dtype), np.triu(packed[:k])

    shapes = [lambda x: (x.shape[-2], rank(x)), lambda x: (rank(x), x.shape[-1])]
    return _by_matrix(qr, [(dtype, shape) for shape in shapes])


# --- systems of equations ----------------------------------------------------------------


@rule("triangular_solve")
def _(params, inputs, outputs):
    dtype = inputs[0].dtype
    _needs_lapack(dtype)
    left, lower, unit = params["left_side"], params["lower"], params["unit_diagonal"]
    turned, conjugated = params["transpose_a"], params["conjugate_a"] and dtype.kind == "c"
    how = dict(
        side=int(not left), lower=int(lower), diag=int(unit), trans_a=(2 if conjugated else 1) if turned else 0
    )

    def solve(a, b):
        if not b.size:
            return (b,)
        if conjugated and not turned:
            a = a.conj()
        return (_blas("trsm", dtype)(1.0, a, b, **how),)

    run = _by_matrix(solve, [(dtype, lambda a, b: b.shape[-2:])])
    return lambda a, b: run(a, b)[0]


@rule("tridiagonal_solve")
def _(params, inputs, outputs):
    dtype = inputs[3].dtype
    _needs_lapack(dtype)

    def solve(lower, diagonal, upper, b):
        found = np.empty(b.shape, dtype)
        for place in np.ndindex(*b.shape[:-2]):
            *_, x, info = _lapack("gtsv", dtype)(
                lower[place][1:], diagonal[place], upper[place][:-1], b[place]
            )
            found[place] = x if info == 0 else np.nan
        return found

    return solve


# --- Fourier transforms ------------------------------------------------------------------


@rule("fft", sizes=("fft_lengths",))
def _(params, inputs, outputs):
    kind, dtype = params["fft_type"], outputs[0].dtype
    kind = getattr(kind, "name", None) or ("FFT", "IFFT", "RFFT", "IRFFT")[int(kind)]
    transform = {
        "FFT": np.fft.fftn, "IFFT": np.fft.ifftn, "RFFT": np.fft.rfftn, "IRFFT": np.fft.irfftn,
    }[kind.upper()]

    def fft(x, lengths):
        axes = tuple(range(x.ndim - len(lengths), x.ndim))
        shape = x.shape[: x.ndim - len(lengths)]
        if not math.prod(x.shape) or not math.prod(lengths):
            last = lengths[-1] // 2 + 1 if kind.upper() == "RFFT" else lengths[-1]
            return np.zeros((*shape, *lengths[:-1], last), dtype)
        return transform(x, lengths, axes).astype(dtype, copy=False)

    return fft
