"""Calls of functions in other processes (``torch.distributed.rpc.api``)."""

from __future__ import annotations

import functools
import itertools
import pickle
import threading

from ...eager.native.contexts import contextmanager
from ...futures import Future
from . import _rref
from ._agent import Agent, Deferred, WorkerInfo
from ._rref import RRef
from .constants import DEFAULT_SHUTDOWN_TIMEOUT, UNSET_RPC_TIMEOUT

__all__ = ["RRef", "get_worker_info", "init_rpc", "remote", "rpc_async", "rpc_sync", "shutdown"]

_current: dict = {}
_init_counter = itertools.count()
_gathered = threading.Lock()
_UNINITIALIZED = "RPC has not been initialized. Call torch.distributed.rpc.init_rpc first."


def _tables() -> _rref.Table:
    if "table" not in _current:
        raise RuntimeError(_UNINITIALIZED)
    return _current["table"]


def _is_current_rpc_agent_set() -> bool:
    return "agent" in _current


def _get_current_rpc_agent() -> Agent:
    if "agent" not in _current:
        raise RuntimeError(_UNINITIALIZED)
    return _current["agent"]


def _require_initialized(func):
    @functools.wraps(func)
    def checked(*args, **kwargs):
        if not _is_current_rpc_agent_set():
            raise RuntimeError(_UNINITIALIZED)
        return func(*args, **kwargs)

    return checked


def init_rpc(name: str, backend=None, rank: int = -1, world_size: int | None = None, rpc_backend_options=None) -> None:
    """Starts the agent of this process; all processes call it (``torch.distributed.rpc.init_rpc``).

    Args:
        name: of this process; no other has it.
        rank, world_size: its number and how many there are (by default what the environment says).
        rpc_backend_options: `TensorPipeRpcBackendOptions`.

    Raises:
        RuntimeError: if it is started already, or another process has the name.

    >>> import ftorch as torch, tempfile
    >>> from ftorch.distributed import rpc
    >>> where = "file://" + tempfile.mktemp()
    >>> options = rpc.TensorPipeRpcBackendOptions(init_method=where)
    >>> rpc.init_rpc("a", rank=0, world_size=1, rpc_backend_options=options)
    >>> rpc.rpc_sync("a", torch.add, (torch.ones(2), 1))
    tensor([2., 2.])
    >>> rpc.shutdown()
    """
    from .._groups import PrefixStore
    from ..rendezvous import rendezvous
    from . import backend_registry
    from .options import RpcBackendOptions, TensorPipeRpcBackendOptions

    if _is_current_rpc_agent_set():
        raise RuntimeError("RPC is already initialized")
    if backend is not None and not isinstance(backend, backend_registry.BackendType):
        raise TypeError("Argument backend must be a member of BackendType")
    if rpc_backend_options is not None and not isinstance(rpc_backend_options, RpcBackendOptions):
        raise TypeError("Argument rpc_backend_options must be an instance of RpcBackendOptions")
    options = rpc_backend_options or TensorPipeRpcBackendOptions()
    backend = backend or backend_registry.BackendType.TENSORPIPE
    store, rank, size = next(iter(rendezvous(options.init_method, rank, world_size or -1)))
    store = PrefixStore(f"rpc_prefix_{next(_init_counter)}", store)
    backend_registry.init_backend(
        backend, store=store, name=name, rank=rank, world_size=size, rpc_backend_options=options
    )


def _start(store, name, rank, size, options) -> Agent:
    from .. import autograd
    from .._groups import store_host

    agent = Agent(name, rank, size, store, options.rpc_timeout, store_host(store))
    agent.handlers["call"] = _called
    _current["agent"], _current["table"] = agent, _rref.Table(agent)
    autograd._attach(agent)
    agent.barrier("init", 300.0)
    return agent


def _called(source, value):
    """A call that came."""
    func, args, kwargs = value
    if getattr(func, "_wrapped_async_rpc_function", None) is not None:
        result = func(*args, **kwargs)
        if not isinstance(result, Future):
            raise RuntimeError(
                "Functions decorated with @rpc.async_function must return a torch.futures.Future object."
            )
        return Deferred(result)
    return func(*args, **kwargs)


