"""State dicts of models and optimizers by the parameters' names (``torch.distributed.checkpoint.state_dict``)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import ftorch as torch

from ...eager.native.contexts import contextmanager
from ..tensor import DTensor
from ..tensor._api import distribute_tensor

__all__ = [
    "StateDictOptions", "get_model_state_dict", "get_optimizer_state_dict", "get_state_dict",
    "set_model_state_dict", "set_optimizer_state_dict", "set_state_dict",
]


@dataclass
class StateDictOptions:
    """How state dicts are made.

    Args:
        full_state_dict: whether `DTensor`s become whole tensors.
        cpu_offload: whether tensors come to the CPU (with ``full_state_dict``, on rank 0 only).
        strict: whether names have to agree when a model's is set.
        broadcast_from_rank0: whether rank 0's whole tensors are given to all.
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


_STATE, _PG, _PARAMS = "state", "param_groups", "params"  # keys of optimizers' state dicts
_patched: set = set()  # what stands in for methods of models and optimizers


def _plain(owner, name):
    """A method, or the class' where `_patch_model_state_dict` and its like have put another in its place."""
    own = owner.__dict__.get(name)
    return getattr(type(owner), name).__get__(owner) if own is not None and own in _patched else getattr(owner, name)


_WRAPPERS = ("module.", "_orig_mod.", "_checkpoint_wrapped_module.", "_fsdp_wrapped_module.")


def _clean(name):
    for prefix in _WRAPPERS:
        name = name.removeprefix(prefix).replace(f".{prefix}", ".")
    return name


def _wrapped(model):
    """Whether there is a `FullyShardedDataParallel` within: those make state dicts themselves."""
    return any("_flat_param" in m.__dict__ or hasattr(type(m), "_flat_param") for m in model.modules())


@contextmanager
def _as_asked(model, options):
    """Within, `FullyShardedDataParallel`s make the state dicts that are asked for. Gives their class, or None."""
    if not _wrapped(model):
        yield None
        return
    from .. import fsdp

    kind, config = fsdp.StateDictType.SHARDED_STATE_DICT, {"offload_to_cpu": options.cpu_offload}
    of_model, of_optimizer = fsdp.ShardedStateDictConfig, fsdp.ShardedOptimStateDictConfig
    if options.full_state_dict:
        kind = fsdp.StateDictType.FULL_STATE_DICT
        of_model, of_optimizer = fsdp.FullStateDictConfig, fsdp.FullOptimStateDictConfig
        config["rank0_only"] = options.cpu_offload
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        with fsdp.FullyShardedDataParallel.state_dict_type(model, kind, of_model(**config), of_optimizer(**config)):
            yield fsdp.FullyShardedDataParallel


def _names(model):
    """{parameter: name}"""
    for m in model.modules():
        if hasattr(m, "_fsdp_state"):
            m.reshard()  # whole parameters are none of the optimizer's
    return {id(p): _clean(n) for n, p in model.named_parameters()}


def _given(value, options):
    if not isinstance(value, torch.Tensor) or not options.full_state_dict:
        return value
    if isinstance(value, DTensor):
        value = value.detach().full_tensor()
    return value.detach().cpu() if options.cpu_offload else value.detach()


def _each(function, value, *args):
    """What a function gives for a value, or for each in a state that has parts."""
    return {k: _each(function, v, *args) for k, v in value.items()} if isinstance(value, dict) else function(value, *args)


def get_model_state_dict(model, *, submodules=None, options=None) -> dict:
    """A model's state dict, without the names of wrappers.

    Args:
        submodules: modules within, of which alone the values are wanted (deprecated).
    """
    options = options or StateDictOptions()
    begins = _begins(model, submodules)
    frozen = {_clean(n) for n, p in model.named_parameters() if not p.requires_grad}
    with _as_asked(model, options):
        out = {_clean(k): _given(v, options) for k, v in _plain(model, "state_dict")().items()}
    if begins:
        cut = 0 if options.keep_submodule_prefixes else 1
        out = {k[cut * len(begin) :]: v for k, v in out.items() for begin in begins if k.startswith(begin)}
    if options.ignore_frozen_params:
        out = {k: v for k, v in out.items() if k not in frozen}
    return {} if _is_elsewhere(options) else out


