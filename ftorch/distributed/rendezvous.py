"""Where processes meet: stores by URL (``torch.distributed.rendezvous``)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from urllib.parse import parse_qsl, urlparse

from . import _wire
from ._store import DEFAULT_TIMEOUT, FileStore, PrefixStore, Store, TCPStore

__all__ = ["register_rendezvous_handler", "rendezvous"]

_handlers: dict[str, Callable[..., Iterator[tuple[Store, int, int]]]] = {}


def register_rendezvous_handler(scheme: str, handler: Callable) -> None:
    """Lets ``init_process_group(init_method="scheme://...")`` meet by a generator of one's own, which
    yields (store, rank, world size).

    Raises:
        RuntimeError: if the scheme has one.
    """
    if scheme in _handlers:
        raise RuntimeError(f"Rendezvous handler for {scheme}:// already registered")
    _handlers[scheme] = handler


def rendezvous(url: str, rank: int = -1, world_size: int = -1, **kwargs):
    """An iterator over (store, rank, world size) of an URL: ``env://``, ``tcp://``, ``file://``.

    Raises:
        RuntimeError: if nobody meets by the scheme. ValueError: if something is missing. AssertionError: if the URL has a
            rank or a number of processes, too.
    """
    if not isinstance(url, (str, bytes)):
        raise RuntimeError(f"`url` must be a string. {type(url)}: {url}")
    if not isinstance(rank, int):
        raise RuntimeError(f"`rank` must be an integer. {rank}")
    if not isinstance(world_size, int):
        raise RuntimeError(f"`world_size` must be an integer. {world_size}")
    parsed = urlparse(url)
    scheme = parsed.scheme
    query = dict(parse_qsl(parsed.query))
    if (rank != -1 or world_size not in (-1, None)) and ("rank" in query or "world_size" in query):
        raise AssertionError(f"The url: {url} has node-specific arguments(rank, world_size) already.")
    if rank != -1:
        query["rank"] = str(rank)
    if world_size not in (-1, None):
        query["world_size"] = str(world_size)
    url = parsed._replace(query="&".join(f"{k}={v}" for k, v in query.items())).geturl()
    if scheme not in _handlers:
        raise RuntimeError(f"No rendezvous handler for {scheme}://")
    return _handlers[scheme](url, **kwargs)


def _failed(scheme, text):
    return ValueError(f"Error initializing torch.distributed using {scheme}:// rendezvous: {text}")


def _query(url, scheme):
    parsed = urlparse(url)
    return parsed, dict(parse_qsl(parsed.query))


def _number(query, name, scheme):
    if name not in query:
        raise _failed(scheme, f"{name.replace('_', ' ')} parameter missing")
    return int(query[name])


def _from_file(url, timeout: timedelta = DEFAULT_TIMEOUT, **_):
    parsed, query = _query(url, "file")
    if not parsed.path:
        raise _failed("file", "path missing")
    rank, size = _number(query, "rank", "file"), _number(query, "world_size", "file")
    yield FileStore(parsed.path, size, timeout), rank, size
    raise RuntimeError("Unable to perform rerendezvous using file:// method")



def _from_tcp(url, timeout: timedelta = DEFAULT_TIMEOUT, **_):
    parsed, query = _query(url, "tcp")
    if parsed.port is None:
        raise _failed("tcp", "port number missing")
    rank, size = _number(query, "rank", "tcp"), _number(query, "world_size", "tcp")
    store = _tcp_store(parsed.hostname or "127.0.0.1", parsed.port, rank, size, timeout, _use_libuv(query))
    yield store, rank, size
    raise RuntimeError("Unable to perform re-rendezvous using tcp:// method")


def _use_libuv(query):
    """What the store says of its backend; the same serves both."""
    return query.get("use_libuv", os.environ.get("USE_LIBUV", "1")) == "1"


def _tcp_store(host, port, rank, size, timeout, use_libuv=True):
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        if "TORCHELASTIC_RUN_ID" in os.environ and not {"FTORCH_ELASTIC_ROUND", _wire.TOKEN_VARIABLE} & {*os.environ}:
            # Its store would never answer.
            raise RuntimeError(
                f"the store at ({host}, {port}) is that of another library's launcher, PyTorch's torchrun, say: start the "
                "program with ftorchrun or python -m ftorch.distributed.run"
            )
        # A launcher of this package says the round: nodes do not restart equally often.
        attempt = os.environ.get("FTORCH_ELASTIC_ROUND") or os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        return PrefixStore(
            f"/worker/attempt_{attempt}", TCPStore(host, port, size, False, timeout=timeout, use_libuv=use_libuv)
        )
    return TCPStore(host, port, size, rank == 0, timeout=timeout, multi_tenant=True, use_libuv=use_libuv)


def environment(name: str) -> str:
    """A variable of ``env://``. Raises ValueError if it is not set."""
    if name not in os.environ:
        raise _failed("env", f"environment variable {name} expected, but not set")
    return os.environ[name]


def _from_environment(url, timeout: timedelta = DEFAULT_TIMEOUT, **_):
    _, query = _query(url, "env")
    rank = int(query["rank"] if "rank" in query else environment("RANK"))
    size = int(query["world_size"] if "world_size" in query else environment("WORLD_SIZE"))
    host, port = environment("MASTER_ADDR"), int(environment("MASTER_PORT"))
    yield _tcp_store(host, port, rank, size, timeout, _use_libuv(query)), rank, size
    raise RuntimeError("Unable to perform re-rendezvous using env:// method")


def _create_c10d_store(host, port, rank, world_size, timeout, use_libuv=True) -> Store:
    return _tcp_store(host, port, rank, world_size, timeout, use_libuv)


register_rendezvous_handler("tcp", _from_tcp)
register_rendezvous_handler("env", _from_environment)
register_rendezvous_handler("file", _from_file)
