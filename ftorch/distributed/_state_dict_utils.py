"""State dicts gathered, copied, brought to the CPU and spread (``torch.distributed._state_dict_utils``)."""

from __future__ import annotations

import copy
import io
from typing import Any, NamedTuple

import ftorch as torch

from . import distributed_c10d as dist
from .tensor import DTensor, Replicate
from .tensor._redistribute import move

__all__: list[str] = []
_PLAIN = (int, float, str, bytes, io.BytesIO, type(None))


class CompanionMismatch(Exception):  # noqa: N818
    """Two state dicts differ in structure."""


def _local(t):
    return t._local_tensor if isinstance(t, DTensor) else t


def _mapped(value, function, twin=None, ranks_only=(), pg=None, type_check=True):
    """A nest of dictionaries, lists and tuples with ``function(tensor, twin)`` in place of tensors.

    Args:
        twin: a nest of the same structure.
        ranks_only: the ranks that keep the result (all by default); the others get empty dictionaries and None.

    Raises:
        CompanionMismatch: the twin has another structure. ValueError: for a value of another type, with ``type_check``.
    """
    keeps = not ranks_only or dist.get_rank(pg) in ranks_only
    if isinstance(value, torch.Tensor):
        found = function(value, twin)
        return found if keeps else None
    if isinstance(value, dict):
        if twin is not None and (not isinstance(twin, dict) or set(twin) != set(value)):
            names = sorted(map(str, twin)) if isinstance(twin, dict) else type(twin)
            raise CompanionMismatch(f"{sorted(map(str, value))} and {names}")
        made = {
            k: _mapped(v, function, None if twin is None else twin[k], ranks_only, pg, type_check) for k, v in value.items()
        }
        return made if keeps else {}
    if isinstance(value, (list, tuple)):
        if twin is not None and (not isinstance(twin, (list, tuple)) or len(twin) != len(value)):
            raise CompanionMismatch("sequences of different lengths")
        twins = [None] * len(value) if twin is None else twin
        out = [_mapped(v, function, t, ranks_only, pg, type_check) for v, t in zip(value, twins)]
        return (tuple(out) if isinstance(value, tuple) else out) if keeps else None
    if not isinstance(value, _PLAIN):
        if type_check:
            raise ValueError(f"Unexpected value type {type(value)}")
        value = copy.deepcopy(value)
    return value if keeps else None


def _gather_state_dict(state_dict: dict, *, pg=None, device=None, cpu_offload: bool = False, ranks_only: tuple = (),
                       type_check: bool = True) -> dict:
    """A state dict with whole tensors in place of `DTensor`s.

    Args:
        cpu_offload: whether they are brought to the CPU.
        ranks_only: the ranks that get it; the others get empty dictionaries.
        type_check: whether values of other types than tensors, numbers, strings and their nests are refused.
    """

    def whole(t, _):
        if isinstance(t, DTensor):
            t = t.redistribute(placements=[Replicate()] * t.device_mesh.ndim).to_local()
        return t.cpu() if cpu_offload else t

    return _mapped(state_dict, whole, None, ranks_only, pg, type_check)


def _offload_state_dict_to_cpu(state_dict: dict, *, ranks_only: tuple = (), type_check: bool = True) -> dict:
    """A state dict with its tensors on the CPU; options as in `_gather_state_dict`."""
    return _mapped(state_dict, lambda t, _: t.cpu(), None, ranks_only, None, type_check)


@torch.no_grad()
def _copy_state_dict(state_dict: dict, copy_state_dict: dict, non_blocking: bool = False, type_check: bool = True) -> dict:
    """Copies the values of a state dict's tensors into another one of the same structure, which is returned anew.

    Raises:
        CompanionMismatch: the structures differ.
    """

    def copied(t, twin):
        _local(twin).copy_(_local(t), non_blocking=non_blocking)
        return twin

    return _mapped(state_dict, copied, copy_state_dict, type_check=type_check)


@torch.no_grad()
def _create_cpu_state_dict(state_dict: dict, pin_memory: bool = False, share_memory: bool = False) -> dict:
    """A state dict of new tensors of the same shapes on the CPU, without values.

    Args:
        pin_memory, share_memory: whether they lie in page-locked memory, or in memory that processes share.
    """

    def fresh(t):
        if t.dim() == 0:
            return torch.tensor(0, dtype=t.dtype)
        made = torch.zeros(t.shape, dtype=t.dtype) if t.numel() == 0 else torch.empty(t.shape, dtype=t.dtype)
        if share_memory:
            made = made.share_memory_()
        return made.pin_memory() if pin_memory and made.numel() else made

    def empty(t, _):
        if not isinstance(t, DTensor):
            return fresh(t)
        return t if t.dim() == 0 else DTensor._made(
            fresh(t._local_tensor), t.device_mesh, t.placements, tuple(t.shape), tuple(t.stride())
        )

    return _mapped(state_dict, empty, type_check=False)


