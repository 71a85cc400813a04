"""Samples of linear algebra."""

import numpy as np

from tests.samples import S, T, register


def _positive(rng, shape):
    a = rng.normal(size=shape)
    return a @ a.swapaxes(-1, -2) + shape[-1] * np.eye(shape[-1])


def _symmetric(rng, shape):
    a = rng.normal(size=shape)
    return a + a.swapaxes(-1, -2)


def _regular(rng, shape):
    """Well-conditioned, with distinct singular values and eigenvalues."""
    n, m = shape[-2:]
    spread = np.zeros((n, m))
    np.fill_diagonal(spread, 2.0 + np.arange(min(n, m)))
    return spread + 0.3 * rng.normal(size=shape)


def _triangular(rng, shape):
    return np.tril(_regular(rng, shape))


_SHAPES = [(3, 3), (2, 4, 4), (0, 0)]


def _square(name, make=_regular, dtypes=("float32", "float64"), **options):
    register(
        name, *(S(T(*s, dtype=d, make=make), **options) for s in _SHAPES for d in dtypes)
    )


for _name in ("linalg_cholesky", "linalg_cholesky_ex", "cholesky"):
    _square(_name, _positive)
    _square(_name, _positive, upper=True)
for _name in (
    "linalg_inv", "linalg_inv_ex", "inverse", "linalg_det", "det", "linalg_slogdet", "slogdet",
    "logdet", "linalg_matrix_exp", "matrix_exp", "linalg_lu_factor", "linalg_lu_factor_ex",
    "_lu_with_info", "linalg_eig", "linalg_eigvals",
):
    _square(_name)
for _name in ("linalg_eigh", "linalg_eigvalsh"):
    _square(_name, _symmetric)
    _square(_name, _symmetric, UPLO="U")
for _name in ("linalg_ldl_factor", "linalg_ldl_factor_ex"):
    _square(_name, _symmetric, hermitian=True)
for _name in ("linalg_matrix_power", "matrix_power"):
    register(_name, *(S(T(3, 3, make=_regular), n) for n in (-2, 0, 1, 5)))
for _name in ("cholesky_inverse",):
    _square(_name, _triangular)

for _name in ("linalg_qr", "qr", "linalg_svd", "svd", "linalg_svdvals", "linalg_lu"):
    register(_name, *(S(T(*s, make=_regular)) for s in [(3, 3), (2, 4, 3), (3, 5)]))
register("geqrf", *(S(T(*s, make=_regular, grad=False)) for s in [(3, 3), (2, 4, 3)]))
register("linalg_qr", S(T(3, 5, make=_regular), "complete"))
register("linalg_svd", S(T(2, 4, 3, make=_regular), full_matrices=False))

for _name in ("linalg_solve", "linalg_solve_ex"):
    register(
        _name,
        S(T(3, 3, make=_regular), T(3)),
        S(T(2, 3, 3, make=_regular), T(2, 3)),
        S(T(2, 3, 3, make=_regular), T(3, 2)),
        S(T(3, 3, make=_regular), T(2, 3), left=False),
    )
register(
    "linalg_solve_triangular",
    S(T(3, 3, make=_regular), T(3, 2), upper=True),
    S(T(2, 3, 3, make=_regular), T(2, 3), upper=False, left=False, unitriangular=True),
)
register("triangular_solve", S(T(3, 2), T(3, 3, make=_regular), True, True))
register("cholesky_solve", S(T(3, 2), T(3, 3, make=_triangular)))

_PIVOTS = T(3, dtype="int32", values=[2, 3, 3], grad=False)
register("linalg_lu_solve", S(T(3, 3, make=_regular), _PIVOTS, T(3, 2)))
register("linalg_lu_solve", S(T(3, 3, make=_regular), _PIVOTS, T(2, 3), left=False, adjoint=True))
register("lu_solve", S(T(3, 2), T(3, 3, make=_regular), _PIVOTS))
register("lu_unpack", S(T(3, 3), _PIVOTS), S(T(4, 3), _PIVOTS), S(T(3, 3), _PIVOTS, True, False))
register(
    "linalg_ldl_solve",
    S(T(3, 3, make=_triangular), T(3, dtype="int32", values=[1, 2, 3]), T(3, 2)),
)
for _name in ("linalg_householder_product", "orgqr"):
    register(_name, S(T(4, 3), T(3)), S(T(2, 4, 3), T(2, 2)))
register("ormqr", S(T(4, 3), T(3), T(4, 2)), S(T(4, 3), T(3), T(2, 4), False, True))
register(
    "linalg_lstsq",
    *(S(T(5, 3, make=_regular), T(5, 2), driver=d) for d in ("gels", "gelsy", "gelsd")),
    S(T(2, 3, 5, make=_regular), T(2, 3)),
)
register("linalg_tensorinv", S(T(2, 3, 6)), S(T(6, 3, 2), 1))
register("linalg_tensorsolve", S(T(2, 3, 6), T(2, 3)), S(T(6, 2, 3), T(2, 3), (0,)))

register("linalg_matrix_norm", *(S(T(3, 4), o) for o in (1, -1, 2, -2, float("inf"))))
register("linalg_matrix_norm", S(T(2, 3, 4), 1, (0, 2), True))
register("linalg_matrix_norm.str_ord", S(T(3, 4)), S(T(2, 3, 4), "nuc", (2, 0)))
register("linalg_cond", *(S(T(3, 3, make=_regular), p) for p in (None, -2, 1)))
register("linalg_cond.p_str", S(T(3, 3, make=_regular), "fro"))

register("linalg_pinv", S(T(4, 3, make=_regular), 0.1))
register("pinverse", S(T(4, 3, make=_regular)))
register(
    "linalg_pinv.atol_rtol_float",
    S(T(4, 3, make=_regular)),
    S(T(3, 3, make=_symmetric), atol=0.1, hermitian=True),
)
register("linalg_pinv.rcond_tensor", S(T(3, 3, make=_regular), T(grad=False, values=0.1)))
register("linalg_pinv.atol_rtol_tensor", S(T(3, 3), rtol=T(2, grad=False, values=[0.1, 0.2])))
register("linalg_matrix_rank", S(T(4, 3), 0.1))
register("linalg_matrix_rank.atol_rtol_float", S(T(4, 3)), S(T(3, 3, make=_symmetric), rtol=0.1))
register("linalg_matrix_rank.tol_tensor", S(T(4, 3), T(grad=False, values=0.1)))
register("linalg_matrix_rank.atol_rtol_tensor", S(T(4, 3), atol=T(grad=False, values=0.1)))
