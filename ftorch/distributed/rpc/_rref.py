"""References to objects of other processes.

The owner keeps an object as long as a fork of its reference lives. A reference that is sent makes a fork, which the
owner knows before the message leaves; a fork that is no more is taken back by a thread of its own, since references
may die anywhere.
"""

from __future__ import annotations

import queue
import threading
import weakref

from ...futures import Future


class _Entry:
    """An object that other processes refer to: it may still be computed."""

    def __init__(self):
        self.future: Future = Future()
        self.forks: set = set()


class Table:
    """The references of this process.

    Args:
        agent: whose calls carry them.
    """

    def __init__(self, agent):
        self.agent, self.lock = agent, threading.Lock()
        self.entries: dict[tuple, _Entry] = {}
        self.count = 0
        self.dead: queue.SimpleQueue = queue.SimpleQueue()
        agent.handlers |= {
            "remote": self._create, "fetch": self._fetch, "fork": self._fork, "delete": self._delete,
        }
        threading.Thread(target=self._take_back, name="rpc references", daemon=True).start()

    def new_id(self) -> tuple:
        """(number of this process, number of the reference)"""
        with self.lock:
            self.count += 1
            return self.agent.info.id, self.count - 1

    def entry(self, key) -> _Entry:
        """The entry of a reference that this process owns."""
        with self.lock:
            return self.entries.setdefault(tuple(key), _Entry())

    # --- what other processes ask ---

    def _create(self, source, value):
        key, fork, call = value
        entry = self.entry(key)
        entry.forks.add(tuple(fork))
        run(call, entry.future)

    def _fetch(self, source, key):
        from ._agent import Deferred

        return Deferred(self.entry(key).future)

    def _fork(self, source, value):
        key, fork = value
        self.entry(key).forks.add(tuple(fork))

    def _delete(self, source, value):
        key, fork = value
        with self.lock:
            entry = self.entries.get(tuple(key))
            if entry is not None:
                entry.forks.discard(tuple(fork))
                if not entry.forks and entry.future.done():
                    del self.entries[tuple(key)]

    def _take_back(self):
        while True:
            found = self.dead.get()
            if found is None or self.agent.closed:
                return
            owner, key, fork = found
            try:
                if owner == self.agent.info:
                    self._delete(owner, (key, fork))
                else:
                    self.agent.call(owner, "delete", (key, fork), note=[])
            except Exception:
                pass  # the owner has gone, and the object with it

    def forked(self, owner, key) -> tuple:
        """A new fork that the owner knows."""
        fork = self.new_id()
        if owner == self.agent.info:
            self.entry(key).forks.add(fork)
        else:
            self.agent.call(owner, "fork", (key, fork), note=[]).wait()
        return fork

    def close(self):
        """Ends the thread."""
        self.dead.put(None)


def run(call, future) -> None:
    """Gives a future a call's result (of a function that gives a future itself: its result)."""
    try:
        func, args, kwargs = call
        result = func(*args, **kwargs)
        if getattr(func, "_wrapped_async_rpc_function", None) is not None:
            result.add_done_callback(lambda f: _pass_on(f, future))
            return
    except BaseException as error:
        future.set_exception(error)
        return
    future.set_result(result)


def _pass_on(source, target):
    try:
        value = source.value()
    except BaseException as error:
        target.set_exception(error)
        return
    target.set_result(value)


