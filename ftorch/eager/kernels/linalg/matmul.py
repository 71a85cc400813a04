"""Products of matrices and vectors.

float16 and bfloat16 accumulate in float32 on every backend of XLA; float32 is multiplied in full
precision (no TF32, no bfloat16 passes), which is PyTorch's default.
"""

from __future__ import annotations

import math

import jax.numpy as jnp

from ...core.dtype import from_numpy, promote_types
from ...core.registry import op
from .._common import (
    Array,
    broadcast_shapes,
    dtype_name,
    is_integral,
    opmath,
    product,
    up,
    wrap_dim,
)
from ..nn._windows import sizes

_CPP_NAMES = {
    "float16": "c10::Half", "bfloat16": "c10::BFloat16", "float32": "float", "float64": "double",
    "complex64": "c10::complex<float>", "complex128": "c10::complex<double>", "int64": "long int",
    "int32": "int", "int16": "short int", "int8": "signed char", "uint8": "unsigned char",
    "uint16": "short unsigned int", "uint32": "unsigned int", "uint64": "long unsigned int",
}


def adjoint(x: Array) -> Array:
    """The conjugate transpose of matrices."""
    return jnp.matrix_transpose(jnp.conj(x))


def cpp_name(x):
    """The dtype as C++ spells it, which is what PyTorch prints in some messages."""
    return _CPP_NAMES.get(x.dtype.name, x.dtype.name)


def _dims(x):
    return "x".join(map(str, x.shape))


def require_arithmetic(x, name):
    """Raises for the dtypes that PyTorch has no matrix kernels for."""
    if x.dtype == jnp.bool_ or (x.dtype.kind == "u" and x.dtype.itemsize > 1):
        raise NotImplementedError(f'"{name}" not implemented for \'{dtype_name(x.dtype)}\'')


def _require_dims(x, ndim, message):
    if x.ndim != ndim:
        raise RuntimeError(message)


def check_mm(a, b, *, shape=None):
    """``a`` stands as it is, or, folded to a matrix, in ``shape`` (for messages)."""
    rows, inner = shape or a.shape
    if inner != b.shape[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({rows}x{inner} and {_dims(b)})"
        )
    if a.dtype != b.dtype:
        raise RuntimeError(
            "expected m1 and m2 to have the same dtype, but got: "
            f"{cpp_name(a)} != {cpp_name(b)}"
        )
    require_arithmetic(a, "addmm_impl_cpu_")


def _check_bmm(a_shape, b_shape, a, b, name="bmm"):
    batch, _, inner = a_shape
    if tuple(b_shape[:2]) != (batch, inner):
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{batch}, {inner}] "
            f"but got: {sizes(b_shape[:2])}."
        )
    if a.dtype != b.dtype:
        raise RuntimeError(
            f"expected scalar type {dtype_name(a.dtype)} but found {dtype_name(b.dtype)}"
        )
    require_arithmetic(a, name)


def _check_mv(self, mat, vec, *, rows=None):
    """The checks of addmv; ``self`` is None for mv, ``rows`` counts the rows of a folded matrix."""
    rows = mat.shape[0] if rows is None else rows
    size = rows if self is None or self.size == 1 else self.shape[0]
    if mat.shape[-1] != vec.shape[0] or size != rows:
        raise RuntimeError(
            f"size mismatch, got input ({size}), mat ({rows}x{mat.shape[-1]}), vec ({vec.size})"
        )
    if mat.dtype != vec.dtype or (self is not None and self.dtype != vec.dtype):
        names = (dtype_name(x.dtype) for x in (vec if self is None else self, mat, vec))
        raise RuntimeError(
            "addmv input tensors must have the same dtype, but got {}, {}, and {}".format(*names)
        )
    require_arithmetic(mat, "addmv_impl_cpu")


