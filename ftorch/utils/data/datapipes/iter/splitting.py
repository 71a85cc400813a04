"""Several streams of one: `Forker` and `Demultiplexer`.

A hidden container reads the source and keeps what some child has still to yield; the children are
datapipes that ask it for their next sample. All children's iterators belong together: a second one
of a child invalidates them all.
"""

from __future__ import annotations

import copy as copying
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Literal

from .._decorator import functional_datapipe
from .._hook_iterator import _SnapshotState
from ..datapipe import IterDataPipe
from ..utils.common import StreamWrapper, _check_unpickable_fn

__all__ = ["DemultiplexerIterDataPipe", "ForkerIterDataPipe"]


def _check_number(num_instances):
    if num_instances < 1:
        raise ValueError(f"Expected `num_instances` larger than 0, but {num_instances} is found")


@functional_datapipe("fork")
class ForkerIterDataPipe(IterDataPipe):
    """Several datapipes that each yield all samples (method ``fork``): a list, or the source
    itself for one.

    Args:
        datapipe: the source.
        num_instances: how many.
        buffer_size: how far one may be ahead of another; -1 for any distance.
        copy: ``"shallow"`` or ``"deep"`` copies every sample.

    Raises:
        ValueError: for no datapipes or another kind of copy.
        BufferError: while iterating, if one is too far ahead.

    >>> import ftorch as torch
    >>> numbers = torch.utils.data.datapipes.iter.IterableWrapper(range(3))
    >>> first, second = numbers.fork(2)
    >>> list(first), list(second)
    ([0, 1, 2], [0, 1, 2])
    """

    def __new__(
        cls,
        datapipe: IterDataPipe,
        num_instances: int,
        buffer_size: int = 1000,
        copy: Literal["shallow", "deep"] | None = None,
    ) -> Any:
        _check_number(num_instances)
        if num_instances == 1:
            return datapipe
        container = _ForkerIterDataPipe(datapipe, num_instances, buffer_size, copy)
        return [_ChildDataPipe(container, i) for i in range(num_instances)]


@functional_datapipe("demux")
class DemultiplexerIterDataPipe(IterDataPipe):
    """Several datapipes that share the samples (method ``demux``): a list.

    Args:
        datapipe: the source.
        num_instances: how many.
        classifier_fn: from a sample to the number of the datapipe that yields it.
        drop_none: leave out samples whose number is None.
        buffer_size: how many samples may wait; -1 for any number.

    Raises:
        ValueError: for no datapipes; while iterating, for a number out of range.
        BufferError: while iterating, if too many samples wait.

    >>> import ftorch as torch
    >>> numbers = torch.utils.data.datapipes.iter.IterableWrapper(range(5))
    >>> even, odd = numbers.demux(2, (1).__and__)
    >>> list(even), list(odd)
    ([0, 2, 4], [1, 3])
    """

    def __new__(
        cls,
        datapipe: IterDataPipe,
        num_instances: int,
        classifier_fn: Callable[[Any], int | None],
        drop_none: bool = False,
        buffer_size: int = 1000,
    ) -> Any:
        _check_number(num_instances)
        _check_unpickable_fn(classifier_fn)
        container = _DemultiplexerIterDataPipe(
            datapipe, num_instances, classifier_fn, drop_none, buffer_size
        )
        return [_ChildDataPipe(container, i) for i in range(num_instances)]


