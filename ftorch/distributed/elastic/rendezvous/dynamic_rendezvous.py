"""Nodes that meet without numbers of their own, come later, and leave.

What all know is one record (`_State`) that a backend keeps: a node reads it with its token, changes its copy and writes it
back, which fails if another node has written meanwhile. A round is complete when the most nodes have come, or a
while after the least number has. Who comes later waits, which the others see (`num_nodes_waiting`); their launchers stop
their workers, leave the round and join the next one. A node that gives no sign of life for some time is taken out.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from typing import Any

from ..._store import PrefixStore, Store, TCPStore
from ..events import NodeState, construct_and_record_rdzv_event
from .api import (
    RendezvousClosedError,
    RendezvousError,
    RendezvousGracefulExitError,
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    RendezvousStateError,
    RendezvousStoreInfo,
    RendezvousTimeoutError,
)
from .utils import _delay, _PeriodicTimer

__all__ = [
    "DynamicRendezvousHandler", "RendezvousBackend", "RendezvousSettings", "RendezvousTimeout", "create_handler",
]

logger = logging.getLogger(__name__)
Token = Any
_LOOK = 0.2  # s between looks while a node waits for others
_CACHED = 1.0  # s for which a question about others takes what is known


class RendezvousBackend(ABC):
    """Keeps the record of a rendezvous."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The backend's name."""

    @abstractmethod
    def get_state(self) -> tuple[bytes, Token] | None:
        """The record and its token; None if there is none.

        Raises:
            RendezvousConnectionError: if it cannot be reached. RendezvousStateError: if it is no record.
        """

    @abstractmethod
    def set_state(self, state: bytes, token: Token | None = None) -> tuple[bytes, Token, bool] | None:
        """Writes the record if its token is still the given one (without one: if there is no record).

        Returns:
            What is kept then, its token, and whether it is what was given.

        Raises:
            RendezvousConnectionError: if it cannot be reached. RendezvousStateError: if it is no record.
        """


class RendezvousTimeout:
    """How long to wait.

    Args:
        join: for a round to be complete (600 s).
        last_call: for more nodes when the least number has come (30 s).
        close: for a rendezvous to be closed (30 s).
        heartbeat: for a sign of life to be written (5 s).

    Raises:
        ValueError: for a time that is not positive.
    """

    _DEFAULTS = {"join": 600, "last_call": 30, "close": 30, "heartbeat": 5}

    def __init__(self, join: timedelta | None = None, last_call: timedelta | None = None,
                 close: timedelta | None = None, heartbeat: timedelta | None = None):
        given = {"join": join, "last_call": last_call, "close": close, "heartbeat": heartbeat}
        for name, value in given.items():
            if value is None:
                value = timedelta(seconds=self._DEFAULTS[name])
            if value <= timedelta(0):
                raise ValueError(f"The {name} timeout ({value}) must be positive.")
            setattr(self, f"_{name}", value)

    join, last_call, close, heartbeat = (
        property(lambda self, name=name: getattr(self, f"_{name}")) for name in ("join", "last_call", "close", "heartbeat")
    )


@dataclass(repr=False, eq=False, frozen=True)
class RendezvousSettings:
    """What a rendezvous is like: its job's id, the least and largest number of nodes, times, and after how many
    missing signs of life a node is taken out."""

    run_id: str
    min_nodes: int
    max_nodes: int
    timeout: RendezvousTimeout
    keep_alive_interval: timedelta
    keep_alive_max_attempt: int


@dataclass
class _State:
    """The record. Nodes are named by address, process and number."""

    round: int = 0
    complete: bool = False
    closed: bool = False
    deadline: float | None = None  # when a round with room for more nodes is complete
    participants: dict[str, int] = field(default_factory=dict)  # with their ranks
    waiting: list[str] = field(default_factory=list)  # for the next round, which they ask for
    redundant: list[str] = field(default_factory=list)  # for somebody to leave
    alive: dict[str, float] = field(default_factory=dict)  # last signs of life

    def forget(self, node: str) -> None:
        """A node is gone."""
        self.alive.pop(node, None)
        for names in (self.waiting, self.redundant):
            if node in names:
                names.remove(node)
        if self.participants.pop(node, None) is not None and self.complete and not self.participants:
            self.complete, self.round = False, self.round + 1

    def finish(self) -> None:
        """The round is complete."""
        self.complete, self.deadline = True, None
        # By names, of which numbers count as numbers: ten processes of a host are in the order of their numbers.
        for rank, node in enumerate(sorted(self.participants, key=_in_order)):
            self.participants[node] = rank


