"""Ring attention: queries stay, keys and values come from the other processes (https://arxiv.org/abs/2310.01889).

Each process has some positions of the sequence. With ``allgather`` (the default) it gathers all keys and
values; with ``alltoall`` they go round, one part at a time, and the parts' results are merged by the logarithms
of their sums of exponentials.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

import ftorch as torch

from .....eager.native.contexts import contextmanager
from ...._functional_collectives import gathered, permute_tensor, wait_tensor
from ._load_balancer import _create_default_load_balancer

__all__ = ["context_parallel", "context_parallel_unshard", "set_rotate_method"]


class _RotateMethod(Enum):
    ALL_TO_ALL = "alltoall"
    ALL_GATHER = "allgather"


@dataclass
class _ContextParallelOptions:
    convert_to_f32: bool = True
    enable_load_balance: bool = True
    rotate_method: _RotateMethod = _RotateMethod.ALL_GATHER


_cp_options = _ContextParallelOptions()
_active: list = []  # (mesh, positions of this process) of the contexts that are entered


def set_rotate_method(rotate_method: str) -> None:
    """How keys and values come: ``"allgather"`` or ``"alltoall"``.

    Raises:
        NotImplementedError: for another name.
    """
    try:
        _cp_options.rotate_method = _RotateMethod(rotate_method)
    except ValueError:
        raise NotImplementedError(
            "Context Parallel does not support using the rotate method "
            f"{rotate_method}: use 'allgather' or 'alltoall'"
        ) from None


def _own(t, dim, mesh, order):
    """The own part of a tensor along a dimension, in the balanced order."""
    if order is not None:
        t = t.index_select(dim, order.reshape(-1))
    if t.shape[dim] % mesh.size():
        raise ValueError(
            f"dimension {dim} of size {t.shape[dim]} cannot be divided over {mesh.size()} processes"
        )
    return t.chunk(mesh.size(), dim)[mesh.get_local_rank()]


def _context_parallel_shard(mesh, buffers, seq_dims, load_balancer=None):
    """The own parts of tensors along their sequence dimensions."""
    named = isinstance(buffers, Mapping)
    tensors = list(buffers.values()) if named else list(buffers)
    dims = list(seq_dims.values()) if named else list(seq_dims)
    order = None if load_balancer is None else load_balancer._generate_indices()
    return [_own(t, dim, mesh, order).contiguous() for t, dim in zip(tensors, dims)]


@contextmanager
def context_parallel(mesh, *, buffers=None, buffer_seq_dims=None, no_restore_buffers=None):
    """Within, tensors have the own part of a sequence, and ``scaled_dot_product_attention`` attends over all of it.

    Args:
        mesh: 1-d.
        buffers: tensors that are replaced by their own parts, in place; on leaving they are restored.
        buffer_seq_dims: the sequence's dimension in each.
        no_restore_buffers: those that are left divided.

    Raises:
        ValueError: for numbers of buffers and dimensions that differ, or for unknown ``no_restore_buffers``.

    >>> import ftorch as torch
    >>> from ftorch.distributed.tensor.experimental import context_parallel
    >>> dist = torch.distributed
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> mesh = dist.init_device_mesh("cpu", (1,))
    >>> q = torch.ones(1, 1, 4, 2)
    >>> with context_parallel(mesh, buffers=[q], buffer_seq_dims=[2]):
    ...     torch.nn.functional.scaled_dot_product_attention(q, q, q).shape
    torch.Size([1, 1, 4, 2])
    >>> dist.destroy_process_group()
    """
    buffers = [] if buffers is None else list(buffers)
    dims = [] if buffer_seq_dims is None else list(buffer_seq_dims)
    kept = set() if no_restore_buffers is None else {id(b) for b in no_restore_buffers}
    if len(buffers) != len(dims):
        raise ValueError("`seq_dims` must have the same number of elements as `buffers`.")
    if not kept <= {id(b) for b in buffers}:
        raise ValueError("`no_restore_buffers` must be a subset of `buffers`.")
    whole = [None if id(b) in kept else b.detach().clone() for b in buffers]
    balancer = None
    if buffers:
        length = buffers[0].shape[dims[0]]
        balancer = _create_default_load_balancer(length, mesh.size(), buffers[0].device)
    parts = _context_parallel_shard(mesh, buffers, dims, balancer)
    with torch.no_grad():
        for b, part in zip(buffers, parts):
            b.set_(part.detach().clone())
    _enable_context_parallel_dispatcher(mesh, balancer is not None)
    try:
        yield
    finally:
        _disable_context_parallel_dispatcher()
        with torch.no_grad():
            for b, t in zip(buffers, whole):
                if t is not None:
                    b.set_(t)


def context_parallel_unshard(mesh, buffers, seq_dims, load_balancer=None) -> list:
    """The whole tensors of which the processes have parts (those that `context_parallel` makes)."""
    out = []
    for t, dim in zip(buffers, seq_dims):
        whole = gathered(t.contiguous(), dim, mesh.get_group())
        balancer = load_balancer
        if balancer is None:
            balancer = _create_default_load_balancer(whole.shape[dim], mesh.size(), whole.device)
        if balancer is not None:
            whole = whole.index_select(dim, balancer._generate_indices(restore=True).reshape(-1))
        out.append(whole)
    return out


_original = []


def _enable_context_parallel_dispatcher(mesh=None, balanced=False) -> None:
    """From now on ``scaled_dot_product_attention`` attends over the parts of all processes."""
    functional = torch.nn.functional
    if not _active:
        _original.append(functional.scaled_dot_product_attention)
        functional.scaled_dot_product_attention = _attention
    _active.append((mesh, balanced))


def _disable_context_parallel_dispatcher() -> None:
    _active.pop()
    if not _active:
        torch.nn.functional.scaled_dot_product_attention = _original.pop()


def _positions(rank, size, length, balanced, device):
    """The places in the sequence that a process' elements have."""
    if not balanced:
        return torch.arange(rank * length, (rank + 1) * length, device=device)
    half = length // 2
    head = torch.arange(rank * half, (rank + 1) * half, device=device)
    start = (2 * size - 1 - rank) * half
    return torch.cat([head, torch.arange(start, start + half, device=device)])