class _Container(IterDataPipe):
    """Reads the source for children that are read at different speeds.

    `_child_stop` says which children are not being read.
    """

    def __init__(self, datapipe, num_instances, buffer_size, name) -> None:
        self.main_datapipe = datapipe
        self.num_instances = num_instances
        self.buffer_size = buffer_size
        if buffer_size < 0:
            warnings.warn(
                f"Unlimited buffer size is set for `{name}`, "
                "please be aware of OOM at random places",
                UserWarning,
                stacklevel=3,
            )

    def _ftorch_start_empty(self):
        self._datapipe_iterator: Iterator | None = None
        self._child_stop = [True] * self.num_instances

    def _start_reading(self, instance_id):
        """Starts over if nobody reads."""
        if self._datapipe_iterator is None and self._child_stop[instance_id]:
            self._datapipe_iterator = iter(self.main_datapipe)
            self._snapshot_state = _SnapshotState.Iterating  # so that `reset` resets
            self._child_stop = [False] * self.num_instances

    def get_next_element_by_instance(self, instance_id: int) -> Iterator:
        """The samples of a child."""
        self._start_reading(instance_id)
        try:
            while not self._child_stop[instance_id]:
                try:
                    sample = self._next(instance_id)
                except StopIteration:
                    self._child_stop[instance_id] = True
                else:
                    yield sample
        finally:
            self._child_stop[instance_id] = True
            if all(self._child_stop):
                self._datapipe_iterator = None
            self._ftorch_forget(instance_id)

    def _next(self, instance_id):
        raise NotImplementedError

    def _ftorch_forget(self, instance_id):
        raise NotImplementedError

    def reset(self) -> None:
        """Empties the buffer."""
        self._ftorch_start_empty()


class _ForkerIterDataPipe(_Container):
    """`child_pointers` counts what each child has yielded; the buffer begins behind the slowest."""

    _ftorch_saved = ("main_datapipe", "num_instances", "buffer_size", "copy_fn")

    def __init__(self, datapipe, num_instances, buffer_size=1000, copy=None) -> None:
        super().__init__(datapipe, num_instances, buffer_size, "fork")
        if copy not in (None, "shallow", "deep"):
            raise ValueError(
                f"Unknown copy method `{copy}` requested, choose one of None, `shallow` or `deep`."
            )
        self.copy_fn = {None: _same, "shallow": copying.copy, "deep": copying.deepcopy}[copy]
        self._ftorch_start_empty()

    def _ftorch_start_empty(self):
        super()._ftorch_start_empty()
        self.buffer: deque = deque()
        self.child_pointers = [0] * self.num_instances
        self.slowest_ptr = 0
        self.leading_ptr = 0
        self.end_ptr: int | None = None

    def __len__(self) -> int:
        return len(self.main_datapipe)

    def _next(self, instance_id):
        self.child_pointers[instance_id] += 1
        position = self.child_pointers[instance_id]
        if position == self.end_ptr:
            raise StopIteration
        if self.buffer and position <= self.leading_ptr:
            sample = self.buffer[position - self.slowest_ptr - 1]
        else:
            self.leading_ptr = position
            try:
                sample = next(self._datapipe_iterator)  # type: ignore[arg-type]
            except StopIteration:
                self._datapipe_iterator = None
                self.end_ptr = position
                raise
            self.buffer.append(sample)
        if position == self.slowest_ptr + 1 and min(self.child_pointers) > self.slowest_ptr:
            self.slowest_ptr += 1
            self.buffer.popleft()
        if 0 <= self.buffer_size < self.leading_ptr - self.slowest_ptr:
            raise BufferError(
                "ForkerIterDataPipe buffer overflow,"
                f"buffer size {self.buffer_size} is insufficient."
            )
        return self.copy_fn(sample)

    def _ftorch_forget(self, instance_id):
        if all(self._child_stop):
            self._cleanup()

    def is_every_instance_exhausted(self) -> bool:
        return self.end_ptr is not None and all(self._child_stop)

    def get_length_by_instance(self, instance_id: int) -> int:
        return len(self.main_datapipe)

    def _cleanup(self) -> None:
        while self.buffer:
            StreamWrapper.close_streams(self.buffer.popleft())

    def __del__(self) -> None:
        if "buffer" in self.__dict__:
            self._cleanup()


def _same(sample):
    return sample


