"""Lists of tensors by device and dtype, as functions of lists of tensors want them."""

from __future__ import annotations

import ftorch as torch

_foreach_supported_types = [torch.Tensor, torch.nn.Parameter]


def _get_foreach_kernels_supported_devices() -> list[str]:
    """The types of devices for which optimizers take lists of tensors by themselves."""
    return ["cuda", "xpu", "mtia", "privateuseone"]


def _get_fused_kernels_supported_devices() -> list[str]:
    """The types of devices for which optimizers have one kernel for everything."""
    return ["mps", "cuda", "xpu", "hpu", "cpu", "mtia", "privateuseone"]


def _group_tensors_by_device_and_dtype(tensorlistlist, with_indices: bool = False):
    """Groups of the tensors at the same place of several lists, by device and dtype of the first list's.

    Args:
        tensorlistlist: lists of tensors, equally long; those but the first may hold None.
        with_indices: whether to give the places, too.

    Returns:
        ``{(device, dtype): (lists of tensors, places)}``; without ``with_indices`` no places.

    Raises:
        RuntimeError: lists of other lengths, or tensors at one place of other devices.

    >>> import ftorch as torch
    >>> from ftorch.utils._foreach_utils import _group_tensors_by_device_and_dtype
    >>> tensors = [torch.ones(1), torch.ones(1, dtype=torch.int64), torch.zeros(1)]
    >>> groups = _group_tensors_by_device_and_dtype([tensors], with_indices=True)
    >>> [(str(dtype), places) for (_, dtype), (_, places) in groups.items()]
    [('torch.float32', [0, 2]), ('torch.int64', [1])]
    """
    if not tensorlistlist or not tensorlistlist[0]:
        return {}
    first = tensorlistlist[0]
    for other in tensorlistlist[1:]:
        if other and len(other) != len(first):
            raise RuntimeError("Expected all lists of tensors to have the same length")
    groups: dict = {}
    for place, tensor in enumerate(first):
        if tensor is None:
            raise RuntimeError("Tensors of the first list of nested Tensor lists are supposed to be defined")
        lists, places = groups.setdefault((tensor.device, tensor.dtype), ([[] for _ in tensorlistlist], []))
        for kept, own in zip(lists, tensorlistlist, strict=True):
            if own:
                kept.append(own[place])
        if with_indices:
            places.append(place)
    return groups


def _device_has_foreach_support(device) -> bool:
    return device.type in (*_get_foreach_kernels_supported_devices(), "cpu") and not torch.jit.is_scripting()


def _has_foreach_support(tensors, device) -> bool:
    return _device_has_foreach_support(device) and all(t is None or type(t) in _foreach_supported_types for t in tensors)
