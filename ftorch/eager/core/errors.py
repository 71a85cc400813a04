"""Exception types of PyTorch's own, and errors from below in its terms."""

from __future__ import annotations

import math
import os
import re

import jax

from . import callback_errors, places
from .jax_internals import is_busy


class _LinAlgError(RuntimeError):
    """A matrix on which a linear algebra operation fails (``torch.linalg.LinAlgError``).

    >>> import ftorch as torch
    >>> torch.linalg.inv(torch.zeros(1, 1))
    Traceback (most recent call last):
    ...
    ftorch._C._LinAlgError: linalg.inv: The diagonal element 1 is zero, the inversion could \
not be completed because the input matrix is singular.
    """


_LinAlgError.__module__ = "ftorch._C"
LinAlgError = _LinAlgError


class OutOfMemoryError(RuntimeError):
    """The device's memory did not suffice (``torch.cuda.OutOfMemoryError``)."""


SHOW_JAX = os.environ.get("FTORCH_TRACEBACK", "") not in ("", "0")


def translate_error(error: BaseException, name: str = "") -> BaseException:
    """An error from below as PyTorch users know it, without JAX's frames.

    Errors that kernels raise keep their type and text; JAX's own become RuntimeErrors that name the
    op. ``FTORCH_TRACEBACK=1`` keeps everything as it was raised.
    """
    if SHOW_JAX or isinstance(error, OutOfMemoryError) or not isinstance(error, Exception) or is_busy(error):
        return error
    own = callback_errors.original(error)
    if own is not None:
        return own
    text = str(error).split("\n--------------------")[0]
    if isinstance(error, MemoryError):
        nbytes = _bytes_of_array(error)
        if nbytes is not None:
            return RuntimeError(cannot_allocate(nbytes, name))
        return RuntimeError(cannot_allocate(None, name) + (f": {text}" if text else ""))
    if isinstance(error, jax.errors.JaxRuntimeError):
        first = text.splitlines()[0] if text else "the computation failed"
        if "Out of memory allocating" in text:  # XLA's words on the CPU
            return RuntimeError(cannot_allocate(_bytes(text), name))
        if "RESOURCE_EXHAUSTED" in text or "Out of memory" in text:
            return OutOfMemoryError(f"out of memory: {first}")
        return RuntimeError(f"{name}: {first}" if name else first)
    if _raised_by_jax(error):
        kind = IndexError if isinstance(error, IndexError) else RuntimeError
        if (mismatch := _mismatch(text)) is not None:
            return RuntimeError(mismatch)
        return kind(f"{name}: {text.splitlines()[0] if text else type(error).__name__}")
    error.__notes__ = []
    error.__cause__ = None
    return error.with_traceback(None)


def _mismatch(text):
    """JAX's error about shapes that can't be broadcast, in PyTorch's words; None if it is about something else."""
    if "ncompatible shapes for broadcasting" not in text:
        return None
    shapes = [tuple(map(int, re.findall(r"\d+", shape))) for shape in re.findall(r"\(([\d, ]*)\)", text)]
    if len(shapes) != 2:
        return None
    rank = max(map(len, shapes))
    a, b = ((1,) * (rank - len(shape)) + shape for shape in shapes)
    for d in reversed(range(rank)):
        if a[d] != b[d] and 1 not in (a[d], b[d]):
            return size_mismatch(a[d], b[d], d)
    return None


def size_mismatch(a, b, dim) -> str:
    """What PyTorch says of sizes in which two operands differ."""
    return f"The size of tensor a ({a}) must match the size of tensor b ({b}) at non-singleton dimension {dim}"


def unmet(condition: str) -> str:
    """The text of a check in C++ that was given none."""
    return (
        f"Expected {condition} to be true, but got false.  (Could this error message be improved?  If so, please report an "
        "enhancement request to PyTorch.)"
    )


def could_not_run(name: str, backend: str, hint: str = "") -> NotImplementedError:
    """PyTorch's error for an operator that a kind of tensors does not have.

    Args:
        name: of ATen's operator; of another with its namespace.
        hint: what to do instead.
    """
    qualified = name if "::" in name else f"aten::{name}"
    return NotImplementedError(
        f"Could not run '{qualified}' with arguments from the '{backend}' backend. This could be because the operator "
        "doesn't exist for this backend, or was omitted during the selective/custom build process (if using custom "
        f"build).{hint and ' ' + hint}"
    )


def cannot_allocate(nbytes, name: str = "") -> str:
    """What PyTorch says where memory on the CPU does not suffice.

    Args:
        nbytes: how many were asked for, or None.
        name: of the operation that asked.
    """
    wanted = "some more" if nbytes is None else nbytes
    return (
        f"{name + ': ' if name else ''}[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: "
        f"can't allocate memory: you tried to allocate {wanted} bytes. Error code 12 (Cannot allocate memory)"
    )


def another(error: BaseException) -> BaseException:
    """An error that says the same, to be raised: it holds the frames that it goes through, and what lies in their variables,
    as long as somebody keeps it. Classes that are not known here may not be made like this: theirs is given back."""
    kind = type(error)
    if kind is OutOfMemoryError or kind.__module__ == "builtins":
        return kind(*error.args)
    return error.with_traceback(None)


def is_of_memory(error: BaseException) -> bool:
    """Whether an error from below says that memory did not suffice."""
    text = str(error) if isinstance(error, jax.errors.JaxRuntimeError) else ""
    return isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in text or "Out of memory" in text


def _bytes_of_array(error):
    """How many bytes NumPy asked for, if it is NumPy's error."""
    shape, dtype = getattr(error, "shape", None), getattr(error, "dtype", None)
    return None if shape is None or dtype is None else math.prod(shape) * dtype.itemsize


def _bytes(text):
    found = re.search(r"[Oo]ut of memory allocating (\d+) bytes", text)
    return None if found is None else int(found[1])


def user_line(frame) -> str:
    """``file:line`` of the innermost frame outside of this package."""
    while frame.f_back is not None and frame.f_code.co_filename.startswith(places.OWN):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _raised_by_jax(error):
    trace = error.__traceback__
    if trace is None:
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame.f_code.co_filename.startswith(places.JAX)
