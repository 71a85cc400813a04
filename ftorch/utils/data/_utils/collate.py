"""`default_collate` and `default_convert`: from samples to a batch of tensors.

The registry `default_collate_fn_map` is PyTorch's. Beside it stands `array_fn_map`, which makes
NumPy arrays marked to become tensors: a worker process collates with it when nothing but
`default_collate` will look at the batch, and so needs no tensor engine (see `worker.py`).
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence

import numpy as np

import ftorch as torch
from ftorch._arrays import aligned_stack

from . import engine

np_str_obj_array_pattern = re.compile(r"[SaUO]")

default_collate_err_msg_format = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
)

CollateMap = dict[type | tuple[type, ...], Callable]

_NUMPY_SCALARS = (np.bool_, np.number, np.object_)


def collate(batch, *, collate_fn_map: CollateMap | None = None):
    """Collates samples, container by container (``torch.utils.data._utils.collate.collate``).

    Args:
        batch: a list of samples of one structure.
        collate_fn_map: from element types to functions ``f(batch, *, collate_fn_map)``; the first
            entry that the element is an instance of is used where its type has none of its own.

    Raises:
        TypeError: for elements that neither the map nor the containers cover.
        RuntimeError: if sequences of a batch differ in length.
    """
    elem = batch[0]
    elem_type = type(elem)
    if collate_fn_map is not None:
        function = collate_fn_map.get(elem_type)
        if function is None:
            function = next(
                (f for kind, f in collate_fn_map.items() if isinstance(elem, kind)), None
            )
        if function is not None:
            return function(batch, collate_fn_map=collate_fn_map)

    if isinstance(elem, Mapping):
        return _rebuild_mapping(
            elem, lambda key: collate([d[key] for d in batch], collate_fn_map=collate_fn_map)
        )
    if not isinstance(elem, Sequence):
        raise TypeError(default_collate_err_msg_format.format(elem_type))
    if not _is_namedtuple(elem) and any(len(sample) != len(elem) for sample in batch):
        raise RuntimeError("each element in list of batch should be of equal size")
    columns = list(zip(*batch, strict=False))
    return _rebuild_sequence(
        elem, lambda: (collate(samples, collate_fn_map=collate_fn_map) for samples in columns)
    )


def default_convert(data):
    """Makes tensors of the NumPy arrays in one sample (``torch.utils.data.default_convert``).

    It is the `DataLoader`'s default ``collate_fn`` when it does not form batches.

    >>> import ftorch as torch, numpy as np
    >>> torch.utils.data.default_convert([np.array([0, 1]), "text"])
    [tensor([0, 1]), 'text']
    """
    return _convert(data, torch.as_tensor)


def convert_to_arrays(data):
    """`default_convert` for a process that may have no tensors."""
    return default_convert(data) if engine.loaded() else _convert(data, TensorLeaf)


def _convert(data, as_tensor):
    elem_type = type(data)
    if _is_tensor(data):
        return data
    if elem_type.__module__ == "numpy" and elem_type.__name__ not in ("str_", "string_"):
        if elem_type is np.ndarray and np_str_obj_array_pattern.search(data.dtype.str):
            return data
        return as_tensor(data)
    if isinstance(data, Mapping):
        return _rebuild_mapping(data, lambda key: _convert(data[key], as_tensor))
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _rebuild_sequence(data, lambda: (_convert(d, as_tensor) for d in data))
    return data


# --- containers ------------------------------------------------------------------------


def _rebuild_mapping(example, value_of):
    # A mutable mapping is copied: its type may carry more than its items (a default factory).
    items = {key: value_of(key) for key in example}
    try:
        if not isinstance(example, MutableMapping):
            return type(example)(items)  # type: ignore[call-arg]
        clone = copy.copy(example)
        clone.update(items)
        return clone
    except TypeError:
        return items


def _rebuild_sequence(example, values):
    if _is_namedtuple(example):
        return type(example)(*values())
    if isinstance(example, tuple):
        return list(values())  # PyTorch keeps to this for compatibility
    values = list(values())
    try:
        if not isinstance(example, MutableSequence):
            return type(example)(values)  # type: ignore[call-arg]
        clone = copy.copy(example)
        for i, value in enumerate(values):
            clone[i] = value
        return clone
    except TypeError:
        return values


def _is_namedtuple(data):
    return isinstance(data, tuple) and hasattr(data, "_fields")


def _is_tensor(data):
    return engine.loaded() and isinstance(data, engine.tensor_type())


# --- arrays ----------------------------------------------------------------------------


class TensorLeaf:
    """A NumPy array that becomes a tensor once it has reached the main process."""

    __slots__ = ("array",)

    def __init__(self, array):
        self.array = np.asarray(array)

    def __reduce__(self):
        return _tensor_of, (self.array,)


def _tensor_of(array):
    from . import tensors

    # Where there is no tensor, PyTorch's own error is due.
    return tensors.adopt(array, "cpu") if array.dtype.kind in "biufcV" else torch.as_tensor(array)


def _adopt(array):
    from . import tensors

    return tensors.adopt(array)


def _stack_arrays(batch):
    """The stacked array, or None if only PyTorch's own rules (or errors) apply."""
    first = batch[0]
    if np_str_obj_array_pattern.search(first.dtype.str) is not None:
        raise TypeError(default_collate_err_msg_format.format(first.dtype))
    for array in batch:
        if (
            type(array) is not np.ndarray
            or array.dtype is not first.dtype
            or array.shape != first.shape
            or min(array.strides, default=0) < 0
            or not array.dtype.isnative
        ):
            return None
    return aligned_stack(batch)