@_require_initialized
def shutdown(graceful: bool = True, timeout: float = DEFAULT_SHUTDOWN_TIMEOUT) -> None:
    """Ends the agent.

    Args:
        graceful: whether all processes wait for each other and for everything under way.
        timeout: seconds to wait; 0: five minutes.
    """
    from .. import autograd

    agent = _get_current_rpc_agent()
    limit = timeout or 300.0
    try:
        if graceful:
            agent.finish(limit)
            agent.barrier("idle", limit)
            agent.finish(limit)
            agent.barrier("end", limit)
    finally:
        _tables().close()
        agent.close()
        autograd._detach()
        _current.clear()


@_require_initialized
def get_worker_info(worker_name: str | None = None) -> WorkerInfo:
    """Name and number of a process (of this one by default)."""
    return _get_current_rpc_agent().worker(worker_name)


def _invoke(to, func, args, kwargs, timeout) -> Future:
    if not callable(func):
        raise TypeError("function should be callable.")
    agent = _get_current_rpc_agent()
    return agent.call(agent.worker(to), "call", (func, tuple(args or ()), dict(kwargs or {})), timeout)


@_require_initialized
def rpc_async(to, func, args=None, kwargs=None, timeout: float = UNSET_RPC_TIMEOUT) -> Future:
    """Calls a function in another process; a future of its result.

    Args:
        to: name, number or `WorkerInfo`. ``timeout``: seconds.
    """
    future = _invoke(to, func, args, kwargs, timeout)
    waiting = getattr(_waiting, "futures", None)
    if waiting is not None:
        waiting.append(future)
    return future


@_require_initialized
def rpc_sync(to, func, args=None, kwargs=None, timeout: float = UNSET_RPC_TIMEOUT):
    """Calls a function in another process and gives its result.

    Raises:
        what the function raises, with the text of its traceback; RuntimeError after the timeout.
    """
    return _invoke(to, func, args, kwargs, timeout).wait()


@_require_initialized
def remote(to, func, args=None, kwargs=None, timeout: float = UNSET_RPC_TIMEOUT) -> RRef:
    """Calls a function in another process, which keeps the result; a reference to it comes back at once."""
    if not callable(func):
        raise TypeError("function should be callable.")
    table = _tables()
    agent, key = table.agent, table.new_id()
    owner = agent.worker(to)
    call = func, tuple(args or ()), dict(kwargs or {})
    if owner == agent.info:
        entry = table.entry(key)
        fork = table.new_id()
        entry.forks.add(fork)
        made = RRef._made(owner, key, fork)
        threading.Thread(target=_rref.run, args=(call, entry.future), daemon=True).start()
        return made
    fork = table.new_id()
    created = agent.call(owner, "remote", (key, fork, call), timeout)
    return RRef._made(owner, key, fork, created)


_waiting = threading.local()


@contextmanager
def _wait_all():
    """Waits, at its end, for all `rpc_async` that were called within."""
    _waiting.futures = []
    try:
        yield
    finally:
        futures, _waiting.futures = _waiting.futures, None
        for future in futures:
            future.wait()


_sequence: dict = {}


@_require_initialized
def _all_gather(obj, worker_names=None, timeout: float = UNSET_RPC_TIMEOUT) -> dict:
    """{name: object} of all processes, or of some of them, which all call it."""
    from datetime import timedelta

    agent = _get_current_rpc_agent()
    names = sorted(worker_names or agent.by_name)
    key = "+".join(names)
    with _gathered:
        number = _sequence[key] = _sequence.get(key, 0) + 1
    place = f"gather/{number}/{key}"
    agent.store.set(f"{place}/{agent.info.name}", pickle.dumps(obj))
    limit = timedelta(seconds=timeout if timeout > 0 else agent.timeout or 300.0)
    keys = [f"{place}/{name}" for name in names]
    agent.store.wait(keys, limit)
    return {name: pickle.loads(agent.store.get(k)) for name, k in zip(names, keys)}


def _barrier(worker_names) -> None:
    """Waits for some processes."""
    _all_gather(None, set(worker_names))


@_require_initialized
def _wait_all_workers(timeout: float = DEFAULT_SHUTDOWN_TIMEOUT) -> None:
    """Waits until all processes have come here."""
    _all_gather(None, None, timeout or -1.0)


def _get_rpc_timeout() -> float:
    return _get_current_rpc_agent().timeout


def _set_rpc_timeout(timeout: float) -> None:
    _get_current_rpc_agent().timeout = timeout


