"""Algebra, transforms and shapes as the calls of ATen's that users' ``__torch_dispatch__`` sees of them (see `composition`)."""

from __future__ import annotations

import math

from .. import _ops, return_types
from ..eager.core import api
from ..eager.core.dtype import complex64, complex128, float64
from ..eager.core.formats import contiguous_format
from ..eager.tensor import TensorBase, modes
from . import gradients
from .composition import call_named, composes, first, renames

_NORMS = {None: 0, "backward": 0, "ortho": 1, "forward": 2}
_INVERSE_NORMS = {name: 2 - number for name, number in _NORMS.items()}


# --- Fourier transforms ------------------------------------------------------------------


def _is_float(x):
    return x.is_floating_point() and x.dtype.itemsize >= 4


@renames("fft_fft fft_rfft fft_irfft fft_ifft")
def _fft(aten, definition, given):
    x, name = given["self"], definition.name
    if not (x.is_complex() or _is_float(x)) or (given["n"] is not None and name != "fft_irfft"):
        return None
    dim = [given["dim"] % x.dim()]
    norm = (_INVERSE_NORMS if name in ("fft_irfft", "fft_ifft") else _NORMS)[given["norm"]]
    if name == "fft_irfft":
        n = 2 * (x.shape[dim[0]] - 1) if given["n"] is None else given["n"]
        fits = x.is_complex() and n // 2 + 1 == x.shape[dim[0]]
        return (aten._fft_c2r.default, (x, dim, norm, n), {}, None) if fits else None
    if x.is_complex():
        return aten._fft_c2c.default, (x, dim, norm, name == "fft_fft"), {}, None
    return None if name == "fft_ifft" else (aten._fft_r2c.default, (x, dim, norm, name == "fft_rfft"), {}, None)


@composes("fft_ifft")
def _fft_ifft(x, n, dim, norm):
    if n is not None or not _is_float(x):
        return None
    aten = _ops.ops.aten
    return aten._conj.default(aten._fft_r2c.default(x, [dim % x.dim()], _INVERSE_NORMS[norm], False))


@composes("fft_fft2 fft_fftn")
def _fft_fftn(x, s, dim, norm):
    return _several(x, s, dim, _NORMS[norm], True)


@composes("fft_ifft2 fft_ifftn")
def _fft_ifftn(x, s, dim, norm):
    return _several(x, s, dim, _INVERSE_NORMS[norm], False)


def _dims(x, dim):
    return list(range(x.dim())) if dim is None else [d % x.dim() for d in ([dim] if isinstance(dim, int) else dim)]


def _several(x, s, dim, norm, forward):
    if s is not None or not (x.is_complex() or _is_float(x)):
        return None
    dims = _dims(x, dim)
    if not x.is_complex():
        x = x.to(complex128 if x.dtype is float64 else complex64)
    return _ops.ops.aten._fft_c2c.default(x, dims, norm, forward)


@renames("fft_rfft2 fft_rfftn")
def _fft_rfftn(aten, _, given):
    x = given["self"]
    if given["s"] is not None or not _is_float(x):
        return None
    return aten._fft_r2c.default, (x, _dims(x, given["dim"]), _NORMS[given["norm"]], True), {}, None


