"""Forward-mode AD by hand: ``dual_level``, ``make_dual``, ``unpack_dual``."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..eager.autograd import nodes, tape
from ..eager.autograd.views import view_call
from ..eager.call.op import is_in_graph
from ..eager.core import api as torch
from ..eager.core.geometry import with_bits
from ..eager.core.registry import OPS
from ..eager.dispatch.levels import adopted
from ..eager.native.contexts import repeatable
from ..eager.tensor import PLAIN, modes
from ..eager.transforms.dual import OTHER_SIZE, Dual, DualLevel, dual
from .grad_mode import DecoratorContextManager

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]
_levels: list[DualLevel] = []
_current_level = -1


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

    @repeatable
    def __exit__(self, *_):
        if _levels:
            exit_dual_level()


def enter_dual_level():
    """Opens a level by hand; gives its number."""
    if _levels:
        raise RuntimeError(
            "Nested forward mode AD is not supported at the moment"
        )
    global _current_level
    _levels.append(DualLevel(by_hand=True).__enter__())
    _current_level = 0
    return 0


def exit_dual_level(*, level=None):
    """Closes the level."""
    if not _levels:
        raise RuntimeError("Dual level must be a positive number.")
    global _current_level
    _levels[-1].__exit__()
    _current_level = -1
    _levels.pop()


def _is_fwd_grad_enabled() -> bool:
    """Whether calls on tensors that carry tangents compute those of their results."""
    return modes.forward


class _set_fwd_grad_enabled(DecoratorContextManager):  # noqa: N801
    """Says whether tangents are computed, and seen: from the call on, and as a context or decorator inside."""

    def __init__(self, mode: bool):
        self.mode, self.outer = mode, modes.forward
        modes.forward = bool(mode)

    def clone(self):
        return type(self)(self.mode)

    def __enter__(self):
        pass

    @repeatable
    def __exit__(self, *_):
        modes.forward = self.outer


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
        raise RuntimeError(OTHER_SIZE.format(list(tensor.shape), list(tangent.shape)))
    if isinstance(tangent, Dual) and tangent._ftorch_level is current and tangent._tangent is not None:
        raise RuntimeError("Setting a forward grad that itself has a forward gradient at the same level0 is not supported.")
    if isinstance(tensor, Dual) and tensor._ftorch_level is current:
        if tensor._tangent is not None:
            raise RuntimeError("Making a dual Tensor based on a Tensor that already has a forward gradient at the same level 0 "
                               "is not supported.")
        tensor = tensor._inner
    both_plain = tensor.__class__ in PLAIN and tangent.__class__ in PLAIN
    if both_plain and with_bits(tensor._ftorch_geometry, 0).is_dense and not _lies_alike(tensor, tangent):
        tangent = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tangent.dtype, device=tangent.device).copy_(tangent)
    made = dual(current, tensor, tangent)
    if modes.grad and is_in_graph(tensor):
        node = tape.node_class("ViewBackward0", _Same)()
        node._ftorch_edges = (tape.edge_of(tensor),)
        made._grad_fn, made._ftorch_requires_grad = node, True
    return made


def _lies_alike(a, b) -> bool:
    """Whether two tensors of a shape lie alike in memory: a tangent is its primal's where every view of that is one of it."""
    g, h = a._ftorch_geometry, b._ftorch_geometry
    return (
        g.bits == h.bits and a._ftorch_offset == b._ftorch_offset
        and a._ftorch_storage.root.numel == b._ftorch_storage.root.numel
        and all(s == t or n == 1 for n, s, t in zip(g.shape, g.stride, h.stride))
    )


class _Same(nodes.Node):
    """The node of a tensor that has got a tangent: a view of what it was."""

    __slots__ = ()

    def apply(self, grads):
        return list(grads)


def unpack_dual(tensor, *, level=None):
    """``(primal, tangent)`` of a dual tensor; the tangent of any other is None."""
    tensor = adopted.get(id(tensor), tensor)
    if isinstance(tensor, Dual) and tensor._ftorch_level.by_hand:
        current = _levels and tensor._ftorch_level is _levels[-1] and modes.forward
        primal = view_call(OPS["alias"], tensor._inner, ())
        if isinstance(primal._grad_fn, nodes.Node):
            tape.rename_node(primal._grad_fn, "Identity")
        return UnpackedDualTensor(primal, tensor._tangent if current else None)
    return UnpackedDualTensor(tensor, None)
