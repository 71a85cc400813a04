"""`fully_shard`: parameters, gradients and optimizer states divided over processes (FSDP2)."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from typing_extensions import deprecated

import ftorch as torch

from ...eager.core.device import jax_devices
from ..device_mesh import DeviceMesh, init_device_mesh
from ..tensor import DTensor
from ._device_group import DeviceGroup
from ._group import ParameterGroup, ShardedParameter
from ._state import State, after, before

__all__ = [
    "CPUOffloadPolicy", "DataParallelMeshDims", "FSDPModule", "MixedPrecisionPolicy", "OffloadPolicy", "UnshardHandle",
    "fully_shard", "register_fsdp_forward_method", "share_comm_ctx",
]


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """Dtypes of a module's computation.

    Args:
        param_dtype: of whole parameters. ``reduce_dtype``: of gradients while they are reduced.
        output_dtype: of outputs. ``cast_forward_inputs``: whether inputs become ``param_dtype``.
    """

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


@dataclass
class OffloadPolicy:
    """Parts stay where they are."""


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Parts are kept in the memory of the CPU."""

    pin_memory: bool = True


class UnshardHandle:
    """The handle of an asynchronous `FSDPModule.unshard`."""

    def wait(self) -> None:
        """Puts the whole parameters into the module."""


class _UnshardHandleImpl(UnshardHandle):
    def __init__(self, group):
        self._group = group

    def wait(self):
        if self._group is not None:
            self._group.unshard()
            self._group = None


def _check_modules(modules):
    for module in modules:
        if not isinstance(module, FSDPModule):
            raise ValueError(f"Expects FSDPModule but got {type(module)}: {module}")


