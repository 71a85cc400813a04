"""Gradients exchanged as 8-bit integers."""

from __future__ import annotations

import ftorch as torch
from ftorch import distributed as dist

from ....futures import Future

__all__ = ["quantization_perchannel_hook", "quantization_pertensor_hook"]


def _affine(rows):
    """(scale, zero point) of each row whose smallest to largest value, and 0, shall become 0 to 255."""
    low, high = rows.amin(1).clamp(max=0.0), rows.amax(1).clamp(min=0.0)
    scale = ((high - low) / 255).clamp(min=torch.finfo(torch.float32).eps)
    zero = (0 - torch.round(low / scale)).to(torch.int32).clamp(0, 255)
    return scale, zero.to(torch.float32)


def _average(group, rows):
    """The average over a group of rows that are exchanged as bytes, with a scale for each row."""
    scale, zero = _affine(rows)
    own = torch.stack([scale, zero])
    bytes_ = (torch.round(rows / scale[:, None]) + zero[:, None]).clamp(0, 255).to(torch.uint8)
    affine = [torch.zeros_like(own) for _ in range(group.size())]
    dist.all_gather(affine, own, group=group)
    everybody = [torch.zeros_like(bytes_) for _ in range(group.size())]
    dist.all_gather(everybody, bytes_, group=group)
    total = torch.zeros(rows.shape)
    for (s, z), theirs in zip(affine, everybody):
        total += s[:, None] * (theirs.to(torch.float32) - z[:, None])
    return total / group.size()


def _done(value):
    future: Future = Future()
    future.set_result(value)
    return future


def quantization_pertensor_hook(process_group, bucket):
    """The average, exchanged as bytes with one scale for the bucket."""
    group = process_group if process_group is not None else dist.group.WORLD
    return _done(_average(group, bucket.buffer()[None])[0])


def quantization_perchannel_hook(process_group, bucket, bucket_size=512):
    """The average, exchanged as bytes with a scale for each ``bucket_size`` elements."""
    group = process_group if process_group is not None else dist.group.WORLD
    flat = bucket.buffer()
    padded = torch.nn.functional.pad(flat, (0, bucket_size - len(flat) % bucket_size))
    return _done(_average(group, padded.view(-1, bucket_size)).reshape(-1)[: len(flat)])
