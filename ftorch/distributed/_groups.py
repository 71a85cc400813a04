"""The default group, groups of some of its processes, and ranks."""

from __future__ import annotations

import os
import warnings
from datetime import timedelta

import ftorch as torch

from ._backends import (
    Backend,
    BackendConfig,
    set_debug_level_from_env,
)
from ._process_group import ProcessGroup
from ._programs.steps import find_group, leave
from ._store import HashStore, PrefixStore, Store, TCPStore
from ._transport import own_address
from ._world import local_count, register, registered, world
from .constants import default_pg_timeout
from .rendezvous import rendezvous

UNSET = "Default process group has not been initialized, please make sure to call init_process_group."
_UNKNOWN = (
    "Process group {} is not initialized in the world group map. Please initialize the group first."
)
NOT_A_MEMBER = -100


class _WorldMeta(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:
        """The default group."""
        return world().default_pg

    @WORLD.setter
    def WORLD(cls, group):
        world().default_pg = group


class group(metaclass=_WorldMeta):  # noqa: N801
    """``group.WORLD`` is the default group."""


class GroupMember(metaclass=_WorldMeta):
    """``GroupMember.WORLD`` is the default group."""

    NON_GROUP_MEMBER = NOT_A_MEMBER


def is_available() -> bool:
    """True."""
    return True


def is_initialized() -> bool:
    """Whether there is a default group."""
    return world().default_pg is not None


def is_gloo_available() -> bool:
    """True: the backend on the CPU has that name."""
    return True


def is_nccl_available() -> bool:
    """Whether there are accelerators whose tensors can be exchanged."""
    return torch.cuda.is_available()


def is_mpi_available() -> bool:
    """False."""
    return False


def is_ucc_available() -> bool:
    """False."""
    return False


def is_xccl_available() -> bool:
    """False."""
    return False


def is_backend_available(backend: str) -> bool:
    """Whether a backend can be used."""
    name = backend.lower()
    known = {"gloo": True, "nccl": is_nccl_available(), "mpi": False, "ucc": False, "xccl": False}
    return known.get(name, name.upper() in Backend._plugins)


def is_torchelastic_launched() -> bool:
    """Whether `torchrun` started the process."""
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def init_process_group(backend: str | None = None, init_method: str | None = None,
                       timeout: timedelta | None = None, world_size: int = -1, rank: int = -1,
                       store: Store | None = None, group_name: str = "", pg_options=None,
                       device_id=None, _ranks=None) -> None:
    """Makes the default group; all processes must call it (``torch.distributed.init_process_group``).

    Args:
        backend: ``"gloo"`` (tensors on the CPU), ``"nccl"`` or ``"cpu:gloo,cuda:nccl"``.
        init_method: ``env://`` (the default: ``MASTER_ADDR``, ``MASTER_PORT``, ``RANK``, ``WORLD_SIZE``),
            ``tcp://host:port`` or ``file:///path``, the last two with ``rank`` and ``world_size``.
        store, rank, world_size: instead of ``init_method``.
        timeout: how long a collective waits for others.

    Raises:
        ValueError: if there is a default group, or something of the environment is missing.

    >>> import ftorch as torch
    >>> dist = torch.distributed
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> x = torch.ones(2)
    >>> dist.all_reduce(x)
    >>> x, dist.get_rank(), dist.get_world_size()
    (tensor([1., 1.]), 0, 1)
    >>> dist.destroy_process_group()
    """
    state = world()
    if state.default_pg is not None:
        raise ValueError("trying to initialize the default process group twice!")
    set_debug_level_from_env()
    if store is not None and init_method is not None:
        raise AssertionError("Cannot specify both init_method and store.")
    if store is not None:
        if not world_size > 0:
            raise AssertionError("world_size must be positive if using store")
        if not rank >= 0:
            raise AssertionError("rank must be non-negative if using store")
    elif init_method is None:
        init_method = "env://"
    if timeout is not None and not isinstance(timeout, timedelta):
        raise TypeError(f"Expected timeout argument to be of type datetime.timedelta, got {timeout}")
    if device_id is not None and (
        not torch.accelerator.is_available() or device_id.index is None
        or device_id.type != torch.accelerator.current_accelerator().type
    ):
        raise ValueError("init_process_group device_id parameter must be an accelerator with an index")
    name = Backend(backend) if backend else Backend("undefined")
    _check_available(name)
    limit = timeout or default_pg_timeout
    if store is None and name == "fake" and init_method == "env://" and rank >= 0 and world_size > 0:
        store = HashStore()  # nobody is met
    if store is None:
        store, rank, world_size = next(
            iter(rendezvous(init_method, rank, world_size, timeout=limit))
        )
        store.set_timeout(limit)
    state.default_pg = made = make(
        name, "0", list(range(world_size)), rank, PrefixStore("default_pg", store), limit, "default_pg",
        pg_options,
    )
    if device_id is not None:
        made.bound_device_id = torch.device(device_id)
    if hasattr(made, "_line"):  # one of a program's own meets as it likes
        made.barrier().wait()
    from . import _functional_ops  # noqa: F401  what programs call is there before one is captured


def store_host(store) -> str:
    """Where the server of a store is."""
    while isinstance(store, PrefixStore):
        store = store.underlying_store
    return store.host if isinstance(store, TCPStore) else "127.0.0.1"


def _check_available(name):
    for backend in BackendConfig(name).device_backend_map.values():
        if backend.upper() in Backend._plugins or backend in ("gloo", "undefined"):
            continue
        if backend == "nccl":
            if ":" not in name and name != "undefined" and not is_nccl_available():
                raise ValueError(
                    "ProcessGroupNCCL is only supported with GPUs, no GPUs found! Use the backend gloo"
                )
            continue
        if backend in ("mpi", "ucc", "xccl"):
            raise RuntimeError(
                f"Distributed package doesn't have {backend.upper()} built in."
                + (" MPI is only included if you build PyTorch from source on a host that has MPI installed."
                   if backend == "mpi" else "")
            )
        if backend != "fake":
            raise AssertionError(f"Unknown backend type {backend}")


def find_tagged(tag: str, ranks):
    """The first group of these ranks, in any order, that was made with a tag; "" is one of all. None if there is none."""
    tag = f"user:{tag}" if tag and not tag.startswith(("ptd:", "user:")) else tag
    members = world().pg_group_ranks
    if any(isinstance(r, list) for r in ranks):
        return None
    found = (g for g in world().tags_to_pg.get(tag, ()) if len(members[g]) == len(ranks))
    return next((g for g in found if all(r in members[g] for r in ranks)), None)


def make(backend, name, ranks, own, store, timeout, description, pg_options=None, tag=None):
    """A group, of which the calling process is a member; ``ranks`` and ``own`` are ranks in the default group."""
    inner = PrefixStore(f"{name}/", store)
    rank, size = ranks.index(own), len(ranks)
    plugin = next((b for b in BackendConfig(backend).device_backend_map.values()
                   if b.upper() in Backend._plugins), None)
    if plugin is not None:
        create, extended = Backend._plugins[plugin.upper()]
        made = create(_PluginOptions(inner, rank, size, timeout, ranks), pg_options) if extended else (
            create(inner, rank, size, timeout)
        )
    elif backend == "fake":
        from ._fake import FakeProcessGroup

        made = FakeProcessGroup(rank, size)
    else:
        made = ProcessGroup(inner, rank, size, timeout, name, own_address(store_host(store)), description)
        made.backend_name = str(backend)
    try:
        made.group_name, made.group_desc = name, description
    except AttributeError:
        pass
    _enter(made, name, ranks, str(backend), store, tag)
    return made


def _enter(made, name: str, ranks, backend: str, store, tag: str | None = None) -> None:
    state = world()
    state.pg_map[made] = (backend, store)
    state.pg_names[made] = name
    state.pg_group_ranks[made] = {r: i for i, r in enumerate(ranks)}
    state.pg_backend_config[made] = repr(BackendConfig(backend))
    tag = f"user:{tag}" if tag else f"ptd:{name}"
    if tag.startswith("ptd:"):
        state.tags_to_pg.setdefault("", []).append(made)
    state.tags_to_pg.setdefault(tag, []).append(made)
    state.pg_to_tag[made] = tag
    register(name, made)


def _leave(made):
    state = world()
    register(state.pg_names[made], None)
    for known in state.tags_to_pg.values():
        if made in known:
            known.remove(made)
    for known in (state.pg_map, state.pg_names, state.pg_group_ranks, state.pg_backend_config, state.pg_to_tag):
        del known[made]


class _PluginOptions:
    def __init__(self, store, rank, size, timeout, ranks):
        self.store, self.group_rank, self.group_size, self.timeout = store, rank, size, timeout
        self.global_ranks_in_group = list(ranks)
        self.group_id = ""


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Ends a group, or all of them."""
    if group == NOT_A_MEMBER:
        return
    state = world()
    target = state.default_pg if group is None else group
    if target is None:
        raise AssertionError("Process group cannot be None")
    if target not in state.pg_map:
        raise ValueError("Invalid process group specified")
    ended = list(state.pg_map) if target is state.default_pg else [target]
    for made in ended:
        if hasattr(made, "shutdown"):
            made.shutdown()
        _leave(made)
    if target is state.default_pg:
        state.default_pg, state.group_count = None, 0
        state.pg_group_ranks.pop(NOT_A_MEMBER, None)


def abort_process_group(group: ProcessGroup | None = None) -> None:
    """Ends a group, or all, without waiting for what is under way."""
    for made in list(world().pg_map) if group is None else [group]:
        made.abort()
    destroy_process_group(group)


def new_group(ranks=None, timeout=None, backend=None, pg_options=None,
              use_local_synchronization: bool = False, group_desc=None, device_id=None,
              sort_ranks: bool = True):
    """A group of some of the processes. All must call it, in the same order (with
    ``use_local_synchronization`` the members only); who is no member gets
    ``GroupMember.NON_GROUP_MEMBER``.

    Raises:
        ValueError: for ranks that are none, or come twice.
    """
    return new_tagged_group(None, ranks, timeout, backend, pg_options, use_local_synchronization, group_desc, sort_ranks)


def new_tagged_group(tag, ranks, timeout, backend, pg_options, use_local_synchronization, group_desc, sort_ranks):
    """`new_group`; of ranks and a tag there is one group."""
    whole, state = group_of(None), world()
    size, own = whole.size(), whole.rank()
    if timeout is not None and not isinstance(timeout, timedelta):
        raise TypeError(f"Expected timeout argument to be of type datetime.timedelta, got {timeout}")
    if ranks is not None:
        ranks = sorted(ranks) if sort_ranks else list(ranks)
        if len(ranks) > size:
            raise ValueError(
                "the new group's world size should be less or equal to the world size set by "
                "init_process_group"
            )
        for r in ranks:
            if not 0 <= r < size:
                raise ValueError(
                    f"Rank {r} is out of range. Valid ranks are 0 to {size - 1} (world_size={size})"
                )
        if len(set(ranks)) != len(ranks):
            raise ValueError(f"ranks list must not contain duplicate entries, got {ranks}")
    else:
        ranks = list(range(size))
    if use_local_synchronization:
        if own not in ranks:
            return None
        members = "_".join(map(str, ranks))  # others do not know of it, so it must not count
        name = f"local_{members}_{local_count(whole, members)}"
    else:
        state.group_count += 1
        name = str(state.group_count)
    if own not in ranks:
        state.pg_group_ranks[NOT_A_MEMBER] = {r: i for i, r in enumerate(ranks)}  # the last one's, as in PyTorch
        return NOT_A_MEMBER
    if tag and (found := find_tagged(tag, ranks)) is not None:
        return found
    backend = Backend(backend) if backend else Backend(get_backend(whole))
    for known in BackendConfig(backend).device_backend_map.values():
        if known not in Backend.backend_list:
            raise AssertionError(f"Unknown backend type {known}")
    return make(
        backend, name, ranks, own, state.pg_map[whole][1], timeout or world_timeout(),
        group_desc or "undefined", pg_options, tag,
    )


def world_timeout() -> timedelta:
    """The default group's timeout."""
    return getattr(world().default_pg, "timeout", None) or default_pg_timeout


def new_subgroups(group_size=None, group=None, timeout=None, backend=None, pg_options=None,
                  group_desc=None):
    """Groups of ``group_size`` neighbours each: (the calling process' own, all of them).

    Raises:
        ValueError: if the number of processes is no multiple of the size.
    """
    if group_size is None:
        if not torch.cuda.is_available():
            raise ValueError(
                "Default group size only takes effect when CUDA is available.If your subgroup using a backend "
                "that does not depend on CUDA,please pass in 'group_size' correctly."
            )
        group_size = torch.cuda.device_count()
    if group_size <= 0:
        raise ValueError(f"The arg 'group_size' ({group_size}) must be positive")
    size = get_world_size(group)
    if size < group_size:
        raise ValueError(
            f"The arg 'group_size' ({group_size}) must not exceed the world size ({size})"
        )
    if size % group_size:
        raise ValueError(
            f"The world size ({size}) must be divisible by 'group_size={group_size}'"
        )
    lists = [list(range(i, i + group_size)) for i in range(0, size, group_size)]
    return new_subgroups_by_enumeration(lists, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(ranks_per_subgroup_list, timeout=None, backend=None, pg_options=None,
                                 group_desc=None):
    """Groups of given ranks that do not overlap: (the calling process' own, all of them)."""
    if ranks_per_subgroup_list is None or len(ranks_per_subgroup_list) == 0:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    owner: dict[int, list] = {}
    groups, current = [], None
    for ranks in ranks_per_subgroup_list:
        made = new_group(ranks, timeout, backend, pg_options, group_desc=group_desc)
        groups.append(made)
        for r in ranks:
            if r in owner:
                raise ValueError(
                    f"Rank {r} has appeared in both subgroup {owner[r]} and {ranks}"
                )
            owner[r] = ranks
            if r == get_rank():
                current = made
    return current, groups


def split_group(parent_pg=None, split_ranks=None, timeout=None, pg_options=None, group_desc=None,
                backend=None):
    """Groups of the ranks of a parent; the one that the calling process is in, or None.

    Raises:
        ValueError: without ``split_ranks``, or if the process is in two of them.
    """
    if split_ranks is None or len(split_ranks) == 0:
        raise ValueError("split_ranks cannot be None or empty")
    parent = group_of(parent_pg)
    ranks = get_process_group_ranks(parent)
    mine = None
    for members in split_ranks:
        made = new_group([ranks[r] for r in members], timeout, backend or get_backend(parent),
                         pg_options, group_desc=group_desc)
        if parent.rank() in members:
            if mine is not None:
                raise ValueError(f"rank {parent.rank()} appears in more than one of {split_ranks}")
            mine = made
    return mine


def shrink_group(ranks_to_exclude, group=None, shrink_flags: int = 0, pg_options=None):
    """A group of the ranks of a group that are not excluded; called by those that stay."""
    parent = group_of(group)
    stay = [r for i, r in enumerate(get_process_group_ranks(parent)) if i not in set(ranks_to_exclude)]
    made = new_group(stay, use_local_synchronization=True, pg_options=pg_options)
    if parent is not world().default_pg:
        destroy_process_group(parent)
    return made


def group_of(group) -> ProcessGroup:
    """The group meant by an argument.

    Raises:
        ValueError: if there is no default group.
    """
    if group is not None:
        if isinstance(group, (str, int)):
            raise ValueError(_UNKNOWN.format(group))
        return group
    default = world().default_pg
    if default is None:
        raise ValueError(UNSET)
    return default


def is_outside(group, name: str | None = None) -> bool:
    """Whether the calling process is not in a group; warns with the name of a collective."""
    outside = group == NOT_A_MEMBER if group is not None else False
    if name is not None:
        leave(name)
    if outside and name is not None:
        warnings.warn(
            f"Running {name} on global rank {get_rank()} which does not belong to the given group.",
            stacklevel=4,
        )
    return outside


def refuse_outside(group) -> None:
    """Raises ValueError for a group that the calling process is not in."""
    if is_outside(group):
        raise ValueError("Invalid process group specified")


def get_rank(group=None) -> int:
    """The calling process' rank in a group; -1 if it is not in it."""
    if is_outside(group):
        return -1
    default = group_of(None)
    return default.rank() if group is None or group is default else get_group_rank(group, default.rank())


def get_world_size(group=None) -> int:
    """The number of processes of a group; -1 if the calling one is not in it."""
    return -1 if is_outside(group) else group_of(group).size()


def get_backend(group=None) -> str:
    """The name of a group's backend. Raises ValueError outside of it."""
    refuse_outside(group)
    found = group_of(group)
    known = world().pg_map.get(found)
    if known is None:
        raise ValueError(_UNKNOWN.format(found))
    return known[0]


def get_backend_config(group=None) -> str:
    """The backends of a group by kind of device: ``cpu:gloo,cuda:gloo``. Raises ValueError outside of it."""
    refuse_outside(group)
    return world().pg_backend_config[group_of(group)]


def get_default_backend_for_device(device) -> str:
    """The backend that tensors of a device have by default."""
    kind = torch.device(device).type
    if kind not in Backend.default_device_backend_map:
        raise ValueError(f"Default backend not registered for device : {device}")
    return Backend.default_device_backend_map[kind]


def get_pg_count() -> int:
    """How many groups all processes have made, those included that the calling one is not in."""
    state = world()
    return state.group_count + (state.default_pg is not None)


def get_process_group_ranks(group) -> list[int]:
    """The ranks of a group's processes in the default group."""
    return list(world().pg_group_ranks[group if group == NOT_A_MEMBER else group_of(group)])


def _ranks_of(group):
    known = world().pg_group_ranks.get(group)
    if known is None:
        raise ValueError(f"Group {group} is not registered, please create group with torch.distributed.new_group API")
    return known


def get_global_rank(group, group_rank: int) -> int:
    """The rank in the default group of a rank in a group."""
    if group is None or group is world().default_pg:
        return group_rank
    for global_rank, own in _ranks_of(group).items():
        if own == group_rank:
            return global_rank
    raise ValueError(f"Group rank {group_rank} is not part of group {group}")


def get_group_rank(group, global_rank: int) -> int:
    """The rank in a group of a rank in the default group."""
    if group is None or group is world().default_pg:
        return global_rank
    ranks = _ranks_of(group)
    if global_rank not in ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return ranks[global_rank]


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """``LOCAL_RANK`` of the environment."""
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError(
        "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow "
        "`get_node_local_rank` to work, assuming you are not running in a multi-device context and "
        "want the code to run locally instead."
    )


def resolve_process_group(name: str) -> ProcessGroup:
    """The group of a name.

    Raises:
        RuntimeError: if there is none.
    """
    found = registered(name)
    if found is None:
        raise RuntimeError(f"Could not resolve the process group registered under the name {name}")
    return found


find_group[0] = resolve_process_group