def _in_order(node):
    address, process, number = node.rsplit("_", 2)
    return address, int(process), int(number)


class _Record:
    """The record as this node knows it."""

    def __init__(self, backend: RendezvousBackend, settings: RendezvousSettings, node: str):
        self.backend, self.settings, self.node = backend, settings, node
        self.state, self.token = _State(), None
        self.read = float("-inf")

    def _take(self, data, token):
        try:
            self.state = _State(**json.loads(data)) if data is not None else _State()
        except (ValueError, TypeError) as error:
            raise RendezvousStateError(
                "The rendezvous state is corrupt. See inner exception for details."
            ) from error
        self.token, self.read = token, time.monotonic()
        limit = self.settings.keep_alive_interval.total_seconds() * self.settings.keep_alive_max_attempt
        for node, last in list(self.state.alive.items()):
            if last < time.time() - limit and node != self.node:
                self.state.forget(node)
        if not self.state.complete and len(self.state.participants) < self.settings.min_nodes:
            self.state.deadline = None

    def refresh(self) -> _State:
        """What is kept now."""
        self._take(*(self.backend.get_state() or (None, None)))
        return self.state

    def change(self, step: Callable[[_State], bool | None], deadline: float) -> None:
        """Changes the record until a step says that it is done.

        Args:
            step: changes the state. True: done; None: nothing to change, look again later; False: to be written.

        Raises:
            RendezvousTimeoutError: if it is not in time.
        """
        self.refresh()
        while True:
            before = self._written()
            done = step(self.state)
            if self._written() != before:
                found = self.backend.set_state(self._written().encode(), self.token)
                written = found is not None and found[2]
                self._take(*(found[:2] if found is not None else (None, None)))
                if written and done:
                    return
            elif done:
                return
            else:
                if done is None:
                    _delay(_LOOK)
                self.refresh()
            if time.monotonic() > deadline:
                raise RendezvousTimeoutError

    def _written(self) -> str:
        return json.dumps(vars(self.state))


_numbers = count()