class RRef:
    """A reference to an object that one process owns (``torch.distributed.rpc.RRef``).

    Args:
        value: the object; the calling process is its owner. `remote` makes references to objects elsewhere.
    """

    def __init__(self, value, type_hint=None):
        from .api import _tables

        table = _tables()
        self._owner, self._key, self._fork = table.agent.info, table.new_id(), None
        self._entry = _Entry()
        self._entry.future.set_result(value)
        self._type = type(value)
        self._created: Future | None = None

    @classmethod
    def _made(cls, owner, key, fork, created=None):
        from .api import _tables

        made = cls.__new__(cls)
        made._owner, made._key, made._fork, made._created = owner, tuple(key), fork, created
        table = _tables()
        made._entry = table.entry(key) if owner == table.agent.info else None
        made._type = None
        if fork is not None:
            weakref.finalize(made, table.dead.put, (owner, made._key, tuple(fork))).atexit = False
        return made

    # --- what it is ---

    def owner(self):
        """The process that has the object."""
        return self._owner

    def owner_name(self) -> str:
        """Its name."""
        return self._owner.name

    def is_owner(self) -> bool:
        """Whether the calling process has the object."""
        return self._entry is not None

    def confirmed_by_owner(self) -> bool:
        """Whether the owner knows of the reference."""
        return self._created is None or self._created.done()

    def _get_future(self):
        return self._created

    def __repr__(self):
        text = f"GloballyUniqueId(created_on={self._key[0]}, local_id={self._key[1]})"
        if self.is_owner():
            return f"OwnerRRef({text})"
        fork = self._fork or self._key
        return f"UserRRef(RRefId = {text}, ForkId = GloballyUniqueId(created_on={fork[0]}, local_id={fork[1]}))"

    # --- the object ---

    def to_here(self, timeout: float = -1.0):
        """The object, or a copy of it.

        Raises:
            whatever its making raised.
        """
        from .api import _tables

        if self._entry is not None:
            return self._entry.future.wait()
        if self._created is not None:
            self._created.wait()
        return _tables().agent.call(self._owner, "fetch", self._key, timeout).wait()

    def local_value(self):
        """The object, in its owner.

        Raises:
            RuntimeError: elsewhere.
        """
        if self._entry is None:
            shown = repr(self).replace("RRefId = ", "rref_id=").replace("ForkId = ", "fork_id=")
            raise RuntimeError(
                f"For {shown}, can't call localValue() on user {_here()}. Call it on owner {self._owner}"
            )
        return self._entry.future.wait()

    def _get_type(self, timeout: float = -1.0, blocking: bool = True):
        from .api import rpc_async

        if self._type is None:
            found = rpc_async(self._owner, _type_of, (self,), timeout=timeout)
            if not blocking:
                return found
            self._type = found.wait()
        return self._type

    def rpc_sync(self, timeout: float = -1.0):
        """A proxy: its methods are calls of the object's, waited for."""
        from .rref_proxy import RRefProxy

        return RRefProxy(self, "sync", timeout)

    def rpc_async(self, timeout: float = -1.0):
        """A proxy: its methods are calls of the object's; futures."""
        from .rref_proxy import RRefProxy

        return RRefProxy(self, "async", timeout)

    def remote(self, timeout: float = -1.0):
        """A proxy: its methods are calls of the object's; references to their results."""
        from .rref_proxy import RRefProxy

        return RRefProxy(self, "remote", timeout)

    def backward(self, dist_autograd_ctx_id: int = -1, retain_graph: bool = False) -> None:
        """Backward of the object, a tensor with one element, in its owner."""
        from ..autograd import backward
        from .api import rpc_sync

        if dist_autograd_ctx_id == -1 and self._entry is not None:
            self.local_value().backward(retain_graph=retain_graph)
        elif self._entry is not None:
            backward(dist_autograd_ctx_id, [self.local_value()], retain_graph)
        else:
            rpc_sync(self._owner, _backward_of, (self, dist_autograd_ctx_id, retain_graph))

    def __reduce__(self):
        from .api import _tables

        table = _tables()
        if self._created is not None:
            self._created.wait()
        if self._entry is not None and self._key not in table.entries:
            with table.lock:
                table.entries[self._key] = self._entry
        return _rebuilt, (self._owner.name, self._owner.id, self._key, table.forked(self._owner, self._key))


def _rebuilt(name, number, key, fork):
    from ._agent import WorkerInfo

    return RRef._made(WorkerInfo(name, number), key, tuple(fork))


def _type_of(rref):
    return type(rref.local_value())


def _backward_of(rref, context_id, retain_graph):
    rref.backward(context_id, retain_graph)


def _here():
    from .api import _tables

    return _tables().agent.info

