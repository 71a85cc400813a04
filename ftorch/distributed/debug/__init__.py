"""A page about all processes of a job: where their threads are, and profiles (``torch.distributed.debug``).

Each process has a server on loopback; that of rank 0 has the page, which asks the others' for what is wanted.
"""

from __future__ import annotations

import html
import http.server
import os
import threading
import urllib.error
import urllib.request

from .. import distributed_c10d as dist
from ._worker_server import _Tcp, _WorkerServer

__all__ = ["start_debug_server", "stop_debug_server"]

_servers: list = []


def _store():
    return dist.PrefixStore("debug_server", dist.TCPStore(
        host_name=os.environ["MASTER_ADDR"], port=int(os.environ["MASTER_PORT"]), is_master=False
    ))


def _asked(address: str, path: str, timeout: float) -> str:
    try:
        with urllib.request.urlopen(f"{address}/handler/{path}", b"", timeout=timeout) as answer:
            return answer.read().decode()
    except (OSError, urllib.error.URLError) as error:
        return f"unavailable: {error}"


def _page(addresses, fetch_timeout):
    class Page(http.server.BaseHTTPRequestHandler):
        def log_message(self, format, *args):
            """Nothing: the process' output is the program's."""

        def do_GET(self):  # noqa: N802
            """What all processes answer to a handler, or the handlers."""
            name = self.path.strip("/")
            known = {"stacks": "dump_traceback", "wait_counters": "wait_counter_values", "ping": "ping"}
            if name in known:
                found = [(rank, _asked(a, known[name], fetch_timeout)) for rank, a in enumerate(addresses)]
                body = "".join(f"<h2>Rank {rank}</h2><pre>{html.escape(text)}</pre>" for rank, text in found)
            else:
                body = "".join(f'<p><a href="/{k}">{k}</a></p>' for k in known)
            content = f"<!doctype html><title>torch.distributed</title>{body}".encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    return Page


def start_debug_server(port: int = 25999, worker_port: int = 0, start_method=None, dump_dir: str | None = None,
                       dump_interval: float = 60.0, enabled_dumps=None, handlers=None, fetch_timeout: float = 60.0) -> None:
    """Starts the servers: all processes of a job that a launcher started call it.

    Args:
        port: of rank 0's page. ``worker_port``: of each process' server, 0 for a free one.
        dump_dir: where the stacks of all processes are written, every ``dump_interval`` seconds.
        start_method, enabled_dumps, handlers: accepted: the page is a thread of rank 0.
        fetch_timeout: how long a process is waited for.

    Raises:
        AssertionError: if they run already.
    """
    if _servers:
        raise AssertionError("debug server already started")
    rank, count, store = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), _store()
    own = _WorkerServer("127.0.0.1", worker_port)
    store.set(f"rank{rank}", f"http://127.0.0.1:{own.port}")
    _servers.append(own.shutdown)
    if rank:
        return
    addresses = [store.get(f"rank{r}").decode() for r in range(count)]
    page = _Tcp(("127.0.0.1", port), _page(addresses, fetch_timeout))
    thread = threading.Thread(target=page.serve_forever, args=(0.05,), name="debug page", daemon=True)
    thread.start()
    over = threading.Event()

    def close():
        over.set()
        page.shutdown()
        page.server_close()
        thread.join()

    _servers.append(close)
    if dump_dir is not None:
        threading.Thread(
            target=_dump, args=(dump_dir, dump_interval, addresses, fetch_timeout, over), name="debug dumps", daemon=True
        ).start()


def _dump(folder, interval, addresses, fetch_timeout, over):
    os.makedirs(folder, exist_ok=True)
    number = 0
    while not over.wait(interval):
        with open(os.path.join(folder, f"stacks_{number}.txt"), "w") as file:
            for rank, address in enumerate(addresses):
                file.write(f"=== Rank {rank} ===\n{_asked(address, 'dump_traceback', fetch_timeout)}\n")
        number += 1


def stop_debug_server() -> None:
    """Ends what `start_debug_server` started.

    Raises:
        AssertionError: if nothing runs.
    """
    if not _servers:
        raise AssertionError
    while _servers:
        _servers.pop()()
