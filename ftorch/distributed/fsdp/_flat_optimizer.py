"""Optimizers' states of models in `FullyShardedDataParallel`: by parameters' names, and back to what an optimizer holds."""

from __future__ import annotations

import copy

import ftorch as torch

from .. import distributed_c10d as dist
from ..tensor import DTensor
from ._common_utils import clean_tensor_name
from ._flat_states import _divided, whole_of
from .api import StateDictType


def _wrappers(model):
    from .fully_sharded_data_parallel import FullyShardedDataParallel

    return FullyShardedDataParallel, [
        (clean_tensor_name(path + ".") if path else "", m) for path, m in model.named_modules()
        if isinstance(m, FullyShardedDataParallel)
    ]


def _known(model):
    """{id of a parameter: (its names, the wrapper it is in or None)}; {name: (wrapper, piece)}"""
    known, pieces = {}, {}
    for prefix, m in _wrappers(model)[1]:
        prefix = prefix.removesuffix("_fsdp_wrapped_module.")
        m._group.reshard()
        names = [prefix + p.names[0] for p in m._group.parameters]
        for name, p in zip(names, m._group.parameters):
            pieces[name] = m, p
            if m._group.keeps:
                known[id(p.own)] = [name], m
        if m._group.flat is not None:
            known[id(m._group.flat)] = names, m
    for name, p in model.named_parameters():
        known.setdefault(id(p), ([clean_tensor_name(name)], None))
    return known, pieces


def _listed(optimizer, model):
    """The parameters of an optimizer, or of what it is made of."""
    groups = getattr(optimizer, "param_groups", None) or (list(model.parameters()) if optimizer is None else list(optimizer))
    return [p for g in groups for p in (g["params"] if isinstance(g, dict) else [g])]


def names_of(model, optimizer):
    """The names of an optimizer's parameters, or of some."""
    known, _ = _known(model)
    return [n for p in _listed(optimizer, model) for n in known[id(p)][0]]


def _keys(optimizer, model, state_dict, known):
    """{a state dict's key of a parameter: the parameter}"""
    listed = _listed(optimizer, model)
    if any(isinstance(k, str) for k in state_dict["state"]):
        by_name = {clean_tensor_name(n): n for n, _ in model.named_parameters()}
        return {by_name.get(known[id(p)][0][0], known[id(p)][0][0]): p for p in listed}
    return dict(enumerate(listed))


@torch.no_grad()
def by_names(model, optimizer, state_dict, settings, group=None):
    """A state dict by names: whole tensors or parts, as the settings say."""
    known, _ = _known(model)
    keys = _keys(optimizer, model, state_dict, known)
    whole = settings.state_dict_type is StateDictType.FULL_STATE_DICT
    config = settings.optim_state_dict_config
    saves = not whole or not getattr(config, "rank0_only", False) or dist.get_rank(group) == 0
    state, later = {}, {}
    for key, p in keys.items():
        names, m = known[id(p)]
        own = state_dict["state"].get(key)
        if m is None or not m._group.divides:
            if own is not None:
                pieces = [p] if m is None else m._group.parameters
                for name, piece in zip(names, pieces if m is not None and not m._group.keeps else [None]):
                    state[name] = {k: _copied(v if piece is None or not _is_tensor(v) else piece.of(v)) for k, v in own.items()}
        elif m._group.keeps:
            later.setdefault(id(m), (m, {}))[1][names[0]] = own
        elif own is not None:
            state |= _of_flat(m, names, own, whole, config)
    by_wrapper = {id(m): (prefix.removesuffix("_fsdp_wrapped_module."), m) for prefix, m in _wrappers(model)[1]}
    first = {place: min(states) for place, (_, states) in later.items()}
    for place in sorted(later, key=first.__getitem__):
        m, states = later[place]
        state |= _of_pieces(m, by_wrapper[place][0], states, whole, config)
    if not saves:
        return {}
    out = {"state": state}
    for key, value in state_dict["state"].items():
        if key not in keys and key not in out["state"]:
            out["state"][key] = value
    if "param_groups" in state_dict:
        out["param_groups"] = [
            {**copy.deepcopy({k: v for k, v in g.items() if k != "params"}),
             "params": [n for k in g["params"] for n in known[id(keys[k])][0]]}
            for g in state_dict["param_groups"]
        ]
        for g, given in zip(out["param_groups"], state_dict["param_groups"]):
            out_order = {k: g[k] for k in given}
            g.clear()
            g.update(out_order)
    return out


