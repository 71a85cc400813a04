"""Names of ``torch._utils`` that checkpoints and libraries refer to.

This module, like ``ftorch.utils.data``, does not import the tensor engine.
"""

from __future__ import annotations

import sys
import traceback


class KeyErrorMessage(str):
    """Text that a `KeyError` shows as it is, not as a literal."""

    __slots__ = ()

    def __repr__(self):
        return str(self)


class ExceptionWrapper:
    """An exception's type and formatted traceback, to be raised again in another process.

    Args:
        where: completes "Caught ValueError ...", as in "in DataLoader worker process 0".
    """

    def __init__(self, exc_info=None, where="in background"):
        exc_info = exc_info or sys.exc_info()
        # Not exc_info itself: its traceback holds frames, and is not picklable.
        self.exc_type = exc_info[0]
        self.exc_msg = "".join(traceback.format_exception(*exc_info))
        self.where = where

    def reraise(self):
        """Raises an exception of the same type, or a RuntimeError where that needs arguments."""
        msg = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        if self.exc_type is KeyError:
            raise KeyError(KeyErrorMessage(msg))
        try:
            if getattr(self.exc_type, "message", None):
                exception = self.exc_type(message=msg)  # type: ignore[call-arg]
            else:
                exception = self.exc_type(msg)
        except Exception:  # noqa: BLE001  (the class may want anything)
            raise RuntimeError(msg) from None
        raise exception


# --- what pickled tensors are rebuilt by ------------------------------------------------
#
# Files name these functions ``torch._utils._rebuild_...``. ``storage`` is what the reader made of a
# persistent id (`ftorch._pickle.LoadedStorage`), or a pickled storage. Hooks are never saved.


def _rebuild_tensor(storage, storage_offset, size, stride):
    return storage.as_tensor(None, storage_offset, size, stride)


def _rebuild_tensor_v2(
    storage, storage_offset, size, stride, requires_grad, backward_hooks, metadata=None
):
    tensor = storage.as_tensor(None, storage_offset, size, stride)
    return _finish(tensor, requires_grad, metadata)


def _rebuild_tensor_v3(
    storage, storage_offset, size, stride, requires_grad, backward_hooks, dtype, metadata=None
):
    tensor = storage.as_tensor(dtype, storage_offset, size, stride)
    return _finish(tensor, requires_grad, metadata)


def _finish(tensor, requires_grad, metadata):
    if metadata:
        from .eager.geometry import CONJ, NEG, with_bits

        bits = CONJ * bool(metadata.get("conj")) + NEG * bool(metadata.get("neg"))
        tensor._geometry = with_bits(tensor._geometry, bits)
    tensor.requires_grad = requires_grad
    return tensor


def _rebuild_meta_tensor_no_storage(dtype, size, stride, requires_grad):
    import ftorch as torch

    return torch.empty_strided(
        size, stride, dtype=dtype, device="meta", requires_grad=requires_grad
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


def _rebuild_sparse_tensor(layout, data):
    import ftorch as torch

    if layout is torch.sparse_coo:
        indices, values, size, *coalesced = data
        tensor = torch.sparse_coo_tensor(indices, values, size)
        return tensor._coalesced_(True) if coalesced and coalesced[0] else tensor
    compressed, plain, values, size = data
    return torch.sparse_compressed_tensor(compressed, plain, values, size, layout=layout)


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


# --- buckets of tensors, which programs of several processes exchange -------------------


def _flatten_dense_tensors(tensors):
    """One vector with the elements of all tensors, which have one dtype."""
    import ftorch as torch

    return torch.cat([t.reshape(-1) for t in tensors])


def _unflatten_dense_tensors(flat, tensors):
    """Parts of a vector, in the shapes of tensors."""
    parts = flat.split([t.numel() for t in tensors])
    return tuple(part.view(t.shape) for part, t in zip(parts, tensors))


def _take_tensors(tensors, size_limit):
    """Groups of tensors of one type, of about ``size_limit`` bytes each."""
    groups: dict = {}
    for t in tensors:
        kind = t.type()
        group, size = groups.get(kind, ([], 0))
        nbytes = t.numel() * t.element_size()
        if group and size + nbytes > size_limit:
            yield group
            group, size = [], 0
        group.append(t)
        groups[kind] = group, size + nbytes
    for group, _ in groups.values():
        if group:
            yield group
