"""`swap_tensors`: two tensors exchange what they are."""

from __future__ import annotations

import copyreg
import weakref

from ..autograd.graph import get_gradient_edge
from ..eager.autograd.gradient_values import LeafReference
from ..eager.tensor import TensorBase

_POISONED = (
    "Trying to execute AccumulateGrad node that was poisoned by swap_tensors this can happen when "
    "you try to run backward on a tensor that was swapped. For a module m with "
    "`torch.__future__.set_swap_module_params_on_conversion(True)` you should not change the device "
    "or dtype of the module (e.g. `m.cpu()` or `m.half()`) between running forward and backward. To "
    "resolve this, please only change the device/dtype before running forward (or after both forward "
    "and backward)."
)


def swap_tensors(t1, t2):
    """Exchanges the contents, classes, attributes, gradients and hooks of two tensors, so that whoever
    refers to one finds the other there (``torch.utils.swap_tensors``).

    Raises:
        RuntimeError: if there are weak references to one of them, views of it (they would be of another tensor), if
            their classes have different slots; in backward through a graph that one of them was a leaf of.

    >>> import ftorch as torch
    >>> x, y = torch.ones(2), torch.zeros(3)
    >>> torch.utils.swap_tensors(x, y)
    >>> x
    tensor([0., 0., 0.])
    """
    for name, t in (("t1", t1), ("t2", t2)):
        if any(reference.__class__ is not LeafReference for reference in weakref.getweakrefs(t)):
            raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
    slots, other = (set(copyreg._slotnames(type(t))) for t in (t1, t2))  # type: ignore[attr-defined]
    if slots != other:
        raise RuntimeError("Cannot swap t1 and t2 if they have different slots")
    for name, t in (("t1", t1), ("t2", t2)):
        _refuse_views(name, t)
        _poison_accumulator(t)
    for name in ("__class__", "__dict__", *sorted(slots | set(TensorBase.__slots__))):
        _swap_attribute(t1, t2, name)


def _swap_attribute(t1, t2, name):
    missing = object()
    first, second = getattr(t1, name, missing), getattr(t2, name, missing)
    for t, value in ((t1, second), (t2, first)):
        if value is not missing:
            setattr(t, name, value)
        elif hasattr(t, name):
            delattr(t, name)


def _refuse_views(name, t):
    """Raises for a tensor that others are views of; PyTorch counts references to its C++ object."""
    count = t._use_count()
    if count == 1:
        return
    if count == 2:
        get_gradient_edge(t)  # the second is the accumulator of a leaf, or this raises
    else:
        raise RuntimeError(
            f"Expected use_count of {name} to be 1 or 2 with an AccumulateGrad node but got {count} "
            "make sure you are not holding references to the tensor in other places."
        )


def _poison_accumulator(t):
    """Graphs know the tensor object, and would give its gradient to what takes its place."""
    meta = t._ftorch_meta
    node = meta and meta.accumulator and meta.accumulator()
    if node is not None:
        node.register_prehook(_fail)
        meta.accumulator = None


def _fail(grad_outputs):
    raise RuntimeError(_POISONED)
