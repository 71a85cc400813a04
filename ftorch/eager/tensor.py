"""``Tensor``: a storage, a geometry and an offset, and a place in the autograd graph.

Only the data model is here. What users call on a tensor is derived from the op registry or stands in
`ftorch.eager.tensor_api.methods`, and is bound by `ftorch.eager.surface.attach`.
"""

from __future__ import annotations

import copyreg
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from .core import device as _device
from .core import dtype as _dtype
from .core.geometry import Geometry, Size, geometry
from .memory.storage import INFERENCE, KEPT_BYTES, Storage
from .runtime.executor import IMMEDIATE


class TensorBase:
    """The slots of a tensor. Users' own attributes go to the subclasses' ``__dict__``.

    _ftorch_storage, _ftorch_geometry, _ftorch_offset: where its elements are. It is *direct* when its geometry is its
        storage's root: then the root's value is the tensor's.
    _ftorch_requires_grad, _grad_fn, _ftorch_output_nr, _grad: autograd; ``_grad_fn`` of a view may be stale
        (`ftorch.eager.autograd.tape.grad_fn_of`), and ``_ftorch_output_nr`` of one without a node says how it was made
        (`ftorch.eager.autograd.tape.IN_NO_GRAD`).
    _base, _ftorch_attr_version: for a view, the tensor it is a view of, and the version for which ``_grad_fn`` is right.
    _ftorch_meta: rarely needed things (`Extras`), or None.
    """

    __slots__ = (
        "_ftorch_storage",
        "_ftorch_geometry",
        "_ftorch_offset",
        "_ftorch_requires_grad",
        "_grad_fn",
        "_ftorch_output_nr",
        "_grad",
        "_base",
        "_ftorch_attr_version",
        "_ftorch_meta",
    )
    _ftorch_storage: Storage
    _ftorch_geometry: Geometry
    _ftorch_offset: int
    _ftorch_requires_grad: bool
    _grad_fn: Any
    _ftorch_output_nr: int
    _grad: Any
    _base: Any
    _ftorch_attr_version: int
    _ftorch_meta: Any


class VersionCounter:
    """Counts the writes to tensors that do not count with their storage: see `counter_of`."""

    __slots__ = ("version", "__weakref__")

    def __init__(self, version=0):
        self.version = version


class Extras:
    """What few tensors have: hooks, the gradient accumulator, a version counter of its own, names."""

    __slots__ = (
        "hooks", "accumulator", "post_hooks", "counter", "retains_grad", "level",
        "creation", "value", "bdim", "grad_dtype",
    )

    def __init__(self):
        self.hooks = self.accumulator = self.post_hooks = self.counter = self.level = None
        self.retains_grad = False
        self.creation = self.value = self.bdim = None
        self.grad_dtype = False  # of gradients; None: any, False: the tensor's own


class _TensorMeta(type):
    """The type of `Tensor` and its subclasses, as in PyTorch."""

    __module__ = "torch._C"

    def __init__(cls, name, bases, namespace, **options):
        super().__init__(name, bases, namespace)
        for told in subclassed:
            told(cls)

    def __setattr__(cls, name, value):
        super().__setattr__(name, value)
        if name == "__torch_function__":
            for told in redirected:
                told(cls)

    def __delattr__(cls, name):
        super().__delattr__(name)
        if name == "__torch_function__":
            for told in redirected:
                told(cls)


subclassed: list[Callable[[type], None]] = []
"""Functions that are told of each new subclass, whatever its own ``__init_subclass__`` does."""
redirected: list[Callable[[type], None]] = []
"""Functions that are told of each class that got another ``__torch_function__`` when it was there already."""


class Tensor(TensorBase, metaclass=_TensorMeta):
    """A multi-dimensional array of one dtype: see https://pytorch.org/docs/stable/tensors.html.

    >>> import ftorch as torch
    >>> x = torch.tensor([[1., 2.], [3., 4.]])
    >>> x.T @ x
    tensor([[10., 14.],
            [14., 20.]])
    """

    __module__ = "torch"