def _is_tensor(v):
    return isinstance(v, torch.Tensor) and v.dim() > 0


def _copied(v):
    return v.detach().clone() if isinstance(v, torch.Tensor) else v


def _shown(m, value, whole, config):
    """A whole state, as the settings say."""
    if not whole:
        return _divided(m, value, config)
    value = value.detach().clone()
    return value.cpu() if config.offload_to_cpu else value


def _of_flat(m, names, own, whole, config):
    """The states of the parameters in a flat one."""
    group, out = m._group, {n: {} for n in names}
    ordered = sorted(own.items())
    for tensors in (True, False):
        for key, v in ordered:
            if _is_tensor(v) is not tensors:
                continue
            flat = group.everybody(v.detach()) if tensors else None
            for name, p in zip(names, group.parameters):
                out[name][key] = _shown(m, p.of(flat), whole, config) if tensors else _copied(v)
    return out


def _of_pieces(m, prefix, states, whole, config):
    """The states of parameters that stay parameters, of which this process has some elements, or none."""
    group = m._group
    here = {prefix + p.names[0] for p in group.parameters if p.high > p.low}  # who has no elements may count no steps
    told = {
        name: {k: v.dtype if _is_tensor(v) else _copied(v) for k, v in own.items()}
        for name, own in states.items() if own and name in here
    }
    everybody: list = [None] * group.count
    dist.all_gather_object(everybody, (told, sorted(states)), group=group.process_group)
    named = {name for _, names in everybody for name in names}
    kinds: dict = {}
    for said, _ in everybody:
        for name, own in said.items():
            for k, v in own.items():
                kinds.setdefault(name, {}).setdefault(k, v)
    out: dict = {name: {} for name in sorted(named)}
    for name, own in kinds.items():
        out[name] |= {k: v for k, v in own.items() if not isinstance(v, torch.dtype)}
    tensors = sorted({k for own in kinds.values() for k, v in own.items() if isinstance(v, torch.dtype)})
    for key in tensors:
        dtype = next(own[key] for own in kinds.values() if key in own)
        part = group.parameters[0].own.new_zeros(group.part, dtype=dtype)
        for p in group.parameters:
            v = (states.get(prefix + p.names[0]) or {}).get(key)
            if v is not None and p.high > p.low:
                at = p.start + p.low - group.part * group.rank
                part[at : at + p.high - p.low] = v.reshape(-1)
        flat = group.everybody(part)
        for p in group.parameters:
            name = prefix + p.names[0]
            if key in kinds.get(name, {}):
                out[name][key] = _shown(m, p.of(flat), whole, config)
    return out


