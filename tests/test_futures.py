"""``torch.futures``: values, callbacks and errors of both libraries."""

import threading
import warnings

import pytest
import torch as reference
import torch.futures  # noqa: F401

import ftorch.futures
from tests.oracle import both


def _then(m):
    first = m.futures.Future()
    second = first.then(lambda f: f.wait() + 1)
    before = first.done(), second.done()
    first.set_result(1)
    return before, second.wait(), first.value()


def _set_twice(m):
    future = m.futures.Future()
    future.set_result(1)
    future.set_result(2)


def _failed(m):
    future = m.futures.Future()
    future.set_exception(ValueError("no"))
    future.wait()


def _failed_callback(m):
    future = m.futures.Future()
    after = future.then(lambda f: {}[f.wait()])
    future.set_result(1)
    after.wait()


def _no_exception(m):
    m.futures.Future().set_exception(3)


def _too_early(m):
    m.futures.Future().value()


def _collected(m):
    futures = [m.futures.Future() for _ in range(3)]
    all_of_them = m.futures.collect_all(futures)
    for i, future in enumerate(futures):
        future.set_result(i)
    return [f.value() for f in all_of_them.wait()], m.futures.wait_all(futures)


def _one_failed(m):
    futures = [m.futures.Future() for _ in range(2)]
    futures[0].set_exception(KeyError("x"))
    futures[1].set_result(1)
    m.futures.wait_all(futures)


def _called_back(m):
    seen, future = [], m.futures.Future()
    future.add_done_callback(lambda f: seen.append(f.value()))
    future.set_result(2)
    future.add_done_callback(lambda f: seen.append(f.value() * 10))
    return seen


def _from_another_thread(m):
    future = m.futures.Future()
    threading.Timer(0.01, lambda: future.set_result(5)).start()
    return future.wait()


PROGRAMS = [_then, _set_twice, _failed, _failed_callback, _no_exception, _too_early, _collected,
            _one_failed, _called_back, _from_another_thread]


@pytest.mark.parametrize("program", PROGRAMS)
def test_program(program):
    both(program)


def test_forked_calls():
    def run(m):
        future = m.jit.fork(lambda x: x + 1, m.ones(2))
        return m.jit.wait(future)

    both(run)


def test_a_forked_call_fails_where_it_is_waited_for():
    future = ftorch.jit.fork(lambda: 1 / 0)
    assert isinstance(future, ftorch.futures.Future)
    with pytest.raises(ZeroDivisionError):
        ftorch.jit.wait(future)


@pytest.mark.parametrize("call", ["pickle.dumps(f)", "copy.copy(f)", "copy.deepcopy(f)", "t.jit.wait(None)"])
def test_what_is_refused(call):
    import copy
    import pickle

    def told(t):
        with pytest.raises(RuntimeError) as caught, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            eval(call, {"t": t, "f": t.futures.Future(), "copy": copy, "pickle": pickle})
        return str(caught.value)

    assert told(ftorch) == told(reference)
