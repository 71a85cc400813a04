"""Work beside the thread that waits for it: what that thread does meanwhile, and who is given what it began."""

from __future__ import annotations

import threading

import pytest

from ftorch.eager.native import waiting


class _Given(BaseException):
    """What ends a wait."""


def _raise():
    raise _Given


class _Work:
    """Counts how often it begins, and lasts until it is let go."""

    def __init__(self):
        self.begun, self.ends = 0, threading.Event()

    def __call__(self, number):
        self.begun += 1
        assert self.ends.wait(60)
        return number

    def left(self, number, key):
        with pytest.raises(_Given), waiting.between(_raise):
            waiting.beside(self, number, key=key)


def test_what_was_given_up_is_given_to_who_asks_again():
    work = _Work()
    work.left(1, "a")
    work.left(1, "a")
    assert work.begun == 1
    work.ends.set()
    assert waiting.beside(work, 1, key="a") == 1 and work.begun == 1
    assert waiting.beside(work, 2, key="a") == 2 and work.begun == 2


@pytest.mark.parametrize("key", [None, "another"])
def test_others_begin_anew(key):
    work = _Work()
    work.left(1, key and "a")
    work.ends.set()
    assert waiting.beside(work, 2, key=key) == 2 and work.begun == 2


def test_few_are_kept():
    work = _Work()
    for number in range(10):
        work.left(number, number)
    assert len(waiting._left) <= waiting._MOST_LEFT
    work.ends.set()
    assert [waiting.beside(work, n, key=n) for n in range(10)] == list(range(10))


def test_failures_are_raised_where_it_is_waited_for_again():
    ends = threading.Event()

    def fail():
        ends.wait(60)
        raise ValueError("said")

    with pytest.raises(_Given), waiting.between(_raise):
        waiting.beside(fail, key="fails")
    ends.set()
    with pytest.raises(ValueError, match="said"):
        waiting.beside(fail, key="fails")


def test_what_is_done_between_waits_itself():
    """It is not called from within itself."""
    ends, calls = threading.Event(), []

    def look():
        calls.append(waiting.beside(lambda: threading.Event().wait(0.25)))
        ends.set()

    with waiting.between(look):
        assert waiting.beside(ends.wait, 60)
    assert calls == [False]