def _begins(model, submodules) -> list[str]:
    """What the names within some modules begin with."""
    if not submodules:
        return []
    warnings.warn(
        "Getting submodules only model/optim state_dict is deprecated and will be removed in 2.5. This feature can be "
        "achieved by manually filtering out the state_dict returned from get_state_dict.", FutureWarning, stacklevel=3,
    )
    return [f"{_clean(name)}." for name, module in model.named_modules() if module in submodules]


def _by_names(model, given):
    """A model's state dict from one, or from those of modules within (deprecated)."""
    if not given or not isinstance(next(iter(given)), torch.nn.Module):
        return given
    warnings.warn(
        "Passing model_state_dict as a ``Dict[nn.Module, Dict[str, Any]]``is deprecated and will be removed in 2.5. If you "
        "need this feature, please preprocess the model_state_dict to achieve the same functionality.", FutureWarning,
        stacklevel=3,
    )
    names = {module: _clean(name) for name, module in model.named_modules()}
    return {f"{names[m]}.{k}": v for m, part in given.items() if m in names for k, v in part.items()}


def _is_of_rank0(options):
    """Whether whole values are kept by rank 0 alone."""
    return options.full_state_dict and options.cpu_offload


def _is_elsewhere(options):
    """Whether whole values are kept by rank 0 alone, and this is another one."""
    return _is_of_rank0(options) and torch.distributed.is_initialized() and (
        torch.distributed.get_rank() > 0
    )


def _init_optim_state(optim):
    """Gives an optimizer that has made no step the states that it will have, by a step with gradients and rates of zero."""
    parameters = [p for group in optim.param_groups for p in group["params"]]
    if optim.state or any(p.grad is not None for p in parameters):
        return
    rates = [group.get("lr") for group in optim.param_groups]
    for p in parameters:
        if p.requires_grad:
            p.grad = torch.zeros_like(p)
    for group, rate in zip(optim.param_groups, rates):
        if rate is not None:
            group["lr"] = torch.zeros_like(rate) if isinstance(rate, torch.Tensor) else 0.0
    optim.step(closure=None)
    for group, rate in zip(optim.param_groups, rates):
        if rate is not None:
            group["lr"] = rate
    optim.zero_grad(set_to_none=True)


def get_optimizer_state_dict(model, optimizers, *, submodules=None, options=None) -> dict:
    """Optimizers' state dicts with the parameters' names in the place of numbers.

    One that has made no step makes its states first, so that a checkpoint can be loaded into them.
    """
    options = options or StateDictOptions()
    _begins(model, submodules)  # all the same
    optimizers = optimizers if isinstance(optimizers, (list, tuple)) else (optimizers,)
    names, state, groups = _names(model), {}, []
    for optimizer in optimizers:
        _init_optim_state(optimizer)
        with _as_asked(model, options) as wrapper:
            if wrapper is not None:
                found = wrapper.optim_state_dict(model, optimizer)
                state |= found.get("state", {})
                groups += found.get("param_groups", [])
                continue
        for group in optimizer.param_groups:
            listed = [names[id(p)] for p in group["params"]]
            groups.append({**{k: v for k, v in group.items() if k != "params"}, "params": listed})
            for p, name in zip(group["params"], listed):
                if p in optimizer.state:
                    state[name] = {k: _each(_given, v, options) for k, v in optimizer.state[p].items()}
    if _is_elsewhere(options):
        return {}
    if options.flatten_optimizer_state_dict:
        flat = _flat(state, "state")
        for group in groups:
            for name in group["params"]:
                flat |= {f"param_groups.{name}.{k}": v for k, v in group.items() if k != "params"}
        return flat
    return {"state": state, "param_groups": groups}


def get_state_dict(model, optimizers, *, submodules=None, options=None) -> tuple[dict, dict]:
    """(`get_model_state_dict`, `get_optimizer_state_dict`)"""
    of_model = get_model_state_dict(model, submodules=submodules, options=options)
    of_optimizers = get_optimizer_state_dict(model, optimizers, options=options)
    return of_model, of_optimizers


def _placed(value, like):
    if isinstance(like, DTensor) and isinstance(value, torch.Tensor) and not isinstance(value, DTensor):
        if value.dim() == 0 and like.dim():
            return value
        return distribute_tensor(value.detach(), like.device_mesh, like.placements, src_data_rank=None)
    return value