def _check_dot(a, b):
    if a.ndim != 1 or b.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {a.ndim}D and {b.ndim}D tensors")
    if a.dtype != b.dtype:
        raise RuntimeError(
            "dot : expected both vectors to have same dtype, but found "
            f"{dtype_name(a.dtype)} and {dtype_name(b.dtype)}"
        )
    if a.size != b.size:
        raise RuntimeError(
            f"inconsistent tensor size, expected tensor {sizes(a.shape)} and src "
            f"{sizes(b.shape)} to have the same number of elements, but got {a.size} and "
            f"{b.size} elements respectively"
        )
    require_arithmetic(a, "dot")


def check_expands(shape, target):
    """Raises as ``expand`` does where ``shape`` does not broadcast to ``target``."""
    for i in range(1, min(len(shape), len(target)) + 1):
        if shape[-i] not in (1, target[-i]):
            raise RuntimeError(
                f"The expanded size of the tensor ({target[-i]}) must match the existing size "
                f"({shape[-i]}) at non-singleton dimension {len(target) - i}.  "
                f"Target sizes: {sizes(target)}.  Tensor sizes: {sizes(shape)}"
            )
    if len(shape) > len(target):
        raise RuntimeError(
            f"expand(torch.FloatTensor{{{sizes(shape)}}}, size={sizes(target)}): the number of "
            f"sizes provided ({len(target)}) must be greater or equal to the number of dimensions "
            f"in the tensor ({len(shape)})"
        )


def _check_matmul(a, b):
    """PyTorch dispatches on the ranks; each case has its own messages."""
    if not a.ndim or not b.ndim:
        raise RuntimeError(
            f"both arguments to matmul need to be at least 1D, but they are {a.ndim}D and {b.ndim}D"
        )
    if b.ndim == 1:
        if a.ndim == 1:
            _check_dot(a, b)
        else:
            _check_mv(None, a, b, rows=math.prod(a.shape[:-1]))
    elif b.ndim == 2:
        check_mm(a, b, shape=(math.prod(a.shape[:-1]), a.shape[-1]))
    else:
        batch = math.prod(broadcast_shapes(a.shape[:-2], b.shape[:-2]))
        rows = a.shape[-2] if a.ndim > 1 else 1
        _check_bmm((batch, rows, a.shape[-1]), (batch, *b.shape[-2:]), a, b)


@op("matmul(Tensor self, Tensor other) -> Tensor", forms="function method out",
    dunder="matmul rmatmul")
def matmul(self, other):
    """The matrix product (``torch.matmul``, ``@``); leading dimensions broadcast.

    Args:
        input, other: vectors, matrices or batches of them. A vector counts as a row on the left
            and as a column on the right, and that dimension is dropped from the result.

    Raises:
        RuntimeError: for 0-d tensors, different dtypes, or sizes that do not fit.

    >>> import ftorch as torch
    >>> torch.ones(2, 3) @ torch.arange(3.0)
    tensor([3., 3.])
    """
    _check_matmul(self, other)
    return product(self, other)


@op("linalg_matmul(Tensor self, Tensor other) -> Tensor", forms="function out")
def linalg_matmul(self, other):
    """`torch.matmul` under the name of the array API."""
    return matmul(self, other)


@op("mm(Tensor self, Tensor mat2) -> Tensor", forms="function method out")
def mm(self, mat2):
    """The product of two matrices, (n, m) and (m, p); no broadcasting.

    Raises:
        RuntimeError: unless both are matrices of the same dtype whose sizes fit.

    >>> import ftorch as torch
    >>> torch.mm(torch.eye(2), torch.ones(2, 1))
    tensor([[1.],
            [1.]])
    """
    _require_dims(self, 2, "self must be a matrix")
    _require_dims(mat2, 2, "mat2 must be a matrix")
    check_mm(self, mat2)
    return product(self, mat2)


