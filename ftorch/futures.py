"""``torch.futures``: results that are not there yet, on `concurrent.futures`."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["Future", "collect_all", "wait_all"]

T = TypeVar("T")


class Future(Generic[T]):
    """A result that somebody sets later, from any thread (``torch.futures.Future``).

    Args:
        devices: accepted; results on accelerators need no further synchronisation here.

    >>> import ftorch as torch
    >>> future = torch.futures.Future()
    >>> doubled = future.then(lambda f: f.wait() * 2)
    >>> future.set_result(3)
    >>> doubled.wait()
    6
    """

    def __reduce_ex__(self, protocol):
        raise RuntimeError("Can not pickle torch.futures.Future")

    def __init__(self, *, devices=None):
        self._inner: concurrent.futures.Future = concurrent.futures.Future()

    def done(self) -> bool:
        """Whether the result, or an exception, is there."""
        return self._inner.done()

    def wait(self) -> T:
        """The result, as soon as it is there. Raises the exception that was set instead."""
        return self._inner.result()

    def value(self) -> T:
        """The result, which must be there.

        Raises:
            RuntimeError: if it is not. Else as `wait`.
        """
        if not self.done():
            raise RuntimeError("the Future has no value yet: call wait(), or value() in a callback")
        return self._inner.result()

    def then(self, callback: Callable[[Future[T]], Any]) -> Future:
        """The future of ``callback(self)``, which is called once this one is done.

        An exception of the callback is a RuntimeError of the new future.
        """
        made: Future = Future()

        def run(_):
            try:
                made.set_result(callback(self))
            except Exception as error:
                text = f"{type(error).__name__}: {error}"
                made.set_exception(
                    RuntimeError(f"Got the following error when running the callback: {text}")
                )

        self._inner.add_done_callback(run)
        return made

    def add_done_callback(self, callback: Callable[[Future[T]], None]) -> None:
        """Calls ``callback(self)`` once this one is done; its exceptions are logged."""
        self._inner.add_done_callback(lambda _: callback(self))

    def set_result(self, result: T) -> None:
        """Sets the result.

        Raises:
            RuntimeError: if the future is done.
        """
        self._complete(lambda: self._inner.set_result(result))

    def set_exception(self, result: BaseException) -> None:
        """Sets what `wait` raises.

        Raises:
            AssertionError: for what is no exception. RuntimeError: if the future is done.
        """
        if not isinstance(result, Exception):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._complete(lambda: self._inner.set_exception(result))

    def _complete(self, complete):
        try:
            complete()
        except concurrent.futures.InvalidStateError:
            raise RuntimeError(
                "Attempting to mark a completed Future as complete again. Note that a Future can only "
                "be marked completed once."
            ) from None


def collect_all(futures: list[Future]) -> Future[list[Future]]:
    """A future of the list of futures, done when all are, or when the first fails."""
    made: Future = Future()
    if not futures:
        made.set_result(futures)
    lock, left = threading.Lock(), [len(futures)]

    def finish(future):
        error = future._inner.exception()
        with lock:
            left[0] -= 1
            is_last = not left[0]
            if made.done():
                return
            if error is not None:
                made.set_exception(error)
            elif is_last:
                made.set_result(futures)

    for future in futures:
        future.add_done_callback(finish)
    return made


def wait_all(futures: list[Future]) -> list:
    """The results of all futures. Raises the first exception."""
    return [future.wait() for future in collect_all(futures).wait()]
