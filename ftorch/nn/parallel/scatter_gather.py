"""Nested inputs split over devices, and results put together (``torch.nn.parallel.scatter_gather``)."""

from __future__ import annotations

import warnings

from ...eager.core import api as torch
from ...eager.tensor import Tensor
from .comm import gather as _gather_tensors
from .comm import scatter as _scatter_tensor

__all__ = ["gather", "scatter", "scatter_kwargs"]


def _is_namedtuple(obj):
    return isinstance(obj, tuple) and hasattr(obj, "_asdict") and hasattr(obj, "_fields")


def is_namedtuple(obj) -> bool:
    """Whether an object is a named tuple. Deprecated."""
    warnings.warn(
        "`is_namedtuple` is deprecated, please use the python checks instead", FutureWarning, stacklevel=2
    )
    return _is_namedtuple(obj)


def scatter(inputs, target_gpus, dim=0):
    """Splits the tensors of a structure into a piece for each device; everything else is repeated.

    Args:
        inputs: tensors in tuples, lists, named tuples and dicts.
        target_gpus: the devices, or their numbers.
        dim: the dimension that tensors are split along.

    Returns:
        A structure for each device that got a piece.

    >>> import ftorch as torch
    >>> from ftorch.nn.parallel.scatter_gather import scatter
    >>> scatter({"x": torch.arange(4), "y": "text"}, ["cpu", "cpu"])
    [{'x': tensor([0, 1]), 'y': 'text'}, {'x': tensor([2, 3]), 'y': 'text'}]
    """
    if isinstance(inputs, Tensor):
        return _scatter_tensor(inputs, target_gpus, None, dim)
    if _is_namedtuple(inputs):
        return [type(inputs)(*args) for args in zip(*(scatter(x, target_gpus, dim) for x in inputs))]
    if isinstance(inputs, tuple) and inputs:
        return list(zip(*(scatter(x, target_gpus, dim) for x in inputs)))
    if isinstance(inputs, list) and inputs:
        return [list(args) for args in zip(*(scatter(x, target_gpus, dim) for x in inputs))]
    if isinstance(inputs, dict) and inputs:
        items = (scatter(item, target_gpus, dim) for item in inputs.items())
        return [type(inputs)(pairs) for pairs in zip(*items)]
    return [inputs for _ in target_gpus]


def scatter_kwargs(inputs, kwargs, target_gpus, dim=0):
    """`scatter` of positional and keyword arguments, as two tuples of one entry per device."""
    positional = scatter(inputs, target_gpus, dim) if inputs else []
    named = scatter(kwargs, target_gpus, dim) if kwargs else []
    count = max(len(positional), len(named))
    positional = [*positional, *[() for _ in range(count - len(positional))]]
    named = [*named, *[{} for _ in range(count - len(named))]]
    return tuple(positional), tuple(named)


def gather(outputs, target_device, dim=0):
    """Puts the results of several devices together on one: tensors are concatenated.

    Args:
        outputs: a list of structures of one kind; 0-d tensors become vectors.
    """
    first = outputs[0]
    if isinstance(first, Tensor):
        outputs = [torch.unsqueeze(o, 0) if o.dim() == 0 else o for o in outputs]
        return _gather_tensors(outputs, dim, target_device)
    if first is None:
        return None
    if isinstance(first, dict):
        if not all(len(first) == len(o) for o in outputs):
            raise ValueError("All dicts must have the same number of keys")
        return type(first)((k, gather([o[k] for o in outputs], target_device, dim)) for k in first)
    if _is_namedtuple(first):
        return type(first)._make(gather(o, target_device, dim) for o in zip(*outputs))
    return type(first)(gather(o, target_device, dim) for o in zip(*outputs))
