"""What the kernels of linear algebra share: requirements, failures, one op under two names."""

from __future__ import annotations

import inspect

import jax.numpy as jnp
import numpy as np

from ...core.errors import LinAlgError
from ...core.geometry import contiguous_stride
from ...core.registry import OpDef, op
from .._common import dtype_name, is_complex, is_floating
from .matmul import adjoint, product

__all__ = [
    "adjoint", "broadcast_batch", "check_lu", "columns", "diagonal", "diagonal_matrix", "fail",
    "first_zero_pivot", "product", "require_float", "require_kernel", "require_matrix",
    "require_same_dtype", "require_square", "tiny_divide", "twin", "zeros_for_missing",
]


# --- memory order of the results ------------------------------------------------------


def columns(*places: int, rows=None):
    """The layout (see `op`) of results that LAPACK leaves column by column.

    Args:
        places: of the results that are matrices.
        rows: says by the static arguments whether they come row by row all the same.
    """

    def strides(inputs, static, shapes):
        if rows is not None and rows(static):
            return [None] * len(shapes)
        return [
            _column_stride(shape) if i in places and len(shape) > 1 else None
            for i, shape in enumerate(shapes)
        ]

    return strides


def _column_stride(shape):
    *batch, m, n = shape
    *strides, last, first = contiguous_stride((*batch, n, m))
    return (*strides, first, last)


# --- requirements of the arguments ----------------------------------------------------


def lapack(names, arrays):
    """SciPy's LAPACK functions for some arrays. SciPy is loaded when they are first needed."""
    from scipy.linalg import get_lapack_funcs

    return get_lapack_funcs(names, arrays)


def require_float(x, name, *, low_precision=False):
    """Raises unless ``x`` is floating point or complex, and not of half precision."""
    if not (is_floating(x) or is_complex(x)):
        raise RuntimeError(
            f"{name}: Expected a floating point or complex tensor as input. Got "
            f"{dtype_name(x.dtype)}"
        )
    if not low_precision and x.dtype.itemsize < 4:
        raise RuntimeError(
            f"{name}: Low precision dtypes not supported. Got {dtype_name(x.dtype)}"
        )


def require_kernel(x, name):
    """Raises as PyTorch's dispatch of CPU kernels does for integers and half precision."""
    if not (is_floating(x) or is_complex(x)) or x.dtype.itemsize < 4:
        raise NotImplementedError(f'"{name}" not implemented for \'{dtype_name(x.dtype)}\'')


def require_matrix(x, name, argument="A"):
    if x.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor {argument} must have at least 2 dimensions.")


def require_square(x, name=""):
    require_matrix(x, name)
    if x.shape[-1] != x.shape[-2]:
        prefix = f"{name}: " if name else ""
        raise RuntimeError(
            f"{prefix}A must be batches of square matrices, but they are "
            f"{x.shape[-2]} by {x.shape[-1]} matrices"
        )


def require_same_dtype(name, a_name, a, b_name, b):
    if a.dtype != b.dtype:
        raise RuntimeError(
            f"{name}: Expected {a_name} and {b_name} to have the same dtype, but found {a_name} of "
            f"type {dtype_name(a.dtype)} and {b_name} of type {dtype_name(b.dtype)} instead"
        )


# --- failures that depend on the values -----------------------------------------------

# What LAPACK's ``info`` says of a matrix.
FAILURES = {
    "inv": "The diagonal element {info} is zero, the inversion could not be completed because the input matrix is singular.",
    "solve": "The solver failed because the input matrix is singular.",
    "cholesky": "The factorization could not be completed because the input is not positive-definite (the leading minor of "
                "order {info} is not positive-definite).",
    "lu_factor": "U[{info},{info}] is zero and using it on lu_solve would result in a division by zero. If you still want to "
                 "perform the factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)",
}


