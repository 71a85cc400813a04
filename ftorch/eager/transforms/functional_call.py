"""``functional_call``: a module with other parameters and buffers than its own."""

from __future__ import annotations

from ..core import api
from ..native.contexts import contextmanager
from ..tensor import TensorBase


def _tied_names(module):
    """{name: all names of the same parameter or buffer}."""
    groups: dict[int, list[str]] = {}
    for named in (module.named_parameters, module.named_buffers):
        for name, t in named(remove_duplicate=False):
            groups.setdefault(id(t), []).append(name)
    return {name: names for names in groups.values() for name in names}


_ABSENT = object()


def _owner(module, name):
    """The module that a dotted name's last part is an attribute of, and that part.

    Raises:
        AttributeError, TypeError: something on the way is missing, or no module. KeyError: the last part is empty.
    """
    path, _, leaf = name.rpartition(".")
    owner, seen = module, ""
    for part in path.split(".") if path else ():
        if not hasattr(owner, part):
            raise AttributeError(f"{type(owner).__name__} has no attribute `{part}`")
        owner, seen = getattr(owner, part), f"{seen}.{part}".lstrip(".")
        if not hasattr(owner, "_parameters"):
            raise TypeError(f"submodule `{seen}`: {owner} is not an instance of torch.nn.Module")
    if not leaf:
        raise KeyError('tensor name can\'t be empty string ""')
    return owner, leaf


def _swap(module, name, value):
    """Puts a tensor where a name says; (the module, the table it is in or None for other attributes, the name there, what
    was there before).

    Raises:
        TypeError: the value, or what was there, is no tensor.
    """
    owner, leaf = _owner(module, name)
    if value is not None and not isinstance(value, TensorBase):
        raise TypeError(f"{value} is not an instance of torch.Tensor")
    for table in (owner._parameters, owner._buffers):
        if leaf in table:
            old, table[leaf] = table[leaf], value
            return owner, table, leaf, old
    old = getattr(owner, leaf, _ABSENT)
    if old is not _ABSENT and not isinstance(old, TensorBase):
        raise TypeError(f"attribute `{name}`: {old} is not an instance of torch.Tensor")
    setattr(owner, leaf, value)
    return owner, None, leaf, old


def _put_back(owner, table, leaf, old):
    """Undoes `_swap`; gives what was there in between."""
    if table is not None:
        changed, table[leaf] = table.get(leaf), old
        return changed
    changed = getattr(owner, leaf, None)
    if hasattr(owner, leaf):
        delattr(owner, leaf)
    if old is not _ABSENT:
        setattr(owner, leaf, old)
    return changed


@contextmanager
def swapped(module, state, tie_weights=True, strict=False):
    """Gives the module the tensors of ``state`` ({name: tensor or None}) for a while, also where it has no attribute of a name.

    Raises:
        RuntimeError: for a scripted or traced module; ``strict`` and not the names of its parameters and buffers.
        AttributeError, TypeError, KeyError: as `_owner` and `_swap`.
    """
    if "_c" in getattr(module, "__dict__", ()):
        raise RuntimeError("The stateless API can't be used with Jitted modules")
    ties = _tied_names(module) if tie_weights or strict else {}
    replacements = {}
    for name, value in state.items():
        names = ties.get(name, [name]) if tie_weights else [name]
        for other in names:
            if other in state and state[other] is not value and other != name:
                raise ValueError(
                    f"functional_call got multiple values for keys {sorted(names)}, which are tied. "
                    "Consider using tie_weights=False"
                )
            replacements[other] = value
    if strict:
        missing, unexpected = set(ties) - set(replacements), set(replacements) - set(ties)
        if missing or unexpected:
            message = []
            if unexpected:
                message.append(f"Unexpected key(s): {', '.join(map(repr, sorted(unexpected)))}.")
            if missing:
                message.append(f"Missing key(s): {', '.join(map(repr, sorted(missing)))}.")
            raise RuntimeError(
                f"Error(s) in reparametrizing for {type(module).__name__}:\n\t" + "\n\t".join(message)
            )
    undo = []
    try:
        for name, value in replacements.items():
            undo.append((name, *_swap(module, name, value)))
        yield
    finally:
        changed = {}
        for name, *swap in reversed(undo):
            changed[name] = _put_back(*swap)
        # What the module assigned meanwhile goes to the caller.
        state.update({name: changed[name] for name in state if name in changed})


def functional_call(module, parameter_and_buffer_dicts, args=None, kwargs=None, *,
                    tie_weights=True, strict=False):
    """Calls a module with the given parameters and buffers in place of its own.

    Args:
        parameter_and_buffer_dicts: {name: tensor}, or a sequence of such dicts with distinct keys.
        args: the arguments, a tuple or a single one.
        tie_weights: tied parameters stay tied.
        strict: every parameter and buffer must be given, and nothing else.

    >>> import ftorch as torch
    >>> linear = torch.nn.Linear(1, 1)
    >>> state = {"weight": torch.ones(1, 1), "bias": torch.zeros(1)}
    >>> torch.func.functional_call(linear, state, torch.tensor([2.0]))
    tensor([2.])
    """
    if isinstance(parameter_and_buffer_dicts, dict):
        state = parameter_and_buffer_dicts
    elif isinstance(parameter_and_buffer_dicts, (list, tuple)):
        keys = [k for d in parameter_and_buffer_dicts for k in d]
        repeated = {k for k in keys if keys.count(k) > 1}
        if repeated:
            raise ValueError(
                f"{sorted(repeated)} appeared in multiple dictionaries; behavior of functional call is "
                "ambiguous"
            )
        state = {k: v for d in parameter_and_buffer_dicts for k, v in d.items()}
    else:
        raise ValueError(
            f"Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
            f"{type(parameter_and_buffer_dicts)}"
        )
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with swapped(module, state, tie_weights, strict):
        return module(*args, **(kwargs or {}))


def stack_module_state(models):
    """The parameters and buffers of several models of one class, stacked for `vmap`.

    Returns:
        ``(parameters, buffers)``: {name: tensor with a leading model dimension}.

    Raises:
        RuntimeError: for no models, different classes or modes.
    """
    if len(models) == 0:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if not (all(m.training for m in models) or all(not m.training for m in models)):
        raise RuntimeError(
            "stack_module_state: Expected all models to have the same training/eval mode."
        )
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    parameters = {
        name: _stacked(name, [dict(m.named_parameters())[name] for m in models])
        for name, _ in models[0].named_parameters()
    }
    buffers = {
        name: api.stack([dict(m.named_buffers())[name] for m in models])
        for name, _ in models[0].named_buffers()
    }
    return parameters, buffers


def _stacked(name, tensors):
    if all(t.requires_grad for t in tensors):
        return api.stack([t.detach() for t in tensors]).requires_grad_(True)
    if not any(t.requires_grad for t in tensors):
        return api.stack(tensors)
    raise RuntimeError(
        f"Expected {name} from each model to have the same .requires_grad"
    )
