"""Which positions of a sequence each process has.

With a causal mask the process with the last positions would compute most; dealt out from both ends, all have
the same share.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import ftorch as torch

__all__: list[str] = []


class _LoadBalancer(ABC):
    """An order of positions: equal parts of it belong to the processes."""

    @abstractmethod
    def _generate_indices(self, restore: bool = False):
        """The positions in their new order; with ``restore`` the inverse order. Shape (1, sequence)."""
        ...


class _HeadTailLoadBalancer(_LoadBalancer):
    """The sequence in ``2 n`` pieces: process ``r`` has the pieces ``r`` and ``2 n - 1 - r``.

    Raises:
        AssertionError: for a length that is no multiple of ``2 n``.
    """

    def __init__(self, seq_length: int, world_size: int, device):
        if seq_length % (world_size * 2):
            raise AssertionError(
                f"seq_length {seq_length} must be divisible by 2 * world_size {world_size * 2}"
            )
        self.seq_length, self.world_size, self.device = seq_length, world_size, device

    def _generate_indices(self, restore: bool = False):
        count = self.world_size * 2
        pieces = torch.arange(self.seq_length, device=self.device).chunk(count)
        order = torch.cat([
            piece for rank in range(self.world_size) for piece in (pieces[rank], pieces[count - 1 - rank])
        ])
        return (torch.argsort(order) if restore else order)[None]


def _create_default_load_balancer(seq_length: int, world_size: int, device):
    from ._attention import _cp_options

    if not _cp_options.enable_load_balance:
        return None
    return _HeadTailLoadBalancer(seq_length, world_size, device)