def _check_state_dict_similarity(state_dict: dict, compared_state_dict: dict) -> bool:
    """Whether two state dicts have one structure and tensors of the same shapes and dtypes."""

    def compared(t, twin):
        if twin is not None and (twin.dtype != t.dtype or twin.shape != t.shape):
            raise CompanionMismatch("tensors of different shapes")
        return t

    try:
        _mapped(state_dict, compared, compared_state_dict, type_check=False)
    except CompanionMismatch:
        return False
    return True


class _TensorInfo(NamedTuple):
    """Of what shape and dtype a tensor is that rank 0 has."""

    size: Any
    dtype: Any


def _placed(own, whole):
    """A whole tensor as the part that a `DTensor` has of it; into its memory, unless it has none."""
    if not isinstance(own, DTensor):
        return whole
    mesh = own.device_mesh
    part = move(whole, mesh, tuple(own.shape), [Replicate()] * mesh.ndim, own.placements)
    if own._local_tensor.is_meta:
        return DTensor._made(part.clone(), mesh, own.placements, tuple(own.shape), tuple(own.stride()))
    with torch.no_grad():
        own._local_tensor.copy_(part)
    return own


def _broadcast_state_dict(full_state_dict: dict, local_state_dict: dict, device, pg=None, strict: bool = False,
                          cpu_offload: bool = False) -> None:
    """Gives rank 0's whole values to all, which put them, or their parts, into their own state dicts.

    Args:
        full_state_dict: rank 0's; device: where the values go.
        strict: whether names that rank 0 does not have are taken away.
    """
    said: dict = {}
    if dist.get_rank() == 0:
        for key, value in full_state_dict.items():
            if not isinstance(value, torch.Tensor):
                said[key] = value
            else:
                said[key] = value.cpu() if value.dim() == 0 else _TensorInfo(value.size(), value.dtype)
    told = [said]
    dist.broadcast_object_list(told, src=0, group=pg)
    said = told[0]
    for key, value in said.items():
        if isinstance(value, _TensorInfo):
            own = full_state_dict[key].detach().cpu() if dist.get_rank() == 0 else torch.empty(value.size, dtype=value.dtype)
            own = own.contiguous()
            dist.broadcast(own, src=0, group=pg)
            if key not in local_state_dict:
                continue
            value = _placed(local_state_dict[key], own.to(device))
            value = value.cpu() if cpu_offload else value
        if key in local_state_dict:
            local_state_dict[key] = value
    for key in (set(local_state_dict) - set(said)) if strict else ():
        local_state_dict.pop(key)


def _distribute_state_dict(full_state_dict: dict, local_state_dict: dict, device, pg=None) -> None:
    """Puts whole values that all have, or their parts, into a state dict."""
    for key, value in full_state_dict.items():
        if key not in full_state_dict or key not in local_state_dict:
            continue
        if isinstance(value, torch.Tensor):
            value = value.cpu() if value.dim() == 0 else _placed(local_state_dict[key], value.detach().to(device))
        local_state_dict[key] = value


def _traverse_state_dict(state_dict: dict, visitor) -> None:
    """Calls ``visitor(path, value)`` for each value of a nest of dictionaries, lists and tuples."""

    def visit(path, value):
        if isinstance(value, dict):
            for k, v in value.items():
                visit((*path, str(k)), v)
        elif isinstance(value, (list, tuple)):
            for i, v in enumerate(value):
                visit((*path, i), v)
        else:
            visitor(path, value)

    for k, v in state_dict.items():
        visit((str(k),), v)


def _flatten_state_dict(state_dict: dict) -> tuple[dict, dict]:
    """(a nested state dict as one with names joined by dots, {name: path})

    Raises:
        ValueError: two paths have one name.

    >>> from ftorch.distributed._state_dict_utils import _flatten_state_dict, _unflatten_state_dict
    >>> flat, paths = _flatten_state_dict({"a": {"b": 1}, "c": [2, 3]})
    >>> flat, paths["c.1"], _unflatten_state_dict(flat, paths)
    ({'a.b': 1, 'c.0': 2, 'c.1': 3}, ('c', 1), {'a': {'b': 1}, 'c': [2, 3]})
    """
    flat: dict = {}
    paths: dict = {}

    def put(path, value):
        name = ".".join(map(str, path))
        if name in flat:
            raise ValueError(f"duplicated flatten key {name}")
        flat[name], paths[name] = value, path

    _traverse_state_dict(state_dict, put)
    return flat, paths


def _set_element(root: Any, path: tuple, value) -> None:
    """Puts a value at a path of names and numbers into nested dictionaries and lists, which are made."""
    for at, (part, following) in enumerate(zip(path, (*path[1:], None))):
        last = at == len(path) - 1
        made: Any = value if last else [] if isinstance(following, int) else {}
        if isinstance(root, list):
            root.extend([None] * (part + 1 - len(root)))
            if last or root[part] is None:
                root[part] = made
        elif last or part not in root:
            root[part] = made
        root = root[part]


def _unflatten_state_dict(state_dict: dict, mapping: dict) -> dict:
    """The nested state dict of a flat one and its paths."""
    nested: dict = {}
    for name, value in state_dict.items():
        _set_element(nested, mapping[name], value)
    return nested
