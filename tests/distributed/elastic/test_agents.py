"""Workers' output and errors, meetings of nodes that come and go, and launchers, against PyTorch's."""

from __future__ import annotations

import importlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import types
from datetime import timedelta

import pytest
import torch as pt

import ftorch as ft

from .test_elastic import attempt, modules


def masked(text, *parts):
    for part in parts:
        text = text.replace(str(part), "<>")
    return re.sub(r"\d{4}-\d\d-\d\d_\d\d:\d\d:\d\d", "<time>", text)


# --- output ---


@pytest.mark.parametrize("redirects, tee, shown", [
    ("0", "0", None), ("3", "0", None), ("0", "1", {1}), ("0:1,1:2", "0:2", None), ("0", "3", {0}), ("0", "0", {0}),
])
def test_places_of_output(tmp_path, redirects, tee, shown):
    found = []
    for m in modules("multiprocessing"):
        folder = tmp_path / m.__name__
        specs = m.DefaultLogsSpecs(str(folder), m.Std.from_str(redirects), m.Std.from_str(tee), shown)
        envs = {i: {"TORCHELASTIC_RUN_ID": "job", "TORCHELASTIC_RESTART_COUNT": "2"} for i in range(2)}
        dest = specs.reify(envs)
        text = masked(repr((vars(dest), envs)), specs._run_log_dir)
        assert os.path.basename(specs._run_log_dir).startswith("job_")
        found.append((text, masked(repr(specs), folder)))
    assert found[0] == found[1]


def test_output_without_files():
    found = []
    for m in modules("multiprocessing"):
        specs, envs = m.DefaultLogsSpecs(os.devnull, m.Std.ALL), {0: {}}
        found.append((repr(vars(specs.reify(envs))), envs, specs == m.DefaultLogsSpecs(os.devnull, m.Std.ALL)))
    assert found[0] == found[1]


def test_growing_files(tmp_path):
    found = []
    for m in modules("multiprocessing.tail_log"):
        path, said = tmp_path / f"{m.__name__}.log", io.StringIO()
        log = m.TailLog("w", {0: str(path)}, said, interval_sec=0.01).start()
        with open(path, "w") as file:
            for i in range(3):
                file.write(f"line {i}\n")
                file.flush()
                time.sleep(0.03)
        log.stop()
        found.append((said.getvalue(), log.stopped()))
    assert found[0] == found[1] == ("[w0]:line 0\n[w0]:line 1\n[w0]:line 2\n", True)


REDIRECTED = """
import os, sys, {torch}.distributed.elastic.multiprocessing.redirects as r
with r.redirect_stdout(sys.argv[1]):
    print("python")
    os.system("echo child")
print("shown")
try:
    r.redirect("stdin", sys.argv[1]).__enter__()
except ValueError as error:
    print(str(error)[:29])
"""


def test_redirected_streams(tmp_path):
    found = []
    for name in ("ftorch", "torch"):
        path = tmp_path / name
        done = subprocess.run([sys.executable, "-c", REDIRECTED.format(torch=name), str(path)], capture_output=True,
                              text=True, timeout=200)
        found.append((done.stdout, sorted(path.read_text().split())))
    assert found[0] == found[1] == ("shown\nunknown standard stream <stdi\n", ["child", "python"])


# --- errors ---


def test_failures(tmp_path):
    path = tmp_path / "error.json"
    said = {"message": {"message": "ValueError: bad", "extraInfo": {"py_callstack": "Trace\n  bad", "timestamp": "12"}}}
    path.write_text(json.dumps(said))
    found = []
    for m in modules("multiprocessing.errors"):
        failures = {
            0: m.ProcessFailure(0, 11, -9, str(tmp_path / "none")), 3: m.ProcessFailure(1, 12, 1, str(path)),
            4: m.ProcessFailure(2, 13, 7, str(tmp_path / "none")),
        }
        for f in failures.values():
            f.timestamp = min(f.timestamp, 100)
        error = m.ChildFailedError("train.py", failures)
        found.append((
            str(error), error.get_first_failure()[0], [f.signal_name() for f in failures.values()],
            [f.message for f in failures.values()], failures[3].error_file_data, failures[4].error_file_data,
        ))
        assert attempt(m.ChildFailedError, "x", {})[0] == "AssertionError"
    assert found[0] == found[1]


