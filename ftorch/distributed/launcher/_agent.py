"""The launcher of one node: it meets the others, starts workers, watches them and starts them again.

The launcher whose host is the endpoint's serves the store. A round of the rendezvous is a key that
counts: each launcher adds itself to the current round; when the least number has come (and, with
room for more, a short while has passed) the round closes, and the order of arrival gives node ranks. A
launcher whose worker fails, or that wants to join later, asks for the next round; the others see that
within a moment, stop their workers and come to it.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from datetime import timedelta

from .. import _wire
from .._errors import DistNetworkError
from .._store import PrefixStore, TCPStore
from ..elastic.multiprocessing.errors import ChildFailedError, ProcessFailure

_LAST_CALL = 1.0  # s that a round with room for more nodes stays open
_GRACE = 15.0  # s between SIGTERM and SIGKILL


class _Interrupted(Exception):
    def __init__(self, number):
        super().__init__(f"signal {number}")
        self.number = number


class Agent:
    """The launcher of one node."""

    def __init__(self, config, entrypoint, args):
        self.config, self.entrypoint, self.args = config, entrypoint, args
        self.workers: list[subprocess.Popen] = []
        self.restarts = 0
        self.round = 0
        self.token = os.environ.setdefault(_wire.TOKEN_VARIABLE, _wire.new_token()) if (
            config.max_nodes == 1
        ) else _wire.token().decode()
        self.folder = config.log_dir or tempfile.mkdtemp(prefix="torchelastic_")
        self.keeps_logs = config.log_dir is not None
        self.results: dict[int, object] = {}

    # --- the store ---

    def _meet(self):
        host, _, port = (self.config.rdzv_endpoint or "127.0.0.1:0").partition(":")
        port = int(port or (29400 if self.config.rdzv_backend == "c10d" else 29500))
        limit = timedelta(seconds=float(self.config.rdzv_configs.get("timeout", 900)))
        static_rank = self.config.rdzv_configs.get("rank")
        serves = static_rank == 0 if static_rank is not None else _is_here(host)
        host = host or "127.0.0.1"
        if serves:
            try:
                store = TCPStore(host, port, None, True, limit, wait_for_workers=False)
            except DistNetworkError:
                if self.config.rdzv_backend != "c10d":
                    raise
                store = TCPStore(host, port, None, False, limit)  # another launcher of this host does
        else:
            store = TCPStore(host, port, None, False, limit)
        self.host, self.port = host, store.port
        self._serves = store._server is not None
        self.store = PrefixStore(f"torchelastic/{self.config.run_id}", store)

    def _next_round(self):
        """Takes part in a round; sets the node's place in it."""
        config = self.config
        wait = float(config.rdzv_configs.get("timeout", 900))
        deadline = time.monotonic() + wait
        while True:
            number = self.store.add("round", 0)
            static_rank = config.rdzv_configs.get("rank")
            place = self.store.add(f"{number}/nodes", 1) - 1
            if place >= config.max_nodes or self.store.check([f"{number}/closed"]):
                # Too late for this round: ask for another one if there is room.
                if place < config.max_nodes and config.max_nodes > config.min_nodes:
                    self.store.compare_set(f"{number}/again", "", "join")
                self._pause(number, deadline)
                continue
            node = static_rank if static_rank is not None else place
            self.store.set(f"{number}/size/{node}", str(config.nproc_per_node))
            if not self._closed(number, place, deadline):
                continue
            count = int(self.store.get(f"{number}/closed"))
            if node >= count:
                self._pause(number, deadline)
                continue
            sizes = [int(self.store.get(f"{number}/size/{i}")) for i in range(count)]
            self.round, self.node, self.nodes, self.sizes = number, node, count, sizes
            return

    def _closed(self, number, place, deadline):
        config, closes_at = self.config, None
        while time.monotonic() < deadline:
            if self.store.check([f"{number}/closed"]):
                return True
            if place == 0:
                came = self.store.add(f"{number}/nodes", 0)
                if came >= config.max_nodes:
                    self.store.set(f"{number}/closed", str(config.max_nodes))
                elif came >= config.min_nodes:
                    closes_at = closes_at or time.monotonic() + _LAST_CALL
                    if time.monotonic() >= closes_at:
                        self.store.set(f"{number}/closed", str(came))
            time.sleep(0.02)
        raise TimeoutError(
            f"the rendezvous of {config.run_id} timed out: fewer than {config.min_nodes} nodes came"
        )

    def _pause(self, number, deadline):
        while self.store.add("round", 0) == number:
            if time.monotonic() > deadline:
                raise TimeoutError("the rendezvous has no place for this node")
            time.sleep(0.05)

    # --- workers ---

    def _environment(self, local):
        first = sum(self.sizes[: self.node])
        rank, world = first + local, sum(self.sizes)
        own = {
            "LOCAL_RANK": local, "RANK": rank, "GROUP_RANK": self.node, "ROLE_RANK": rank,
            "ROLE_NAME": self.config.role, "LOCAL_WORLD_SIZE": self.config.nproc_per_node,
            "WORLD_SIZE": world, "GROUP_WORLD_SIZE": self.nodes, "ROLE_WORLD_SIZE": world,
            "MASTER_ADDR": self.host, "MASTER_PORT": self.port,
            "TORCHELASTIC_RESTART_COUNT": self.restarts, "TORCHELASTIC_MAX_RESTARTS": self.config.max_restarts,
            "TORCHELASTIC_RUN_ID": self.config.run_id, "TORCHELASTIC_USE_AGENT_STORE": "True",
            "TORCHELASTIC_ERROR_FILE": self._error_file(local), _wire.TOKEN_VARIABLE: self.token,
            "FTORCH_ELASTIC_ROUND": self.round, "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
        }
        return os.environ | {k: str(v) for k, v in own.items()}

    def _folder(self, local):
        path = os.path.join(self.folder, f"attempt_{self.round}", str(local))
        os.makedirs(path, exist_ok=True)
        return path

    def _error_file(self, local):
        return os.path.join(self._folder(local), "error.json")

    def _streams(self, local):
        """Where a worker's output goes: [(file or None, whether also to the console)] of both streams."""
        chosen = []
        for bit in (1, 2):
            into = _std(self.config.redirects, local) & bit
            tee = _std(self.config.tee, local) & bit
            chosen.append((bool(into or tee), bool(tee)))
        return chosen

    def _start(self):
        self.workers = []
        shown = {int(r) for r in self.config.local_ranks_filter.split(",") if r.strip()}
        for local in range(self.config.nproc_per_node):
            command = self._command(local)
            opened, pipes = [], []
            for name, (into, tee) in zip(("stdout", "stderr"), self._streams(local)):
                quiet = shown and local not in shown
                if into or quiet:
                    opened.append(open(os.path.join(self._folder(local), f"{name}.log"), "wb"))
                    pipes.append(opened[-1])
                    if tee and not quiet:
                        self._tee(local, opened[-1].name, name)
                else:
                    pipes.append(None)
            worker = subprocess.Popen(
                command, env=self._environment(local), stdout=pipes[0], stderr=pipes[1],
                start_new_session=False,
            )
            for file in opened:
                file.close()
            self.workers.append(worker)

    def _tee(self, local, path, name):
        import threading

        stream = getattr(sys, name)

        def follow():
            with open(path) as file:
                while True:
                    line = file.readline()
                    if line:
                        stream.write(f"[{self.config.role}{local}]:{line}")
                        stream.flush()
                    elif all(w.poll() is not None for w in self.workers[local : local + 1]):
                        return
                    else:
                        time.sleep(0.05)

        threading.Timer(0.1, follow).start()

    def _command(self, local):
        if isinstance(self.entrypoint, str):
            args = list(map(str, self.args))
            if os.environ.get("FTORCH_LAUNCH_LOCAL_RANK") and len(args) > 1:
                script = next((i for i, a in enumerate(args) if not a.startswith("-")), 0)
                args.insert(script + 1, f"--local-rank={local}")
            return [self.entrypoint, *args]
        import cloudpickle

        path = os.path.join(self._folder(local), "call.pickle")
        with open(path, "wb") as file:
            cloudpickle.dump((self.entrypoint, tuple(self.args)), file)
        return [sys.executable, "-m", "ftorch.distributed.launcher._worker", path]

    def _stop(self, number=signal.SIGTERM):
        for worker in self.workers:
            if worker.poll() is None:
                worker.send_signal(number)
        end = time.monotonic() + _GRACE
        for worker in self.workers:
            try:
                worker.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()

    def _watch(self):
        """``done``, ``again`` (another round was asked for) or ``failed``."""
        while True:
            codes = [w.poll() for w in self.workers]
            if any(c not in (None, 0) for c in codes):
                return "failed"
            if all(c == 0 for c in codes):
                return "done"
            if self._again():
                return "again"
            time.sleep(self.config.monitor_interval)

    def _again(self):
        if self.nodes == 1 and self.config.max_nodes == 1:
            return False
        try:
            return self.store.check([f"{self.round}/again"])
        except (DistNetworkError, OSError):
            return False

    # --- all of it ---

    def run(self):
        """Runs the workers until they are done. {rank: result}."""
        outer = {}

        def interrupted(number, frame):
            raise _Interrupted(number)

        try:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
                outer[number] = signal.signal(number, interrupted)
        except ValueError:
            pass  # not in the main thread
        if not self.config.run_id:
            self.config.run_id = str(uuid.uuid4())
        try:
            self._meet()
            return self._rounds()
        except _Interrupted as error:
            self._stop(error.number)
            raise SystemExit(128 + error.number) from None
        except BaseException:
            self._stop()
            raise
        finally:
            for number, handler in outer.items():
                signal.signal(number, handler)

    def _rounds(self):
        while True:
            self._next_round()
            self._start()
            state = self._watch()
            if state == "done":
                return self._finished()
            if state == "failed":
                failures = self._failures()
                self._stop()
                if self.restarts >= self.config.max_restarts:
                    self.store.set(f"{self.round}/again", "failed")
                    raise ChildFailedError(self._name(), failures)
                self.restarts += 1
            else:
                self._stop()
                self.restarts += self.store.get(f"{self.round}/again") == b"failed"
            self.store.compare_set(f"{self.round}/again", "", "failed")
            self.store.compare_set("round", str(self.round), str(self.round + 1))
            if self.store.add("round", 0) == self.round:  # the first round's counter was never set
                self.store.add("round", 1)

    def _name(self):
        return self.entrypoint if isinstance(self.entrypoint, str) else self.entrypoint.__qualname__

    def _failures(self):
        first = sum(self.sizes[: self.node])
        time.sleep(0.05)  # others that fail of the same are named as well
        return {
            first + local: ProcessFailure(local, w.pid, w.returncode, self._error_file(local))
            for local, w in enumerate(self.workers) if w.poll() not in (None, 0)
        }

    def _finished(self):
        """Waits for the other nodes, whose workers may still need the store."""
        if self.nodes > 1:
            self.store.add(f"{self.round}/done", 1)
            end = time.monotonic() + float(self.config.rdzv_configs.get("exit_timeout", 300))
            while self._serves and time.monotonic() < end:
                if self.store.add(f"{self.round}/done", 0) >= self.nodes:
                    break
                time.sleep(0.05)
        first = sum(self.sizes[: self.node])
        results = {}
        if not isinstance(self.entrypoint, str):
            for local in range(self.config.nproc_per_node):
                path = os.path.join(self._folder(local), "result.pickle")
                with open(path, "rb") as file:
                    results[first + local] = pickle.load(file)
        if not self.keeps_logs:
            import shutil

            shutil.rmtree(self.folder, ignore_errors=True)
        return results


def _std(text, local):
    """The streams (1 out, 2 err, 3 both) that ``N`` or ``RANK:N,...`` says of a local rank."""
    text = str(text)
    if ":" not in text:
        return int(text or 0)
    chosen = dict(pair.split(":") for pair in text.split(","))
    return int(chosen.get(str(local), 0))


def _is_here(host):
    """Whether a host's name is this machine's."""
    if _wire.is_loopback(host):
        return True
    try:
        wanted = {i[4][0] for i in socket.getaddrinfo(host, None)}
        own = {i[4][0] for i in socket.getaddrinfo(socket.gethostname(), None)}
    except OSError:
        return False
    return host == socket.gethostname() or bool(wanted & own)
