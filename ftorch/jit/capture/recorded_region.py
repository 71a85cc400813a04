"""CUDA graphs: a region of eager code as a program that runs again on the same tensors.

What the region records is not run. `RecordedRegion.replay` runs it: it reads what the tensors from outside hold then, writes
those that the region wrote to, and gives those that it made their values.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ...eager.core.refcount import LISTED
from ...eager.runtime import capture_trace, executor
from ...eager.runtime import compilation as _compilation
from ...eager.runtime.capture_trace import CaptureTrace
from ...eager.tensor import count_for_all
from .lowering import Lowered, Table

_DONATION_BYTES = 1 << 14


class _RegionTrace(CaptureTrace):
    """Keeps what storages from outside held before they were written to: {id of a storage: (it, its array)}."""

    def __init__(self, device, on_break):
        self.before: dict[int, tuple] = {}
        super().__init__(device, on_break)

    def overwritten(self, storage):
        self.before.setdefault(id(storage), (storage, storage.array))


class RecordedRegion:
    """A region of code that is recorded between `begin` and `end`.

    Args:
        device: whose work is recorded; that of other devices is done as usual.

    >>> import ftorch as torch
    >>> from ftorch.jit.capture.recorded_region import RecordedRegion
    >>> x, total = torch.ones(2), torch.zeros(2)
    >>> region = RecordedRegion(x.device)
    >>> region.begin()
    >>> y = x * 2
    >>> _ = total.add_(y)
    >>> region.end()
    >>> total  # recorded, and not run
    tensor([0., 0.])
    >>> _ = x.fill_(3)
    >>> region.replay()
    >>> y, total
    (tensor([6., 6.]), tensor([6., 6.]))
    """

    def __init__(self, device):
        self.device = device
        self._trace: Any = None
        self._old: Any = None
        self._lowered: Any = None

    @property
    def is_recording(self) -> bool:
        """Whether `begin` was called, and `end` was not."""
        return self._old is not None

    @property
    def is_recorded(self) -> bool:
        """Whether there is a region to replay."""
        return self._lowered is not None

    def begin(self) -> None:
        """Starts recording.

        Raises:
            RuntimeError: a region is being recorded already.
        """
        if capture_trace.capturing() is not None:
            raise RuntimeError("a graph is being captured in this thread already")
        executor.flush()
        self._trace = _RegionTrace(self.device, _refuse)
        self._old = capture_trace.swap_trace(self._trace, self.device)

    def end(self) -> None:
        """Stops recording. Tensors that the region made hold zeros, what it wrote to is as before, until a replay."""
        trace = self._stop()
        owners = trace.owners
        live, self._targets = [], []
        for slot in range(len(owners)):
            storage = owners[slot]
            if storage.slot == slot and storage.trace is trace and sys.getrefcount(storage) > LISTED:
                live.append(slot)
                self._targets.append(storage)
        storage = None
        self._settle(trace)
        starts = {id(cell): -1 - i for i, cell in enumerate(trace.cells)}
        replaced = {
            starts[id(s)]: place for place, s in enumerate(self._targets)
            if id(s) in starts and s.root.numel * s.root.dtype.itemsize > _DONATION_BYTES
        }
        varying = [
            action[1] + i for action in trace.actions if action[0] == "numbers" for i in range(action[2])
        ]
        self._lowered = Lowered(
            Table(trace), live, donated=list(replaced), replaced=replaced, varying=varying, device=self.device
        )
        self._cells, self._actions = trace.cells, trace.actions
        self._floats = np.array(trace.floats, np.float64)
        self._made = {key: value for key, (_, value) in trace.made.items()}
        self._trace = None

    def abandon(self) -> None:
        """Stops recording after an exception: nothing can be replayed."""
        if self.is_recording:
            self._settle(self._stop())

    def _stop(self):
        trace, old = self._trace, self._old
        if old is None:
            raise RuntimeError("no graph is being captured")
        self._old = None
        trace.on_break, trace.captures = None, False
        capture_trace.restore_trace(old, self.device)
        return trace

    def _settle(self, trace):
        """Takes the storages out of a trace that is not run."""
        for slot, storage in enumerate(trace.owners):
            if storage.trace is not trace or storage.slot != slot:
                continue
            before = trace.before.get(id(storage))
            shape, dtype = storage.root.shape, storage.root.dtype.numpy
            storage.array = _compilation.put(np.zeros(shape, dtype), self.device) if before is None else before[1]
            storage.trace = None
        trace.owners = []

    def replay(self) -> None:
        """Runs the region.

        Raises:
            RuntimeError: nothing was recorded.
        """
        lowered = self._lowered
        if lowered is None:
            raise RuntimeError("there is no recorded region")
        executor.flush()
        drawn: dict[int, Any] = {}
        for action in self._actions:
            if action[0] == "draw":
                drawn[action[1]] = action[2]()
            elif action[0] == "numbers":
                self._floats[action[1] : action[1] + action[2]] = action[3]()
            else:
                action[1]()
        arrays = {operand: self._array(self._cells[-1 - operand], drawn) for operand in lowered.starts}
        given = []
        for place in lowered.donated:
            array = arrays.pop(lowered.starts[place])
            given.append(array if sys.getrefcount(array) == LISTED else array.copy())
            del array
        kept = [arrays[lowered.starts[place]] for place in lowered.kept]
        executor.stats.programs += 1
        for storage, value in zip(self._targets, lowered.call(kept, given, lowered.numbers(self._floats)), strict=True):
            if storage.host is not None:  # NumPy shares its memory
                storage.set(value)
            else:
                storage.array, storage.trace = value, None
                count_for_all(storage)

    def _array(self, storage, drawn):
        if id(storage) in drawn:
            return drawn[id(storage)]
        return self._made[id(storage)] if id(storage) in self._made else storage.value()

    def reset(self) -> None:
        """Forgets the region."""
        self.__init__(self.device)


def is_recording() -> bool:
    """Whether the calling thread records a region."""
    return isinstance(capture_trace.capturing(), _RegionTrace)


def _refuse(reason):
    raise RuntimeError(f"operation not permitted while a graph is captured: {reason}")