class FSDPModule:
    """What `fully_shard` adds to a module's class."""

    def __new__(cls, *args, **kwargs):
        original = cls.__mro__[2]
        return original(*args, **kwargs)

    def _states(self, recurse=False):
        modules = self.modules() if recurse else [self]
        return [m._fsdp_state for m in modules if isinstance(m, FSDPModule)]

    def reshard(self) -> None:
        """Gives up the whole parameters."""
        self._fsdp_state.group.reshard()

    def unshard(self, async_op: bool = False):
        """Gathers the whole parameters; with ``async_op`` at the `UnshardHandle`'s ``wait()``, or when they are needed."""
        handle = _UnshardHandleImpl(self._fsdp_state.group)
        if async_op:
            return handle
        handle.wait()
        return None

    def _get_fsdp_state(self):
        return self._fsdp_state

    def _apply(self, *args, **kwargs):
        self.reshard()  # what is moved or converted are the parts
        return super()._apply(*args, **kwargs)  # type: ignore[misc]

    def __deepcopy__(self, memo):
        raise AssertionError("FSDP does not support deepcopy. Please use state dict for serialization.")

    def set_requires_gradient_sync(self, requires_gradient_sync: bool, *, recurse: bool = True) -> None:
        """Whether backward reduces gradients; else they wait until it does."""
        for state in self._states(recurse):
            state.group.syncs = requires_gradient_sync

    def set_requires_all_reduce(self, requires_all_reduce: bool, *, recurse: bool = True) -> None:
        """Whether gradients are summed over replicas, too."""
        for state in self._states(recurse):
            state.group.all_reduces = requires_all_reduce

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Whether whole parameters are given up after forward.

        Raises:
            ValueError: for what is no bool.
        """
        if not isinstance(reshard_after_forward, bool):
            raise ValueError(f"reshard_after_forward should be a bool, got {type(reshard_after_forward)}")
        for state in self._states(recurse):
            state.is_automatic, state.group.reshard_after_forward = False, reshard_after_forward

    def set_reshard_after_backward(self, reshard_after_backward: bool, *, recurse: bool = True) -> None:
        """Whether whole parameters are given up when their gradients are there; else call `reshard` before they change."""
        for state in self._states(recurse):
            state.group.reshard_after_backward = reshard_after_backward

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Accepted: gradients are complete at the end of each backward."""

    def set_modules_to_forward_prefetch(self, modules) -> None:
        """Accepted: exchanges are not overlapped. Raises ValueError for modules that are not divided."""
        _check_modules(modules)

    set_modules_to_backward_prefetch = set_modules_to_forward_prefetch

    def set_gradient_divide_factor(self, factor: float) -> None:
        """What gradients' sums are divided by, instead of the number of processes."""
        self._fsdp_state.group.divide_factor = factor

    @deprecated("Use `set_gradient_divide_factor` instead", category=DeprecationWarning)
    def set_reduce_scatter_divide_factor(self, factor: float) -> None:
        """The earlier name of `set_gradient_divide_factor`."""
        self.set_gradient_divide_factor(factor)

    def set_reduce_scatter_unused_params(self, reduce_scatter_unused_params: bool, *, recurse: bool = True) -> None:
        """Whether parameters that had no gradient are reduced, too, as zeros: processes may use different ones."""
        for state in self._states(recurse):
            state.group.reduces_unused = reduce_scatter_unused_params

    def set_all_reduce_hook(self, hook, *, stream=None) -> None:
        """Lets ``hook(gradients)`` change the flat part of gradients that was reduced, in place."""
        self._fsdp_state.group.hook = hook

    def set_custom_all_gather(self, comm) -> None:
        """Gathers by ``comm(output_tensor, input_tensor, group)``, into what ``comm.allocate(size, dtype=, device=)`` makes."""
        self._fsdp_state.group.gathers = comm

    def set_custom_reduce_scatter(self, comm) -> None:
        """Reduces gradients by ``comm(output_tensor, input_tensor, group, op)``, as `set_custom_all_gather`."""
        self._fsdp_state.group.reduces = comm

    def reset_iter_state(self) -> None:
        """After a forward or backward that failed: parts are the parameters, gradients that wait are dropped."""
        for state in self._states(True):
            state.reset()

    def set_post_optim_event(self, event) -> None:
        """Accepted: exchanges begin when the values that they read are there."""

    def set_unshard_in_backward(self, unshard_in_backward: bool) -> None:
        """Whether backward begins by gathering all parameters; else when the value of one is asked for."""
        self._fsdp_state.unshards_in_backward = unshard_in_backward

    def set_allocate_memory_from_process_group_for_comm(self, enable: bool) -> None:
        """Accepted: groups have no memory of their own."""

    def set_force_sum_reduction_for_comms(self, enable: bool) -> None:
        """Accepted: reductions are sums, of what was divided before."""

    def set_reduce_scatter_max_input_buffers(self, max_input_buffers: int, *, recurse: bool = True) -> None:
        """Accepted: one buffer is under way."""

    def set_separate_reduce_scatter_group(self, enable: bool = True, *, recurse: bool = True) -> None:
        """Accepted: exchanges do not overlap."""

    def _set_unshard_async_op(self, async_op: bool) -> None:
        """Accepted: exchanges do not overlap."""


def _owners(modules, ignored):
    """{parameter: the modules and names that have it}, without those of other calls."""
    found: dict = {}
    for m in modules:
        for name, p in m._parameters.items():
            if p is not None and not any(p is i for i in ignored) and not hasattr(p, "_fsdp_sharded"):
                found.setdefault(id(p), (p, []))[1].append((m, name))
    return list(found.values())


def _managed(module):
    """The module and its submodules, without those that are sharded by themselves."""
    out = [module]
    for child in module.children():
        if not isinstance(child, FSDPModule):
            out += _managed(child)
    return out