def test_recorded(tmp_path, monkeypatch):
    found = []
    for m in modules("multiprocessing.errors"):
        own, child = tmp_path / f"{m.__name__}.json", tmp_path / f"{m.__name__}.child.json"
        monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(own))

        def end(code):
            sys.exit(code)

        def fail():
            raise ValueError("this")

        row = [m.record(end)(0)]
        with pytest.raises(SystemExit):
            m.record(end)(3)
        row.append(own.exists())
        with pytest.raises(ValueError):
            m.record(fail)()
        row.append(json.loads(own.read_text())["message"]["message"])
        child.write_text(json.dumps({"message": {"message": "inner", "extraInfo": {"timestamp": "5"}}}))

        def pass_on(m=m, child=child):
            raise m.ChildFailedError("c", {2: m.ProcessFailure(0, 1, 4, str(child))})

        with pytest.raises(m.ChildFailedError):
            m.record(pass_on)()
        row.append(own.read_text())
        found.append(row)
    assert found[0] == found[1]


# --- processes ---


def _double(x, fails=False):
    print("said", flush=True)
    if fails:
        raise ValueError(f"no {x}")
    return 2 * x, os.environ["WHO"]


def test_started_functions(tmp_path):
    found = []
    for m in modules("multiprocessing"):
        row = []
        for fails in (False, True):
            specs = m.DefaultLogsSpecs(str(tmp_path / f"{m.__name__}{fails}"), m.Std.ALL)
            context = m.start_processes(
                "w", _double, {0: (1,), 1: (2, fails)}, {0: {"WHO": "a"}, 1: {"WHO": "b"}}, specs
            )
            result = context.wait(120, 0.05)
            assert set(context.pids()) == {0, 1}
            row.append((result.return_values, result.is_failed(), {
                rank: (f.exitcode, f.message["message"]) for rank, f in result.failures.items()
            }))
            with open(result.stdouts[1]) as file:
                row.append(file.read())
        found.append(row)
        assert attempt(m.start_processes, "w", _double, {0: (1,)}, {1: {}}, specs) == (
            "RuntimeError", "envs, local rank mapping mismatch, expected: {0}, actual: {1}"
        )
    assert found[0] == found[1]


def _stops_after_its_result(rank):
    if rank == 0:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGSTOP)).start()
    else:
        time.sleep(1)
    return rank


def test_a_function_that_is_stopped_after_its_result(tmp_path):
    """It is let go on when all have ended. PyTorch's waits for ever, to tell it so."""
    m = modules("multiprocessing")[0]
    context = m.start_processes(
        "w", _stops_after_its_result, {0: (0,), 1: (1,)}, {0: {}, 1: {}}, m.DefaultLogsSpecs(str(tmp_path))
    )
    processes = context._pc.processes
    result = context.wait(60, 0.05)
    assert result is not None and result.return_values == {0: 0, 1: 1} and not result.failures
    assert [p.exitcode for p in processes] == [0, 0]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # PyTorch leaves files open
def test_started_programs(tmp_path):
    found = []
    for m in modules("multiprocessing"):
        own, specs = m.__name__.startswith("ftorch"), m.DefaultLogsSpecs(str(tmp_path / m.__name__), m.Std.ALL)
        stops = "kill -STOP $$; " if own else ""  # PyTorch's waits 30 s for a stopped one
        context = m.start_processes("w", "sh", {
            0: ("-c", f"echo $WHO; {stops} sleep 60"), 1: ("-c", "sleep 0.5; exit 3"),
        }, {0: {"WHO": "a"}, 1: {}}, specs)
        began = time.monotonic()
        result = context.wait(50, 0.05)
        assert time.monotonic() - began < 20  # what is stopped goes on, and gets the signal
        with open(result.stdouts[0]) as file:
            found.append(({rank: f.exitcode for rank, f in result.failures.items()}, file.read()))
        assert m.start_processes("w", "true", {0: ()}, {0: {}}, specs).wait(20, 0.05).return_values == {0: None}
    assert found[0] == found[1]


# --- meetings ---