class _DemultiplexerIterDataPipe(_Container):
    """`child_buffers` holds what other children's reading has brought."""

    _ftorch_saved = ("main_datapipe", "num_instances", "buffer_size", "classifier_fn", "drop_none")

    def __init__(self, datapipe, num_instances, classifier_fn, drop_none, buffer_size) -> None:
        super().__init__(datapipe, num_instances, buffer_size, "demux")
        self.classifier_fn = classifier_fn
        self.drop_none = drop_none
        self._ftorch_start_empty()

    def _ftorch_start_empty(self):
        super()._ftorch_start_empty()
        self.current_buffer_usage = 0
        self.child_buffers: list[deque] = [deque() for _ in range(self.num_instances)]
        self.main_datapipe_exhausted = False

    def _start_reading(self, instance_id):
        if self._datapipe_iterator is None and self._child_stop[instance_id]:
            self.main_datapipe_exhausted = False
        super()._start_reading(instance_id)

    def _next(self, instance_id):
        if self.child_buffers[instance_id]:
            self.current_buffer_usage -= 1
            return self.child_buffers[instance_id].popleft()
        try:
            return self._find_next(instance_id)
        except StopIteration:
            self.main_datapipe_exhausted = True
            self._datapipe_iterator = None
            raise

    def _find_next(self, instance_id: int):
        while not self.main_datapipe_exhausted:
            if self._datapipe_iterator is None:
                raise ValueError(
                    "_datapipe_iterator has not been set, likely because this private method is "
                    "called directly without invoking get_next_element_by_instance() first."
                )
            sample = next(self._datapipe_iterator)
            number = self.classifier_fn(sample)
            if number is None and self.drop_none:
                StreamWrapper.close_streams(sample)
                continue
            if number is None or not 0 <= number < self.num_instances:
                raise ValueError(
                    "Output of the classification fn should be between 0 and "
                    f"{self.num_instances - 1}. {number} is returned."
                )
            if number == instance_id:
                return sample
            self.child_buffers[number].append(sample)
            self.current_buffer_usage += 1
            if 0 <= self.buffer_size < self.current_buffer_usage:
                raise BufferError(
                    "DemultiplexerIterDataPipe buffer overflow, "
                    f"buffer size {self.buffer_size} is insufficient."
                )
        raise StopIteration

    def _ftorch_forget(self, instance_id):
        self._cleanup(instance_id)

    def is_every_instance_exhausted(self) -> bool:
        return self.main_datapipe_exhausted and all(self._child_stop)

    def get_length_by_instance(self, instance_id: int) -> int:
        raise TypeError

    def _cleanup(self, instance_id: int | None = None) -> None:
        numbers = range(self.num_instances) if instance_id is None else (instance_id,)
        for number in numbers:
            while self.child_buffers[number]:
                StreamWrapper.close_streams(self.child_buffers[number].popleft())

    def __del__(self) -> None:
        if "child_buffers" in self.__dict__:
            self._cleanup()


class _ChildDataPipe(IterDataPipe):
    """A datapipe that a container yields the samples of.

    An iterator is valid as long as its number is the child's and the container's; the container's
    goes up, and the buffer is emptied, when a child that has the current number gets another one.
    """

    _is_child_datapipe: bool = True

    def __init__(self, main_datapipe: IterDataPipe, instance_id: int) -> None:
        if not isinstance(main_datapipe, _Container):
            raise AssertionError("main_datapipe must implement _ContainerTemplate")
        self.main_datapipe: Any = main_datapipe
        self.instance_id = instance_id

    def __iter__(self):
        return self.main_datapipe.get_next_element_by_instance(self.instance_id)

    def __len__(self) -> int:
        return self.main_datapipe.get_length_by_instance(self.instance_id)

    def _set_main_datapipe_valid_iterator_id(self) -> int:
        main = self.main_datapipe
        if main._valid_iterator_id is None:
            main._valid_iterator_id = 0
        elif main._valid_iterator_id == self._valid_iterator_id:
            main._valid_iterator_id += 1
            if not main.is_every_instance_exhausted():
                warnings.warn(
                    "Some child DataPipes are not exhausted when __iter__ is called. We are "
                    "resetting the buffer and each child DataPipe will read from the start again.",
                    UserWarning,
                    stacklevel=2,
                )
            main.reset()
        self._valid_iterator_id = main._valid_iterator_id
        return main._valid_iterator_id

    def _check_valid_iterator_id(self, iterator_id) -> bool:
        return iterator_id == self._valid_iterator_id == self.main_datapipe._valid_iterator_id
