"""Collectives counted, by module and by direction."""

from __future__ import annotations

import json
import re
from collections import defaultdict

import ftorch as torch

from ....eager.autograd.backward import final
from ....eager.native.contexts import repeatable
from ....nn.modules import module as hooks
from ... import _functional_collectives, _functional_collectives_impl, _process_group
from .. import _dispatch, _redistribute
from .._api import DTensor
from ..placement_types import divides

__all__ = ["CommDebugMode"]

_METHODS = {
    "allreduce": "allreduce_", "allreduce_coalesced": "allreduce_coalesced_", "reduce": "reduce_",
    "broadcast": "broadcast_", "allgather": "allgather_", "allgather_coalesced": "allgather_coalesced_",
    "_allgather_base": "_allgather_base_", "gather": "gather_", "scatter": "scatter_",
    "allgather_into_tensor_coalesced": "allgather_into_tensor_coalesced_",
    "reduce_scatter": "reduce_scatter_", "_reduce_scatter_base": "_reduce_scatter_base_",
    "reduce_scatter_tensor_coalesced": "reduce_scatter_tensor_coalesced_",
    "alltoall": "alltoall_", "alltoall_base": "alltoall_base_",
}
_FUNCTIONS = {
    "_AllReduce": "all_reduce", "_AllGather": "all_gather_into_tensor",
    "_ReduceScatter": "reduce_scatter_tensor", "_AllToAllSingle": "all_to_all_single",
    "_Broadcast": "broadcast",
}


def _moved_by(now, to):
    """The collective between two placements."""
    if divides(now) and to.is_replicate():
        return "c10d_functional", "all_gather_into_tensor"
    if divides(now) and divides(to) and now != to:
        return "_dtensor", "shard_dim_alltoall"
    if now.is_partial() and to.is_replicate():
        return "c10d_functional", "all_reduce"
    if now.is_partial() and divides(to):
        return "c10d_functional", "reduce_scatter_tensor"
    return None


