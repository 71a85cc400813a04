"""Texts of endpoints and options; whether a host is this machine; timers."""

from __future__ import annotations

import ipaddress
import random
import re
import socket
import threading
import time
import weakref
from datetime import timedelta

__all__ = ["parse_rendezvous_endpoint"]


def _parse_rendezvous_config(config_str: str) -> dict[str, str]:
    config = {}
    for pair in config_str.strip().split(",") if config_str.strip() else []:
        key, _, value = (part.strip() for part in pair.partition("="))
        if not key:
            raise ValueError(
                "The rendezvous configuration string must be in format <key1>=<value1>,...,<keyN>=<valueN>."
            )
        if not value:
            raise ValueError(f"The rendezvous configuration option '{key}' must have a value specified.")
        config[key] = value
    return config


def parse_rendezvous_endpoint(endpoint: str | None, default_port: int) -> tuple[str, int]:
    """(host, port) of ``HOST[:PORT]``.

    Raises:
        ValueError: for other texts.

    >>> parse_rendezvous_endpoint("[::1]:29500", 1)
    ('::1', 29500)
    """
    endpoint = (endpoint or "").strip()
    if not endpoint:
        return "localhost", default_port
    host, colon, rest = endpoint, "", ""
    if not (endpoint.startswith("[") and endpoint.endswith("]")):
        host, colon, rest = endpoint.rpartition(":")
        if not colon:
            host, rest = endpoint, ""
    if len(host) > 1 and host[0] == "[" and host[-1] == "]":
        host = host[1:-1]
    port = default_port
    if colon:
        if not re.fullmatch(r"[0-9]{1,5}", rest) or int(rest) >= 2**16:
            raise ValueError(
                f"The port number of the rendezvous endpoint '{endpoint}' must be an integer between 0 and 65536."
            )
        port = int(rest)
    if not re.fullmatch(r"[\w\.:-]+", host):
        raise ValueError(
            f"The hostname of the rendezvous endpoint '{endpoint}' must be a dot-separated list of labels, an "
            "IPv4 address, or an IPv6 address."
        )
    return host, port


def _matches_machine_hostname(host: str) -> bool:
    """Whether a name or address is this machine's."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        address = None
    own = socket.gethostname()
    if host in ("localhost", own) or (address is not None and address.is_loopback):
        return True

    def found(name):
        try:
            return socket.getaddrinfo(name, None, proto=socket.IPPROTO_TCP, flags=socket.AI_CANONNAME)
        except (ValueError, OSError):
            return []

    theirs = {info[4][0] for info in found(host)} | {str(address)}
    return any(info[4][0] in theirs or info[3] == host for info in found(own))


def _delay(seconds: float | tuple[float, float]) -> None:
    """Sleeps, for a random time between two if there are two."""
    if isinstance(seconds, tuple):
        seconds = random.uniform(*seconds)
    if seconds >= 0.01:
        time.sleep(seconds)


class _PeriodicTimer:
    """Calls a function again and again, on a thread, until it is cancelled or forgotten."""

    def __init__(self, interval: timedelta, function, *args, **kwargs):
        self._call = interval.total_seconds(), function, args, kwargs
        self._name: str | None = None
        self._thread: threading.Thread | None = None
        self._finalizer: weakref.finalize | None = None

    @property
    def name(self) -> str | None:
        """The thread's name."""
        return self._name

    def set_name(self, name: str) -> None:
        """Names the thread. Raises RuntimeError if it runs already."""
        if self._thread is not None:
            raise RuntimeError("The timer has already started.")
        self._name = name

    def start(self) -> None:
        """Begins. Raises RuntimeError if it runs already."""
        if self._thread is not None:
            raise RuntimeError("The timer has already started.")
        stop = threading.Event()
        self._thread = threading.Thread(
            target=_again_and_again, name=self._name or "PeriodicTimer", args=(stop, *self._call), daemon=True
        )
        self._finalizer = weakref.finalize(self, _end_thread, self._thread, stop)
        self._finalizer.atexit = False
        self._thread.start()

    def cancel(self) -> None:
        """Ends, after a call that is under way."""
        if self._finalizer is not None:
            self._finalizer()


def _again_and_again(stop, seconds, function, args, kwargs):
    while not stop.wait(seconds):
        function(*args, **kwargs)


def _end_thread(thread, stop):
    stop.set()
    if thread is not threading.current_thread():
        thread.join()