@torch.no_grad()
def to_load(model, optimizer, state_dict, of_rank0=False, named=False):
    """A state dict by the numbers of an optimizer's parameters (or ``named``), each state as this process has it.

    Args:
        optimizer: one, or what it is made of: parameters or groups of them.
        of_rank0: whether rank 0 has it for all.
    """
    if of_rank0:
        box = [state_dict if dist.get_rank() == 0 else None]
        dist.broadcast_object_list(box, 0)
        state_dict = box[0]
    if "state" not in state_dict:
        raise ValueError('`optim_state_dict` must have the keys "state"to be a valid optimizer state dict')
    known, pieces = _known(model)
    current = {clean_tensor_name(n): n for n, _ in model.named_parameters()}
    given, state, number = state_dict["state"], {}, {}
    for i, p in enumerate(_listed(optimizer, model)):
        names, m = known[id(p)]
        key = i
        if named:
            key = clean_tensor_name(names[0]) if m is None or m._group.keeps else None
            if key is None:
                key = next(n for n, x in model.named_parameters() if x is p)
            key = current.get(key, key)
        number |= {n: key for n in names}
        own = [given.get(n) for n in names]
        if all(x is None for x in own):
            continue
        if m is None:
            state[key] = {k: _copied(v) for k, v in own[0].items()}
        elif m._group.keeps:
            piece = pieces[names[0]][1]
            found = {k: _own_state(m._group, piece, v) for k, v in own[0].items()}
            if piece.high > piece.low or not m._group.divides:
                state[key] = found
        else:
            state[key] = _flattened(m._group, own, names)
    known_names = set(number)
    state |= {k: copy.copy(v) for k, v in given.items() if k not in known_names}
    out = {"state": state}
    if "param_groups" in state_dict:
        out["param_groups"] = []
        for g in state_dict["param_groups"]:
            made = {k: copy.deepcopy(v) for k, v in g.items() if k != "params"}
            made["params"] = sorted({number[n] for n in g["params"]})
            out["param_groups"].append({k: made[k] for k in g})
    return out


def _own_state(group, piece, v):
    v = whole_of(v)
    if not _is_tensor(v):
        return _copied(v)
    return group.own_of(piece, v) if group.divides else v.detach().clone()


def _flattened(group, own, names):
    """The flat parameter's state, of those of the parameters in it.

    Raises:
        ValueError: if they do not fit together.
    """
    keys = [set(x) for x in own if x is not None]
    if any(k != keys[0] for k in keys):
        raise ValueError(f"Differing optimizer state names for the unflattened parameters: {names}")
    out = {}
    for key in next(x for x in own if x is not None):
        values = [None if x is None else whole_of(x[key]) for x in own]
        some = [v for v in values if v is not None]
        if any(isinstance(v, torch.Tensor) and v.dim() for v in some):
            for v, p in zip(values, group.parameters):
                if v is not None and tuple(v.shape) != p.shape:
                    raise ValueError(
                        "Tensor optimizer state does not have same shape as its parameter: "
                        f"{v.shape} {torch.Size(p.shape)}"
                    )
            dtypes = {v.dtype for v in some}
            if len(dtypes) != 1:
                raise ValueError(
                    "All unflattened parameters comprising a single flat parameter must have positive-dimension tensor state "
                    f"with the same dtype but got dtypes {dtypes} for state {key} and unflattened parameter names {names}"
                )
            values = [None if v is None else v._local_tensor if isinstance(v, DTensor) else v for v in values]
            out[key] = group.own_elements(group._joined(values, some[0].dtype, group.flat))
            continue
        different = {v.item() if isinstance(v, torch.Tensor) else v for v in some}
        if len(some) != len(values) or len(different) != 1:
            what = {v.dtype if isinstance(v, torch.Tensor) else None for v in values}
            raise ValueError(
                "All unflattened parameters comprising a single flat parameter must have scalar state with the same value and "
                f"dtype but got values {different} and dtypes {what} for state {key} and unflattened parameter names {names}"
            )
        out[key] = _copied(some[0])
    return out


def rekeyed(state_dict, names_wanted, model, optimizer_input, optimizer):
    """A whole state dict by names instead of numbers, or the other way round."""
    known, _ = _known(model)
    listed = _listed(optimizer if optimizer is not None else optimizer_input, model)
    if any(id(p) not in known for p in listed):
        raise ValueError("the optimizer has parameters that the model lacks")
    pairs = [(i, n) for i, p in enumerate(listed) for n in known[id(p)][0][:1]]
    new = dict(pairs) if names_wanted else {n: i for i, n in pairs}
    return {
        "state": {new[k]: v for k, v in state_dict["state"].items()},
        "param_groups": [{**g, "params": sorted(new[k] for k in g["params"])} for g in state_dict["param_groups"]],
    }