def _attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    mesh, balanced = _active[-1]
    if attn_mask is not None or dropout_p:
        raise NotImplementedError("Context Parallel supports neither attn_mask nor dropout: use is_causal")
    group, size, rank = mesh.get_group(), mesh.size(), mesh.get_local_rank()
    if enable_gqa:
        repeats = query.shape[-3] // key.shape[-3]
        key, value = key.repeat_interleave(repeats, -3), value.repeat_interleave(repeats, -3)
    places = [_positions(r, size, key.shape[-2], balanced, key.device) for r in range(size)]
    own = _positions(rank, size, query.shape[-2], balanced, query.device)
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    if _cp_options.rotate_method is _RotateMethod.ALL_GATHER:
        both = gathered(torch.cat([key, value], -1).contiguous(), key.dim() - 2, group)
        key, value = both[..., : key.shape[-1]], both[..., key.shape[-1] :]
        mask = own[:, None] >= torch.cat(places)[None] if is_causal else None
        return _original[-1](query, key, value, mask, 0.0, False, scale)
    return _ring(query, key, value, own, places, scale, is_causal, group, rank, size)


def _ring(query, key, value, own, places, scale, is_causal, group, rank, size):
    """Keys and values go round; each step's result is merged with those before."""
    dtype = query.dtype
    accumulate = torch.float32 if _cp_options.convert_to_f32 and dtype.itemsize < 4 else dtype
    total = peak = result = None
    both = torch.cat([key, value], -1).contiguous()
    width = key.shape[-1]
    for step in range(size):
        if step:
            both = wait_tensor(permute_tensor(both, [(r + 1) % size for r in range(size)], group))
        source = (rank - step) % size
        scores = (query @ both[..., :width].transpose(-2, -1)).to(accumulate) * scale
        if is_causal:
            allowed = own[:, None] >= places[source][None]
            scores = scores.masked_fill(~allowed, -math.inf)
        part_peak = scores.detach().amax(-1, keepdim=True).clamp(min=torch.finfo(accumulate).min)
        peak_now = part_peak if peak is None else torch.maximum(peak, part_peak)
        weights = (scores - peak_now).exp()
        part = (weights.to(dtype) @ both[..., width:]).to(accumulate)
        if result is None:
            total, result = weights.sum(-1, keepdim=True), part
        else:
            before = (peak - peak_now).exp()
            total = total * before + weights.sum(-1, keepdim=True)
            result = result * before + part
        peak = peak_now
    return (result / total).to(dtype)
