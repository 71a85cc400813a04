"""Process groups on the CPU.

Processes meet at a `Store`, and what a collective exchanges travels through it as NumPy arrays:
correct for any number of processes, meant for tests, small clusters and programs that are written
for several processes and run as one. Large models shard over devices with JAX's own means.
"""

from __future__ import annotations

import os
import pickle
from datetime import timedelta
from enum import Enum
from urllib.parse import parse_qs, urlparse

from ._store import DEFAULT_TIMEOUT, HashStore, PrefixStore, Store, TCPStore

_UNSET = (
    "Default process group has not been initialized, please make sure to call init_process_group."
)
NOT_A_MEMBER = -100


class ReduceOp(Enum):
    """How collectives combine tensors."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7


class Work:
    """The handle of a collective with ``async_op=True``: it is complete when it is made."""

    def __init__(self, result=None):
        self._result = result

    def wait(self, timeout=None) -> bool:
        """Waits for the collective."""
        return True

    def is_completed(self) -> bool:
        """Whether it is done."""
        return True

    def is_success(self) -> bool:
        """Whether it succeeded."""
        return True

    def result(self):
        """The tensors that the collective wrote."""
        return self._result


class ProcessGroup:
    """Processes that call collectives together, each with its rank in the group."""

    def __init__(self, name: str, ranks: list[int], own: int, store: Store, backend: str):
        self.group_name, self.ranks, self._own = name, ranks, own
        self.store, self._backend = PrefixStore(name, store), backend
        self._calls = 0
        self._sent: dict[tuple[int, int], int] = {}

    def rank(self) -> int:
        """The calling process' rank in the group."""
        return self.ranks.index(self._own)

    def size(self) -> int:
        """The number of processes."""
        return len(self.ranks)

    def name(self) -> str:
        """The backend's name."""
        return self._backend

    def exchange(self, own) -> list:
        """What every process of the group gave, by rank; all must call it."""
        if self.size() == 1:
            return [own]
        self._calls += 1
        call = self._calls
        self.store.set(f"{call}/{self.rank()}", pickle.dumps(own))
        gathered = [
            own if rank == self.rank() else pickle.loads(self.store.get(f"{call}/{rank}"))
            for rank in range(self.size())
        ]
        if self.store.add(f"{call}/read", 1) == self.size():  # the last one cleans up
            for rank in range(self.size()):
                self.store.delete_key(f"{call}/{rank}")
            self.store.delete_key(f"{call}/read")
        return gathered

    def post(self, value, to: int, tag: int) -> None:
        """Leaves a message for a rank."""
        count = self._sent[to, tag] = self._sent.get((to, tag), 0) + 1
        self.store.set(f"p2p/{self.rank()}/{to}/{tag}/{count}", pickle.dumps(value))

    def collect(self, source: int, tag: int):
        """Waits for the next message from a rank."""
        key = ~source, tag
        count = self._sent[key] = self._sent.get(key, 0) + 1
        name = f"p2p/{source}/{self.rank()}/{tag}/{count}"
        value = pickle.loads(self.store.get(name))
        self.store.delete_key(name)
        return value


class _Group:
    """``group.WORLD``: the default group, None before it is initialized."""

    NON_GROUP_MEMBER = NOT_A_MEMBER

    @property
    def WORLD(self):  # noqa: N802
        return _world

    @WORLD.setter
    def WORLD(self, value):  # noqa: N802
        global _world
        _world = value


group = _Group()
GroupMember = group
_world: ProcessGroup | None = None
_groups_made = 0


class Backend(str):
    """The name of a backend, in lower case."""

    UNDEFINED, GLOO, NCCL, MPI, UCC = "undefined", "gloo", "nccl", "mpi", "ucc"

    def __new__(cls, name: str):
        if not isinstance(name, str):
            raise ValueError("Backend constructor parameter must be string-ish")
        return str.__new__(cls, name.lower())


# --- set-up ------------------------------------------------------------------------------


def is_available() -> bool:
    """Whether the package can be used."""
    return True


def is_initialized() -> bool:
    """Whether `init_process_group` was called."""
    return _world is not None


def is_gloo_available() -> bool:
    """Whether collectives on the CPU work."""
    return True


def is_nccl_available() -> bool:
    """Whether collectives by NCCL work: never, JAX talks to GPUs by itself."""
    return False


is_mpi_available = is_ucc_available = is_xccl_available = is_nccl_available


def is_backend_available(backend: str) -> bool:
    """Whether a backend can be used."""
    return backend.lower() == "gloo"


