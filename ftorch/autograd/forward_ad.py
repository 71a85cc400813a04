"""Forward-mode AD by hand: ``dual_level``, ``make_dual``, ``unpack_dual``."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..functional.dual import Dual, DualLevel, dual

_levels: list[DualLevel] = []


class UnpackedDualTensor(NamedTuple):
    """A tensor and its tangent (None where it has none)."""

    primal: Any
    tangent: Any


class dual_level:
    """The context in which tensors carry tangents.

    >>> import ftorch as torch
    >>> import ftorch.autograd.forward_ad as fwAD
    >>> with fwAD.dual_level():
    ...     x = fwAD.make_dual(torch.tensor(3.0), torch.tensor(1.0))
    ...     fwAD.unpack_dual(x * x).tangent
    tensor(6.)
    """

    def __enter__(self):
        return enter_dual_level()

    def __exit__(self, *_):
        exit_dual_level()


def enter_dual_level():
    """Opens a level by hand; gives its number."""
    if _levels:
        raise RuntimeError(
            "Nested forward mode AD is not supported at the moment"
        )
    _levels.append(DualLevel(by_hand=True).__enter__())
    return 0


def exit_dual_level(*, level=None):
    """Closes the level."""
    if not _levels:
        raise RuntimeError("Dual level must be a positive number.")
    _levels.pop().__exit__()


def _current():
    if not _levels:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to "
            "enter_dual_level() first."
        )
    return _levels[-1]


def make_dual(tensor, tangent, *, level=None):
    """A tensor that carries a tangent.

    Raises:
        RuntimeError: outside a level, or if the shapes differ. ValueError: for integer tensors.
    """
    current = _current()
    if tensor.dtype.category < 2:
        raise ValueError(
            f"Expected primal to be floating point or complex, but got: {tensor.dtype}"
        )
    if tangent.dtype.category < 2:
        raise ValueError(
            f"Expected tangent to be floating point or complex, but got: {tangent.dtype}"
        )
    if tensor.shape != tangent.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this "
            f"is not supported. Tensor is of size {list(tensor.shape)} while the given forward gradient is of "
            f"size {list(tangent.shape)}."
        )
    return dual(current, tensor, tangent)


def unpack_dual(tensor, *, level=None):
    """``(primal, tangent)`` of a dual tensor; the tangent of any other is None."""
    if _levels and isinstance(tensor, Dual) and tensor._level is _levels[-1]:
        return UnpackedDualTensor(tensor._inner, tensor._tangent)
    return UnpackedDualTensor(tensor, None)