def fully_shard(module, *, mesh=None, reshard_after_forward=None, shard_placement_fn=None,
                mp_policy=None, offload_policy=None, ignored_params=None, dp_mesh_dims=None):
    """Divides a module's parameters over the processes of a mesh, in place
    (``torch.distributed.fsdp.fully_shard``). Call it on the inner modules first.

    Args:
        module: a module, or a list of them that are gathered together.
        mesh: 1-d: parts; 2-d: parts along the second dimension, replicas along the first.
        reshard_after_forward: whether whole parameters are given up between forward and backward (by
            default for all but the outermost).
        dp_mesh_dims: which dimensions of a mesh that the parameters lie on already (`DataParallelMeshDims`).
        shard_placement_fn: ``f(parameter)``: the dimension (``Shard(d)``) to divide.

    >>> import ftorch as torch
    >>> from ftorch.distributed.fsdp import fully_shard
    >>> dist = torch.distributed
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> model = fully_shard(torch.nn.Linear(2, 2))
    >>> model.weight.placements
    (Shard(dim=0),)
    >>> model(torch.ones(1, 2)).shape
    torch.Size([1, 2])
    >>> dist.destroy_process_group()
    """
    modules = module if isinstance(module, (list, tuple)) else [module]
    for m in modules:
        if isinstance(m, (torch.nn.ModuleList, torch.nn.ModuleDict)) and type(m).forward is torch.nn.Module.forward:
            raise ValueError(
                f"fully_shard does not support containers that do not implement forward: {m}"
            )
        if isinstance(m, FSDPModule):
            raise AssertionError(
                "Each distinct composable distributed API can only be applied to a module once. fully_shard has already "
                f"been applied to the following module:\n{m}"
            )
    mesh = mesh or _default_mesh()
    lie: dict = {}  # where whole parameters lie, that do on more than the mesh
    if dp_mesh_dims is not None:
        mesh, lie = _data_mesh(mesh, dp_mesh_dims, modules)
    if mesh.ndim not in (1, 2):
        raise ValueError(f"fully_shard expects a 1D or 2D DeviceMesh but got {mesh}")
    if mesh.ndim == 2 and mesh.mesh_dim_names is None:
        raise AssertionError("Please init the 2D mesh for HSDP with mesh_dim_names specified")
    _check_reshard(reshard_after_forward, mesh.size(mesh.ndim - 1))
    policy = mp_policy or MixedPrecisionPolicy()
    ignored = list(ignored_params or ())
    managed = list(dict.fromkeys(m for root in modules for m in _managed(root)))
    sharded = []
    for p, owners in _owners(managed, ignored):
        if not p.dim():
            raise ValueError(
                "fully_shard doesn't support scalar parameters. "
                f"Change {owners[0][1]} to a 1D tensor with numel equal to 1."
            )
        placed = shard_placement_fn(p) if shard_placement_fn is not None else None
        made = ShardedParameter(owners, p, mesh, placed.dim if placed is not None else 0)
        made.spmd = lie.get(id(p), made.spmd)
        made.sharded._fsdp_sharded = True
        sharded.append(made)
    group = (ParameterGroup if mesh._places is None else DeviceGroup)(
        sharded, mesh, True if reshard_after_forward is None else bool(reshard_after_forward), policy
    )
    state = State(group, policy, modules, reshard_after_forward is None)
    for m in modules:
        m.__dict__["_fsdp_state"] = state  # a compiled module would give it to the one within
        kind = type(m)
        m.__class__ = type(f"FSDP{kind.__name__}", (FSDPModule, kind), {})
        m.register_forward_pre_hook(functools.partial(before, state), prepend=True, with_kwargs=True)
        m.register_forward_hook(functools.partial(after, state), always_call=True)
        m.register_state_dict_pre_hook(functools.partial(_parts_again, state))
        m._register_load_state_dict_pre_hook(functools.partial(_parts_again, state))
    return module


# Under the name that PyTorch's decorator of such functions gives it.
fully_shard.state = lambda module: getattr(module, "_fsdp_state", None)  # type: ignore[attr-defined]


def _parts_again(state, *_):
    state.group.reshard()


def _check_reshard(given, count):
    if isinstance(given, bool) or given is None:
        return
    if not isinstance(given, int):
        raise ValueError(
            f"reshard_after_forward should be a bool or an int representing the group size to reshard to, not {given}"
        )
    if given < 1 or given > count or count % given:
        raise ValueError(
            f"If passing reshard_after_forward as an int, it should be a factor of {count}, not {given}"
        )


