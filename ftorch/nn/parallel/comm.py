"""Tensors copied between the devices of one process (``torch.nn.parallel.comm``).

All of them are differentiable: they are copies, slices and concatenations.
"""

from __future__ import annotations

from ...eager.core import api as torch
from ...eager.core.device import device as _device


def _place(target):
    return _device("cuda", target) if isinstance(target, int) else _device(target)


def broadcast(tensor, devices=None, *, out=None):
    """Copies of a tensor on the devices, or into the tensors ``out``, as a tuple."""
    if (devices is None) == (out is None):
        raise RuntimeError(
            f"Exactly one of 'devices' and 'out' must be specified, but got devices={devices} and out={out}"
        )
    if devices is not None:
        return tuple(tensor.to(_place(d)) for d in devices)
    for o in out:
        o.copy_(tensor)
    return tuple(out)


def broadcast_coalesced(tensors, devices, buffer_size=10485760):
    """Lists of copies of all tensors, one for each device."""
    return [[t.to(_place(d)) for t in tensors] for d in devices]


def reduce_add(inputs, destination=None):
    """The sum of tensors that lie on several devices, on one of them.

    Raises:
        ValueError: if their shapes differ.
    """
    inputs = list(inputs)
    if not inputs:
        raise RuntimeError("reduce_add expects all inputs to be on GPUs")
    place = inputs[0].device if destination is None else _place(destination)
    for i, t in enumerate(inputs):
        if t.shape != inputs[0].shape:
            raise ValueError(
                f"input {i} has invalid size: got {'x'.join(map(str, t.shape))}, but expected "
                f"{'x'.join(map(str, inputs[0].shape))}"
            )
    result = inputs[0].to(place)
    for t in inputs[1:]:
        result = result + t.to(place)
    return result


def reduce_add_coalesced(inputs, destination=None, buffer_size=10485760):
    """The sums of corresponding tensors of several lists."""
    return tuple(reduce_add(group, destination) for group in zip(*inputs))


def scatter(tensor, devices=None, chunk_sizes=None, dim=0, streams=None, *, out=None):
    """A tensor's pieces along a dimension, each on its device (or copied into ``out``), as a tuple."""
    if out is not None:
        if devices is not None or chunk_sizes is not None:
            raise RuntimeError("'devices' and 'chunk_sizes' must not be specified when 'out' is specified")
        for o, piece in zip(out, torch.split(tensor, [o.size(dim) for o in out], dim)):
            o.copy_(piece)
        return tuple(out)
    if chunk_sizes is None:
        pieces = torch.chunk(tensor, len(devices), dim)
    else:
        pieces = torch.split(tensor, list(chunk_sizes), dim)
    return tuple(piece.to(_place(d)) for piece, d in zip(pieces, devices))


def gather(tensors, dim=0, destination=None, *, out=None):
    """Tensors of several devices, concatenated on one (or in ``out``)."""
    if out is not None:
        if destination is not None:
            raise RuntimeError(
                f"'destination' must not be specified when 'out' is specified, but got {destination}"
            )
        place = out.device
    else:
        place = tensors[0].device if destination is None else _place(destination)
    return torch.cat([t.to(place) for t in tensors], dim, out=out)
