"""Groups, collectives and messages under PyTorch's name of the module."""
# ruff: noqa: F401, F811

import sys
from datetime import timedelta

from ..futures import Future
from ._backends import DebugLevel, get_debug_level, set_debug_level
from ._collectives import (
    _all_gather_base,
    _coalescing_manager,
    _CoalescingManager,
    _reduce_scatter_base,
    all_gather,
    all_gather_coalesced,
    all_gather_into_tensor,
    all_gather_single,
    all_reduce,
    all_reduce_coalesced,
    all_to_all,
    all_to_all_single,
    barrier,
    broadcast,
    gather,
    monitored_barrier,
    reduce,
    reduce_scatter,
    reduce_scatter_single,
    reduce_scatter_tensor,
    scatter,
)
from ._errors import DistBackendError, DistError, DistNetworkError, DistStoreError, QueueEmptyError
from ._groups import (
    Backend,
    BackendConfig,
    GroupMember,
    destroy_process_group,
    find_tagged,
    get_backend,
    get_backend_config,
    get_default_backend_for_device,
    get_global_rank,
    get_group_rank,
    get_node_local_rank,
    get_pg_count,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    group,
    group_of,
    init_process_group,
    is_available,
    is_backend_available,
    is_gloo_available,
    is_initialized,
    is_mpi_available,
    is_nccl_available,
    is_torchelastic_launched,
    is_ucc_available,
    is_xccl_available,
    make,
    new_group,
    new_subgroups,
    new_subgroups_by_enumeration,
    new_tagged_group,
    set_debug_level_from_env,
    shrink_group,
    split_group,
)
from ._groups import abort_process_group as _abort_process_group
from ._groups import resolve_process_group as _resolve_process_group
from ._objects import (
    _object_to_tensor,
    _tensor_to_object,
    all_gather_object,
    broadcast_object_list,
    gather_object,
    recv_object_list,
    scatter_object_list,
    send_object_list,
)
from ._options import (
    AllgatherOptions,
    AllreduceCoalescedOptions,
    AllreduceOptions,
    AllToAllOptions,
    BarrierOptions,
    BroadcastOptions,
    GatherOptions,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
)
from ._p2p import P2POp, batch_isend_irecv, irecv, isend, recv, send
from ._process_group import ProcessGroup
from ._reductions import ReduceOp
from ._reductions import make_nccl_premul_sum as _make_nccl_premul_sum
from ._store import FileStore, HashStore, PrefixStore, Store, TCPStore
from ._work import Work, record_comm
from ._world import kept_by as _kept_by
from .constants import default_pg_nccl_timeout, default_pg_timeout
from .rendezvous import register_rendezvous_handler, rendezvous


class ProcessGroupGloo(ProcessGroup):
    """A group that a program makes itself, of a store: PyTorch's ``ProcessGroupGloo``.

    Args:
        timeout: of its collectives, or its options.

    Raises:
        RuntimeError: for options without devices.
    """

    class Device:
        """A network interface: connections are the store's here, so that it says nothing."""

    class _Options:
        """Options: `_timeout`, `_devices` and `_threads`, of which the first one matters."""

        def __init__(self):
            self.backend, self.group_name, self.global_ranks_in_group = "gloo", "", []
            self._timeout, self._devices, self._threads = default_pg_timeout, [], 2

    def __init__(self, store, rank, size, timeout=default_pg_timeout):
        if isinstance(timeout, ProcessGroupGloo._Options):
            if not timeout._devices:
                raise RuntimeError("No device(s) specified")
            timeout = timeout._timeout
        super().__init__(store, rank, size, timeout if isinstance(timeout, timedelta) else timedelta(seconds=timeout))

    @classmethod
    def create_device(cls, hostname: str = "", interface: str = "", lazy_init=None):
        """A `Device` of an interface or a host.

        Raises:
            ValueError: without either.
        """
        if not hostname and not interface:
            raise ValueError("Specify either `hostname` or `interface` argument.")
        return cls.Device()

    @classmethod
    def create_default_device(cls, lazy_init=None):
        """The `Device` of this host."""
        return cls.Device()

reduce_op = ReduceOp
_MPI_AVAILABLE = _UCC_AVAILABLE = _XCCL_AVAILABLE = _TORCHCOMM_AVAILABLE = False
_GLOO_AVAILABLE = True

GroupName = str
_world = _kept_by(sys.modules[__name__])



def supports_complex(reduceOp: ReduceOp) -> bool:
    """Whether a reduction takes complex tensors: those that neither order nor multiply.

    >>> import ftorch as torch
    >>> torch.distributed.supports_complex(torch.distributed.ReduceOp.SUM)
    True
    """
    return reduceOp not in (
        ReduceOp.MAX, ReduceOp.MIN, ReduceOp.PRODUCT, ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR,
    )


__all__ = [name for name in dir() if not name.startswith("_") and name != "make"]


def _get_default_group() -> ProcessGroup:
    """The default group. Raises ValueError if there is none."""
    return group_of(None)


def _group_or_default_group(group=None) -> ProcessGroup:
    """The group, or the default one without. Raises ValueError if there is none."""
    return group_of(group)