def is_torchelastic_launched() -> bool:
    """Whether the process was started by ``torchrun``."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def init_process_group(
    backend: str | None = None, init_method: str | None = None, timeout: timedelta | None = None,
    world_size: int = -1, rank: int = -1, store: Store | None = None, group_name: str = "",
    pg_options=None, device_id=None,
) -> None:  # fmt: skip
    """Makes the default group, out of arguments or of the environment (``env://``).

    Args:
        backend: any of PyTorch's names; data always travels by the store.
        init_method: ``env://`` (``MASTER_ADDR``, ``MASTER_PORT``, ``RANK``, ``WORLD_SIZE``) or
            ``tcp://host:port``.

    Raises:
        ValueError: if the group exists already, or a setting is missing.

    >>> import ftorch as torch
    >>> dist = torch.distributed
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> x = torch.ones(2)
    >>> dist.all_reduce(x)
    >>> x, dist.get_rank(), dist.get_world_size()
    (tensor([1., 1.]), 0, 1)
    >>> dist.destroy_process_group()
    """
    global _world
    if _world is not None:
        raise ValueError("trying to initialize the default process group twice!")
    if store is not None and init_method is not None:
        raise AssertionError("Cannot specify both init_method and store.")
    limit = timeout or DEFAULT_TIMEOUT
    if store is None:
        store, rank, world_size = _rendezvous(init_method or "env://", rank, world_size, limit)
    elif world_size <= 0:
        raise AssertionError("world_size must be positive if using store")
    elif rank < 0:
        raise AssertionError("rank must be non-negative if using store")
    store.set_timeout(limit)
    name = Backend(backend or "gloo")
    _world = ProcessGroup(group_name or "default", list(range(world_size)), rank, store, name)
    _world.exchange(None)


def _rendezvous(method, rank, world_size, timeout):
    url = urlparse(method)
    if url.scheme == "env":
        rank = rank if rank >= 0 else int(_environment("RANK"))
        world_size = world_size if world_size > 0 else int(_environment("WORLD_SIZE"))
        if world_size == 1 and "MASTER_PORT" not in os.environ:
            return HashStore(), rank, world_size
        host, port = _environment("MASTER_ADDR"), int(_environment("MASTER_PORT"))
    elif url.scheme == "tcp":
        query = parse_qs(url.query)
        rank = rank if rank >= 0 else int(query["rank"][0])
        world_size = world_size if world_size > 0 else int(query["world_size"][0])
        host, port = url.hostname or "127.0.0.1", url.port or 0
    else:
        raise RuntimeError(
            f"No rendezvous handler for {url.scheme}://; use env:// or tcp://, or give a store"
        )
    return TCPStore(host, port, world_size, rank == 0, timeout), rank, world_size


def _environment(name):
    if name not in os.environ:
        raise ValueError(
            "Error initializing torch.distributed using env:// rendezvous: environment variable "
            f"{name} expected, but not set"
        )
    return os.environ[name]


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Ends a group, or all of them."""
    global _world
    if _world is None:
        raise AssertionError("Process group cannot be None")
    if group is None or group is _world:
        _world = None


def new_group(ranks=None, timeout=None, backend=None, pg_options=None, **_):
    """A group of some of the processes; all must call it. Others get `group.NON_GROUP_MEMBER`."""
    global _groups_made
    world = group_of(None)
    _groups_made += 1
    ranks = sorted(world.ranks if ranks is None else ranks)
    if len(set(ranks)) != len(ranks) or not set(ranks) <= set(world.ranks):
        raise ValueError(f"the ranks {ranks} are not different ranks of the default group")
    if world._own not in ranks:
        return NOT_A_MEMBER
    store = world.store.underlying_store
    return ProcessGroup(
        f"group{_groups_made}", ranks, world._own, store, Backend(backend or world.name())
    )


def group_of(group) -> ProcessGroup:
    """The group meant by an argument.

    Raises:
        ValueError: if there is no default group.
    """
    if group is not None:
        return group
    if _world is None:
        raise ValueError(_UNSET)
    return _world


def get_rank(group=None) -> int:
    """The calling process' rank in a group; -1 if it is not in it."""
    if group == NOT_A_MEMBER:
        return -1
    return group_of(group).rank()


def get_world_size(group=None) -> int:
    """The number of processes of a group; -1 if the calling one is not in it."""
    if group == NOT_A_MEMBER:
        return -1
    return group_of(group).size()


def get_backend(group=None) -> str:
    """The name of a group's backend."""
    return group_of(group).name()


def get_process_group_ranks(group) -> list[int]:
    """The ranks of a group's processes in the default group."""
    return list(group_of(group).ranks)


def get_global_rank(group, group_rank: int) -> int:
    """The rank in the default group of a rank in a group."""
    return group_of(group).ranks[group_rank]


def get_group_rank(group, global_rank: int) -> int:
    """The rank in a group of a rank in the default group."""
    ranks = group_of(group).ranks
    if global_rank not in ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return ranks.index(global_rank)


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """``LOCAL_RANK`` of the environment."""
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is not None:
        return fallback_rank
    raise RuntimeError(
        "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow "
        "`get_node_local_rank` to work, assuming you are not running in a multi-device context and "
        "want the code to run locally instead."
    )
