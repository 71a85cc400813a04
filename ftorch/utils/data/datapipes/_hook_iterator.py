"""What every `IterDataPipe`'s iterator does besides yielding.

A datapipe has one valid iterator at a time: making another resets the datapipe and makes the first
one fail. Iterators count what they yield, name the datapipe in errors, and resume from a snapshot
if `datapipes.utils.snapshot` has prepared one.
"""

from __future__ import annotations

import functools
import inspect
import sys
from enum import Enum


class _SnapshotState(Enum):
    """Whether a new iterator starts over (not if the state was just restored)."""

    NotStarted = 0
    Restored = 1
    Iterating = 2


_FEEDBACK = (
    "\nFor feedback regarding this single iterator per IterDataPipe constraint, feel free "
    "to comment on this issue: https://github.com/pytorch/data/issues/45."
)


def _arguments(datapipe) -> str:
    """Those constructor arguments that the datapipe keeps as attributes, as text."""
    parameters = inspect.signature(type(datapipe)).parameters
    shown = []
    for name in sorted(set(parameters) & set(dir(datapipe))):
        value = getattr(datapipe, name)
        shown.append(f"{name}={value.__name__ if inspect.isfunction(value) else repr(value)}")
    return ", ".join(shown)


def describe(datapipe) -> str:
    """The datapipe as a call of its class."""
    return f"{type(datapipe).__name__}({_arguments(datapipe)})"


def _recorded(datapipe, step):
    """A step of the datapipe's iterator; in a range of its own if a profiler runs."""
    collector = sys.modules.get(f"{__name__.partition('.')[0]}.profiler._collector")
    if collector is None or collector.active() is None:
        return step
    name = describe(datapipe).replace("IterDataPipe", "").replace("MapDataPipe", "")
    return collector.record_function(name)(step)


def _check_valid(datapipe, iterator_id) -> None:
    if getattr(datapipe, "_is_child_datapipe", False):
        if not hasattr(datapipe, "_check_valid_iterator_id"):
            raise RuntimeError("ChildDataPipe must have method `_check_valid_iterator_id`.")
        if not datapipe._check_valid_iterator_id(iterator_id):
            raise RuntimeError(
                "This iterator has been invalidated, because a new iterator has been created from "
                f"one of the ChildDataPipes of {describe(datapipe.main_datapipe)}.{_FEEDBACK}"
            )
    elif datapipe._valid_iterator_id != iterator_id:
        raise RuntimeError(
            "This iterator has been invalidated because another iterator has been created from "
            f"the same IterDataPipe: {describe(datapipe)}\n"
            "This may be caused by multiple references to the same IterDataPipe. We recommend "
            f"using `.fork()` if that is necessary.{_FEEDBACK}"
        )


def _new_iterator_id(datapipe):
    """Makes earlier iterators invalid and resets the datapipe."""
    if getattr(datapipe, "_is_child_datapipe", False):
        if not hasattr(datapipe, "_set_main_datapipe_valid_iterator_id"):
            raise RuntimeError(
                "ChildDataPipe must have method `_set_main_datapipe_valid_iterator_id`."
            )
        datapipe._set_main_datapipe_valid_iterator_id()
    else:
        last = datapipe._valid_iterator_id
        datapipe._valid_iterator_id = 0 if last is None else last + 1
        datapipe.reset()
    return datapipe._valid_iterator_id


def _take_fast_forwarded(datapipe):
    """The iterator that a snapshot's restoration has left, or None."""
    iterator, datapipe._fast_forward_iterator = datapipe._fast_forward_iterator, None
    if iterator is not None:
        datapipe._snapshot_state = _SnapshotState.Iterating
    return iterator


def _blame(error, datapipe) -> None:
    """Adds to an error's message which datapipe raised it, unless one further inside did."""
    blame = "thrown by __iter__ of"
    text = f"This exception is {blame} {describe(datapipe)}"
    if not error.args or not isinstance(error.args[0], str):
        error.args = (f"\n{text}",)
    elif blame not in error.args[0] and (
        "single iterator per IterDataPipe constraint" not in error.args[0]
    ):
        error.args = (f"{error.args[0]}\n{text}", *error.args[1:])


class _CheckedIterator:
    """The iterator of a datapipe whose ``__iter__`` is no generator function."""

    def __init__(self, iterator, datapipe, iterator_id, counts_itself):
        self.iterator = iterator
        self.datapipe = datapipe
        self.iterator_id = iterator_id
        self._counts_itself = counts_itself
        self._next = _recorded(datapipe, functools.partial(next, iterator))

    def __iter__(self):
        return self

    def __next__(self):
        _check_valid(self.datapipe, self.iterator_id)
        result = self._next()
        if not self._counts_itself:
            self.datapipe._number_of_samples_yielded += 1
        return result

    def __getattr__(self, name):
        return getattr(self.iterator, name)


def _hooked_generator(function):
    @functools.wraps(function)
    def __iter__(datapipe):
        generator = function(datapipe)
        if (forwarded := _take_fast_forwarded(datapipe)) is not None:
            yield from forwarded
            return
        iterator_id = _new_iterator_id(datapipe)
        is_child = getattr(datapipe, "_is_child_datapipe", False)
        send = _recorded(datapipe, generator.send)
        try:
            response = send(None)
            while True:
                datapipe._number_of_samples_yielded += 1
                request = yield response
                if datapipe._valid_iterator_id != iterator_id or is_child:
                    _check_valid(datapipe, iterator_id)
                response = send(request)
        except StopIteration:
            return
        except Exception as e:
            _blame(e, datapipe)
            raise

    return __iter__


def _hooked_iter(function, has_next):
    @functools.wraps(function)
    def __iter__(datapipe):
        iterator = function(datapipe)
        datapipe._snapshot_state = _SnapshotState.Iterating
        if (forwarded := _take_fast_forwarded(datapipe)) is not None:
            return forwarded
        iterator_id = _new_iterator_id(datapipe)
        counts_itself = has_next and iterator is datapipe
        return _CheckedIterator(iterator, datapipe, iterator_id, counts_itself)

    return __iter__


def _counting_next(function):
    @functools.wraps(function)
    def __next__(datapipe):
        result = function(datapipe)
        datapipe._number_of_samples_yielded += 1
        return result

    return __next__


def hook_iterator(namespace) -> None:
    """Replaces ``__iter__`` (and ``__next__``) in the namespace of a class being made."""
    function = namespace["__iter__"]
    if inspect.isgeneratorfunction(function):
        namespace["__iter__"] = _hooked_generator(function)
        return
    has_next = "__next__" in namespace
    if has_next:
        namespace["__next__"] = _counting_next(namespace["__next__"])
    namespace["__iter__"] = _hooked_iter(function, has_next)


def hook_reset(namespace) -> None:
    """Makes ``reset`` leave a state alone that was just restored from a pickle or snapshot."""
    function = namespace["reset"]

    @functools.wraps(function)
    def reset(datapipe, *args, **kwargs):
        if datapipe._snapshot_state is not _SnapshotState.Restored:
            datapipe._number_of_samples_yielded = 0
            datapipe._fast_forward_iterator = None
            function(datapipe, *args, **kwargs)
        datapipe._snapshot_state = _SnapshotState.Iterating

    namespace["reset"] = reset
