"""What the communication hooks of `DistributedDataParallel` are given."""

from __future__ import annotations


class GradBucket:
    """Gradients of several parameters in one flat tensor (``torch.distributed.GradBucket``)."""

    divisor: int | None  # what the default hook divides by, if it is not the number of processes

    def __init__(self, index, buffer, parameters, sizes, is_last, divisor=None):
        self._index, self._buffer, self._parameters = index, buffer, parameters
        self._sizes, self._is_last, self.divisor = sizes, is_last, divisor

    def index(self) -> int:
        """The bucket's number; buckets are reduced in that order."""
        return self._index

    def buffer(self):
        """The flat tensor."""
        return self._buffer

    def set_buffer(self, buffer) -> None:
        """Replaces the flat tensor."""
        self._buffer = buffer

    def gradients(self) -> list:
        """Views of the flat tensor, one for each parameter, of its shape."""
        if self._buffer.is_sparse:
            return [self._buffer]
        parts = self._buffer.split(self._sizes)
        return [g.view(p.shape) for g, p in zip(parts, self._parameters)]

    def parameters(self) -> list:
        """The parameters."""
        return list(self._parameters)

    def is_last(self) -> bool:
        """Whether no other bucket follows in this backward."""
        return self._is_last
