"""The server of examples/serve.py under load: latency, bad requests, memory, and the end in the middle of batches.

    python benchmarks/serving.py [--requests 4000] [--clients 16] [--malformed 10000]

Needs the extra ``serve``. Everything goes over the loopback interface; each client keeps its connection.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
import urllib.parse

SERVER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples", "serve.py")


class Server:
    """The server in a process of its own."""

    def __init__(self, *options, environment=None):
        self.process = subprocess.Popen(
            [sys.executable, SERVER, "--port", "0", *options], stdout=subprocess.PIPE, text=True, env=environment,
            start_new_session=True,
        )
        self.address = ""

    def wait_until_ready(self, seconds=120.0):
        timer = threading.Timer(seconds, self.kill)
        timer.start()
        assert self.process.stdout is not None
        self.address = urllib.parse.urlparse(self.process.stdout.readline().strip()).netloc
        deadline = time.monotonic() + seconds
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self.send("GET", "/readyz")[0] == 200:
                    break
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise RuntimeError("the server did not get ready")
            time.sleep(0.05)
        timer.cancel()
        return self

    def connect(self):
        return http.client.HTTPConnection(self.address, timeout=60)

    def send(self, method, path, body=None, connection=None):
        """(status, body) of a request, on a new connection by default."""
        own = connection or self.connect()
        try:
            own.request(method, path, body, {"Content-Type": "application/json"})
            response = own.getresponse()
            return response.status, response.read()
        finally:
            if connection is None:
                own.close()

    def memory(self):
        """Bytes that the process has resident."""
        with open(f"/proc/{self.process.pid}/statm", encoding="utf-8") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)
        if self.process.stdout is not None:
            self.process.stdout.close()


def images(count, seed):
    draw = random.Random(seed)
    return [[round(draw.random(), 3) for _ in range(64)] for _ in range(count)]


def load(server, requests, clients, until=None):
    """Sends requests from several clients at a time.

    Args:
        until: an event after which connections may fail.

    Returns:
        ([(images, status, body, seconds)], the number of requests that got no answer at all).
    """
    answers, lost, numbers, lock = [], [], iter(range(requests)), threading.Lock()

    def client():
        with contextlib.closing(server.connect()) as connection:
            work(connection)

    def work(connection):
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            sent = images(1 + number % 3, number)
            start = time.perf_counter()
            try:
                status, body = server.send("POST", "/predict", json.dumps({"images": sent}), connection)
            except (OSError, http.client.HTTPException) as error:
                if until is None or not until.is_set() or isinstance(error, http.client.IncompleteRead):
                    answers.append((sent, 0, repr(error).encode(), 0.0))
                    return
                lost.append(number)
                return
            answers.append((sent, status, body, time.perf_counter() - start))

    threads = [threading.Thread(target=client, daemon=True) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    return answers, len(lost)


def malformed(count, seed=0):
    """(path, body) pairs that are wrong in many ways."""
    draw = random.Random(seed)
    good = json.dumps({"images": images(2, 1)})
    for _ in range(count):
        kind = draw.randrange(12)
        if kind == 0:  # a body cut short
            yield "/predict", good[: draw.randrange(len(good))]
        elif kind == 1:  # bytes of anything
            yield "/predict", draw.randbytes(draw.randrange(1, 400))
        elif kind == 2:
            yield "/predict", json.dumps(draw.choice([None, 3, "images", [], {}, [[0.0] * 64]]))
        elif kind == 3:
            yield "/predict", json.dumps({"images": [[0.0] * draw.choice([0, 1, 63, 65, 128])]})
        elif kind == 4:
            row = [draw.choice(["0.5", None, True, [], {}])] * 64
            yield "/predict", json.dumps({"images": [row]})
        elif kind == 5:
            yield "/predict", json.dumps({"images": [[draw.choice([float("nan"), float("inf")])] * 64]})
        elif kind == 6:
            yield "/predict", json.dumps({"images": images(draw.choice([0, 33, 100]), 2)})
        elif kind == 7:
            yield "/predict", json.dumps({"images": images(1, 3), "more": 1})
        elif kind == 8:
            yield "/predict", "[" * draw.choice([10, 1000, 100_000])
        elif kind == 9:
            yield "/" + "".join(draw.choices("abcdef", k=5)), good
        elif kind == 10:
            yield "/predict", b'{"images": "\xff\xfe"}'
        else:
            yield "/predict", b" " * draw.choice([(1 << 20) + 1, 0])


def refused(server, count, seed=0):
    """The statuses of malformed requests and whether each said why in JSON: {(status, clear): count}."""
    found: dict = {}
    connection = server.connect()
    for path, body in malformed(count, seed):
        try:
            status, answer = server.send("POST", path, body, connection)
        except (OSError, http.client.HTTPException):  # a connection that the server closed after its answer
            connection.close()
            connection = server.connect()
            status, answer = server.send("POST", path, body, connection)
        try:
            said = json.loads(answer)
            clear = bool(said.get("error") or said.get("detail"))
        except ValueError:
            clear = False
        found[status, clear] = found.get((status, clear), 0) + 1
    connection.close()
    return found


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--requests", type=int, default=4000)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--malformed", type=int, default=10_000)
    options = parser.parse_args()
    server = Server()
    try:
        server.wait_until_ready()
        load(server, 200, options.clients)
        start = time.perf_counter()
        answers, _ = load(server, options.requests, options.clients)
        took = time.perf_counter() - start
        times = sorted(a[3] * 1e3 for a in answers)
        good = sum(a[1] == 200 for a in answers)
        print(f"{good} of {options.requests} answered, {good / took:.0f} a second")
        print(f"latency: median {statistics.median(times):.1f} ms, 99 % {times[int(0.99 * len(times))]:.1f} ms")
        refused(server, 500, 1)
        before = server.memory()
        print("malformed:", refused(server, options.malformed))
        print(f"memory: {before / 2**20:.0f} MiB before, {server.memory() / 2**20:.0f} MiB after")
        ending = threading.Event()
        threading.Timer(0.5, lambda: (ending.set(), server.terminate())).start()
        answers, lost = load(server, 100_000, options.clients, ending)
        print(f"ended: {len(answers)} answered, all whole: {all(a[1] == 200 for a in answers)}, {lost} unanswered, "
              f"exit code {server.process.wait(60)}")
    finally:
        server.kill()


if __name__ == "__main__":
    main()