@dataclass
class DataParallelMeshDims:
    """Which dimensions of a mesh on which parameters lie already are `fully_shard`'s.

    Args:
        shard: the name of the dimension along which parts lie, or several. ``replicate``: that of replicas.

    Raises:
        ValueError: for none of them.
    """

    shard: str | tuple[str, ...] | None = None
    replicate: str | tuple[str, ...] | None = None

    def __post_init__(self):
        if self.shard is None and self.replicate is None:
            raise ValueError("At least one of shard or replicate must be set in DataParallelMeshDims")

    @property
    def shard_names(self) -> tuple[str, ...]:
        """The names of ``shard``."""
        return (self.shard,) if isinstance(self.shard, str) else tuple(self.shard or ())

    @property
    def replicate_names(self) -> tuple[str, ...]:
        """The names of ``replicate``."""
        return (self.replicate,) if isinstance(self.replicate, str) else tuple(self.replicate or ())


def share_comm_ctx(modules) -> None:
    """Accepted: modules have no streams of their own. Raises ValueError for one that `fully_shard` was not called on."""
    for module in modules:
        if not isinstance(module, FSDPModule):
            raise ValueError(f"Expects list of FSDPModules but got {module}")


def _data_mesh(mesh, dims, modules):
    """The dimensions of a mesh that divide data, and by parameters where they lie. The modules' parameters, which lie on all
    of the mesh, become tensors on the other dimensions, or plain ones where there are none."""
    if mesh.mesh_dim_names is None:
        raise ValueError("mesh must have mesh_dim_names when dp_mesh_dims is provided")
    names = [*dims.replicate_names, *dims.shard_names]
    for name in names:
        if name not in mesh.mesh_dim_names:
            raise ValueError(f"Mesh dim name '{name}' not found in mesh.mesh_dim_names {mesh.mesh_dim_names}")
    others, lie = tuple(n for n in mesh.mesh_dim_names if n not in names), {}
    for module, name, p in [(m, n, p) for root in modules for m in _managed(root) for n, p in m._parameters.items()]:
        if p is None or hasattr(p, "_fsdp_sharded"):
            continue
        if not isinstance(p, DTensor):
            raise ValueError(
                "When dp_mesh_dims is provided, all parameters must be DTensors on the full SPMD mesh (e.g. via "
                f"distribute_module). Got plain tensor for parameter '{name}'."
            )
        local, placed = p._local_tensor.detach(), dict(zip(mesh.mesh_dim_names, p.placements))
        made = DTensor._made(local, mesh[others], [placed[n] for n in others], tuple(p.shape)) if others else local
        module._parameters[name] = own = torch.nn.Parameter(made, p.requires_grad)
        lie[id(own)] = mesh, p.placements, tuple(p.shape), *map(mesh.mesh_dim_names.index, names)
    parts = [mesh[n] if len(n) > 1 else mesh[n[0]] for n in (dims.replicate_names, dims.shard_names) if n]
    flat = [part._flatten("_".join(part.mesh_dim_names)) if part.ndim > 1 else part for part in parts]
    return flat[0] if len(flat) == 1 else DeviceMesh._concatenate(flat), lie


def _default_mesh():
    """A mesh of all processes; of all devices, if there is but one process."""
    count = torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1
    return init_device_mesh("cpu", (count if count > 1 else len(jax_devices("cpu")),))


def register_fsdp_forward_method(module, method_name: str) -> None:
    """Lets another method than ``forward`` gather the parameters, too. Raises ValueError if the module has none of the name."""
    if not isinstance(module, FSDPModule):
        return
    if not hasattr(module, method_name):
        raise ValueError(f"{type(module)} does not have a method {method_name}")
    method = getattr(module, method_name)

    @functools.wraps(method)
    def wrapped(*args, **kwargs):
        state = module._fsdp_state
        args, kwargs = before(state, module, args, kwargs)
        try:
            output = method(*args, **kwargs)
        except BaseException:
            after(state, module, args, None)
            raise
        changed = after(state, module, args, output)
        return output if changed is None else changed

    setattr(module, method_name, wrapped)