@op("bmm(Tensor self, Tensor mat2) -> Tensor", forms="function method out")
def bmm(self, mat2):
    """The products of two batches of matrices, (b, n, m) and (b, m, p).

    Raises:
        RuntimeError: unless both are 3-D, of the same dtype, and their sizes fit.

    >>> import ftorch as torch
    >>> torch.bmm(torch.ones(4, 2, 3), torch.ones(4, 3, 5)).shape
    torch.Size([4, 2, 5])
    """
    _require_dims(self, 3, "batch1 must be a 3D tensor")
    _require_dims(mat2, 3, "batch2 must be a 3D tensor")
    _check_bmm(self.shape, mat2.shape, self, mat2)
    return product(self, mat2)


@op("mv(Tensor self, Tensor vec) -> Tensor", forms="function method out")
def mv(self, vec):
    """The product of a matrix (n, m) and a vector (m,).

    Raises:
        RuntimeError: for other shapes, or different dtypes.

    >>> import ftorch as torch
    >>> torch.mv(torch.ones(2, 3), torch.ones(3))
    tensor([3., 3.])
    """
    if self.ndim != 2 or vec.ndim != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got 1, {self.ndim}, {vec.ndim}")
    _check_mv(None, self, vec)
    return product(self, vec)


@op("dot(Tensor self, Tensor tensor) -> Tensor", forms="function method out")
def dot(self, tensor):
    """The sum of the products of two vectors' elements.

    Raises:
        RuntimeError: unless both are 1-D, of one size and dtype.

    >>> import ftorch as torch
    >>> torch.dot(torch.tensor([1, 2]), torch.tensor([3, 4]))
    tensor(11)
    """
    _check_dot(self, tensor)
    return product(self, tensor)


@op("vdot(Tensor self, Tensor other) -> Tensor", forms="function method out")
def vdot(self, other):
    """`torch.dot` with the first vector conjugated.

    >>> import ftorch as torch
    >>> torch.vdot(torch.tensor([1j]), torch.tensor([1j]))
    tensor(1.+0.j)
    """
    _check_dot(self, other)
    return product(jnp.conj(self), other)


def _outer_operands(name, **vectors):
    for argument, vector in vectors.items():
        if vector.ndim != 1:
            raise RuntimeError(
                f"{name}: Expected 1-D argument {argument}, but got {vector.ndim}-D"
            )
    a, b = vectors.values()
    return a[:, None], b[None, :]


@op("outer(Tensor self, Tensor vec2) -> Tensor", forms="function method out")
def outer(self, vec2):
    """The matrix of all products of two vectors' elements, (n, m).

    Raises:
        RuntimeError: unless both are 1-D.

    >>> import ftorch as torch
    >>> torch.outer(torch.tensor([1, 2]), torch.tensor([3, 4]))
    tensor([[3, 4],
            [6, 8]])
    """
    a, b = _outer_operands("outer", self=self, vec2=vec2)
    return a * b


@op("ger(Tensor self, Tensor vec2) -> Tensor", forms="function method out")
def ger(self, vec2):
    """`torch.outer` under its older name."""
    return outer(self, vec2)


# --- beta * input + alpha * (product) -----------------------------------------------------


def _coefficient(scalar, dtype):
    """``beta`` or ``alpha`` as the matrix kernels use it: integers truncate a float."""
    scalar = jnp.asarray(scalar)
    if jnp.issubdtype(scalar.dtype, jnp.complexfloating) and dtype.kind != "c":
        cpp = {"f": "float", "d": "double"}.get(dtype.char, "int64_t")
        raise RuntimeError(f"value cannot be converted to type {cpp} without overflow")
    return scalar.astype(opmath(dtype))


def _blend(self, beta, alpha, value):
    """``beta * self + alpha * value``; a zero ``beta`` keeps nan in ``self`` out."""
    beta, alpha = _coefficient(beta, self.dtype), _coefficient(alpha, self.dtype)
    scaled = beta * up(self)
    return (jnp.where(beta == 0, jnp.zeros_like(scaled), scaled) + alpha * value).astype(self.dtype)


def _wide_product(a, b):
    """``a @ b`` before its rounding to half precision."""
    return jnp.matmul(a, b, preferred_element_type=opmath(a.dtype))