def _float_array(batch):
    return np.array(batch, np.float64) if all(type(x) is float for x in batch) else None


def _int_array(batch):
    kinds = set(map(type, batch))
    if kinds == {bool}:
        return np.array(batch)
    # Larger integers are PyTorch's error to raise.
    return np.array(batch, np.int64) if kinds == {int} and _fit_int64(batch) else None


def _fit_int64(batch):
    return min(batch) >= -(2**63) and max(batch) < 2**63


def _scalar_array(batch):
    if isinstance(batch, np.ndarray) and any(step < 0 for step in batch.strides):
        return None  # what a tensor cannot share is refused
    return np.array(batch) if len(set(map(type, batch))) == 1 else None


# --- the registries --------------------------------------------------------------------


def collate_tensor_fn(batch, *, collate_fn_map: CollateMap | None = None):
    """``torch.stack`` of dense tensors.

    Raises:
        RuntimeError: for nested or sparse tensors.
    """
    elem = batch[0]
    for kind, found in (("nested", elem.is_nested), ("sparse", elem.layout is not torch.strided)):
        if found:
            raise RuntimeError(
                f"Batches of {kind} tensors are not currently supported by the default "
                "collate_fn; please provide a custom collate_fn to handle them appropriately."
            )
    from . import tensors

    stacked = None if isinstance(batch, type(elem)) else tensors.stack(batch)  # a tensor is no list of its rows
    return torch.stack(batch, 0) if stacked is None else stacked


def collate_numpy_array_fn(batch, *, collate_fn_map: CollateMap | None = None):
    """Tensors of the arrays, collated."""
    stacked = _stack_arrays(batch)
    if stacked is not None and tensors_collate_by_default(collate_fn_map):
        return _adopt(stacked)
    return collate([torch.as_tensor(b) for b in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch, *, collate_fn_map: CollateMap | None = None):
    """``torch.as_tensor``."""
    array = _scalar_array(batch)
    return torch.as_tensor(batch) if array is None else _adopt(array)


def collate_float_fn(batch, *, collate_fn_map: CollateMap | None = None):
    """A float64 tensor."""
    array = _float_array(batch)
    return torch.tensor(batch, dtype=torch.float64) if array is None else _adopt(array)


def collate_int_fn(batch, *, collate_fn_map: CollateMap | None = None):
    """``torch.tensor``."""
    array = _int_array(batch)
    return torch.tensor(batch) if array is None else _adopt(array)


def collate_str_fn(batch, *, collate_fn_map: CollateMap | None = None):
    """The batch itself: text stays as it is."""
    return batch


_BUILT_IN: CollateMap = {
    np.ndarray: collate_numpy_array_fn,
    _NUMPY_SCALARS: collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}

default_collate_fn_map: CollateMap = dict(_BUILT_IN)

_ARRAY_BUILDERS = {
    np.ndarray: _stack_arrays,
    _NUMPY_SCALARS: _scalar_array,
    float: _float_array,
    int: _int_array,
}


def _leaf_fn(kind, build):
    def collate_leaf(batch, *, collate_fn_map=None):
        array = build(batch)
        if array is None:
            return _BUILT_IN[kind](batch, collate_fn_map=default_collate_fn_map)
        return TensorLeaf(array)

    return collate_leaf


array_fn_map: CollateMap = {
    **_BUILT_IN,
    **{kind: _leaf_fn(kind, build) for kind, build in _ARRAY_BUILDERS.items()},
}


@engine.when_loaded
def _register_tensors():
    # First, as in PyTorch: the order decides for types that have no entry of their own.
    entries = dict(default_collate_fn_map)
    default_collate_fn_map.clear()
    default_collate_fn_map[engine.tensor_type()] = collate_tensor_fn
    default_collate_fn_map.update(entries)


def tensors_collate_by_default(collate_fn_map):
    """Whether tensors are collated by `collate_tensor_fn`."""
    return collate_fn_map is not None and (
        collate_fn_map.get(engine.tensor_type()) is collate_tensor_fn
    )


def registry_is_untouched():
    """Whether `default_collate_fn_map` holds nothing of the user's."""
    builtin = default_collate_fn_map.items() - _BUILT_IN.items()
    return not builtin or [f for _, f in builtin] == [collate_tensor_fn]


def default_collate(batch):
    """Puts samples together along a new first dimension (``torch.utils.data.default_collate``).

    Tensors, NumPy arrays and numbers become tensors (Python floats float64), text is left alone,
    and mappings, named tuples and sequences are collated item by item, tuples as lists.

    Raises:
        TypeError: for other elements.
        RuntimeError: if shapes, or lengths of sequences, differ.

    >>> import ftorch as torch
    >>> torch.utils.data.default_collate([{"a": 0, "b": "x"}, {"a": 1, "b": "y"}])
    {'a': tensor([0, 1]), 'b': ['x', 'y']}
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


def collate_to_arrays(batch):
    """`default_collate` for a process that may have no tensors: the dataset can load the engine
    with any sample, so every batch asks again."""
    if engine.loaded() or not registry_is_untouched():
        return default_collate(batch)
    return collate(batch, collate_fn_map=array_fn_map)
