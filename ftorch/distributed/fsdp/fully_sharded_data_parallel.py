"""`FullyShardedDataParallel`: `fully_shard` as a wrapper (FSDP1)."""

from __future__ import annotations

import warnings
from enum import Enum, auto

import ftorch as torch

from ...eager.native.contexts import contextmanager
from ...utils._pytree import tree_map
from ..device_mesh import DeviceMesh
from ..tensor import DTensor
from ._common_utils import TrainingState, _FSDPState  # noqa: F401
from ._fully_shard import FSDPModule, MixedPrecisionPolicy, fully_shard
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
from .wrap import chosen

__all__ = ["FullyShardedDataParallel"]


class OptimStateKeyType(Enum):
    """How an optimizer's state dict names parameters."""

    PARAM_NAME = auto()
    PARAM_ID = auto()


def _mesh_for(strategy, group):
    """The mesh of a strategy: a second dimension says who has the same parts."""
    if strategy in (ShardingStrategy.FULL_SHARD, ShardingStrategy.SHARD_GRAD_OP):
        return DeviceMesh.from_group(group, "cpu")
    ranks = torch.tensor(torch.distributed.get_process_group_ranks(group))
    shape = (-1, 1) if strategy is ShardingStrategy.NO_SHARD else (1, -1)
    return DeviceMesh("cpu", ranks.view(shape), mesh_dim_names=("replicate", "shard"))


