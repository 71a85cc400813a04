"""Names of ``torch._utils`` that checkpoints and libraries refer to.

This module, like ``ftorch.utils.data``, does not import the tensor engine.
"""

from __future__ import annotations

import sys
import threading

from ._worker_errors import ExceptionWrapper, KeyErrorMessage  # noqa: F401

# --- what pickled tensors are rebuilt by ------------------------------------------------
#
# Files name these functions ``torch._utils._rebuild_...``. ``storage`` is what the reader made of a
# persistent id (`ftorch._serialization.pickling.LoadedStorage`), or a pickled storage. Hooks are never saved.


def _in(storage, dtype, offset, size, stride):
    """The tensor that lies in a storage as the arguments say."""
    if hasattr(storage, "as_tensor"):
        return storage.as_tensor(dtype, offset, size, stride)
    import ftorch as torch

    dtype = dtype or getattr(storage, "dtype", torch.uint8)
    return torch.empty(0, dtype=dtype, device=storage.device).set_(storage.untyped(), offset, size, stride)


def _rebuild_tensor(storage, storage_offset, size, stride):
    return _in(storage, None, storage_offset, size, stride)


def _rebuild_tensor_v2(
    storage, storage_offset, size, stride, requires_grad, backward_hooks, metadata=None
):
    tensor = _in(storage, None, storage_offset, size, stride)
    return _finish(tensor, requires_grad, metadata)


def _rebuild_tensor_v3(
    storage, storage_offset, size, stride, requires_grad, backward_hooks, dtype, metadata=None
):
    tensor = _in(storage, dtype, storage_offset, size, stride)
    return _finish(tensor, requires_grad, metadata)


def _finish(tensor, requires_grad, metadata):
    if metadata:
        from .eager.core.geometry import CONJ, NEG, with_bits

        bits = CONJ * bool(metadata.get("conj")) + NEG * bool(metadata.get("neg"))
        tensor._ftorch_geometry = with_bits(tensor._ftorch_geometry, bits)
    tensor.requires_grad = requires_grad
    return tensor


def _rebuild_meta_tensor_no_storage(dtype, size, stride, requires_grad):
    import ftorch as torch

    return torch.empty_strided(
        size, stride, dtype=dtype, device="meta", requires_grad=requires_grad
    )


def _rebuild_wrapper_subclass(cls, dtype, size, stride, storage_offset, layout, device, requires_grad):
    import ftorch as torch

    return torch.Tensor._make_wrapper_subclass(
        cls, size, strides=stride, dtype=dtype, storage_offset=storage_offset, layout=layout, device=device,
        requires_grad=requires_grad,
    )


def _rebuild_device_tensor_from_numpy(data, dtype, device, requires_grad):
    import ftorch as torch

    tensor = torch.from_numpy(data).to(dtype=dtype, device=device)
    tensor.requires_grad = requires_grad
    return tensor


def _rebuild_device_tensor_from_cpu_tensor(data, dtype, device, requires_grad):
    tensor = data.to(dtype=dtype, device=device)
    tensor.requires_grad = requires_grad
    return tensor


def _rebuild_nested_tensor(buffer, sizes, strides, storage_offsets):
    import ftorch as torch

    places = zip(sizes.tolist(), strides.tolist(), storage_offsets.tolist())
    return torch.nested.as_nested_tensor([buffer.as_strided(size, stride, begin) for size, stride, begin in places])


unread = threading.local()  # .sparse: lists of (layout, parts) of tensors whose indices a reader has not read yet


def _rebuild_sparse_tensor(layout, data):
    import ftorch as torch

    later = getattr(unread, "sparse", None)
    if later is not None:
        later.append((layout, data))
    check = later is None and torch.sparse.check_sparse_tensor_invariants.is_enabled()
    if layout is torch.sparse_coo:
        indices, values, size, *coalesced = data
        tensor = torch.sparse_coo_tensor(indices, values, size, check_invariants=check)
        return tensor._coalesced_(True) if coalesced and coalesced[0] else tensor
    compressed, plain, values, size = data
    return torch.sparse_compressed_tensor(compressed, plain, values, size, layout=layout, check_invariants=check)


def validate_sparse(rebuilt) -> None:
    """Looks at the parts of `unread` sparse tensors, which are there now, if invariants are to be checked.

    Raises:
        RuntimeError: they do not fit together.
    """
    import ftorch as torch

    for layout, parts in rebuilt if torch.sparse.check_sparse_tensor_invariants.is_enabled() else ():
        if layout is torch.sparse_coo:
            torch._validate_sparse_coo_tensor_args(*parts[:3])
        else:
            torch._validate_sparse_compressed_tensor_args(*parts, layout)


def _rebuild_qtensor(storage, storage_offset, size, stride, quantizer_params, requires_grad, backward_hooks):
    from ._quantized import rebuild

    return rebuild(storage, storage_offset, size, stride, quantizer_params)


def _rebuild_parameter(data, requires_grad, backward_hooks):
    from ftorch.nn.parameter import Parameter

    return Parameter(data, requires_grad)


def _rebuild_parameter_with_state(data, requires_grad, backward_hooks, state):
    return _set_obj_state(_rebuild_parameter(data, requires_grad, backward_hooks), state)


def _set_obj_state(obj, state):
    """Gives an object back its attributes: a dict, or a pair of dicts (the second for slots)."""
    attributes, slots = state if isinstance(state, tuple) else (state, None)
    for name, value in {**(attributes or {}), **(slots or {})}.items():
        setattr(obj, name, value)
    return obj


def _element_size(dtype) -> int:
    """The bytes of an element of a dtype."""
    return dtype.itemsize