def meet(handlers):
    """[(rank, number of nodes) or an error] of nodes that come at the same time."""
    out = [None] * len(handlers)

    def come(i):
        try:
            found = handlers[i].next_rendezvous()
            out[i] = found.rank, found.world_size
        except Exception as error:
            out[i] = type(error).__name__

    threads = [threading.Thread(target=come, args=(i,)) for i in range(len(handlers))]
    for thread in threads:
        thread.start()
    return threads, out


def nodes(t, count, least, most, **times):
    name = f"{t.__name__}.distributed.elastic.rendezvous."
    dynamic, c10d = (importlib.import_module(name + m) for m in ("dynamic_rendezvous", "c10d_rendezvous_backend"))
    store = t.distributed.HashStore()
    timeout = dynamic.RendezvousTimeout(**{k: timedelta(seconds=v) for k, v in times.items()})
    return [
        dynamic.DynamicRendezvousHandler.from_backend(
            "job", store, c10d.C10dRendezvousBackend(store, "job"), least, most, "localhost", timeout, 1, 3
        )
        for _ in range(count)
    ]


def until(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.parametrize("t", [ft, pt], ids=["ftorch", "torch"])
def test_nodes_meet(t):
    three = nodes(t, 3, 3, 3, join=60)
    threads, out = meet(three)
    for thread in threads:
        thread.join(60)
    assert sorted(out) == [(0, 3), (1, 3), (2, 3)] and three[0].num_nodes_waiting() == 0
    for each in three:
        each.shutdown()


def test_nodes_come_and_go():
    """Two meet; a third waits, which they see; all meet; closing ends it for everybody."""
    three = nodes(ft, 3, 2, 3, join=60, last_call=0.3)
    threads, out = meet(three[:2])
    for thread in threads:
        thread.join(60)
    assert sorted(out) == [(0, 2), (1, 2)]
    (late,), third = meet(three[2:])
    until(lambda: three[0].num_nodes_waiting() == 1)
    threads, out = meet(three[:2])
    for thread in (*threads, late):
        thread.join(60)
    assert sorted(out + third) == [(0, 3), (1, 3), (2, 3)]
    assert not three[0].is_closed() and three[0].get_run_id() == "job" and three[0].get_backend() == "c10d"
    assert three[1].shutdown()
    until(three[0].is_closed)
    (thread,), out = meet(three[:1])
    thread.join(60)
    assert out == ["RendezvousClosedError"]
    for each in three:
        each.shutdown()


@pytest.mark.parametrize("t", [ft, pt], ids=["ftorch", "torch"])
def test_too_few_nodes(t):
    (alone,) = nodes(t, 1, 2, 3, join=0.5)
    (thread,), out = meet([alone])
    thread.join(60)
    assert out == ["RendezvousTimeoutError"]
    alone.shutdown()


def test_a_dead_node_makes_place():
    """A node that gives no sign of life is taken out: one that was not needed takes its place."""
    three = nodes(ft, 3, 2, 2, join=60)
    threads, _ = meet(three[:2])
    for thread in threads:
        thread.join(60)
    (spare,), out = meet(three[2:])
    time.sleep(0.5)
    assert three[0].num_nodes_waiting() == 0 and out == [None]  # not needed: asks for nothing
    three[1]._stop_heartbeats()
    until(lambda: three[0].num_nodes_waiting() == 1)
    (again,), first = meet(three[:1])
    for thread in (again, spare):
        thread.join(60)
    assert sorted(out + first) == [(0, 2), (1, 2)]
    for each in three:
        each.shutdown()


@pytest.mark.parametrize("least, most, run", [(0, 1, "job"), (3, 2, "job"), (1, 1, "")])
def test_wrong_meetings(least, most, run):
    found = []
    for t in (ft, pt):
        name = f"{t.__name__}.distributed.elastic.rendezvous."
        dynamic, c10d = (importlib.import_module(name + m) for m in ("dynamic_rendezvous", "c10d_rendezvous_backend"))
        store = t.distributed.HashStore()
        backend = c10d.C10dRendezvousBackend(store, "x")
        make = dynamic.DynamicRendezvousHandler.from_backend
        found.append((
            attempt(make, run, store, backend, least, most),
            attempt(dynamic.RendezvousTimeout, timedelta(0)), attempt(c10d.C10dRendezvousBackend, store, ""),
        ))
    assert found[0] == found[1]


def test_records_at_a_store():
    found = []
    stores = ft.distributed.HashStore, importlib.import_module("torch.distributed").HashStore
    for m, store in zip(modules("rendezvous.c10d_rendezvous_backend"), stores):
        backend = m.C10dRendezvousBackend(store(), "job")
        row = [backend.get_state(), backend.set_state(b"one")]
        token = row[-1][1]
        row += [backend.set_state(b"two", token), backend.set_state(b"three", token), backend.get_state(), backend.name]
        row.append(backend.set_state(b"four", 3))
        found.append(row)
    assert found[0] == found[1]


class FakeEtcd:
    """A server's client, as far as meetings need it."""

    Client = EtcdResult = object
    EtcdException = type("EtcdException", (Exception,), {})
    EtcdKeyNotFound = type("EtcdKeyNotFound", (EtcdException,), {})
    EtcdCompareFailed = type("EtcdCompareFailed", (EtcdException,), {})
    EtcdAlreadyExist = type("EtcdAlreadyExist", (EtcdException,), {})

    def __init__(self):
        self.rows, self.changes, self.lock = {}, 0, threading.Lock()

    def read(self, key):
        if key not in self.rows:
            raise self.EtcdKeyNotFound
        return self.rows[key]

    get = read

    def write(self, key, value, ttl=None, prevIndex=None, prevExist=None):  # noqa: N803
        with self.lock:
            if prevIndex is not None and self.read(key).modifiedIndex != prevIndex:
                raise self.EtcdCompareFailed
            if prevExist is False and key in self.rows:
                raise self.EtcdAlreadyExist
            self.changes += 1
            self.rows[key] = types.SimpleNamespace(value=value, modifiedIndex=self.changes)
            return self.rows[key]


def test_records_at_etcd(monkeypatch):
    """The same steps with PyTorch's classes give the same results."""
    monkeypatch.setitem(sys.modules, "etcd", FakeEtcd)
    found = []
    for t in (ft, pt):
        name = f"{t.__name__}.distributed.elastic.rendezvous."
        part = name + "etcd_rendezvous_backend"
        monkeypatch.delitem(sys.modules, part, raising=False)  # PyTorch's looks for etcd when it is imported
        backend = importlib.import_module(part).EtcdRendezvousBackend(FakeEtcd(), "job", "/p")
        row = [backend.name, backend.get_state(), backend.set_state(b"one")]
        row += [backend.set_state(b"two", row[-1][1]), backend.set_state(b"no", row[-1][1] + 7), backend.set_state(b"no")]
        found.append([*row, backend.get_state()])
    assert found[0] == found[1]


def test_values_at_etcd(monkeypatch):
    monkeypatch.setitem(sys.modules, "etcd", FakeEtcd)
    etcd = importlib.import_module("ftorch.distributed.elastic.rendezvous.etcd_store")
    hashed, found = importlib.import_module("torch.distributed").HashStore, []
    for store in (etcd.EtcdStore(FakeEtcd(), "/s", timedelta(seconds=0.2)), hashed()):
        store.set("k", "v")
        row = [store.add("n", 2), store.add("n", 3), store.get("n"), store.check(["n"]), store.check(["n", "m"])]
        row += [store.get("k"), store.compare_set("k", "v", "w"), store.compare_set("k", "v", "x")]
        row.append(store.compare_set("c", "", "new"))
        store.append("k", "!")
        row.append(store.multi_get(["k", "c"]))
        found.append(row)
    assert found[0] == found[1]
    with pytest.raises(LookupError, match="Timed out"):
        etcd.EtcdStore(FakeEtcd(), "/s").wait(["m"], timedelta(seconds=0.1))


# --- launchers ---


def _ranks(x):
    return x, os.environ["RANK"], os.environ["WORLD_SIZE"], os.environ["ROLE_NAME"]


def test_a_launched_function(tmp_path):
    found = []
    for t in (ft, pt):
        api = importlib.import_module(f"{t.__name__}.distributed.launcher.api")
        config = api.LaunchConfig(1, 1, 2, run_id="job", role="trainer", rdzv_backend="c10d",
                                  rdzv_endpoint="localhost:0", max_restarts=0)
        assert config.rdzv_configs == {"timeout": 900} and config.shutdown_timeout == 30
        kept = {s: signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)}
        token = os.environ.get("FTORCH_DISTRIBUTED_TOKEN")
        try:
            found.append(api.elastic_launch(config, _ranks)(5))
        finally:
            for number, handler in kept.items():
                signal.signal(number, handler)
            if token is None:
                os.environ.pop("FTORCH_DISTRIBUTED_TOKEN", None)
    assert found[0] == found[1] == {i: (5, str(i), "2", "trainer") for i in range(2)}


