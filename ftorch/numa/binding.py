"""Which logical processors a process may run on, by NUMA nodes (``torch.numa.binding``)."""

from __future__ import annotations

import glob
import os
import shutil
from dataclasses import dataclass
from enum import Enum

__all__ = ["AffinityMode", "NumaOptions"]


class AffinityMode(str, Enum):  # noqa: UP042  (as PyTorch prints it)
    """What a process is bound to: a node, a socket, a part of the node's cores, or cores of one cache."""

    NODE = "node"
    SOCKET = "socket"
    EXCLUSIVE = "exclusive"
    CORE_COMPLEX = "core-complex"


@dataclass(frozen=True)
class NumaOptions:
    """How processes are bound.

    Attributes:
        affinity_mode: see `AffinityMode`.
        should_fall_back_if_binding_fails: whether a process that cannot be bound runs unbound.
    """

    affinity_mode: AffinityMode
    should_fall_back_if_binding_fails: bool = False


def _numbers(ranges: str) -> set[int]:
    """The numbers of a text like ``"0-3,8"``."""
    found: set[int] = set()
    for part in filter(None, ranges.strip().split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def _ranges(numbers: set[int]) -> str:
    """The shortest text like ``"0-3,8"`` of some numbers."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


_get_ranges_str_from_ints, _get_set_of_int_from_ranges_str = _ranges, _numbers


def _nodes() -> list[set[int]]:
    """The logical processors of each node that this process may use; all of them are one node elsewhere."""
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    files = sorted(
        glob.glob("/sys/devices/system/node/node[0-9]*/cpulist"),
        key=lambda path: int(path.rsplit("node", 1)[1].split("/")[0]),
    )
    found = []
    for path in files:
        with open(path) as file:
            found.append(_numbers(file.read()) & allowed)
    return [node for node in found if node] or [allowed]


def _processors(gpu_index: int, options: NumaOptions) -> set[int]:
    nodes = _nodes()
    node = nodes[gpu_index % len(nodes)]
    if options.affinity_mode in (AffinityMode.NODE, AffinityMode.SOCKET):
        return node
    if options.affinity_mode == AffinityMode.EXCLUSIVE:  # processes of a node share its processors
        sharing = max(1, -(-(os.cpu_count() or 1) // max(1, len(node) * len(nodes))))
        cpus = sorted(node)
        part = (gpu_index // len(nodes)) % max(1, min(sharing, len(cpus)))
        return set(cpus[part :: max(1, min(sharing, len(cpus)))])
    shared = f"/sys/devices/system/cpu/cpu{min(node)}/cache/index3/shared_cpu_list"
    if os.path.exists(shared):
        with open(shared) as file:
            return (_numbers(file.read()) & node) or node
    return node


def _maybe_apply_numa_binding_to_current_process(*, gpu_index: int, numa_options: NumaOptions) -> None:
    """Binds this process to the processors next to a device."""
    try:
        os.sched_setaffinity(0, _processors(gpu_index, numa_options))
    except (OSError, AttributeError):
        if not numa_options.should_fall_back_if_binding_fails:
            raise


def _maybe_wrap_command_args_with_numa_binding(command_args, *, gpu_index: int,
                                               numa_options: NumaOptions | None):
    """A command that runs bound, through ``numactl``; as it was without options.

    Raises:
        RuntimeError: ``numactl`` is not installed, and falling back is not allowed.
    """
    if numa_options is None:
        return command_args
    if shutil.which("numactl") is None:
        if numa_options.should_fall_back_if_binding_fails:
            return command_args
        raise RuntimeError("numactl CLI is required for NUMA binding: install the package numactl")
    cpus = _ranges(_processors(gpu_index, numa_options))
    return ("numactl", f"--physcpubind={cpus}", *command_args)