@renames("fft_fftshift fft_ifftshift")
def _fft_shift(aten, definition, given):
    x = given["self"]
    if not (x.is_complex() or x.is_floating_point()):
        return None
    dims, more = _dims(x, given["dim"]), definition.name == "fft_ifftshift"
    return aten.roll.default, (x, [(x.shape[d] + more) // 2 for d in dims], dims), {}, None


# --- linear algebra ----------------------------------------------------------------------


@renames("linalg_svd linalg_svdvals")
def _svd(aten, definition, given):
    if given.get("driver") is not None:
        return None
    whole = definition.name == "linalg_svd"
    args = (True,) if whole and given["full_matrices"] else ()
    return aten._linalg_svd.default, (given["A"], *args), {}, None if whole else 1


@renames("linalg_eigh linalg_eigvalsh")
def _eigh(aten, definition, given):
    if given["UPLO"] != "L":
        return None
    return aten._linalg_eigh.default, (given["self"],), {}, None if definition.name == "linalg_eigh" else 0


@renames("linalg_eigvals")
def _eigvals(aten, _, given):
    return aten.linalg_eig.default, (given["self"],), {}, 0


@renames("det")
def _det(aten, _, given):
    return aten._linalg_det.default, (given["self"],), {}, 0


def _checked(info, name, matrix):
    _ops.ops.aten._linalg_check_errors.default(info, name, is_matrix=matrix.dim() == 2)


@composes("linalg_inv inverse")
def _inv(x):
    out, info = _ops.ops.aten.linalg_inv_ex.default(x)
    _checked(info, "linalg.inv", x)
    return out


@composes("linalg_cholesky")
def _cholesky(x, upper):
    if upper:
        return None
    out, info = _ops.ops.aten.linalg_cholesky_ex.default(x)
    _checked(info, "linalg.cholesky", x)
    return out


@composes("linalg_solve")
def _solve(a, b, left):
    if not left:
        return None
    out, _, _, info = _ops.ops.aten._linalg_solve_ex.default(a, b)
    _checked(info, "torch.linalg.solve", a)
    return out


@composes("linalg_matrix_power")
def _matrix_power(x, n):
    if n not in (2, 3):
        return None
    out = api.matmul(x, x)
    return out if n == 2 else api.matmul(out, x)


@composes("linalg_multi_dot")
def _multi_dot(tensors):
    if not 2 <= len(tensors) <= 3 or any(t.dim() != 2 for t in tensors):
        return None
    first, *rest = tensors
    if len(tensors) == 3:
        (a, b), (_, c), (_, d) = first.shape, rest[0].shape, rest[1].shape
        if a * b * c + a * c * d > b * c * d + a * b * d:
            out = call_named("mm", first, call_named("mm", *rest))
            return out.view(a, d)
    out = first
    for t in rest:
        out = call_named("mm", out, t)
    return out.view(*out.shape)


@composes("linalg_matrix_norm")
def _matrix_norm(x, ord, dim, keepdim, dtype):
    if keepdim or dtype is not None:
        return None
    rows, columns = (d % x.dim() for d in dim)
    norm = _ops.ops.aten.linalg_vector_norm.default
    if ord == "fro":
        return norm(x, 2, [rows, columns])
    if isinstance(ord, str) or abs(ord) not in (1, math.inf):
        return None
    along = rows if abs(ord) == 1 else columns
    left = columns - (along < columns) if along == rows else rows - (along < rows)
    sums = norm(x, 1.0, [along])
    return (sums.amax if ord > 0 else sums.amin)([left])


@composes("linalg_cond")
def _cond(x, p):
    if p is not None:
        return None
    values = api.linalg.svdvals(x)
    return (values.narrow(-1, 0, 1) / values.narrow(-1, values.shape[-1] - 1, 1)).squeeze(-1)


@composes("tensordot")
def _tensordot(x, y, dims_x, dims_y):
    dims_x, dims_y = [d % x.dim() for d in dims_x], [d % y.dim() for d in dims_y]
    if not dims_x or any(x.shape[a] != y.shape[b] for a, b in zip(dims_x, dims_y)):
        return None
    kept_x = [d for d in range(x.dim()) if d not in dims_x]
    kept_y = [d for d in range(y.dim()) if d not in dims_y]
    size = math.prod(x.shape[d] for d in dims_x)
    shape = [x.shape[d] for d in kept_x] + [y.shape[d] for d in kept_y]
    rows, columns = math.prod(x.shape[d] for d in kept_x), math.prod(y.shape[d] for d in kept_y)
    left = x.permute(kept_x + dims_x).reshape(rows, size)
    return call_named("mm", left, y.permute(dims_y + kept_y).reshape(size, columns)).reshape(shape)


@composes("kron")
def _kron(x, y):
    n = max(x.dim(), y.dim())
    a, b = [1] * (n - x.dim()) + list(x.shape), [1] * (n - y.dim()) + list(y.shape)
    aten = _ops.ops.aten
    left = aten._unsafe_view.default(x, [s for size in a for s in (size, 1)])
    right = aten._unsafe_view.default(y, [s for size in b for s in (1, size)])
    return aten._unsafe_view.default(left * right, [m * k for m, k in zip(a, b)])


@composes("einsum")
def _einsum(tensors, equation, path):
    """The product of two tensors that PyTorch's `einsum` makes: permuted, flattened and multiplied as batches."""
    if len(tensors) != 2:
        return None
    labels = _labels(equation, tensors)
    if labels is None:
        return None
    operands, out = labels
    summed = [c for c in dict.fromkeys(operands[0] + operands[1]) if c not in out]
    order = list(out) + sorted(summed)
    x, y = (_aligned(t, given, order) for t, given in zip(tensors, operands))
    if not summed:
        return x * y
    kinds: dict = {"batch": [], "left": [], "summed": [], "right": []}
    for d in range(len(order)):
        in_x, in_y = x.shape[d] != 1, y.shape[d] != 1
        if d >= len(out):
            if in_x != in_y:
                return None  # summed first
            kinds["summed"].append(d)
        else:
            kinds["batch" if in_x and in_y else "left" if in_x else "right"].append(d)
    batch, left, inner, right = kinds.values()
    if left and any(d < left[0] and y.shape[d] != 1 for d in right):  # so that the result is contiguous
        x, y, left, right = y, x, right, left
    sizes = [[t.shape[d] for d in dims] for t, dims in ((x, batch), (x, left), (x, inner), (y, right))]
    n = [math.prod(s) for s in sizes]
    a = x.permute(batch + left + inner + right).reshape(n[0], n[1], n[2])
    b = y.permute(batch + inner + right + left).reshape(n[0], n[2], n[3])
    product = call_named("bmm", a, b).view(*sizes[0], *sizes[1], *[1] * len(inner), *sizes[3])
    places = batch + left + inner + right
    turned = product.permute([places.index(d) for d in range(len(order))])
    return turned.view([turned.shape[d] for d in range(len(out))])


def _labels(equation, tensors):
    """(the labels of each tensor, those of the result), or None for what has repeated labels or other ellipses."""
    equation = equation.replace(" ", "")
    left, arrow, out = equation.partition("->")
    found, most = [], 0
    terms = left.split(",")
    for term, t in zip(terms, tensors):
        if "..." in term:
            most = max(most, t.dim() - len(term) + 3)
    for term, t in zip(terms, tensors):
        count = t.dim() - len(term) + 3 if "..." in term else 0
        before, _, after = term.partition("...") if "..." in term else (term, "", "")
        given = [*before, *range(most - count, most), *after]
        if len(given) != t.dim() or len(set(given)) != len(given):
            return None
        found.append(given)
    every = [c for given in found for c in given]
    if not arrow:
        out_labels = list(range(most)) + sorted(c for c in set(every) if isinstance(c, str) and every.count(c) == 1)
    else:
        before, dots, after = out.partition("...")
        out_labels = [*before, *(range(most) if dots else ()), *after]
    if len(set(out_labels)) != len(out_labels) or not set(out_labels) <= set(every):
        return None
    if any(not isinstance(c, str) and c not in out_labels for c in every):
        return None
    return found, out_labels


def _aligned(t, given, order):
    places = {c: d for d, c in enumerate(given)}
    for c in order:
        if c not in places:
            t, places[c] = t.unsqueeze(t.dim()), t.dim()
    return t.permute([places[c] for c in order])


# --- numbers -----------------------------------------------------------------------------


@composes("isclose")
def _isclose(x, y, rtol, atol, equal_nan):
    if equal_nan or not (x.is_floating_point() and y.is_floating_point()) or (rtol == 0 and atol == 0):
        return None
    with gradients.composing:
        close = x == y
        allowed = (y * rtol).abs() + atol
        distance = (x - y).abs()
        return close.bitwise_or_(distance.isfinite().bitwise_and_(distance <= allowed))


@renames("special_expit")
def _expit(aten, _, given):
    return aten.sigmoid.default, (given["self"],), {}, None


@renames("max min")
def _larger(aten, definition, given):
    if "other" not in given:
        return None
    return (aten.maximum if definition.name.startswith("max") else aten.minimum).default, tuple(given.values()), {}, None


@renames("msort")
def _msort(aten, _, given):
    return aten.sort.default, (given["self"], 0), {}, 0


@renames("rsub")
def _rsub(aten, _, given):
    x, y, alpha = given["self"], given["other"], given["alpha"]
    if isinstance(y, TensorBase) or alpha != 1:
        return None
    return aten.rsub.Scalar, (x, y), {}, None


@renames("round")
def _round(aten, _, given):
    return (aten.round.decimals, (given["self"],), {"decimals": given["decimals"]}, None) if given["decimals"] else None


@renames("cross")
def _cross(aten, _, given):
    if given["dim"] is None:
        return None
    named = {} if given["dim"] == -1 else {"dim": given["dim"]}
    return aten.linalg_cross.default, (given["self"], given["other"]), named, None


@composes("float_power")
def _float_power(x, exponent):
    if isinstance(exponent, (complex, TensorBase)) or not isinstance(x, TensorBase) or x.is_complex():
        return None
    return x.to(float64) ** float(exponent)


@composes("diff")
def _diff(x, prepend, append, n, dim):
    if n != 1 or prepend is not None or append is not None or x.shape[dim] < 1 or not x.is_floating_point():
        return None
    size = x.shape[dim]
    before = x.narrow(dim, 0, size - 1)
    return x.narrow(dim, 1, size - 1) - before


# --- shapes ------------------------------------------------------------------------------


@renames("fliplr flipud")
def _flip(aten, definition, given):
    return aten.flip.default, (given["self"], [int(definition.name == "fliplr")]), {}, None


@renames("tile")
def _tile(aten, _, given):
    x, dims = given["self"], list(given["dims"])
    return aten.repeat.default, (x, [1] * (x.dim() - len(dims)) + dims), {}, None


@renames("unflatten")
def _unflatten(aten, _, given):
    x, dim, sizes = given["self"], given["dim"], list(given["sizes"])
    dim %= x.dim()
    return aten.view.default, (x, [*x.shape[:dim], *sizes, *x.shape[dim + 1 :]]), {}, None


@renames("diag")
def _diag(aten, _, given):
    x = given["self"]
    at = (given["diagonal"],) if given["diagonal"] else ()
    return (aten.diag_embed if x.dim() == 1 else aten.diagonal_copy).default, (x, *at), {}, None


@composes("repeat_interleave")
def _repeat_interleave(x, repeats, dim=None, output_size=None):
    if not isinstance(repeats, int) or dim is None or output_size is not None or not x.dim():
        return None
    dim %= x.dim()
    size = list(x.shape)
    spread = x.unsqueeze(dim + 1).expand(*size[: dim + 1], repeats, *size[dim + 1 :])
    return spread.clone(memory_format=contiguous_format).view(*size[:dim], size[dim] * repeats, *size[dim + 1 :])


@composes("linalg_lu_factor")
def _lu_factor(x, pivot):
    if not pivot:
        return None
    lu, pivots, info = _ops.ops.aten.linalg_lu_factor_ex.default(x)
    _checked(info, "torch.linalg.lu_factor", x)
    return return_types.linalg_lu_factor((lu, pivots))


@composes("linalg_slogdet")
def _slogdet(x):
    return return_types.linalg_slogdet(_ops.ops.aten._linalg_slogdet.default(x)[:2])


@renames("cdist")
def _cdist(aten, _, given):
    if given["compute_mode"] != "use_mm_for_euclid_dist_if_necessary":
        return None
    return aten._cdist_forward.default, (given["x1"], given["x2"], float(given["p"]), None), {}, None


@renames("pdist")
def _pdist(aten, _, given):
    rest = () if given["p"] == 2 else (given["p"],)
    return aten._pdist_forward.default, (first(given), *rest), {}, None


@composes("masked_select")
def _masked_select(x, mask):
    """By an index, where a gradient is wanted: the sizes of its results have no plan that a node could be made of."""
    if not (modes.grad and x.requires_grad):
        return None
    x, mask = api.broadcast_tensors(x, mask)
    return x[mask]