class FullyShardedDataParallel(torch.nn.Module, _FSDPState):
    """A module of which each process keeps a part (``torch.distributed.fsdp.FullyShardedDataParallel``).

    Parameters are `DTensor`s, as with ``use_orig_params=True`` under their own names; `state_dict` gives whole
    tensors unless `set_state_dict_type` says otherwise.

    Args:
        sharding_strategy: ``FULL_SHARD`` (default), ``SHARD_GRAD_OP``, ``NO_SHARD``, or ``HYBRID_SHARD`` with a 2-d
            ``device_mesh``: replicas along the first dimension, parts along the second (without one all
            processes count as one node's).
        auto_wrap_policy: which submodules are gathered by themselves (see `ftorch.distributed.fsdp.wrap`).
        mixed_precision: see `MixedPrecision`.
        sync_module_states: whether all begin with rank 0's values.

    Raises:
        ValueError: for hybrid strategies with groups of one's own instead of a mesh.
    """

    def __init__(self, module, process_group=None, sharding_strategy=None, cpu_offload=None,
                 auto_wrap_policy=None, backward_prefetch=None, mixed_precision=None,
                 ignored_modules=None, param_init_fn=None, device_id=None, sync_module_states=False,
                 forward_prefetch=False, limit_all_gathers=True, use_orig_params=True,
                 ignored_states=None, device_mesh=None):
        super().__init__()
        strategy = sharding_strategy or ShardingStrategy.FULL_SHARD
        if isinstance(process_group, tuple):
            raise ValueError(f"{strategy} with two groups is not supported: give a 2-d device_mesh")
        group = process_group or torch.distributed.distributed_c10d.group_of(None)
        mesh = device_mesh or _mesh_for(strategy, group)
        mp = mixed_precision or MixedPrecision()
        policy = MixedPrecisionPolicy(
            mp.param_dtype, mp.reduce_dtype, None, mp.cast_forward_inputs or mp.cast_root_forward_inputs
        )
        if sync_module_states:
            from .._reducer import broadcast_coalesced

            broadcast_coalesced(group, [*module.parameters(), *module.buffers()])
        ignored = [p for m in ignored_modules or () for p in m.parameters()]
        ignored += [p for p in ignored_states or () if isinstance(p, torch.Tensor)]
        options = {
            "mesh": mesh, "mp_policy": policy, "ignored_params": ignored,
            "reshard_after_forward": strategy in (
                ShardingStrategy.FULL_SHARD, ShardingStrategy.HYBRID_SHARD,
            ),
        }
        if auto_wrap_policy is not None:
            for sub in chosen(module, auto_wrap_policy):
                if not isinstance(sub, FSDPModule):
                    fully_shard(sub, **options)
        if not isinstance(module, FSDPModule):
            fully_shard(module, **options)
        self._is_within_another = False
        for inner in FullyShardedDataParallel.fsdp_modules(module):
            inner._is_within_another = True
        self._fsdp_wrapped_module = module
        self.process_group, self.sharding_strategy = group, strategy
        self._state_dict_settings = StateDictSettings(*_settings(StateDictType.FULL_STATE_DICT))

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
        names = {id(p): n.replace("_fsdp_wrapped_module.", "") for n, p in model.named_parameters()}
        groups = optim.param_groups if optim is not None else optim_input
        if groups is None:
            listed = list(model.parameters())
        else:
            listed = [p for g in groups for p in (g["params"] if isinstance(g, dict) else [g])]
        if any(id(p) not in names for p in listed):
            raise ValueError("the optimizer has parameters that the model lacks")
        pairs = [(i, names[id(p)]) for i, p in enumerate(listed)]
        if optim_state_key_type is OptimStateKeyType.PARAM_ID:
            pairs = [(n, i) for i, n in pairs]
        new = dict(pairs)
        return {
            "state": {new[k]: v for k, v in optim_state_dict["state"].items()},
            "param_groups": [
                {**g, "params": sorted(new[k] for k in g["params"])} for g in optim_state_dict["param_groups"]
            ],
        }

    @property
    def module(self):
        """The wrapped module."""
        return self._fsdp_wrapped_module

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self._fsdp_wrapped_module, name)

    def forward(self, *args, **kwargs):
        try:
            return self._fsdp_wrapped_module(*args, **kwargs)
        finally:
            if not torch.is_grad_enabled():
                self._fsdp_wrapped_module.reshard()  # no backward will

    def named_parameters(self, *args, **kwargs):
        for name, p in super().named_parameters(*args, **kwargs):
            yield name.replace("_fsdp_wrapped_module.", ""), p

    # --- whole parameters ---

    @staticmethod
    @contextmanager
    def summon_full_params(module, recurse=True, writeback=True, rank0_only=False, offload_to_cpu=False,
                           with_grads=False):
        """Within, parameters are whole; what is written to them is kept."""
        groups = [m._fsdp_state.group for m in module.modules() if isinstance(m, FSDPModule)]
        with torch.no_grad():
            for group in groups:
                group.reshard()
                group.full_precision = True
                try:
                    group.unshard()
                finally:
                    group.full_precision = False
        try:
            yield
        finally:
            with torch.no_grad():
                for group in groups:
                    if writeback:
                        for p, whole in zip(group.parameters, group.whole):
                            placed = DTensor._made(whole, p.mesh, *_whole(p))
                            p.local.copy_(
                                placed.redistribute(placements=p.sharded.placements)._local_tensor
                            )
                    group.reshard()

    def clip_grad_norm_(self, max_norm, norm_type=2.0):
        """`ftorch.nn.utils.clip_grad_norm_` of gradients that are divided; the total norm."""
        norm = torch.nn.utils.clip_grad_norm_(self.parameters(), max_norm, norm_type)
        return norm.full_tensor() if isinstance(norm, DTensor) else norm

    @contextmanager
    def no_sync(self):
        """Within, gradients are not reduced; they wait for the first backward behind it."""
        groups = [m._fsdp_state.group for m in self.modules() if isinstance(m, FSDPModule)]
        for group in groups:
            group.syncs = False
        try:
            yield
        finally:
            for group in groups:
                group.syncs = True

    # --- state dicts ---

    @staticmethod
    def set_state_dict_type(module, state_dict_type, state_dict_config=None, optim_state_dict_config=None):
        """Sets what `state_dict` and `optim_state_dict` give; returns the settings before.

        Raises:
            RuntimeError: for configurations of another type of state dicts.
        """
        settings = _settings(state_dict_type, state_dict_config, optim_state_dict_config)
        before = FullyShardedDataParallel.get_state_dict_type(module)
        for m in FullyShardedDataParallel.fsdp_modules(module):
            m._state_dict_settings = StateDictSettings(*settings)
        return before

    @staticmethod
    def get_state_dict_type(module) -> StateDictSettings | None:
        """The settings of the modules within, None where there are none.

        Raises:
            AssertionError: if they differ.
        """
        found = [m._state_dict_settings for m in FullyShardedDataParallel.fsdp_modules(module)]
        for settings in found[1:]:
            assert settings == found[0], (
                f"All FSDP modules must have the same state dict settings.Got {settings} and {found[0]}."
            )
        return found[0] if found else None

    @staticmethod
    @contextmanager
    def state_dict_type(module, state_dict_type, state_dict_config=None, optim_state_dict_config=None):
        """Within, `state_dict` gives something else."""
        own = FullyShardedDataParallel.fsdp_modules(module)
        before = [m._state_dict_settings for m in own]
        FullyShardedDataParallel.set_state_dict_type(module, state_dict_type, state_dict_config, optim_state_dict_config)
        try:
            yield
        finally:
            for m, settings in zip(own, before):
                m._state_dict_settings = settings

    def state_dict(self, *args, **kwargs):
        """The state under the module's own names."""
        settings = self._state_dict_settings
        values = self._fsdp_wrapped_module.state_dict(*args, **kwargs)
        if settings.state_dict_type is not StateDictType.FULL_STATE_DICT:
            return values
        full = {k: _copied(v) for k, v in values.items()}
        if getattr(settings.state_dict_config, "rank0_only", False) and self.process_group.rank():
            return {}
        return type(values)(full)

    def load_state_dict(self, state_dict, strict: bool = True, assign: bool = False):
        """Sets the state, of whole tensors or parts."""
        from ..checkpoint.state_dict import StateDictOptions, set_model_state_dict

        return set_model_state_dict(
            self._fsdp_wrapped_module, state_dict, options=StateDictOptions(strict=strict)
        )

    @staticmethod
    def optim_state_dict(model, optim, optim_state_dict=None, group=None) -> dict:
        """An optimizer's state by names: whole tensors, or parts, as the type of state dicts says."""
        settings = FullyShardedDataParallel.get_state_dict_type(model)
        assert settings is not None
        full = settings.state_dict_type is StateDictType.FULL_STATE_DICT
        return _optimizer_state(model, optim, full, getattr(settings.optim_state_dict_config, "rank0_only", False))

    @staticmethod
    def optim_state_dict_to_load(
        model, optim, optim_state_dict, is_named_optimizer: bool = False, load_directly: bool = False, group=None
    ) -> dict:
        """What ``optim.load_state_dict`` takes, of `optim_state_dict`'s result; with ``load_directly`` it is loaded."""
        settings = FullyShardedDataParallel.get_state_dict_type(model)
        assert settings is not None
        rank0 = getattr(settings.optim_state_dict_config, "rank0_only", False)
        state = _optimizer_state_to_load(model, optim, optim_state_dict, rank0, is_named_optimizer)
        if load_directly:
            optim.load_state_dict(state)
        return state

    @staticmethod
    def full_optim_state_dict(model, optim, optim_input=None, rank0_only: bool = True, group=None) -> dict:
        """`optim_state_dict` of whole tensors, with ``rank0_only`` on rank 0 only (an empty dict elsewhere)."""
        _replaced("full_optim_state_dict", "optim_state_dict")
        return _optimizer_state(model, optim, True, rank0_only)

    @staticmethod
    def sharded_optim_state_dict(model, optim, group=None) -> dict:
        """`optim_state_dict` of parts."""
        _replaced("sharded_optim_state_dict", "optim_state_dict")
        return _optimizer_state(model, optim, False, False)

    @staticmethod
    def scatter_full_optim_state_dict(full_optim_state_dict, model, optim_input=None, optim=None, group=None) -> dict:
        """What ``optim.load_state_dict`` takes, of the whole state that rank 0 has."""
        _replaced("scatter_full_optim_state_dict", "optim_state_dict_to_load")
        return _optimizer_state_to_load(model, optim or optim_input, full_optim_state_dict, True)

    @staticmethod
    def shard_full_optim_state_dict(full_optim_state_dict, model, optim_input=None, optim=None) -> dict:
        """What ``optim.load_state_dict`` takes, of the whole state that each process has."""
        _replaced("shard_full_optim_state_dict", "optim_state_dict_to_load")
        return _optimizer_state_to_load(model, optim or optim_input, full_optim_state_dict)

    @staticmethod
    def flatten_sharded_optim_state_dict(sharded_optim_state_dict, model, optim) -> dict:
        """What ``optim.load_state_dict`` takes, of `sharded_optim_state_dict`'s result."""
        _replaced("flatten_sharded_optim_state_dict", "optim_state_dict_to_load")
        return _optimizer_state_to_load(model, optim, sharded_optim_state_dict)


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