def fail(name, failed, message, error=LinAlgError):
    """Raises for the first failing matrix of a batch.

    Args:
        failed: for each matrix (of any batch shape) whether it fails.
        message: the text, or a function giving it from the index of the matrix in the batch.
    """
    failed = np.asarray(failed)
    if not failed.any():
        return
    index = int(np.argmax(failed))
    place = f"(Batch element {index}): " if failed.ndim else ""
    text = message(np.unravel_index(index, failed.shape)) if callable(message) else message
    raise error(f"{name}: {place}{text}")


def check_lu(name, a, message, error=LinAlgError):
    """Raises where an LU factorization of NumPy matrices meets a zero pivot.

    ``{info}`` in the message is the number of the first one.
    """
    if not a.size:
        return
    # The determinant's sign vanishes only with a pivot; underflow does not make it zero.
    singular = np.linalg.slogdet(a)[0] == 0

    def text(index):
        (getrf,) = lapack(("getrf",), (a[index],))
        return message.format(info=max(getrf(a[index])[2], 1))

    fail(name, singular, text, error)


def first_zero_pivot(diagonal):
    """LAPACK's ``info``: the number of the first zero on a factor's diagonal, or 0."""
    zero = diagonal == 0
    if not diagonal.shape[-1]:
        return jnp.zeros(diagonal.shape[:-1], jnp.int32)
    first = jnp.argmax(zero, axis=-1).astype(jnp.int32) + 1
    return jnp.where(jnp.any(zero, axis=-1), first, jnp.int32(0))


# --- small matrix functions -----------------------------------------------------------


def diagonal_matrix(x):
    """Vectors as diagonal matrices."""
    return x[..., None] * jnp.eye(x.shape[-1], dtype=x.dtype)


def tiny_divide(x, y):
    """``x / y`` where nothing divided by nothing is nothing."""
    nothing = x == 0
    return jnp.where(nothing, x, x / jnp.where(nothing, jnp.ones_like(y), y))


def diagonal(x):
    return jnp.diagonal(x, axis1=-2, axis2=-1)


def zeros_for_missing(grads, results):
    """Gradients of several results, zeros for those that nobody asks for."""
    return tuple(
        jnp.zeros_like(r) if g is None else g for g, r in zip(grads, results, strict=True)
    )


def broadcast_batch(a, b, a_core=2, b_core=2):
    """Two arrays with their leading dimensions broadcast, the last ``*_core`` left alone."""
    a_batch, b_batch = a.shape[: a.ndim - a_core], b.shape[: b.ndim - b_core]
    batch = np.broadcast_shapes(a_batch, b_batch)
    return (
        jnp.broadcast_to(a, batch + a.shape[a.ndim - a_core :]),
        jnp.broadcast_to(b, batch + b.shape[b.ndim - b_core :]),
    )


# --- one op under two names -----------------------------------------------------------


def twin(original: OpDef, schema: str, **properties) -> OpDef:
    """Declares ``schema`` as ``original`` with other argument names: kernel, derivative, checks.

    ``torch.det(input)`` is ``torch.linalg.det(A)``.
    """

    def renamed(function, leading=()):
        """``function`` taking the new names for the arguments that it reads."""
        own = list(inspect.signature(function).parameters)[len(leading) :]
        names = [new_of.get(name, name) for name in own]

        def call(*args, **kwargs):
            bound = call.__signature__.bind(*args, **kwargs).arguments
            return function(*(bound[p] for p in leading),
                            **{o: bound[n] for o, n in zip(own, names, strict=True)})

        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        call.__signature__ = inspect.Signature(
            [inspect.Parameter(p, kind) for p in (*leading, *names)]
        )
        call.__doc__ = function.__doc__
        return call

    new = _argument_names(schema)
    new_of = dict(zip(original.argument_names, new, strict=True))
    properties = {"differentiable": original.differentiable, "layout": original.layout, **properties}
    declared = op(schema, **properties)(
        renamed(original.kernel)
    )
    if original.backward is not None:
        declared.derivative(renamed(original.backward, leading=("grad",)))
    for _, function, waits in original.checks:
        declared.check(renamed(function), waits=renamed(waits) if callable(waits) else waits)
    return declared


def _argument_names(schema):
    from ...core.schema import parse

    return [argument.name for argument in parse(schema).arguments]