def _of_rank0(given, options):
    """The dict that a process was given, or with ``broadcast_from_rank0`` that of rank 0."""
    if not options.broadcast_from_rank0:
        return given
    if not options.full_state_dict:
        raise ValueError("full_state_dict must be True when broadcast_from_rank0 is True.")
    box = [given if torch.distributed.get_rank() == 0 else None]
    torch.distributed.broadcast_object_list(box, 0)
    return box[0]


def set_model_state_dict(model, model_state_dict, *, options=None):
    """Sets a model's state; whole tensors are divided as its parameters are."""
    options = options or StateDictOptions()
    model_state_dict = _by_names(model, model_state_dict)
    if not model_state_dict and not options.broadcast_from_rank0:
        if options.strict and not options.ignore_frozen_params and not _is_of_rank0(options):
            rank = f"dist.get_rank()={torch.distributed.get_rank()}" if torch.distributed.is_initialized() else ""
            raise RuntimeError(
                "The option indicates that model state_dict is required to save or load, but model state_dict is empty."
                f"rank = {rank}."
            )
        return torch.nn.modules.module._IncompatibleKeys({}, {})
    if _wrapped(model):
        given = _of_rank0(model_state_dict, options)
        with _as_asked(model, StateDictOptions(full_state_dict=options.full_state_dict)):
            return _plain(model, "load_state_dict")(dict(given), strict=options.strict)
    own = {_clean(k): (k, v) for k, v in _plain(model, "state_dict")().items()}
    values = {}
    for name, value in _of_rank0(model_state_dict, options).items():
        key, like = own.get(_clean(name), (name, None))
        values[key] = _placed(value, like)
    on_meta = any(isinstance(v, torch.Tensor) and v.is_meta for _, v in own.values())
    return _plain(model, "load_state_dict")(values, strict=options.strict, assign=on_meta)


def set_optimizer_state_dict(model, optimizers, optim_state_dict, *, options=None) -> None:
    """Sets optimizers' states from a dict by names.

    Raises:
        ValueError: for ``broadcast_from_rank0`` without ``full_state_dict``.
        RuntimeError: a parameter that has a gradient has no state there, and options are strict, as they are if none are
            given.
    """
    optimizers = optimizers if isinstance(optimizers, (list, tuple)) else (optimizers,)
    names = _names(model)
    options = options or StateDictOptions()
    if not (optim_state_dict or options.broadcast_from_rank0 or _is_of_rank0(options)):
        raise RuntimeError(
            "The option indicates that model state_dict is required to save, or load but optim state_dict is empty. "
            f"{optim_state_dict}"
        )
    nested = _of_rank0(optim_state_dict, options)
    if not nested:
        for optimizer in optimizers:
            _init_optim_state(optimizer)
        return
    if _wrapped(model):
        _set_wrapped_states(model, optimizers, nested, options)
        return
    strict = options.strict and bool(nested.get("state"))  # optimizers without states have nothing that could be missing
    if "state" not in nested or "param_groups" not in nested:
        nested = _unflattened(nested, names.values())
    for optimizer in optimizers:
        _init_optim_state(optimizer)
        if all(isinstance(k, int) for k in nested["state"]) and nested["state"]:  # an optimizer's own
            _plain(optimizer, "load_state_dict")(nested)
            continue
        _plain(optimizer, "load_state_dict")(_own_part(optimizer, names, nested, strict, options.full_state_dict))


def _own_part(optimizer, names, nested, strict, keeps):
    """What a state dict has for one optimizer's parameters, divided as these are.

    Args:
        keeps: whether parameters that it has nothing for keep the states that they have.

    Raises:
        RuntimeError: a parameter that has a gradient has no state, and ``strict``.
        ValueError: groups without parameters, of which it is not clear what belongs to them.
    """
    by_name = {n: g for g in nested["param_groups"] for n in g["params"]}
    empty = [g for g in nested["param_groups"] if not g["params"]]
    state, groups = {}, []
    for group in optimizer.param_groups:
        listed = [names[id(p)] for p in group["params"]]
        source = next((by_name[n] for n in listed if n in by_name), group)
        if not listed:
            source = _of_no_parameters(empty, optimizer, nested)
        groups.append({**{k: v for k, v in source.items() if k != "params"}, "params": listed})
        for p, name in zip(group["params"], listed):
            if keeps and p in optimizer.state:
                state[name] = optimizer.state[p]
            if not p.requires_grad:
                continue
            if name in nested["state"]:
                own = nested["state"][name]
                state[name] = {k: v if k == "step" else _each(_placed, v, p) for k, v in own.items()}
            elif strict:
                raise RuntimeError(
                    f"Missing optimizer state for parameter '{name}' in checkpoint. The parameter requires gradients but "
                    "has no saved optimizer state. To load anyway, use StateDictOptions(strict=False)."
                )
    return {"state": state, "param_groups": groups}