def _replaced(name, by):
    warnings.warn(
        f"``FullyShardedDataParallel.{name}``is being deprecated and is replaced by ``FullyShardedDataParallel.{by}``. "
        f"``FullyShardedDataParallel.{name}`` may be removed after PyTorch 2.2.",
        FutureWarning, stacklevel=3,
    )


def _optimizer_state(model, optimizer, full, rank0_only):
    from ..checkpoint.state_dict import StateDictOptions, get_optimizer_state_dict

    options = StateDictOptions(full_state_dict=full, cpu_offload=full and rank0_only)
    found = get_optimizer_state_dict(model, optimizer, options=options)
    if not found:
        return found
    state = dict(sorted(found["state"].items()))
    # Later steps count in the optimizer's own tensors.
    return {**found, "state": tree_map(_copied, state) if full else state}


def _optimizer_state_to_load(model, optimizer, state_dict, of_rank0=False, named=False):
    """A state dict by the numbers of an optimizer's parameters (or ``named``), its values divided as they are.

    Args:
        optimizer: one, or what it is made of: parameters or groups of them.
        of_rank0: whether rank 0 has it for all.
    """
    from ..checkpoint.state_dict import StateDictOptions, _names, _of_rank0, _placed

    given = _of_rank0(state_dict, StateDictOptions(full_state_dict=True, broadcast_from_rank0=of_rank0))
    groups = getattr(optimizer, "param_groups", None) or (list(model.parameters()) if optimizer is None else list(optimizer))
    listed = [p for g in groups for p in (g["params"] if isinstance(g, dict) else [g])]
    names = _names(model)
    known = {names[id(p)]: (names[id(p)] if named else i, p) for i, p in enumerate(listed)}
    state = {}
    for name, values in given["state"].items():
        key, p = known[name]
        state[key] = {k: _own(v) if k == "step" else _placed(_own(v), p) for k, v in values.items()}
    return {
        "state": state,
        "param_groups": [{**g, "params": [known[n][0] for n in g["params"]]} for g in given["param_groups"]],
    }


def _own(v):
    """A value that shares no memory; parts of tensors as they are."""
    return v.clone() if isinstance(v, torch.Tensor) and not isinstance(v, DTensor) else v


def _copied(v):
    """A value whole, which shares no memory."""
    if not isinstance(v, DTensor):
        return _own(v)
    whole = v.full_tensor()
    return whole.clone() if all(placed.is_replicate() for placed in v.placements) else whole


def _whole(p):
    from ..tensor import Replicate

    return [Replicate()] * p.mesh.ndim, p.shape