class CommDebugMode:
    """Counts the collectives that are called within (``torch.distributed.tensor.debug.CommDebugMode``).

    >>> import ftorch as torch
    >>> from ftorch.distributed.tensor import Replicate, Shard, distribute_tensor
    >>> from ftorch.distributed.tensor.debug import CommDebugMode
    >>> dist = torch.distributed
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> x = distribute_tensor(torch.ones(4), dist.init_device_mesh("cpu", (1,)), [Shard(0)])
    >>> with CommDebugMode() as mode:
    ...     _ = x.redistribute(placements=[Replicate()])
    >>> mode.get_total_counts()
    1
    >>> dist.destroy_process_group()
    """

    def __init__(self):
        self.comm_counts: dict = defaultdict(int)
        self.comm_module_counts: dict = {}
        self._modules: dict = {}
        self._operations: dict = {}
        self._undo: list = []

    # --- what is counted ---

    def _patch(self, owner, name, made, static=False):
        self._undo.append((owner, name, owner.__dict__[name]))
        setattr(owner, name, staticmethod(made) if static else made)

    def _counted(self, function, named):
        def call(*args, **kwargs):
            found = None if self._inside else named(*args)
            if found is None:
                return function(*args, **kwargs)
            self._count(getattr(getattr(torch.ops, found[0]), found[1]))
            self._inside = True
            try:
                return function(*args, **kwargs)
            finally:
                self._inside = False

        return call

    def _count(self, op):
        self.comm_counts[op] += 1
        direction = "backward" if final.callbacks is not None else "forward"
        path = self._path[-1]
        for name in dict.fromkeys(["Global", *_ancestors(path)]):
            row = self.comm_module_counts.setdefault(
                name, {"forward": defaultdict(int), "backward": defaultdict(int)}
            )
            row[direction][op] += 1

    def __enter__(self):
        for counts in (self.comm_counts, self.comm_module_counts, self._modules, self._operations):
            counts.clear()
        self.comm_module_counts["Global"] = {"forward": defaultdict(int), "backward": defaultdict(int)}
        self._modules["Global"] = {"depth": 0}
        assert _functional_collectives_impl._LIBRARIES  # the operators that are counted
        self._inside, self._path, self._names = False, ["Global"], {}
        for method, op in _METHODS.items():
            found = ("c10d", op)
            function = _process_group.ProcessGroup.__dict__[method]
            self._patch(_process_group.ProcessGroup, method, self._counted(function, lambda *_, f=found: f))
        for name, op in _FUNCTIONS.items():
            kind, found = getattr(_functional_collectives, name), ("c10d_functional", op)
            self._patch(kind, "forward", self._counted(kind.forward, lambda *_, f=found: f), static=True)

        def named(t, mesh, m, now, to, shape):
            return _moved_by(now, to)

        self._patch(_redistribute, "_step", self._counted(_redistribute._step, named))
        self._patch(_dispatch, "call", self._recorded(_dispatch.call))
        self._handles = [
            hooks.register_module_forward_pre_hook(self._before),
            hooks.register_module_forward_hook(self._after, always_call=True),
        ]
        return self

    @repeatable
    def __exit__(self, *_):
        for owner, name, value in reversed(self._undo):
            setattr(owner, name, value)
        self._undo.clear()
        for handle in self._handles:
            handle.remove()

    # --- modules ---

    def _before(self, module, _inputs):
        if module not in self._names:
            self._names[module] = type(module).__name__
            for child, m in module.named_modules():
                if child:
                    self._names.setdefault(m, f"{type(module).__name__}.{child}")
        name = self._names[module]
        self._path.append(name)
        row = self._modules.setdefault(name, {"depth": len(self._path) - 1})
        row["module_type"] = str(type(module)).replace("<", "").replace(">", "")
        row["parameters"] = dict(module.named_parameters(recurse=False))

    def _after(self, module, _inputs, _outputs):
        self._path.pop()

    def _recorded(self, function):
        def call(func, args, kwargs):
            shown = [a for a in args if isinstance(a, DTensor)]
            self._operations.setdefault(self._path[-1], []).append({
                "name": getattr(func, "__name__", str(func)), "input_shape": [a.shape for a in shown],
                "input_sharding": [a.placements for a in shown],
                "device_mesh": str(shown[0].device_mesh) if shown else "",
            })
            return function(func, args, kwargs)

        return call

    # --- what is said ---

    def get_total_counts(self) -> int:
        """The number of collectives."""
        return sum(self.comm_counts.values())

    def get_comm_counts(self) -> dict:
        """The number of calls of each collective (``torch.ops.c10d_functional.all_reduce`` and so on)."""
        return self.comm_counts

    def get_parameter_info(self) -> dict:
        """{module: {name: parameter}}"""
        return {n: {k: p.data for k, p in row["parameters"].items()}
                for n, row in self._modules.items() if row.get("parameters")}

    def get_sharding_info(self) -> dict:
        """{module.name: placements} of the parameters that are `DTensor`s."""
        return {
            f"{n}.{k}": p.placements for n, row in self._modules.items()
            for k, p in row.get("parameters", {}).items() if isinstance(p.data, DTensor)
        }

    def generate_comm_debug_tracing_table(self, noise_level: int = 3) -> str:
        """The collectives of each module as text; from ``noise_level`` 1 on also parameters and calls."""
        lines = []
        for name, row in self._modules.items():
            indent = "  " * (2 * row["depth"])
            lines.append(f"{indent}{name}")
            if noise_level > 0 and "module_type" in row:
                lines.append(f"{indent}*module type: {row['module_type']}")
                placed = {k: p.placements for k, p in row["parameters"].items() if isinstance(p.data, DTensor)}
                if placed:
                    lines.append(f"{indent}*Parameter List")
                    lines += [f"{indent} *{k}: {p}" for k, p in placed.items()]
            counts = self.comm_module_counts.get(name, {})
            for direction in ("forward", "backward"):
                found = counts.get(direction, {})
                calls = self._operations.get(name, []) if noise_level > 0 and direction == "forward" else []
                if not found and not calls:
                    continue
                lines.append(f"{indent}  {direction.upper()} PASS")
                lines += [f"\x1b[1;33m{indent}    *{op}: {n}\x1b[0m" for op, n in found.items()]
                for call in calls:
                    lines.append(f"\x1b[1;33m{indent}    **{call['name']}\x1b[0m")
                    for key in ("input_shape", "input_sharding", "device_mesh"):
                        lines.append(f"\x1b[1;31m{indent}      {key.replace('input_', '')}: {call[key]}\x1b[0m")
        return "\n".join(lines) + "\n"

    def log_comm_debug_tracing_table_to_file(self, file_name="comm_mode_log.txt", noise_level: int = 3) -> None:
        """Writes the table, without colours."""
        with open(file_name, "w") as file:
            file.write(re.sub(r"\x1B\[[0-?]*[ -/]*[@-~]", "", self.generate_comm_debug_tracing_table(noise_level)))

    def generate_json_dump(self, file_name="comm_mode_log.json", noise_level: int = 3) -> None:
        """Writes the counts as JSON, module within module."""
        made = {name: self._described(name, noise_level) for name in self._modules}
        for name in self._modules:
            if name != "Global":
                parent = _ancestors(name)[-2] if "." in name else "Global"
                made.get(parent, made["Global"])["children"].append(made[name])
        with open(file_name, "w") as file:
            json.dump(made["Global"], file, indent=4)

    def _described(self, name, noise_level):
        counts, row = self.comm_module_counts.get(name, {}), self._modules[name]
        return {
            "fqn": name, "module_type": row.get("module_type", "") if noise_level else "",
            "parameters": [[k, str(getattr(p, "placements", ""))] for k, p in row.get("parameters", {}).items()],
            "children": [],
            "collectives_forward": [[str(k), n] for k, n in counts.get("forward", {}).items()],
            "collectives_backward": [[str(k), n] for k, n in counts.get("backward", {}).items()],
            "operations_forward": [
                {k: [str(x) for x in v] if isinstance(v, list) else v for k, v in call.items()}
                for call in (self._operations.get(name, []) if noise_level else [])
            ],
        }

    def __repr__(self):
        return f"CommDebugMode(get_total_counts()={self.get_total_counts()})"


def _ancestors(path):
    parts = path.split(".")
    return [".".join(parts[: i + 1]) for i in range(len(parts))]
