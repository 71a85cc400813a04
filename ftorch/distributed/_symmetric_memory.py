"""Memory that the processes of a group reach directly (``torch.distributed._symmetric_memory``).

XLA's programs exchange by collectives; no device here gives others its memory. What asks whether there is such memory
gets PyTorch's answers for devices without; what needs it raises PyTorch's error.
"""

from __future__ import annotations

import ftorch as torch

from . import distributed_c10d as dist

_enabled: set[str] = set()
_SIGNAL_PAD = [9216]


def _refuse(device):
    kind = torch.device(device).type if device is not None else torch.get_default_device().type
    raise RuntimeError(f"SymmetricMemory does not support device type {kind}")


def enable_symm_mem_for_group(group_name: str) -> None:
    """Says that a group's processes will use such memory: it is looked for where it is used.

    Raises:
        RuntimeError: if there is no such group.
    """
    dist._resolve_process_group(group_name)
    _enabled.add(group_name)


def is_symm_mem_enabled_for_group(group_name: str) -> bool:
    """Whether `enable_symm_mem_for_group` was called."""
    return group_name in _enabled


def is_nvshmem_available() -> bool:
    """False."""
    return False


def set_backend(name: str) -> None:
    """Raises RuntimeError: there is none."""
    raise RuntimeError(f"SymmetricMemory does not find allocation backend {name}")


def get_backend(device) -> str | None:
    """What allocates such memory on a device: None."""
    torch.device(device)
    return None


def empty(*size, dtype=None, device=None):
    """Raises RuntimeError: no device has such memory. Use `torch.empty` and collectives."""
    _refuse(device)


def rendezvous(tensor, group):
    """Raises RuntimeError: no tensor is in such memory. Use collectives."""
    _refuse(tensor.device)


def get_symm_mem_workspace(group_name: str, min_size: int):
    """Raises RuntimeError: no device has such memory."""
    _refuse(None)


def get_mem_pool(device):
    """Raises RuntimeError: no device has such memory."""
    raise RuntimeError(f"SymmetricMemory MemPool did not find backend for device type {torch.device(device).type}")


get_mempool_allocator = get_mem_pool


def is_symm_mem_tensor(tensor) -> bool:
    """Whether a tensor is in such memory: False."""
    return False


def get_signal_pad_size() -> int:
    """Bytes that flags between processes would take."""
    return _SIGNAL_PAD[0]


def set_signal_pad_size(size: int) -> None:
    """Sets `get_signal_pad_size`."""
    _SIGNAL_PAD[0] = size


def make_contiguous_for_perm(t, perm: list[int]):
    """A tensor of the same values which is contiguous after ``permute(perm)``.

    >>> import ftorch as torch
    >>> make_contiguous_for_perm(torch.ones(2, 3), [1, 0]).stride()
    (1, 2)
    """
    back = [perm.index(dim) for dim in range(len(perm))]
    return t.permute(perm).contiguous().permute(back)


def _restrided(t, dim):
    perm = list(range(t.dim()))
    perm.insert(0, perm.pop(dim))
    return make_contiguous_for_perm(t, perm)


def restride_A_shard_for_fused_all_gather_matmul(t, gather_dim: int):  # noqa: N802
    """A tensor of the same values which is contiguous with its dimension ``gather_dim`` as the first one."""
    return _restrided(t, gather_dim)


def restride_A_for_fused_matmul_reduce_scatter(t, scatter_dim: int):  # noqa: N802
    """A tensor of the same values which is contiguous with its dimension ``scatter_dim`` as the first one."""
    return _restrided(t, scatter_dim)
