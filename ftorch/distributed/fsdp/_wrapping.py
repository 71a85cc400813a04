"""What `FullyShardedDataParallel` does to a module before it divides it: what is left out, which submodules are wrapped by
themselves, values and devices.
"""

from __future__ import annotations

import functools
import warnings

import ftorch as torch

from ...utils._pytree import tree_leaves, tree_map
from .wrap import (
    CustomPolicy,
    ModuleWrapPolicy,
    _check_frozen,
    _or_policy,
    _recursive_wrap,
    _wrap_chosen,
)


def ignored_of(cls, module, modules, states):
    """(modules, parameters) that nobody is to divide.

    Raises:
        ValueError: for both arguments.
    """
    if modules is not None and states is not None:
        raise ValueError(
            "Cannot pass both ignored_modules and ignored_states at the same time. Please just pass ignored_states."
        )
    given = [*(modules or states or ())]
    for x in given:
        if modules is not None and not isinstance(x, torch.nn.Module):
            raise TypeError(
                f"ignored_modules expects nn.Module list elements but got types {sorted({str(type(y)) for y in given})}"
            )
    found = {
        m for x in given if isinstance(x, torch.nn.Module) for m in x.modules() if not isinstance(m, cls)
    }
    if module in found:
        warnings.warn(
            "Trying to ignore the top-level module passed into the FSDP constructor itself will result in all parameters "
            f"being ignored and is not well-supported: {module}", stacklevel=3,
        )
    parameters = [x for x in given if not isinstance(x, torch.nn.Module)]
    parameters += [p for m in found for p in m._parameters.values() if p is not None]
    for m in cls.fsdp_modules(module):
        parameters += m._ignored_params
        found |= m._ignored_modules
    return found, [*{id(p): p for p in parameters}.values()]


def wrap_within(cls, module, policy, modules, parameters, options):
    """Wraps the submodules that a policy names, and those that are to be computed in float32."""
    mp, excepted = options["mixed_precision"], ()
    if mp is not None:
        excepted = tuple(mp._module_classes_to_ignore)
        found = {type(m) for m in module.modules() if isinstance(m, excepted)}
        for m in module.modules():
            if isinstance(m, excepted):
                m._wrap_overrides = {"mixed_precision": None}
                m.register_forward_pre_hook(_to_float32)
                m.register_forward_hook(_as_before)
        if found:
            warnings.warn(
                "Both mixed precision and an auto_wrap_policy were specified to FSDP, where the wrapped module has "
                f"submodules of type:\n{found}\nThese modules will be wrapped as separate FSDP instacnes with mixed precision "
                "disabled.",
                stacklevel=4,
            )
    if isinstance(policy, (CustomPolicy, ModuleWrapPolicy)):
        chosen = policy._run_policy(module, modules, options)
        for m in module.modules():
            if isinstance(m, excepted) and m not in modules:
                chosen[m] = {**chosen.get(m, options), "mixed_precision": None}
        _check_frozen(module, chosen, parameters, options["use_orig_params"])
        chosen.pop(module, None)
        _wrap_chosen(module, chosen, cls)
        return
    if excepted:
        policy = functools.partial(
            _or_policy, policies=[policy, lambda module, recurse, **_: not recurse and isinstance(module, excepted)]
        )
    _recursive_wrap(module, policy, cls, modules, parameters, True, **options)


def _to_float32(module, args):
    """Casts inputs, and remembers what they were."""
    tensors = [x for x in tree_leaves(args) if isinstance(x, torch.Tensor)]
    found = [x for x in tensors if x.is_floating_point() and x.dtype != torch.float32]
    if not found:
        return None
    module.__dict__["_fsdp_input_dtype"] = found[-1].dtype
    return tree_map(lambda x: x.float() if any(x is y for y in found) else x, args)


def _as_before(module, args, output):
    """Gives outputs the dtype that inputs had."""
    dtype = module.__dict__.get("_fsdp_input_dtype")
    if dtype is None:
        return None
    return tree_map(lambda x: x.to(dtype) if isinstance(x, torch.Tensor) and x.is_floating_point() else x, output)


def filled(cls, module, own, ignored, init, device_id, groups):
    """Gives what is on the meta device values, moves the module to a device, and gives all processes of some groups
    their first one's values. The device that it is on.
    """
    device = None if device_id is None else torch.device(device_id)
    ignored = {id(p) for p in ignored}
    taken = [p for m in own for p in m._parameters.values() if p is not None and id(p) not in ignored]
    if any(p.is_meta for p in taken) or any(b.is_meta for m in own for b in m._buffers.values() if b is not None):
        wrapped = {id(x) for w in cls.fsdp_modules(module) for x in w.modules()}
        for m in own:
            tensors = [*m._parameters.values(), *m._buffers.values()]
            if id(m) in wrapped or not any(t is not None and t.is_meta for t in tensors):
                continue
            if init is not None:
                init(m)
            else:
                m.to_empty(device=device or "cpu", recurse=False)
                with torch.no_grad():
                    m.reset_parameters()
    tensors = [t for m in own for t in (*m._parameters.values(), *m._buffers.values())
               if t is not None and id(t) not in ignored and not getattr(t, "_fsdp_flattened", False)]
    with torch.no_grad():
        if device is not None:
            for t in tensors:
                if t.device.type == "cpu" and device.type != "cpu":
                    t.data = t.data.to(device)
    if groups:
        from .._reducer import broadcast_coalesced

        for group in groups:
            broadcast_coalesced(group, tensors)
    return device or (tensors[0].device if tensors else torch.device("cpu"))
