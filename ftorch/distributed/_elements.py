"""Elements of tensors as flat arrays, which is what processes exchange, and back."""

from __future__ import annotations

import numpy as np

import ftorch as torch

from ..eager.call.op import to_numpy
from ..eager.core.device import META
from ..eager.core.device import put as put_array
from ..eager.memory.storage import Storage
from ..eager.runtime import capture_trace, executor
from ..eager.tensor import from_array
from ._algorithms import empty


def has_none(tensors) -> bool:
    """Whether tensors are on the meta device, or fake: the first of a list, or of a list of lists."""
    while isinstance(tensors, (list, tuple)):
        if not tensors:
            return False
        tensors = tensors[0]
    return isinstance(tensors, torch.Tensor) and tensors._ftorch_storage.root.device is META


def flat(t) -> np.ndarray:
    """A tensor's elements in order, as a flat array (which may be the tensor's own memory)."""
    if has_none(t):
        return room(t)
    return np.ascontiguousarray(to_numpy(t.detach())).reshape(-1)


def fill(t, array, *, counts: bool = True) -> None:
    """Puts elements into a tensor, in place and past autograd. The array is the tensor's from then on.

    Args:
        counts: whether that is a new version of the tensor, by which autograd knows what has changed.
    """
    array = np.ascontiguousarray(array).reshape(tuple(t.shape))
    target = t._ftorch_storage
    before = target.version
    whole = t._ftorch_geometry is target.root and target.host is None and array.base is not None
    if whole and type(t) in (torch.Tensor, torch.nn.Parameter) and capture_trace.capturing() is None:
        # A dense tensor takes over the memory: a write of 64 MB would cost as much as its exchange.
        executor.move(Storage(target.root, put_array(array, target.root.device)), target)
        if not counts:
            target.version = before
        return
    with torch.no_grad():
        value = from_array(array)
        if value.device != t.device:
            value = value.to(t.device)
        t.detach().copy_(value)
    if not counts:
        target.version = before


def room(t) -> np.ndarray:
    """A flat array for as many elements; a place without memory for those of a tensor that has none.

    A capture ends: a program would keep what comes into the array now.
    """
    if has_none(t):
        return np.broadcast_to(np.zeros((), t.dtype.numpy), (t.numel(),))
    capture = capture_trace.capturing()
    if capture is not None:
        capture.end("something is received from another process")
    return empty(t.numel(), t.dtype.numpy)
