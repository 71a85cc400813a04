"""What the modules of this package share under PyTorch's name (``torch.distributed.utils``)."""

from __future__ import annotations

import dataclasses
import traceback
from collections import OrderedDict

import ftorch as torch

from ..nn.utils.rnn import PackedSequence

__all__: list[str] = []


def _pack_kwargs(*args, **kwargs):
    return (*args, *kwargs.values()), tuple(kwargs)


def _unpack_kwargs(flat_args, kwarg_keys):
    if len(kwarg_keys) > len(flat_args):
        raise AssertionError(f"too many keys {len(kwarg_keys)} vs. {len(flat_args)}")
    count = len(flat_args) - len(kwarg_keys)
    return tuple(flat_args[:count]), dict(zip(kwarg_keys, flat_args[count:]))


def _is_namedtuple(value) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_asdict") and hasattr(value, "_fields")


def _apply_to_tensors(fn, container):
    """A container with ``fn`` of each tensor in it."""
    if isinstance(container, torch.Tensor):
        return fn(container)
    if dataclasses.is_dataclass(container) and not isinstance(container, type):
        names = [f.name for f in dataclasses.fields(container)]
        changes = {n: _apply_to_tensors(fn, getattr(container, n)) for n in names}
        return dataclasses.replace(container, **changes)
    if isinstance(container, PackedSequence):
        fn(container.data)
        return container
    if isinstance(container, OrderedDict):
        return type(container)((k, _apply_to_tensors(fn, v)) for k, v in container.items())
    if isinstance(container, dict):
        return {k: _apply_to_tensors(fn, v) for k, v in container.items()}
    if _is_namedtuple(container):
        return type(container)(*(_apply_to_tensors(fn, v) for v in container))
    if isinstance(container, (list, tuple, set)):
        return type(container)(_apply_to_tensors(fn, v) for v in container)
    return container


def _cast_forward_inputs(dtype, *args, **kwargs):
    if dtype is None:
        return args, kwargs

    def cast(x):
        return x.to(dtype) if x.is_floating_point() and x.dtype != dtype else x

    return _apply_to_tensors(cast, args), _apply_to_tensors(cast, kwargs)


def _recursive_to(inputs, target_device, use_side_stream_for_tensor_copies=False):
    """The inputs on a device, as a list with one entry for it."""
    return [_moved(inputs, target_device)]


def _moved(value, device):
    if isinstance(value, (torch.Tensor, PackedSequence)):
        return value.to(device)
    if _is_namedtuple(value):
        return type(value)(*(_moved(v, device) for v in value))
    if isinstance(value, (tuple, list)):
        return type(value)(_moved(v, device) for v in value)
    if isinstance(value, dict):
        return type(value)((k, _moved(v, device)) for k, v in value.items())
    return value


def _to_kwargs(inputs, kwargs, target_device, use_side_stream_for_tensor_copies=False):
    moved = tuple(_recursive_to(inputs, target_device)) if inputs else ()
    named = tuple(_recursive_to(kwargs, target_device)) if kwargs else ()
    return moved or ((),) * len(named), named or ({},) * len(moved)


def _p_assert(cond, s: str, raise_assertion_error: bool = True) -> None:
    """An assertion whose failure is also printed: errors in backward hooks are easily lost."""
    if not cond:
        print(s)
        traceback.print_stack()
        if raise_assertion_error:
            raise AssertionError(s)


def _alloc_storage(tensor, size) -> None:
    with torch.no_grad():
        storage = tensor.untyped_storage()
        if storage.size() != size.numel() * tensor.element_size():
            _p_assert(storage.size() == 0, "Tensor storage should have been resized to be 0 but got PLACEHOLDER")
            storage.resize_(size.numel() * tensor.element_size())


def _free_storage(tensor) -> None:
    with torch.no_grad():
        storage = tensor.untyped_storage()
        if storage.size():
            _p_assert(
                tensor.storage_offset() == 0,
                "Freeing a tensor's storage is unsafe when it is not the sole occupant\n"
                f"storage offset: {tensor.storage_offset()}\nstorage size: {storage.size()}\n"
                f"tensor shape: {tensor.shape}",
            )
            storage.resize_(0)


def _verify_param_shape_across_processes(process_group, tensors, logger=None) -> None:
    """Raises RuntimeError unless all processes have tensors of the same shapes."""
    from ._reducer import verify_parameters

    verify_parameters(process_group, tensors)


def _sync_module_states(module, process_group, broadcast_bucket_size, src, params_and_buffers_to_ignore,
                        broadcast_buffers=True) -> None:
    """Gives all processes a module's parameters and buffers of one rank."""
    found = list(module.named_parameters())
    if broadcast_buffers:
        found += module.named_buffers()
    states = [t.detach() for name, t in found if name not in params_and_buffers_to_ignore]
    _sync_params_and_buffers(process_group, states, broadcast_bucket_size, src)


def _sync_params_and_buffers(process_group, module_states, broadcast_bucket_size, src) -> None:
    from ._reducer import broadcast_coalesced

    if module_states:
        broadcast_coalesced(process_group, module_states, src)


def _replace_by_prefix(state_dict, old_prefix: str, new_prefix: str) -> None:
    """Renames the keys that begin with a prefix, in place."""
    if old_prefix == new_prefix:
        raise ValueError("old_prefix and new_prefix must be distinct")
    for key in [k for k in state_dict if k.startswith(old_prefix)]:
        state_dict[new_prefix + key[len(old_prefix) :]] = state_dict.pop(key)


def _data_ptr_allocated(tensor) -> bool:
    return tensor.untyped_storage().size() > 0


def _get_root_modules(modules):
    """The modules that are in no other of them."""
    inside = {id(sub) for m in modules for sub in m.modules() if sub is not m}
    return [m for m in modules if id(m) not in inside]