class DynamicRendezvousHandler(RendezvousHandler):
    """Meets whoever comes, and again when somebody joins or fails.

    Args:
        node: this node's name.
        record: what all know.
        store: what the nodes of a round are given, with a prefix of the round's own.
    """

    def __init__(self, node: str, settings: RendezvousSettings, backend_name: str, store: Store, record: _Record):
        if not settings.run_id:
            raise ValueError("The run id must be a non-empty string.")
        if settings.min_nodes < 1:
            raise ValueError(f"The minimum number of nodes ({settings.min_nodes}) must be greater than zero.")
        if settings.max_nodes < settings.min_nodes:
            raise ValueError(
                f"The maximum number of nodes ({settings.max_nodes}) must be greater than or equal to the minimum "
                f"number of nodes ({settings.min_nodes})."
            )
        self._node, self._settings, self._backend_name = node, settings, backend_name
        self._store, self._record = store, record
        self._lock = threading.RLock()
        self._keep_alive_timer: _PeriodicTimer | None = None
        self._served: TCPStore | None = None

    @classmethod
    def from_backend(cls, run_id: str, store: Store, backend: RendezvousBackend, min_nodes: int, max_nodes: int,
                     local_addr: str | None = None, timeout: RendezvousTimeout | None = None,
                     keep_alive_interval: int = 5, keep_alive_max_attempt: int = 3) -> DynamicRendezvousHandler:
        """A handler whose record a backend keeps."""
        node = f"{local_addr or socket.getfqdn()}_{os.getpid()}_{next(_numbers)}"
        settings = RendezvousSettings(
            run_id, min_nodes, max_nodes, timeout or RendezvousTimeout(),
            timedelta(seconds=keep_alive_interval), keep_alive_max_attempt,
        )
        handler = cls(node, settings, backend.name, store, _Record(backend, settings, node))
        handler._local_addr = local_addr
        return handler

    _local_addr: str | None = None

    @property
    def settings(self) -> RendezvousSettings:
        """What the rendezvous is like."""
        return self._settings

    @property
    def use_agent_store(self) -> bool:
        """Whether workers use a store that a launcher serves."""
        return os.environ.get("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "0") != "1"

    @property
    def round(self) -> int:
        """The number of the round that this node is in."""
        return self._record.state.round

    def get_backend(self) -> str:
        """The backend's name."""
        return self._backend_name

    def get_run_id(self) -> str:
        """The job's id."""
        return self._settings.run_id

    def _said(self, message, state=NodeState.RUNNING, **values):
        logger.info(message)
        construct_and_record_rdzv_event(
            self._settings.run_id, message, state, f"{type(self).__name__}.{message.split()[0]}", self._node, **values
        )

    def _until(self, limit: timedelta) -> float:
        return time.monotonic() + limit.total_seconds()

    # --- rounds ---

    def next_rendezvous(self) -> RendezvousInfo:
        """Leaves the round that this node is in, and takes part in the next one.

        Raises:
            RendezvousClosedError: if nobody meets any more. RendezvousTimeoutError: if too few came in time.
            RendezvousGracefulExitError: if it was closed while this node was not needed.
        """
        self._stop_heartbeats()
        try:
            with self._lock:
                deadline = self._until(self._settings.timeout.join)
                if self._record.state.round == 0 and self._settings.max_nodes > 1:
                    _delay((0, 0.3))  # not all at once
                self._record.change(self._leave, deadline)
                try:
                    self._record.change(self._join, deadline)
                except RendezvousTimeoutError:
                    self._give_up()
                    raise
            self._start_heartbeats()
            state = self._record.state
            rank, size = state.participants[self._node], len(state.participants)
            store = PrefixStore(f"torch.rendezvous.{self._settings.run_id}.{state.round}", self._store)
            where = self._meeting_place(rank, store)
        except Exception as error:
            self._said(f"{type(error).__name__}: {error}", NodeState.FAILED)
            raise
        self._said(f"joined round {state.round} as rank {rank} of {size}", rank=rank)
        return RendezvousInfo(store, rank, size, where)

    def _leave(self, state: _State) -> bool:
        if self._node in state.participants:
            state.forget(self._node)
        return True

    def _give_up(self):
        def gone(state):
            state.forget(self._node)
            return True

        try:
            self._record.change(gone, self._until(timedelta(seconds=5)))
        except RendezvousError:
            pass  # the others will miss its signs of life

    def _join(self, state: _State) -> bool | None:
        node, settings, now = self._node, self._settings, time.time()
        if state.closed:
            if node in state.redundant:
                raise RendezvousGracefulExitError(
                    f"The rendezvous '{settings.run_id}' is closed, terminating pending rendezvous."
                )
            raise RendezvousClosedError
        if node in state.participants:
            if not state.complete and state.deadline is not None and state.deadline < now:
                state.finish()
            if state.complete:
                return True
        elif not state.complete:
            for names in (state.waiting, state.redundant):
                if node in names:
                    names.remove(node)
            state.participants[node] = 0
            state.alive[node] = now
            if len(state.participants) >= settings.max_nodes:
                state.finish()
                return True
            if len(state.participants) == settings.min_nodes:
                state.deadline = now + settings.timeout.last_call.total_seconds()
            return False
        elif len(state.participants) < settings.max_nodes:
            if node in state.redundant:
                state.redundant.remove(node)
            if node not in state.waiting:
                state.waiting.append(node)
        elif node not in state.redundant and node not in state.waiting:
            state.redundant.append(node)
        if now - state.alive.get(node, 0) >= settings.keep_alive_interval.total_seconds():
            state.alive[node] = now
        return None

    def _meeting_place(self, rank, store) -> RendezvousStoreInfo:
        """Where workers meet: at the store of this rendezvous, if others can reach it, or at one that rank 0 serves."""
        if not self.use_agent_store:
            return RendezvousStoreInfo.build(rank, store, self._local_addr)
        shared = self._store
        while isinstance(shared, PrefixStore):
            shared = shared.underlying_store
        if isinstance(shared, TCPStore):
            return RendezvousStoreInfo(shared.host, shared.port)
        # Said again in each round: who came later does not know it. (PyTorch's nodes keep it, and a newcomer waits in vain.)
        if rank == 0 and self._served is None:
            self._served = TCPStore(self._local_addr or "localhost", 0, None, True, wait_for_workers=False)
        port = self._served.port if self._served is not None else 0
        return RendezvousStoreInfo.build(rank, store, self._local_addr or "localhost", port)

    # --- questions and the end ---

    def is_closed(self) -> bool:
        """Whether nobody can meet any more."""
        with self._lock:
            return self._known().closed

    def num_nodes_waiting(self) -> int:
        """How many wait for the next round."""
        with self._lock:
            return len(self._known().waiting)

    def _known(self):
        fresh = time.monotonic() - self._record.read < _CACHED
        return self._record.state if fresh else self._record.refresh()

    def set_closed(self) -> None:
        """Closes it: who waits gets an error, and nobody can meet any more."""
        def close(state):
            state.closed = True
            return True

        with self._lock:
            self._record.change(close, self._until(self._settings.timeout.close))

    def shutdown(self) -> bool:
        """Closes it; whether that went well."""
        self._stop_heartbeats()
        try:
            self.set_closed()
        except RendezvousError as error:
            self._said(f"shutdown failed: {type(error).__name__}", NodeState.FAILED)
            return False
        return True

    # --- signs of life ---

    def _keep_alive(self):
        def sign(state):
            if self._node in state.alive:
                state.alive[self._node] = time.time()
            return True

        with self._lock:
            try:
                self._record.change(sign, self._until(self._settings.timeout.heartbeat))
            except RendezvousError as error:
                self._said(f"heartbeat failed: {type(error).__name__}", NodeState.FAILED)

    @staticmethod
    def _keep_alive_weak(handler):
        handler = handler()
        if handler is not None:
            handler._keep_alive()

    def _start_heartbeats(self):
        if self._settings.max_nodes > 1:
            self._keep_alive_timer = _PeriodicTimer(
                self._settings.keep_alive_interval, self._keep_alive_weak, weakref.ref(self)
            )
            self._keep_alive_timer.set_name("RendezvousKeepAliveTimer")
            self._keep_alive_timer.start()

    def _stop_heartbeats(self):
        if self._keep_alive_timer is not None:
            self._keep_alive_timer.cancel()
            self._keep_alive_timer = None


def create_handler(store: Store, backend: RendezvousBackend, params: RendezvousParameters) -> DynamicRendezvousHandler:
    """The handler of parameters (``join_timeout``, ``last_call_timeout``, ``close_timeout``, ``heartbeat_timeout``,
    ``keep_alive_interval``, ``keep_alive_max_attempt``; in seconds)."""
    def given(name):
        seconds = params.get_as_int(f"{name}_timeout")
        return None if seconds is None else timedelta(seconds=seconds)

    try:
        timeout = RendezvousTimeout(*(given(name) for name in ("join", "last_call", "close", "heartbeat")))
        numbers = []
        for name, default in (("keep_alive_interval", 5), ("keep_alive_max_attempt", 3)):
            value = params.get_as_int(name, default)
            if value is None:
                raise TypeError(f"You passed '{name}=None' as a rendezvous configuration option")
            numbers.append(value)
        return DynamicRendezvousHandler.from_backend(
            params.run_id, store, backend, params.min_nodes, params.max_nodes, params.local_addr, timeout, *numbers
        )
    except Exception as error:
        construct_and_record_rdzv_event(params.run_id, f"{type(error).__name__}: {error}", NodeState.FAILED)
        raise