def _get_device_index(device, optional: bool = False, allow_cpu: bool = False) -> int:
    """The index of a device: a number, a text or a device.

    Args:
        optional: whether None and devices without an index are allowed: the current one's.
        allow_cpu: whether the CPU is, which has -1.

    Raises:
        ValueError: where they are not.
    """
    from .eager.core.device import device as make

    if isinstance(device, str):
        device = make(device)
    index = device if isinstance(device, int) else None
    if isinstance(device, make):
        if device.type == "cpu" and not allow_cpu:
            raise ValueError(f"Expected a non cpu device, but got: {device}")
        index = -1 if device.type == "cpu" else device.index
    if index is None:
        if not optional:
            raise ValueError(
                f"Expected a torch.device with a specified index or an integer, but got:{device}"
            )
        from .accelerator import current_device_index, is_available

        index = current_device_index() if is_available() else -1
    return index


def _is_privateuse1_backend_available() -> bool:
    """Whether somebody registered a device type of his own, whose module says that there is one."""
    torch = sys.modules[__package__]
    module = getattr(torch, torch._C._get_privateuse1_backend_name(), None)
    return bool((available := getattr(module, "is_available", None)) and available())


def _get_available_device_type() -> str | None:
    """The type of the accelerator, or None."""
    from .accelerator import current_accelerator

    found = current_accelerator()
    return None if found is None else found.type


def _get_device_module(device_type: str):
    """The module of a device type, ``torch.cuda`` of "cuda".

    Raises:
        RuntimeError: there is none.
    """
    import importlib

    try:
        return importlib.import_module(f"{__package__}.{device_type}")
    except ModuleNotFoundError:
        raise RuntimeError(
            f"Device '{device_type}' does not have a corresponding module registered as 'torch.{device_type}'."
        ) from None


def _get_device_attr(get_member):
    """What a function gives of the accelerator's module; None without one."""
    kind = _get_available_device_type()
    return None if kind is None else get_member(_get_device_module(kind))


def _get_all_device_indices() -> list[int]:
    """The indices of the accelerators."""
    from .accelerator import device_count

    return list(range(device_count()))


def is_compiling() -> bool:
    """`torch.compiler.is_compiling`, whose old name this is."""
    import importlib
    import warnings

    warnings.warn("`torch._utils.is_compiling` is deprecated. Use `torch.compiler.is_compiling` instead.", stacklevel=2)
    return importlib.import_module(f"{__name__.partition('.')[0]}.compiler").is_compiling()


def _get_current_device_index() -> int | None:
    """The index of the present accelerator, or None."""
    from .accelerator import current_device_index, is_available

    return current_device_index() if is_available() else None


def _flatten_dense_tensors(tensors):
    """Tensors of one dtype as one vector."""
    from .eager.core import api

    return api.cat([t.contiguous().view(-1) for t in tensors])


def _unflatten_dense_tensors(flat, tensors):
    """The pieces of a vector, in the shapes of the tensors that it was made of."""
    pieces = flat.split([t.numel() for t in tensors])
    return tuple(piece.view_as(t) for piece, t in zip(pieces, tensors))


def _take_tensors(tensors, size_limit):
    """Lists of tensors of one dtype and together no larger than a limit, in bytes."""
    groups: dict = {}
    for t in tensors:
        group = groups.setdefault(t.type(), [[], 0])
        size = t.numel() * t.element_size()
        if group[1] + size > size_limit and group[1] > 0:
            yield group[0]
            group = groups[t.type()] = [[], 0]
        group[0].append(t)
        group[1] += size
    for group, _ in groups.values():
        if group:
            yield group


def _reorder_tensors_as(tensors, ordered_tensors):
    """The tensors in an order in which each has the type of its counterpart."""
    by_type: dict = {}
    for t in tensors:
        by_type.setdefault(t.type(), []).append(t)
    queues = {kind: iter(group) for kind, group in by_type.items()}
    return tuple(next(queues[t.type()]) for t in ordered_tensors)


class classproperty:
    """A property of a class: the decorated function takes the class."""

    def __init__(self, func):
        self.fget = func if isinstance(func, (classmethod, staticmethod)) else classmethod(func)

    def __get__(self, instance, owner=None):
        return self.fget.__get__(None, owner or type(instance))()


class CallbackRegistry:
    """Functions that are called when something happens, by a name for messages."""

    def __init__(self, name: str):
        self.name = name
        self.callback_list: list = []

    def add_callback(self, cb) -> None:
        """Adds a function."""
        self.callback_list.append(cb)

    def fire_callbacks(self, *args, **kwargs) -> None:
        """Calls them all; what one raises is logged."""
        import logging

        for cb in self.callback_list:
            try:
                cb(*args, **kwargs)
            except Exception:  # noqa: BLE001
                logging.getLogger(__name__).exception(
                    "Exception in callback for %s registered with gpu trace", self.name
                )


def _outlined(value) -> str:
    """``repr`` with tensors' sizes and dtypes in place of their elements."""
    from .eager.tensor import Tensor

    if isinstance(value, Tensor):
        size = "" if value.numel() == 0 else f", size={tuple(value.shape)}"  # an empty one's is in its text
        return value.__repr__(tensor_contents=f"[...]{size}")
    if type(value) in (list, tuple):
        text = ", ".join(map(_outlined, value))
        return f"[{text}]" if type(value) is list else f"({text}{',' * (len(value) == 1)})"
    if type(value) is dict:
        return f"{{{', '.join(f'{k!r}: {_outlined(v)}' for k, v in value.items())}}}"
    return repr(value)


def render_call(fn, args, kwargs) -> str:
    """A call as text."""
    from .overrides import resolve_name

    parts = [*map(_outlined, args), *(f"{k}={_outlined(v)}" for k, v in kwargs.items())]
    return f"{resolve_name(fn) or fn}({', '.join(parts)})"
