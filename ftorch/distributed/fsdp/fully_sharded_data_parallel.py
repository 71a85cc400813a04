"""`FullyShardedDataParallel`: a module whose parameters are divided over processes, as one flat tensor (FSDP1)."""

from __future__ import annotations

import functools
import warnings
from contextlib import ExitStack
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import ftorch as torch

from ...eager.native.contexts import contextmanager
from ...utils._pytree import tree_map
from .. import distributed_c10d as dist
from ..algorithms._checkpoint.checkpoint_wrapper import (
    _CHECKPOINT_WRAPPED_MODULE,
    ActivationWrapper,
)
from ..algorithms._comm_hooks import default_hooks
from . import _flat_optimizer, _flat_states
from ._common_utils import (
    FSDP_PREFIX,
    FSDP_WRAPPED_MODULE,
    TrainingState,
    _FSDPState,
    clean_tensor_name,
)
from ._flat_group import FlatGroup
from ._state import State, after, before
from ._wrapping import filled, ignored_of, wrap_within
from .api import (  # noqa: F401  (PyTorch has all of them under this name, too)
    BackwardPrefetch,
    CPUOffload,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    LocalOptimStateDictConfig,
    LocalStateDictConfig,
    MixedPrecision,
    OptimStateDictConfig,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictConfig,
    StateDictSettings,
    StateDictType,
)

__all__ = ["FullyShardedDataParallel"]

_HYBRID = (ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2)


class OptimStateKeyType(Enum):
    """How an optimizer's state dict names parameters."""

    PARAM_NAME = auto()
    PARAM_ID = auto()


@dataclass(frozen=True)
class _Policy:
    """What a group of parameters is told of `MixedPrecision`; inputs are cast by the wrapper."""

    param_dtype: Any
    reduce_dtype: Any
    keeps_low_precision: bool
    output_dtype: Any = None
    cast_forward_inputs: bool = False