PLAIN = {Tensor}  # the classes without overrides: calls on them take the fast path
DISPATCHING: set[type] = set()  # the classes with a `__torch_dispatch__` of their own
_new = object.__new__


def wrap(storage: Storage) -> Tensor:
    """A new tensor for a whole storage, outside any graph."""
    t = _new(Tensor)
    t._ftorch_storage = storage
    t._ftorch_geometry = storage.root
    t._ftorch_offset = 0
    t._ftorch_requires_grad = False
    t._grad_fn = t._grad = t._base = t._ftorch_meta = None
    t._ftorch_output_nr = t._ftorch_attr_version = 0
    return t


def wrap_view(storage: Storage, g: Geometry, offset: int, base) -> Tensor:
    """A new tensor for a part of a storage, outside any graph; a view of ``base``."""
    t = _new(Tensor)
    t._ftorch_storage = storage
    t._ftorch_geometry = g
    t._ftorch_offset = offset
    t._ftorch_requires_grad = False
    t._grad_fn = t._grad = t._ftorch_meta = None
    t._base = base
    t._ftorch_output_nr = 0
    t._ftorch_attr_version = storage.version
    return t


def extras(t: TensorBase) -> Extras:
    """The tensor's `Extras`, made when first needed."""
    found = t._ftorch_meta
    if found is None:
        found = t._ftorch_meta = Extras()
    return found


# --- version counters ----------------------------------------------------------------------
#
# A tensor and its views share a version counter, by which backward knows that a saved tensor was written to. It is the
# storage's, but for tensors that share memory without sharing a counter: ``x.data`` begins at zero, and what was given other
# memory (``x.data = y``, ``x.set_(y)``) goes on with its own.

# Counters of tensors that were given a storage, for writers that know the storage only.
_besides: weakref.WeakKeyDictionary[Storage, tuple[weakref.ref[VersionCounter], ...]] = weakref.WeakKeyDictionary()


def counter_of(t) -> Any:
    """What counts a tensor's writes: something with a ``version``, its storage or a `VersionCounter`."""
    meta = t._ftorch_meta
    return t._ftorch_storage if meta is None or meta.counter is None else meta.counter


def count_write(t) -> None:
    """Counts a write of which the tensor's storage knows nothing, such as ``x.t_()``."""
    counter_of(t).version += 1


def recount(t) -> None:
    """Lets a write that the tensor's storage has counted be the tensor's."""
    meta = t._ftorch_meta
    if meta is not None and meta.counter is not None:
        meta.counter.version += 1
        t._ftorch_storage.version -= 1


def count_for_all(storage: Storage) -> None:
    """Counts a write to a storage for every tensor in it, but those from ``.data``."""
    storage.version += 1
    if _besides:
        for reference in _besides.get(storage, ()):
            if (counter := reference()) is not None:
                counter.version += 1


def _others(storage, counter):
    return tuple([r for r in _besides.get(storage, ()) if r() is not None and r() is not counter])


def replace_memory(t, storage: Storage, g: Geometry, offset: int) -> None:
    """Makes a tensor other elements, as ``x.data = y`` and ``x.set_(y)`` do; it goes on with its own version counter."""
    old = t._ftorch_storage
    if storage is not old:
        counter = counter_of(t)
        if counter is old:
            counter = extras(t).counter = VersionCounter(old.version)
        elif old in _besides:
            _besides[old] = _others(old, counter)
        _besides[storage] = (*_others(storage, counter), weakref.ref(counter))
    t._ftorch_storage, t._ftorch_geometry, t._ftorch_offset = storage, g, offset