def _of_no_parameters(empty, optimizer, nested):
    """The only group of a state dict that has no parameters."""
    if len(empty) != 1:
        raise ValueError(
            "There are param groups that have zero parameters. In such a case, DSD only support exactly one param group "
            "with zero parameters.But the loaded state_dict has zero or more than one param groups that have zero parameters."
        )
    if len(nested["param_groups"]) != len(optimizer.param_groups):
        raise ValueError(
            "When there is a parameter group that has zero parameters, multiple optimizers are not supported."
        )
    return empty[0]


def _set_wrapped_states(model, optimizers, nested, options):
    """`set_optimizer_state_dict` of a model in which `FullyShardedDataParallel`s know where states belong."""
    from ..fsdp._flat_optimizer import names_of

    for optimizer in optimizers:
        _init_optim_state(optimizer)
        names = names_of(model, optimizer)
        given = nested if "state" in nested and "param_groups" in nested else _unflattened(nested, names)
        own = {
            "state": {n: v for n, v in given["state"].items() if n in names},
            "param_groups": _as_grouped(optimizer, given["param_groups"], names_of, model),
        }
        with _as_asked(model, StateDictOptions(full_state_dict=options.full_state_dict)) as wrapper:
            _plain(optimizer, "load_state_dict")(wrapper.optim_state_dict_to_load(model, optimizer, own))


def _as_grouped(optimizer, given, names_of, model):
    """The groups of a state dict as an optimizer has them."""
    by_name = {n: g for g in given for n in g["params"]}
    out = []
    for group in optimizer.param_groups:
        names = names_of(model, group["params"])
        source = next((by_name[n] for n in names if n in by_name), group)
        out.append({**{k: v for k, v in source.items() if k != "params"}, "params": names})
    return out


def _nested(flat):
    """A state whose parts have their places in their names, with points between."""
    out: dict = {}
    for key, value in flat.items():
        *path, last = key.split(".")
        inner = out
        for part in path:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return out


def _flat(state, prefix):
    """The other way."""
    out = {}
    for key, value in state.items():
        out |= _flat(value, f"{prefix}.{key}") if isinstance(value, dict) else {f"{prefix}.{key}": value}
    return out


def _unflattened(flat, names):
    state, groups = {}, []
    for name in names:
        own = _nested({k[len(f"state.{name}.") :]: v for k, v in flat.items() if k.startswith(f"state.{name}.")})
        options = {k[len(f"param_groups.{name}.") :]: v for k, v in flat.items()
                   if k.startswith(f"param_groups.{name}.")}
        if own:
            state[name] = own
        groups.append({**options, "params": [name]})
    return {"state": state, "param_groups": groups}


def set_state_dict(model, optimizers, *, model_state_dict, optim_state_dict, options=None):
    """`set_model_state_dict`, if there is a dict, and `set_optimizer_state_dict`."""
    of_model = _by_names(model, model_state_dict)
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    if not of_model:
        return torch.nn.modules.module._IncompatibleKeys({}, {})
    return set_model_state_dict(model, of_model, options=options)


def _patch_model_state_dict(model, *, options=None) -> None:
    """Puts `get_model_state_dict` and `set_model_state_dict` in the place of a model's own methods."""

    def state_dict():
        return get_model_state_dict(model, options=options)

    def load_state_dict(state_dict):
        set_model_state_dict(model, state_dict, options=options)

    _put(model, state_dict, load_state_dict)


def _patch_optimizer_state_dict(model, *, optimizers, options=None) -> None:
    """Puts `get_optimizer_state_dict` and `set_optimizer_state_dict` of all in the place of each optimizer's own methods."""

    def state_dict():
        return get_optimizer_state_dict(model, optimizers, options=options)

    def load_state_dict(state_dict):
        set_optimizer_state_dict(model, optimizers, state_dict, options=options)

    for optimizer in optimizers if isinstance(optimizers, (list, tuple)) else (optimizers,):
        _put(optimizer, state_dict, load_state_dict)


def _put(owner, *functions):
    for function in functions:
        setattr(owner, function.__name__, function)
        _patched.add(function)