class FullyShardedDataParallel(torch.nn.Module, _FSDPState):
    """A module of which each process keeps a part (``torch.distributed.fsdp.FullyShardedDataParallel``).

    Its parameters lie end to end in one tensor, those of submodules which are wrapped by themselves excepted. Each process
    keeps an equal part: the `FlatParameter` ``_flat_param``, or with ``use_orig_params`` of each parameter its elements in the
    part (of one dimension, perhaps none). Within `summon_full_params` and in forward they are whole. `state_dict` gives whole
    tensors unless `set_state_dict_type` says otherwise.

    Args:
        process_group: the processes; for hybrid strategies two groups: of parts, and of replicas.
        sharding_strategy: ``FULL_SHARD`` (default), ``SHARD_GRAD_OP``, ``NO_SHARD``, or ``HYBRID_SHARD`` with a 2-d
            ``device_mesh``: replicas along the first dimension, parts along the second (without one all
            processes count as one node's).
        auto_wrap_policy: which submodules are wrapped by themselves (see `ftorch.distributed.fsdp.wrap`).
        mixed_precision: see `MixedPrecision`.
        ignored_modules: submodules whose parameters stay as they are (``ignored_states``: or parameters).
        param_init_fn: gives a submodule on the meta device values; by default ``reset_parameters()`` does.
        sync_module_states: whether all begin with rank 0's values.
        use_orig_params: whether the parameters stay parameters.

    Raises:
        ValueError: for groups or meshes that do not fit the strategy, and parameters that cannot be in one tensor: of several
            dtypes or, unless ``use_orig_params``, of which some are trained and some not.

    >>> import ftorch as torch
    >>> from ftorch.distributed.fsdp import FullyShardedDataParallel
    >>> dist = torch.distributed
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> model = FullyShardedDataParallel(torch.nn.Linear(2, 2), device_id=torch.device("cpu"))
    >>> [(name, p.shape) for name, p in model.named_parameters()]
    [('_fsdp_wrapped_module._flat_param', torch.Size([6]))]
    >>> [(name, x.shape) for name, x in model.state_dict().items()]
    [('weight', torch.Size([2, 2])), ('bias', torch.Size([2]))]
    >>> dist.destroy_process_group()
    """

    def __init__(self, module, process_group=None, sharding_strategy=None, cpu_offload=None, auto_wrap_policy=None,
                 backward_prefetch=BackwardPrefetch.BACKWARD_PRE, mixed_precision=None, ignored_modules=None,
                 param_init_fn=None, device_id=None, sync_module_states=False, forward_prefetch=False, limit_all_gathers=True,
                 use_orig_params=False, ignored_states=None, device_mesh=None):
        super().__init__()
        if isinstance(module, (torch.nn.ModuleList, torch.nn.ModuleDict)):
            warnings.warn(
                f"FSDP will not all-gather parameters for containers that do not implement forward: {module}", stacklevel=2
            )
        modules, parameters = ignored_of(FullyShardedDataParallel, module, ignored_modules, ignored_states)
        self._ignored_modules, self._ignored_params = modules, parameters
        strategy = sharding_strategy or ShardingStrategy.FULL_SHARD
        self._set_groups(process_group, device_mesh, strategy, auto_wrap_policy)
        if auto_wrap_policy is not None:
            options = {
                "process_group": process_group, "sharding_strategy": sharding_strategy, "cpu_offload": cpu_offload,
                "backward_prefetch": backward_prefetch, "mixed_precision": mixed_precision, "param_init_fn": param_init_fn,
                "device_id": device_id, "sync_module_states": sync_module_states, "forward_prefetch": forward_prefetch,
                "limit_all_gathers": limit_all_gathers, "use_orig_params": use_orig_params,
                "ignored_states": parameters, "device_mesh": device_mesh,
            }
            if strategy in _HYBRID and device_mesh is None:
                options["process_group"] = self.process_group, self._inter_node_pg
            wrap_within(FullyShardedDataParallel, module, auto_wrap_policy, modules, {*parameters}, options)
        mp = mixed_precision or MixedPrecision()
        self.mixed_precision, self.cpu_offload = mp, cpu_offload or CPUOffload()
        self.sharding_strategy, self._use_orig_params = strategy, use_orig_params
        self.training_state = TrainingState.IDLE
        self._is_within_another, self._comm_hook = False, None
        own = [m for m in module.modules() if m not in modules]
        synced = [g for g in (self.process_group, self._inter_node_pg) if g is not None and sync_module_states]
        self.compute_device = filled(
            FullyShardedDataParallel, module, own, parameters, param_init_fn, device_id, synced
        )
        for inner in FullyShardedDataParallel.fsdp_modules(module):
            inner._is_within_another = True
        self._own_buffers = {
            clean_tensor_name(f"{path}.{name}" if path else name): b.dtype
            for path, m in module.named_modules() if m not in modules for name, b in m._buffers.items() if b is not None
        }
        self._fsdp_wrapped_module = module
        self._group = FlatGroup(
            module, {id(p) for p in parameters}, self.process_group, self._inter_node_pg,
            strategy is not ShardingStrategy.NO_SHARD, use_orig_params,
            _Policy(mp.param_dtype, mp.reduce_dtype, mp.keep_low_precision_grads),
            strategy in (ShardingStrategy.FULL_SHARD, ShardingStrategy.HYBRID_SHARD),
        )
        self.__dict__["_fsdp_state"] = state = State(self._group, self._group.policy, [self], True)
        self.register_forward_pre_hook(functools.partial(_before, state), prepend=True, with_kwargs=True)
        self.register_forward_hook(functools.partial(after, state), always_call=True)
        self._set_settings(*_settings(StateDictType.FULL_STATE_DICT))
        _flat_states.register(self)

    def _set_groups(self, process_group, mesh, strategy, policy):
        """Sets the group of the processes that have parts, and the one of those that have the same ones."""
        self._device_mesh, self._inter_node_pg = mesh, None
        if process_group is not None and mesh is not None:
            raise ValueError(
                "Cannot pass both process_group and device_mesh at the same time. Please just pass only one of them."
            )
        if strategy not in _HYBRID:
            self.process_group = mesh.get_group(0) if mesh is not None else (
                process_group or dist.group_of(None)
            )
        elif mesh is not None:
            if mesh.ndim != 2:
                raise ValueError(f"Expected device_mesh to have ndim=2 but got {mesh.ndim}")
            self._inter_node_pg, self.process_group = mesh.get_group(0), mesh.get_group(1)
        elif process_group is not None:
            if not isinstance(process_group, tuple) or len(process_group) != 2:
                raise ValueError(
                    "Expected process_group to be passed in as either None or "
                    f"Tuple[dist.ProcessGroup, dist.ProcessGroup] but got {type(process_group)}"
                )
            self.process_group, self._inter_node_pg = process_group
        elif policy is None:
            raise ValueError(
                f"Manual wrapping with {strategy} requires explicit specification of process group or device_mesh."
            )
        else:
            self.process_group = dist.group_of(None)
            self._inter_node_pg, _ = dist.new_subgroups(1)
        self.rank, self.world_size = self.process_group.rank(), self.process_group.size()

    @staticmethod
    def fsdp_modules(module, root_only: bool = False) -> list:
        """The modules within (and itself) that are divided; with ``root_only`` those in no other."""
        found = [m for m in module.modules() if isinstance(m, FullyShardedDataParallel)]
        inner = {id(n) for m in found for n in m.modules() if n is not m} if root_only else set()
        return [m for m in found if id(m) not in inner]

    def check_is_root(self) -> bool:
        """Whether no other one was made around it."""
        return not self._is_within_another

    @staticmethod
    def rekey_optim_state_dict(optim_state_dict, optim_state_key_type, model, optim_input=None, optim=None):
        """A whole optimizer state dict with names instead of numbers, or the other way round.

        Raises:
            ValueError: for parameters that the model lacks.
        """
        return _flat_optimizer.rekeyed(
            optim_state_dict, optim_state_key_type is OptimStateKeyType.PARAM_NAME, model, optim_input, optim
        )

    @property
    def module(self):
        """The wrapped module, without that of checkpoints around it."""
        inner = self._fsdp_wrapped_module
        return getattr(inner, _CHECKPOINT_WRAPPED_MODULE) if isinstance(inner, ActivationWrapper) else inner

    @property
    def _has_params(self):
        return bool(self._group.parameters)

    @property
    def _flat_param(self):
        return self._group.describe() if self._group.parameters else None

    @property
    def _is_root(self):
        root = self._fsdp_state.root
        return None if root is None else not self._is_within_another

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__(FSDP_WRAPPED_MODULE), name)

    def __getitem__(self, key):
        """What the wrapped module gives: a ``Sequential``'s module."""
        return self._fsdp_wrapped_module[key]

    def forward(self, *args, **kwargs):
        """The wrapped module's output."""
        try:
            return self._fsdp_wrapped_module(*args, **kwargs)
        finally:
            if not torch.is_grad_enabled():
                self._group.reshard()  # no backward will

    def _cast_buffers(self):
        """Before the first forward: buffers take the dtype that `MixedPrecision` says."""
        dtype = self.mixed_precision.buffer_dtype
        if self._fsdp_state.root is not None or dtype is None:
            return
        inner = {id(m) for w in FullyShardedDataParallel.fsdp_modules(self._fsdp_wrapped_module) for m in w.modules()}
        for m in self._fsdp_wrapped_module.modules():
            if id(m) not in inner and m not in self._ignored_modules:
                for name, b in m._buffers.items():
                    if b is not None and b.is_floating_point():
                        m._buffers[name] = b.to(dtype)

    def reshard(self):
        """Gives up the whole parameters."""
        self._group.reshard()

    def named_parameters(self, *args, **kwargs):
        """Names and parameters; within `summon_full_params` those of the module without wrappers."""
        for name, p in super().named_parameters(*args, **kwargs):
            yield self._shown_name(name), p

    def named_buffers(self, *args, **kwargs):
        """Names and buffers, as `named_parameters`."""
        for name, b in super().named_buffers(*args, **kwargs):
            yield self._shown_name(name), b

    def _shown_name(self, name):
        return name.replace(FSDP_PREFIX, "") if self.training_state is TrainingState.SUMMON_FULL_PARAMS else name

    def apply(self, fn):
        """Calls ``fn`` with each submodule, this one's parameters whole."""
        self._assert_state(TrainingState.IDLE)
        with self.summon_full_params(self, recurse=False):
            return super().apply(fn)

    def _apply(self, *args, **kwargs):
        with ExitStack() as stack:
            for m in FullyShardedDataParallel.fsdp_modules(self):
                stack.enter_context(m._group.only_flat())
            return super()._apply(*args, **kwargs)

    def _assert_state(self, state):
        states = [state] if isinstance(state, TrainingState) else state
        if self.training_state not in states:
            raise ValueError(f"expected to be in states {states} but current state is {self.training_state}")

    # --- whole parameters ---

    @staticmethod
    @contextmanager
    def summon_full_params(module, recurse=True, writeback=True, rank0_only=False, offload_to_cpu=False,
                           with_grads=False):
        """Within, parameters are whole, under the names of the module without wrappers.

        Args:
            writeback: whether what is written to them is kept.
            rank0_only: whether only rank 0 sees them. ``with_grads``: their gradients as well.

        Raises:
            NotImplementedError: for ``rank0_only`` with ``writeback``; ``with_grads`` without ``use_orig_params``.
            AssertionError: within itself.
        """
        found = FullyShardedDataParallel.fsdp_modules(module) if recurse else [
            module] if isinstance(module, FullyShardedDataParallel) else []
        with ExitStack() as stack:
            for m in found:
                m._check_summon(writeback, rank0_only, offload_to_cpu, with_grads)
                stack.enter_context(
                    m._group.summoned(writeback, not rank0_only or m.process_group.rank() == 0, with_grads)
                )
                m.training_state = TrainingState.SUMMON_FULL_PARAMS
                stack.callback(setattr, m, "training_state", TrainingState.IDLE)
            yield

    def _check_summon(self, writeback, rank0_only, offload_to_cpu, with_grads):
        if with_grads and (offload_to_cpu or not self._use_orig_params):
            raise NotImplementedError(
                f"with_grads={with_grads}, use_orig_params={self._use_orig_params}, offload_to_cpu={offload_to_cpu} "
                "is not supported yet"
            )
        if offload_to_cpu and self._has_params and not self._group.divides:
            raise NotImplementedError("offload_to_cpu=True and NO_SHARD is not supported yet")
        if writeback and rank0_only:
            raise NotImplementedError("writeback=True and rank0_only=True is not supported yet")
        if offload_to_cpu and not rank0_only:
            warnings.warn(
                "offload_to_cpu=True and rank0_only=False may result in theunsharded parameters being redundantly copied to "
                "CPU memory for GPUs sharing the same CPU memory, which risks CPU OOM. We recommend using "
                "offload_to_cpu=True with rank0_only=True.", stacklevel=4,
            )
        if self._fsdp_state.depth:
            raise AssertionError("Cannot manually unshard parameters during forward/backward")
        if self.training_state is TrainingState.SUMMON_FULL_PARAMS:
            raise AssertionError("Cannot manually unshard parameters when already unsharding parameters")

    @torch.no_grad()
    def clip_grad_norm_(self, max_norm, norm_type=2.0):
        """`ftorch.nn.utils.clip_grad_norm_` of the gradients of all processes; the total norm.

        Raises:
            RuntimeError: on one that lies within another.
        """
        if self._is_within_another:
            raise RuntimeError("`clip_grad_norm_()` should only be called on the root FSDP instance")
        self._assert_state(TrainingState.IDLE)
        divided: dict = {}
        for m in FullyShardedDataParallel.fsdp_modules(self):
            if m._group.divides:
                divided |= {id(p.sharded): p.sharded for p in m._group.parameters}
        if not divided:
            return torch.nn.utils.clip_grad_norm_(self.parameters(), max_norm, norm_type)
        max_norm, norm_type = float(max_norm), float(norm_type)
        others = [p for p in self.parameters() if id(p) not in divided]
        parts = [p.grad for p in divided.values() if p.grad is not None]
        wholes = [p.grad for p in others if p.grad is not None]
        norm = _norm(parts, norm_type, self.compute_device)
        if norm_type == float("inf"):
            if wholes:
                norm = torch.maximum(norm, _norm(wholes, norm_type, self.compute_device))
            dist.all_reduce(norm, op=dist.ReduceOp.MAX, group=self.process_group)
        else:
            norm = norm**norm_type
            dist.all_reduce(norm, group=self.process_group)
            if wholes:
                norm += _norm(wholes, norm_type, self.compute_device) ** norm_type
            norm = norm ** (1.0 / norm_type)
        grads = [*parts, *wholes]
        factor = torch.clamp(max_norm / (norm + 1e-6), max=1.0)
        for grad in grads:
            grad.mul_(factor.to(grad.device, grad.dtype))
        if not grads:
            warnings.warn(
                f"Called FSDP.clip_grad_norm_() on rank {self.rank} with no gradients -- returning the total norm in the "
                f"default dtype {norm.dtype}", stacklevel=3,
            )
            return norm
        return norm.to(functools.reduce(torch.promote_types, [g.dtype for g in grads]))

    @contextmanager
    def no_sync(self):
        """Within, gradients are not reduced; they wait for the first backward behind it.

        Raises:
            RuntimeError: on one that lies within another.
        """
        if self._is_within_another:
            raise RuntimeError(
                "`no_sync()` on inner FSDP instances is not supported. Please call `no_sync()` on root FSDP module."
            )
        self._assert_state(TrainingState.IDLE)
        groups = [m._group for m in FullyShardedDataParallel.fsdp_modules(self)]
        before = [group.syncs for group in groups]
        for group in groups:
            group.syncs = False
        try:
            yield
        finally:
            for group, syncs in zip(groups, before):
                group.syncs = syncs

    def register_comm_hook(self, state, hook) -> None:
        """Lets ``hook(state, gradient)`` (of parts ``hook(state, gradient, part)``) reduce gradients.

        Raises:
            AssertionError: on one within another, a second time, and for hybrid strategies.
        """
        if not self.check_is_root():
            raise AssertionError("register_comm_hook can only be called on a root instance.")
        for m in FullyShardedDataParallel.fsdp_modules(self):
            if m.sharding_strategy in _HYBRID:
                raise AssertionError(
                    f"Communication hook is not supported for hybrid strategies: {m.sharding_strategy}"
                )
            if m._comm_hook is not None:
                raise AssertionError("A communication hook is already registered")
            if not callable(hook):
                raise ValueError(f"The communication hook must be callable but got {hook}")
            m._comm_hook, m._comm_hook_state = hook, state
            m._group.has_own_hook, m._group.hook_of_gradients = True, (state, hook)

    def _low_precision_hook_enabled(self):
        return self._comm_hook in (default_hooks.bf16_compress_hook, default_hooks.fp16_compress_hook)

    # --- state dicts ---

    def _set_settings(self, kind, config, optimizer_config):
        self._state_dict_type, self._state_dict_config, self._optim_state_dict_config = kind, config, optimizer_config

    @staticmethod
    def set_state_dict_type(module, state_dict_type, state_dict_config=None, optim_state_dict_config=None):
        """Sets what `state_dict` and `optim_state_dict` give; returns the settings before.

        Raises:
            RuntimeError: for configurations of another type of state dicts.
        """
        warnings.warn(
            "FSDP.state_dict_type() and FSDP.set_state_dict_type() are being deprecated. Please use APIs, get_state_dict() and "
            "set_state_dict(), which can support different parallelisms, FSDP1, FSDP2, DDP. API doc: "
            "https://pytorch.org/docs/stable/distributed.checkpoint.html"
            "#torch.distributed.checkpoint.state_dict.get_state_dict ."
            "Tutorial: https://pytorch.org/tutorials/recipes/distributed_checkpoint_recipe.html .",
            FutureWarning, stacklevel=2,
        )
        return _set_settings(module, *_settings(state_dict_type, state_dict_config, optim_state_dict_config))

    @staticmethod
    def get_state_dict_type(module) -> StateDictSettings | None:
        """The settings of the modules within, None where there are none.

        Raises:
            AssertionError: if they differ.
        """
        found = [_settings_of(m) for m in FullyShardedDataParallel.fsdp_modules(module)]
        for settings in found[1:]:
            if settings != found[0]:
                raise AssertionError(
                    f"All FSDP modules must have the same state dict settings.Got {settings} and {found[0]}."
                )
        return found[0] if found else None

    @staticmethod
    @contextmanager
    def state_dict_type(module, state_dict_type, state_dict_config=None, optim_state_dict_config=None):
        """Within, `state_dict` gives something else."""
        before = FullyShardedDataParallel.set_state_dict_type(
            module, state_dict_type, state_dict_config, optim_state_dict_config
        )
        try:
            yield
        finally:
            _set_settings(module, before.state_dict_type, before.state_dict_config, before.optim_state_dict_config)

    @staticmethod
    def optim_state_dict(model, optim, optim_state_dict=None, group=None) -> dict:
        """An optimizer's state by names: whole tensors, or parts, as the type of state dicts says."""
        settings = FullyShardedDataParallel.get_state_dict_type(model)
        return _flat_optimizer.by_names(
            model, optim, optim.state_dict() if optim_state_dict is None else optim_state_dict, settings, group
        )

    @staticmethod
    def optim_state_dict_to_load(
        model, optim, optim_state_dict, is_named_optimizer: bool = False, load_directly: bool = False, group=None
    ) -> dict:
        """What ``optim.load_state_dict`` takes, of `optim_state_dict`'s result; with ``load_directly`` it is loaded."""
        settings = FullyShardedDataParallel.get_state_dict_type(model)
        rank0 = getattr(settings.optim_state_dict_config, "rank0_only", False)
        state = _flat_optimizer.to_load(model, optim, optim_state_dict, rank0, is_named_optimizer)
        if load_directly:
            optim.load_state_dict(state)
        return state

    @staticmethod
    def full_optim_state_dict(model, optim, optim_input=None, rank0_only: bool = True, group=None) -> dict:
        """`optim_state_dict` of whole tensors, with ``rank0_only`` on rank 0 only (an empty dict elsewhere)."""
        _replaced("full_optim_state_dict", "optim_state_dict")
        settings = StateDictSettings(*_settings(
            StateDictType.FULL_STATE_DICT, None, FullOptimStateDictConfig(rank0_only=rank0_only)
        ))
        return _flat_optimizer.by_names(model, optim, optim.state_dict(), settings, group)

    @staticmethod
    def sharded_optim_state_dict(model, optim, group=None) -> dict:
        """`optim_state_dict` of parts."""
        _replaced("sharded_optim_state_dict", "optim_state_dict")
        settings = StateDictSettings(*_settings(StateDictType.SHARDED_STATE_DICT))
        return _flat_optimizer.by_names(model, optim, optim.state_dict(), settings, group)

    @staticmethod
    def scatter_full_optim_state_dict(full_optim_state_dict, model, optim_input=None, optim=None, group=None) -> dict:
        """What ``optim.load_state_dict`` takes, of the whole state that rank 0 has."""
        _replaced("scatter_full_optim_state_dict", "optim_state_dict_to_load")
        return _flat_optimizer.to_load(model, optim or optim_input, full_optim_state_dict, True)

    @staticmethod
    def shard_full_optim_state_dict(full_optim_state_dict, model, optim_input=None, optim=None) -> dict:
        """What ``optim.load_state_dict`` takes, of the whole state that each process has."""
        _replaced("shard_full_optim_state_dict", "optim_state_dict_to_load")
        return _flat_optimizer.to_load(model, optim or optim_input, full_optim_state_dict)

    @staticmethod
    def flatten_sharded_optim_state_dict(sharded_optim_state_dict, model, optim) -> dict:
        """What ``optim.load_state_dict`` takes, of `sharded_optim_state_dict`'s result."""
        _replaced("flatten_sharded_optim_state_dict", "optim_state_dict_to_load")
        return _flat_optimizer.to_load(model, optim, sharded_optim_state_dict)


