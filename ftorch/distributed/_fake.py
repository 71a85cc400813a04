"""A group of pretended processes (backend ``fake``): collectives return at once and exchange nothing."""

from __future__ import annotations

from datetime import timedelta

import ftorch as torch

from ._process_group import ProcessGroup, _inner, _listed
from ._store import HashStore
from ._work import Work


class FakeProcessGroup(ProcessGroup):
    """A rank of a group in which nobody else is; gathers give the own tensor for everybody's."""

    backend_name = "fake"

    def __init__(self, rank: int, size: int):
        super().__init__(HashStore(), 0, 1, timedelta(minutes=5), "fake")
        self._rank, self._size = rank, size

    @classmethod
    def _create_internal(cls, rank: int, world_size: int, options=None):
        """A group, as PyTorch's tests make theirs."""
        return cls(rank, world_size)

    def _finished(self, result):
        work = Work(result)
        work._run(lambda: None)
        return work

    def _nothing(self, tensors=None, *_, **__):
        return self._finished(_listed(tensors) if tensors is not None else [])

    allreduce = allreduce_coalesced = reduce = broadcast = alltoall = alltoall_base = _nothing
    gather = scatter = reduce_scatter = _nothing
    send = recv = recv_anysource = _nothing

    def barrier(self, opts=None):
        return self._finished([])

    def monitored_barrier(self, timeout=None, wait_all_ranks=False):
        """Returns."""

    # Copies of tensors, which those without numbers (`FakeTensor`, meta) take part in, too.

    @torch.no_grad()
    def allgather(self, output_tensors, input_tensors=None, opts=None):
        own = _listed(input_tensors)[0]
        for out in _inner(output_tensors):
            out.copy_(own.reshape(out.shape))
        return self._finished(output_tensors)

    @torch.no_grad()
    def _allgather_base(self, output, input, opts=None):
        own = input.reshape(-1)
        for part in output.view(self._size, -1):
            part.copy_(own)
        return self._finished([output])

    @torch.no_grad()
    def _reduce_scatter_base(self, output, input, opts=None):
        output.copy_(input.reshape(self._size, -1)[self._rank].reshape(output.shape))
        return self._finished([output])