@pytest.mark.parametrize("line", [
    ["a.py"], ["--standalone", "--nproc-per-node=2", "-m", "a", "--x", "1"], ["--nnodes=1:3", "--rdzv-conf", "a=1,b=2", "a.py"],
    ["--no-python", "prog", "-v"], ["-r", "0:3", "-t", "1", "--local-ranks-filter", "0,1", "a.py"],
    ["--duplicate-stdout-filters", "a,,b,c", "a.py"], ["--local-ranks-filter", "x", "a.py"], ["--nnodes", "1:2:3", "a.py"],
    ["--no-python", "-m", "a"], ["--nproc_per_node", "many", "a.py"], ["--max-restarts=-1", "a.py"],
    ["--run-path", "a.py", "z"],
])
def test_command_lines(line, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    found = []
    for t in (ft, pt):
        run = importlib.import_module(f"{t.__name__}.distributed.run")
        args = run.parse_args(line)
        args.master_port = args.master_port or 29500
        row = [{k: v for k, v in vars(args).items()}]
        came = attempt(run.config_from_args, args)
        if isinstance(came[0], str):
            row.append(came)
        else:
            config, program, arguments = came
            values = {k: v for k, v in vars(config).items() if k != "logs_specs"}
            specs = config.logs_specs
            row += [values, getattr(program, "__name__", program), arguments, (specs._redirects, specs._tee)]
        found.append(row)
    assert found[0] == found[1]


NODE = """
import os, sys, time
import ftorch as torch
from ftorch.distributed import run
run.main(sys.argv[1:])
"""
COUNTED = """
import os, sys, time, pathlib
import ftorch as torch
dist = torch.distributed
dist.init_process_group("gloo")
t = torch.ones(1)
dist.all_reduce(t)
folder = pathlib.Path(sys.argv[1])
(folder / f"{int(t)}-{dist.get_rank()}").touch()
while not (folder / "end").exists():
    time.sleep(0.05)
dist.barrier()
dist.destroy_process_group()
"""


def test_launchers_come_and_go(tmp_path):
    """A second launcher joins: the workers of both are started anew, as two; it is killed: the first goes on alone."""
    script = tmp_path / "counted.py"
    script.write_text(COUNTED)
    port = importlib.import_module("ftorch.distributed.elastic.utils.distributed").get_free_port()
    command = [
        sys.executable, "-c", NODE, "--nnodes=1:2", "--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{port}",
        "--rdzv-id=job", "--max-restarts=3", "--rdzv-conf=last_call_timeout=1,keep_alive_interval=1",
        str(script), str(tmp_path),
    ]
    env = os.environ | {"FTORCH_DISTRIBUTED_TOKEN": "of this test"}
    first = subprocess.Popen(command, env=env, start_new_session=True)
    second = None
    try:
        until(lambda: (tmp_path / "1-0").exists(), 120)
        second = subprocess.Popen(command, env=env, start_new_session=True)
        until(lambda: (tmp_path / "2-0").exists() and (tmp_path / "2-1").exists(), 120)
        (tmp_path / "1-0").unlink()
        second.send_signal(signal.SIGTERM)  # it ends its worker
        assert second.wait(60) != 0
        (tmp_path / "end").touch()  # the other one's next collective fails: its launcher starts it again
        assert first.wait(120) == 0 and (tmp_path / "1-0").exists()
    finally:
        (tmp_path / "end").touch()
        for process in (first, second):
            if process is not None and process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
