"""Parts of `DTensor`s as plain parameters, for data parallelism around tensor parallelism."""

from __future__ import annotations

from .._api import DTensor

__all__ = ["sync_grad_hook"]


def sync_grad_hook(grad, *, device_handle=None, compute_stream=None):
    """The gradient: collectives are complete when their results are used."""
    return grad


def _flatten_tensor(tensor):
    """(the own part of a `DTensor`, how it lies); (a plain tensor, None)."""
    if not isinstance(tensor, DTensor):
        return tensor, None
    tensor._local_tensor.requires_grad_()
    return tensor._local_tensor, tensor._spec


def _unflatten_tensor(tensor, spec, *, device_handle=None, compute_stream=None):
    """The `DTensor` of which a tensor is the own part."""
    return DTensor.from_local(tensor, spec.mesh, spec.placements, shape=spec.shape, stride=spec.stride)