def _scaled(grad, scalar):
    """``grad`` times the conjugate of a coefficient."""
    coefficient = jnp.conj(_coefficient(scalar, grad.dtype))
    return (up(grad) * coefficient).astype(grad.dtype)


def _blend_backward(grad, a, b, beta, alpha):
    """Gradients of ``beta * self + alpha * a @ b``."""
    inner_grad = _scaled(grad, alpha)
    return _scaled(grad, beta), product(inner_grad, adjoint(b)), product(adjoint(a), inner_grad)


@op("addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
    forms="function method inplace out")
def addmm(self, mat1, mat2, beta, alpha):
    """``beta * input + alpha * (mat1 @ mat2)``.

    Args:
        input: broadcast to the product's shape; not looked at if ``beta`` is 0 (nan stays out).
        mat1 (n, m), mat2 (m, p).

    Raises:
        RuntimeError: for shapes or dtypes that do not fit.

    >>> import ftorch as torch
    >>> torch.addmm(torch.ones(2), torch.eye(2), torch.eye(2), alpha=2)
    tensor([[3., 1.],
            [1., 3.]])
    """
    for name, matrix in (("mat1", mat1), ("mat2", mat2)):
        _require_dims(matrix, 2, f"{name} must be a matrix, got {matrix.ndim}-D tensor")
    _check_addmm_dtypes(self, mat1, mat2)
    check_mm(mat1, mat2)
    check_expands(self.shape, (mat1.shape[0], mat2.shape[1]))
    return _blend(self, beta, alpha, _wide_product(mat1, mat2))


def _check_addmm_dtypes(self, mat1, mat2):
    if self.dtype != mat2.dtype:
        raise RuntimeError(
            f"self and mat2 must have the same dtype, but got {dtype_name(self.dtype)} and "
            f"{dtype_name(mat2.dtype)}"
        )
    if mat1.dtype != mat2.dtype:
        raise RuntimeError(
            f"mat1 and mat2 must have the same dtype, but got {dtype_name(mat1.dtype)} and "
            f"{dtype_name(mat2.dtype)}"
        )


@addmm.derivative
def _(grad, mat1, mat2, beta, alpha):
    return _blend_backward(grad, mat1, mat2, beta, alpha)


@op("addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
    forms="function method inplace out")
def addmv(self, mat, vec, beta, alpha):
    """``beta * input + alpha * (mat @ vec)``.

    Args:
        input: broadcast to the product's shape; not looked at if ``beta`` is 0 (nan stays out).
        mat (n, m), vec (m,).

    Raises:
        RuntimeError: for shapes or dtypes that do not fit.
    """
    if self.ndim > 1 or mat.ndim != 2 or vec.ndim != 1:
        raise RuntimeError(
            f"vector + matrix @ vector expected, got {self.ndim}, {mat.ndim}, {vec.ndim}"
        )
    _check_mv(self, mat, vec)
    return _blend(self, beta, alpha, _wide_product(mat, vec))


@addmv.derivative
def _(grad, mat, vec, beta, alpha):
    self, outer_grad, inner_grad = _blend_backward(grad[:, None], mat, vec[:, None], beta, alpha)
    return self[:, 0], outer_grad, inner_grad[:, 0]


@op("addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
    forms="function method inplace out")
def addr(self, vec1, vec2, beta, alpha):
    """``beta * input + alpha * (outer(vec1, vec2))``.

    Args:
        input: broadcast to the product's shape; not looked at if ``beta`` is 0 (nan stays out).
        vec1 (n,), vec2 (m,).

    Raises:
        RuntimeError: for shapes or dtypes that do not fit.
    """
    # The call path's promotion would want the shapes to broadcast as they are.
    common = promote_types(
        promote_types(from_numpy(self.dtype), from_numpy(vec1.dtype)), from_numpy(vec2.dtype)
    ).numpy
    self, vec1, vec2 = (x.astype(common) for x in (self, vec1, vec2))
    a, b = _outer_operands("addr", vec1=vec1, vec2=vec2)
    check_expands(self.shape, (vec1.size, vec2.size))
    if is_integral(self):
        for name, scalar in (("beta", beta), ("alpha", alpha)):
            if not is_integral(jnp.asarray(scalar)):
                raise RuntimeError(
                    f"For integral input tensors, argument {name} must not be a floating point "
                    "number."
                )
    if self.dtype == jnp.bool_:
        beta, alpha = jnp.asarray(beta, bool), jnp.asarray(alpha, bool)
        return (self & beta) | (a & b & alpha)
    return _blend(self, beta, alpha, up(a) * up(b))


