"""What is known of all groups, under PyTorch's names: `World`, and groups by their names."""

from __future__ import annotations

import threading
import weakref


class World:
    """The groups that the process is in. `distributed_c10d._world` is the one in use; a program may put another object
    with these attributes there (PyTorch's tests one whose attributes are each thread's own)."""

    def __init__(self):
        self.default_pg = None
        self.pg_map: dict = {}  # the backend, and the store that all groups share
        self.pg_names: dict = {}
        self.pg_group_ranks: dict = {}  # by rank in the default group
        self.pg_backend_config: dict = {}
        self.group_count = 0  # of groups that all processes have made, beside the default one
        self.tags_to_pg: dict = {}
        self.pg_to_tag: dict = {}
        self.pg_coalesce_state: dict = {}
        self.comms: list = []

    @property
    def pg_default_device(self):
        return {}


class _Home:
    """Stands for `distributed_c10d` until that is imported."""

    _world = World()


_home: list = [_Home]


def world() -> World:
    """The state in use."""
    return _home[0]._world


def kept_by(module) -> World:
    """Lets a module's ``_world`` be the state in use; gives the one so far."""
    state = world()
    _home[0] = module
    return state


class _Names(threading.local):
    """Groups by their names, of one thread."""

    def __init__(self):
        self.groups = {}


_everywhere: dict = {}
_of_thread = _Names()
_isolated = [False]
_local_counts: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # by default group and members


def set_thread_isolation_mode(enable: bool) -> None:
    """Whether each thread has names of groups of its own, as where each thread is a rank."""
    _isolated[0] = bool(enable)
    _of_thread.groups.clear()


def get_thread_isolation_mode() -> bool:
    """Whether each thread has names of its own."""
    return _isolated[0]


def register(name: str, group) -> None:
    """Makes a group known by a name; None ends that."""
    known = _of_thread.groups if _isolated[0] else _everywhere
    if group is None:
        known.pop(name, None)
    else:
        known[name] = group


def unregister(name: str) -> None:
    """Makes a group unknown by its name."""
    register(name, None)


def unregister_all() -> None:
    """Makes all groups unknown by their names."""
    (_of_thread.groups if _isolated[0] else _everywhere).clear()


def registered(name: str):
    """The group of a name, or None."""
    return (_of_thread.groups if _isolated[0] else _everywhere).get(name)


def local_count(default, members: str) -> int:
    """How many groups these members have made alone before; counts on."""
    counts = _local_counts.setdefault(default, {})
    counts[members] = counts.get(members, -1) + 1
    return counts[members]