def _get_group_size(group) -> int:
    """How many processes are in a group, the default one without."""
    return group_of(group).size()


def _get_process_group_store(group) -> Store:
    """The store that a group has met at."""
    return _world.pg_map[group][1]


def _get_default_store() -> Store:
    """The store of the default group."""
    return _world.pg_map[group_of(None)][1]


def _rank_not_in_group(group) -> bool:
    return group == GroupMember.NON_GROUP_MEMBER if group is not None else False


def _get_pg_default_device(group=None):
    import ftorch as torch

    group_of(group)
    return torch.device("cpu")


_get_object_coll_device = _get_pg_default_device


def _get_global_rank(group, rank: int) -> int:
    """The older name of `get_global_rank`."""
    return get_global_rank(group, rank)


def _set_pg_timeout(timeout, group=None) -> None:
    """Sets how long a group's collectives (the default group's without one) may take, a `datetime.timedelta`.

    Raises:
        ValueError: if the calling process is none of the group.
    """
    if _rank_not_in_group(group):
        raise ValueError("Invalid process group specified")
    group_of(group).set_timeout(timeout)


def _get_process_group_name(group) -> str:
    return _world.pg_names.get(group, "None")


def _get_group_tag(pg) -> str:
    """The tag that a group was made with, or one of its own."""
    return _world.pg_to_tag[pg].removeprefix("user:")


def _new_group_with_tag(ranks=None, timeout=None, backend=None, backend_options=None, pg_tag=None,
                        use_local_synchronization=False, group_desc=None, device_id=None, sort_ranks=True):
    """`new_group` with a tag: of ranks and a tag there is one group."""
    return new_tagged_group(
        pg_tag, ranks, timeout, backend, backend_options, use_local_synchronization, group_desc, sort_ranks
    )


def _find_or_create_pg_by_ranks_and_tag(tag, ranks, stride):
    """The group, among those of each ``stride`` ranks, that the calling process is in; made where it is not there.

    Raises:
        ValueError: if the ranks are no multiple of ``stride``, or a group must be made without a tag.
    """
    if len(ranks) % stride:
        raise ValueError(f"Ranks length ({len(ranks)}) must be divisible by stride ({stride})")
    rows = [ranks[i : i + stride] for i in range(0, len(ranks), stride)]
    own = next((row for row in rows if get_rank() in row), None)
    if own is None:
        raise AssertionError("rankset doesn't include the current node")
    found = _find_pg_by_ranks_and_tag(tag, own)
    if found is None and not tag:
        raise ValueError("Cannot automatically create PG with empty tag")
    return _new_group_with_tag(sorted(own), pg_tag=tag) if found is None else found


def _find_pg_by_ranks_and_tag(tag, ranks):
    """The first group of these ranks that has the tag, or None."""
    return find_tagged(tag, ranks)


def _resolve_group_name_by_ranks_and_tag(ranks, tag) -> str:
    found = find_tagged(tag, ranks)
    if found is None:
        raise ValueError("")
    return found.group_name


def _get_group_size_by_name(name: str) -> int:
    return _resolve_process_group(name).size()


class _CollOp:
    """What a collective that is put together with others was called with."""

    def __init__(self, op, tensor, dst_tensor=None, redop=None, root=None):
        self.op, self.tensor, self.dst_tensor, self.redop, self.root = op, tensor, dst_tensor, redop, root


STORE_BASED_BARRIER_PREFIX = "store_based_barrier_key"


def _store_based_barrier(rank, store, group_name, rendezvous_count, timeout, logging_interval=None) -> None:
    """Returns when ``rendezvous_count`` processes have called it.

    Raises:
        DistStoreError: if they have not in ``timeout``.
    """
    key = f"{STORE_BASED_BARRIER_PREFIX}:{group_name}"
    last = f"{key}:last_worker"
    if store.add(key, 1) == rendezvous_count:
        store.set(last, "1")
    try:
        store.wait([last], timeout)
    except RuntimeError as error:
        raise DistStoreError(
            f"Timed out initializing process group in store based barrier on rank {rank}, for key: {key} (world_size="
            f"{rendezvous_count}, num_workers_joined={store.add(key, 0)}, timeout={timeout} error={error})"
        ) from error


def _new_process_group_helper(group_size, group_rank, global_ranks_in_group, backend, store, group_name,
                              backend_options=None, timeout=None, pg_tag=None, device_id=None,
                              group_desc=None):
    """(a group of processes that meet at a store, the store)

    Raises:
        ValueError: for a name that another group has.
    """
    if group_name in _world.pg_names.values():
        raise ValueError(
            "The specified group name has already been created, please use a different group name"
        )
    ranks = list(global_ranks_in_group) or list(range(group_size))
    made = make(
        Backend(backend), str(group_name), ranks, ranks[group_rank], store, timeout or default_pg_timeout,
        group_desc or "undefined", backend_options,
    )
    return made, store


def __getattr__(name):
    if name == "_pg_map":
        return _world.pg_map
    if name == "_pg_names":
        return _world.pg_names
    if name == "_pg_group_ranks":
        return _world.pg_group_ranks
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