@addr.derivative
def _(grad, vec1, vec2, beta, alpha):
    vec1, vec2 = vec1.astype(grad.dtype), vec2.astype(grad.dtype)
    outer_grad = _scaled(grad, alpha)
    return (
        _scaled(grad, beta),
        product(outer_grad, jnp.conj(vec2)),
        product(jnp.conj(vec1), outer_grad),
    )


@op("addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
    forms="function method inplace out")
def addbmm(self, batch1, batch2, beta, alpha):
    """``beta * input + alpha * (batch1 @ batch2).sum(0)``.

    Args:
        input: broadcast to the product's shape; not looked at if ``beta`` is 0 (nan stays out).
        batch1 (b, n, m), batch2 (b, m, p).

    Raises:
        RuntimeError: for shapes or dtypes that do not fit.
    """
    result = (batch1.shape[wrap_dim(1, batch1.ndim)], batch2.shape[wrap_dim(2, batch2.ndim)])
    check_expands(self.shape, result)
    _require_dims(batch1, 3, "batch1 must be a 3D tensor")
    _require_dims(batch2, 3, "batch2 must be a 3D tensor")
    if batch1.shape[0] != batch2.shape[0]:
        raise RuntimeError(
            "batch1 and batch2 must have same number of batches, got "
            f"{batch1.shape[0]} and {batch2.shape[0]}"
        )
    if batch1.shape[2] != batch2.shape[1]:
        raise RuntimeError(
            f"Incompatible matrix sizes for bmm ({batch1.shape[1]}x{batch1.shape[2]} and "
            f"{batch2.shape[1]}x{batch2.shape[2]})"
        )
    _check_addmm_dtypes(self, batch1, batch2)
    require_arithmetic(batch1, "addbmm")
    total = jnp.einsum(
        "bij,bjk->ik", batch1, batch2,
        preferred_element_type=opmath(batch1.dtype),
    )
    return _blend(self, beta, alpha, total)


@addbmm.derivative
def _(grad, batch1, batch2, beta, alpha):
    return _blend_backward(grad, batch1, batch2, beta, alpha)


@op("baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) "
    "-> Tensor", forms="function method inplace out")
def baddbmm(self, batch1, batch2, beta, alpha):
    """``beta * input + alpha * (batch1 @ batch2)``.

    Args:
        input: broadcast to the product's shape; not looked at if ``beta`` is 0 (nan stays out).
        batch1 (b, n, m), batch2 (b, m, p).

    Raises:
        RuntimeError: for shapes or dtypes that do not fit.
    """
    result = tuple(
        x.shape[wrap_dim(d, x.ndim)] for x, d in ((batch1, 0), (batch1, 1), (batch2, 2))
    )
    check_expands(self.shape, result)
    if self.dtype != batch1.dtype:
        raise RuntimeError(
            f"Input dtypes must be the same, got: input {cpp_name(self)}, batch1: "
            f"{cpp_name(batch1)}, batch2: {cpp_name(batch2)}"
        )
    _require_dims(batch1, 3, "batch1 must be a 3D tensor")
    _require_dims(batch2, 3, "batch2 must be a 3D tensor")
    _check_bmm(batch1.shape, batch2.shape, batch1, batch2, "baddbmm")
    return _blend(self, beta, alpha, _wide_product(batch1, batch2))


@baddbmm.derivative
def _(grad, batch1, batch2, beta, alpha):
    return _blend_backward(grad, batch1, batch2, beta, alpha)