def from_array(array, device=None, requires_grad=False, stride=None) -> Tensor:
    """A tensor of a NumPy or JAX array (copied from NumPy), on a device.

    Args:
        stride: the memory layout the tensor reports; contiguous by default.
    """
    dtype = _dtype.from_numpy(array.dtype)
    if array.__class__ is not np.ndarray and _is_tracer(array):
        storage = Storage(geometry(Size(array.shape), dtype, _device.CPU, stride), array)
        storage.trace = IMMEDIATE
    else:
        where = _device.resolve(device)
        root = geometry(array.shape, dtype, where, stride)
        if where is _device.META:
            storage = Storage(root)
        else:
            if isinstance(array, (np.ndarray, np.generic)):
                array = np.array(array, order="C")  # JAX may keep the buffer it is given
            if where is not _device.CPU or array.__class__ is not np.ndarray or array.nbytes > KEPT_BYTES:
                array = _put(array, where)
            storage = Storage(root, array)
    if modes.inference:
        storage.version = INFERENCE
    t = wrap(storage)
    t._ftorch_requires_grad = requires_grad
    return t


def _is_tracer(array):
    import jax

    return isinstance(array, jax.core.Tracer)


def new_leaf(t, requires_grad=True):
    """A new tensor, which requires grad if it is asked to.

    Raises:
        RuntimeError: if its dtype can have no gradient.
    """
    if requires_grad:
        if t._ftorch_geometry.dtype.category < 2:
            raise RuntimeError(
                "Only Tensors of floating point and complex dtype can require gradients"
            )
        t._ftorch_requires_grad = True
    return t


def slots_of(cls) -> list[str]:
    """The names that a class of tensors keeps in ``__slots__`` of its own; those of layouts hold the tensor itself."""
    if cls is Tensor:
        return []
    base = next(c for c in cls.__mro__ if c is Tensor or "_slots_are_data" in vars(c))
    taken = copyreg._slotnames(base)  # type: ignore[attr-defined]
    return [name for name in copyreg._slotnames(cls) if name not in taken]  # type: ignore[attr-defined]


def state_of(t):
    """The attributes of a tensor: a dict, of classes with slots a pair of dicts, or None if there are none."""
    slots = {name: getattr(t, name) for name in slots_of(t.__class__) if hasattr(t, name)}
    return (t.__dict__, slots) if slots else t.__dict__ or None


def set_state(t, state) -> None:
    """Gives a tensor what `state_of` told of another."""
    attributes, slots = state if isinstance(state, tuple) else (state, {})
    t.__dict__.update(attributes or {})
    for name, value in slots.items():
        setattr(t, name, value)


_NOT_FREE = "Creating a new Tensor subclass {} but the raw Tensor object is already associated to a python object of type {} \
which is not a subclass of the requested type"


def check_free(made, cls):
    """Raises where a tensor that is to be of another class is an object that wraps something."""
    if made.__class__ in DISPATCHING and made._ftorch_storage.error is not None and not issubclass(made.__class__, cls):
        raise RuntimeError(_NOT_FREE.format(cls.__name__, made.__class__.__name__))


def _put(array, where):
    if isinstance(array, np.ndarray):
        return _device.put(array, where)
    import jax

    target = _device.to_jax(where)
    if array.committed and array.device == target:
        return array
    return jax.device_put(array, target)


# --- modes of the calling thread -----------------------------------------------------


class _Modes(threading.local):
    """transforming: how many functions of `torch.func` run; functionalizing: how many `functionalize`;
    differentiating: for each of those that differentiate (its number, the storages of its inputs);
    grad: whether operations record; forward: whether tangents are computed and seen;
    inference: inside ``inference_mode``; grad_layout: whether a leaf's gradient is laid out
    as the leaf; special: why calls must take the slow path (levels of
    transforms, function modes, autocast, saved-tensor hooks)."""

    def __init__(self):
        self.grad = self.forward = True
        self.inference = False
        self.levels = []
        self.function_modes = []
        self.subclasses = True
        self.saved_hooks = []
        self.autocast = None
        self.anomaly = False
        self.transforming = self.functionalizing = 0
        self.differentiating = []
        self.grad_layout = True


modes = _Modes()