def _before(state, module, args, kwargs):
    """Before a forward: gathers the parameters, and casts the inputs."""
    module._cast_buffers()
    args, kwargs = before(state, module, args, kwargs)
    mp = module.mixed_precision
    if mp.param_dtype is not None and (
        mp.cast_root_forward_inputs if state.is_root and not mp.cast_forward_inputs else mp.cast_forward_inputs
    ):
        args, kwargs = tree_map(
            lambda x: x.to(mp.param_dtype) if isinstance(x, torch.Tensor) and x.is_floating_point() else x, (args, kwargs)
        )
    return args, kwargs


def _norm(grads, norm_type, device):
    """The norm of all elements, in float32."""
    if not grads:
        return torch.tensor(0.0, device=device)
    norms = [torch.linalg.vector_norm(g.detach(), norm_type, dtype=torch.float32) for g in grads]
    return torch.linalg.vector_norm(torch.stack(norms), norm_type, dtype=torch.float32)


def _settings(kind, config=None, optimizer_config=None):
    """A type of state dicts and its configurations, by default those without options."""
    of = {
        StateDictType.FULL_STATE_DICT: (FullStateDictConfig, FullOptimStateDictConfig),
        StateDictType.LOCAL_STATE_DICT: (LocalStateDictConfig, LocalOptimStateDictConfig),
        StateDictType.SHARDED_STATE_DICT: (ShardedStateDictConfig, ShardedOptimStateDictConfig),
    }[kind]
    given = [made() if c is None else c for made, c in zip(of, (config, optimizer_config))]
    for name, made, c in zip(("state_dict_config", "optim_state_dict_config"), of, given):
        if type(c) is not made:
            raise RuntimeError(f"Expected {name} of type {made} but got {type(c)}")
    return kind, *given


def _settings_of(m):
    if m._device_mesh is not None and m._state_dict_type is StateDictType.SHARDED_STATE_DICT:
        m._optim_state_dict_config._use_dtensor = True
    return StateDictSettings(m._state_dict_type, m._state_dict_config, m._optim_state_dict_config)


def _set_settings(module, *settings):
    before = StateDictSettings(None, None, None)  # type: ignore[arg-type]
    for i, m in enumerate(FullyShardedDataParallel.fsdp_modules(module)):
        if not i:
            before = StateDictSettings(m._state_dict_type, m._state_dict_config, m._optim_state_dict_config)
        elif m._state_dict_type != before.state_dict_type:
            raise AssertionError("All FSDP modules should have the same state_dict_type.")
        m._set_settings(*settings)
    return before


def _replaced(name, by):
    warnings.warn(
        f"``FullyShardedDataParallel.{name}``is being deprecated and is replaced by ``FullyShardedDataParallel.{by}``. "
        f"``FullyShardedDataParallel.{name}`` may be removed after PyTorch 2.2.",
        FutureWarning, stacklevel=3,
    )
