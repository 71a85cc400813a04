"""Functions of ``torch`` that handlers and older libraries name: copies of sparse parts, one operator under another name."""

from __future__ import annotations

import math

from ..eager.bindings.publishing import function
from ..eager.core import api as torch
from ..eager.core import dtype as _dtype
from ..eager.core.formats import contiguous_format


def _builtin(slow):
    return function(slow, ".")


def _copied(result, out):
    if out is not None:
        out.resize_(result.shape)
        return out.copy_(result)
    return result.clone(memory_format=contiguous_format)


def _copy_of(part):
    def copy(input, *, out=None):
        return _copied(getattr(input, part)(), out)

    copy.__name__ = copy.__qualname__ = f"{part}_copy"
    copy.__doc__ = f"What ``input.{part}()`` gives, in memory of its own.\n\nRaises:\n    RuntimeError: for other layouts."
    return _builtin(copy)


crow_indices_copy, col_indices_copy, ccol_indices_copy, row_indices_copy, values_copy = map(
    _copy_of, ("crow_indices", "col_indices", "ccol_indices", "row_indices", "values")
)


def _conj_copy(input, *, out=None):
    """The conjugate, in memory of its own."""
    return torch.conj_physical(input) if out is None else torch.conj_physical(input, out=out)


def _neg_view_copy(input, *, out=None):
    """The negative, in memory of its own."""
    return torch.neg(input) if out is None else torch.neg(input, out=out)


def _reshape_alias_copy(input, size, stride, *, out=None):
    """The elements with other sizes and strides, in memory of their own."""
    return torch.as_strided_copy(input, size, stride, out=out)


def _logcumsumexp(input, dim, *, out=None):
    """`torch.logcumsumexp`."""
    return torch.logcumsumexp(input, dim, out=out)


def _lazy_clone(input):
    """A copy; memory is shared until one of both is written to in any case."""
    return input.clone()


def _coalesce(input):
    """The sparse COO tensor with one value for each index."""
    return input.coalesce()


def _adaptive_avg_pool3d(input, output_size):
    """`torch.nn.functional.adaptive_avg_pool3d`."""
    return torch.nn.functional.adaptive_avg_pool3d(input, output_size)


def _addmm_activation(input, mat1, mat2, *, beta=1, alpha=1, use_gelu=False, out=None):
    """``relu`` of ``torch.addmm``, or its ``gelu`` (with the tanh approximation off)."""
    found = torch.addmm(input, mat1, mat2, beta=beta, alpha=alpha)
    found = torch.nn.functional.gelu(found) if use_gelu else torch.relu(found)
    return found if out is None else out.resize_(found.shape).copy_(found)


def _add_relu_(input, other, *, alpha=1):
    """``input`` becomes ``relu(input + alpha * other)``."""
    return input.add_(other, alpha=alpha).relu_()


def _convolution_mode(input, weight, bias, stride, padding, dilation, groups):
    """A convolution whose padding is "valid" or "same"."""
    function = (torch.nn.functional.conv1d, torch.nn.functional.conv2d, torch.nn.functional.conv3d)[weight.dim() - 3]
    return function(input, weight, bias, stride, padding, dilation, groups)


def _to_cpu(tensors):
    """The tensors on the CPU, as a tuple."""
    return tuple(t.cpu() for t in tensors)


def _sparse_sparse_matmul(input, other):
    """The product of two sparse COO matrices."""
    return torch.mm(input, other)


def _sparse_sum(input, dim=None, *, dtype=None):
    """`torch.sparse.sum`."""
    from ..sparse import sum as total

    return total(input, dim, dtype)


def _conj_physical(input):
    """`torch.conj_physical`, for real tensors, too."""
    return torch.conj_physical(input)


def _print(s):
    """Prints a text."""
    print(s)


@_builtin
def is_vulkan_available() -> bool:
    """False: XLA has no such devices."""
    return False


@_builtin
def init_num_threads() -> None:
    """Does nothing: threads are as many as `torch.set_num_threads` says from the start."""


def _running_with_deploy() -> bool:
    """False: the interpreter is Python's own."""
    return False


def _as_tensor_fullprec(t):
    """``torch.as_tensor(t)``, whose Python numbers are float64 and int64."""
    kind = {float: _dtype.float64, int: _dtype.int64}.get(type(t))
    return torch.as_tensor(t, dtype=kind) if kind is not None else torch.as_tensor(t)


def _of_number(name):
    function = getattr(math, name)

    def sym(a):
        return getattr(a, f"__sym_{name}__")() if hasattr(a, f"__sym_{name}__") else function(a)

    sym.__name__ = sym.__qualname__ = f"_sym_{name}"
    sym.__doc__ = f"`math.{name}` of a number, or of a `torch.SymFloat`."
    return sym


_sym_acos, _sym_asin, _sym_atan, _sym_cos = map(_of_number, ("acos", "asin", "atan", "cos"))
_sym_cosh, _sym_log2, _sym_sin, _sym_sinh = map(_of_number, ("cosh", "log2", "sin", "sinh"))
_sym_sqrt, _sym_tan, _sym_tanh = map(_of_number, ("sqrt", "tan", "tanh"))
