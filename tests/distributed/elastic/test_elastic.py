"""Records, measures, timers, meetings and names of endpoints, against PyTorch's."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import threading
import time

import pytest
import torch as pt

import ftorch as ft


def modules(name):
    return [importlib.import_module(f"{t.__name__}.distributed.elastic.{name}") for t in (ft, pt)]


def attempt(function, *args, **kwargs):
    try:
        return function(*args, **kwargs)
    except Exception as error:
        return type(error).__name__, str(error)


def test_records():
    mine, theirs = modules("events")
    texts = []
    for e in (mine, theirs):
        event = e.Event("start", e.EventSource.AGENT, 3, {"n": 1, "x": None})
        state = e.RdzvEvent("f", "job", "hello", "host", 7, e.NodeState.RUNNING, rank=1)
        assert e.Event.deserialize(str(event)) == event and e.RdzvEvent.deserialize(str(state)) == state
        e.record(event)
        texts.append((str(event), str(state)))
    assert texts[0] == texts[1]


def test_measures():
    found = []
    for m in modules("metrics"):
        class Kept(m.MetricHandler):
            rows: list = []

            def emit(self, metric_data):
                self.rows.append((metric_data.group_name, metric_data.name))

        m.configure(Kept(), "own")

        @m.prof(group="own")
        def work(fails):
            if fails:
                raise ValueError

        work(False)
        with pytest.raises(ValueError):
            work(True)
        m.put_metric("n", 3, "own")
        found.append(Kept.rows)
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "text", ["", None, "a:1", "a", "[::1]:80", "[::1]", "a:b", "a:70000", "a b:1", " h:29400 ", "::1", "a:"]
)
def test_endpoints(text):
    mine, theirs = modules("rendezvous.utils")
    assert attempt(mine.parse_rendezvous_endpoint, text, 5) == attempt(theirs.parse_rendezvous_endpoint, text, 5)


@pytest.mark.parametrize("text", ["", "a=1,b=x=y", "a", "=1", "a=", " a = 1 , b=2"])
def test_options(text):
    mine, theirs = modules("rendezvous.utils")
    assert attempt(mine._parse_rendezvous_config, text) == attempt(theirs._parse_rendezvous_config, text)


def test_parameters():
    mine, theirs = modules("rendezvous.api")
    values = {"a": "yes", "b": "0", "c": 1, "d": True, "e": "what", "f": "12", "g": 3, "h": 5.5}
    pairs = [m.RendezvousParameters("x", "h", "job", 1, 2, **values) for m in (mine, theirs)]
    for key in (*values, "none"):
        for name in ("get", "get_as_bool", "get_as_int"):
            a, b = (attempt(getattr(p, name), key) for p in pairs)
            assert a == b, (key, name)
    for args in (("", "h", "j", 1, 2), ("x", "h", "j", 0, 2), ("x", "h", "j", 3, 2)):
        assert attempt(mine.RendezvousParameters, *args) == attempt(theirs.RendezvousParameters, *args)


def test_a_static_meeting():
    registry = importlib.import_module("ftorch.distributed.elastic.rendezvous.registry")
    api, distributed = modules("rendezvous.api")[0], modules("utils.distributed")[0]
    port, out = distributed.get_free_port(), {}

    def meet(rank):
        params = api.RendezvousParameters("static", f"localhost:{port}", "job", 2, 2, rank=rank, timeout=30)
        info = registry.get_rendezvous_handler(params).next_rendezvous()
        info.store.set(f"from{rank}", str(rank))
        out[rank] = info.store.get(f"from{1 - rank}"), info.rank, info.world_size

    threads = [threading.Thread(target=meet, args=(r,)) for r in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(40)
    assert out == {0: (b"1", 0, 2), 1: (b"0", 1, 2)}
    with pytest.raises(ValueError, match="not registered"):
        registry.get_rendezvous_handler(api.RendezvousParameters("unknown", "h", "j", 1, 1))
    with pytest.raises(ModuleNotFoundError, match="python-etcd"):
        registry.get_rendezvous_handler(api.RendezvousParameters("etcd", "h", "j", 1, 1))


def test_meetings_at_a_store():
    store, meetings, out = ft.distributed.HashStore(), modules("utils.store")[0], {}

    def meet(rank):
        out[rank] = meetings.synchronize(store, f"d{rank}".encode(), rank, 3, "k", timeout=30)

    threads = [threading.Thread(target=meet, args=(r,)) for r in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(40)
    assert out == dict.fromkeys(range(3), [b"d0", b"d1", b"d2"])
    with pytest.raises(ft.distributed.DistStoreError, match=r"missing_ranks=\[1, 2\]"):
        meetings.barrier(store, 3, "other", barrier_timeout=0.2, rank=0)


def test_samplers_and_epochs():
    mine, theirs = modules("utils.data")
    for start in (0, 3, 7):
        for rank in range(3):
            samplers = [m.ElasticDistributedSampler(list(range(10)), 3, rank, start) for m in (mine, theirs)]
            for s in samplers:
                s.set_epoch(2)
            assert list(samplers[0]) == list(samplers[1]) and len(samplers[0]) == len(samplers[1])
    assert attempt(mine.ElasticDistributedSampler, [1], 1, 0, 1) == attempt(
        theirs.ElasticDistributedSampler, [1], 1, 0, 1
    )
    for m in (mine, theirs):
        with pytest.raises(AssertionError):
            iter(m.ElasticDistributedSampler(list(range(10)), 3, 0, 9))
    assert list(mine.CyclingIterator(3, lambda e: iter([e]), 1)) == [1, 2]


def test_macros():
    mine, theirs = modules("utils")
    args = ["--r", mine.macros.local_rank, "$x ${local_rank}", 3]
    assert mine.macros.substitute(args, "1") == theirs.macros.substitute(args, "1")
    assert attempt(mine.get_env_variable_or_raise, "NOT_SET_AT_ALL") == (
        attempt(theirs.get_env_variable_or_raise, "NOT_SET_AT_ALL")
    )


def _late(pid_queue, requests):
    from ftorch.distributed.elastic import timer

    timer.configure(timer.LocalTimerClient(requests))
    with timer.expires(after=30):
        pass
    pid_queue.put(os.getpid())
    with timer.expires(after=0.1, scope="slow"):
        time.sleep(60)


def test_a_late_worker_is_killed():
    timer = modules("timer")[0]
    context = multiprocessing.get_context("spawn")
    requests, pids = context.Queue(), context.Queue()
    server = timer.LocalTimerServer(requests, max_interval=0.1)
    server.start()
    process = context.Process(target=_late, args=(pids, requests), daemon=True)
    process.start()
    try:
        assert pids.get(timeout=90) == process.pid
        process.join(20)
        assert process.exitcode == -signal.SIGKILL
    finally:
        process.kill()
        server.stop()
    with pytest.raises(RuntimeError, match="Configure timer client"), timer.expires(1):
        pass
