"""Kinds of calls: the keys by which a compiled function finds programs, and how they differ.

The kind of a call is its arguments' structure, what each argument is, which share memory, and the modes
that are on.
"""

from __future__ import annotations

import collections
import functools
import re

from ...autograd.grad_mode import no_grad
from ...eager.autograd import tape
from ...eager.call.op import read
from ...eager.core import device as _device
from ...eager.core import dtype as _dtype
from ...eager.core.geometry import geometry
from ...eager.dispatch import autocast
from ...eager.tensor import Tensor, TensorBase, modes, wrap, wrap_view
from ...utils import _pytree as pytree
from .argument_views import View, view_of
from .data_objects import Stand
from .python_state import CONSTANTS, SCALARS
from .static_look import module_of


def argument_key(leaf):
    """What of an argument is part of a call's kind."""
    kind = type(leaf)
    if issubclass(kind, TensorBase):
        g = leaf._ftorch_geometry
        root = None if g is leaf._ftorch_storage.root else (leaf._ftorch_offset, leaf._ftorch_storage.root)
        return g, root, leaf._ftorch_requires_grad, kind, leaf._grad_fn is None
    if issubclass(kind, SCALARS):
        return (kind, leaf) if leaf == leaf else (kind, "nan")
    if issubclass(kind, _VALUES):
        return leaf
    return id(leaf)


_VALUES = (*CONSTANTS, Stand)


def stand_in(t):
    """A tensor of its own memory for a part of another's: programs do not depend on where it lies."""
    if not issubclass(type(t), TensorBase) or t._ftorch_geometry is t._ftorch_storage.root or type(t) is not Tensor or (
        t._ftorch_geometry.device is not _device.CPU
    ):
        return t
    edge = None
    if t._ftorch_requires_grad:
        if t._grad_fn is None:
            return t
        edge = tape.edge_of(t)
    new = wrap(read(t))
    if edge is not None:
        new._ftorch_requires_grad, (new._grad_fn, new._ftorch_output_nr) = True, edge
    return new


def stand_ins(leaves):
    """Arguments with stand-ins for parts of tensors, unless two are parts of one."""
    count = collections.Counter(id(t._ftorch_storage) for t in leaves if issubclass(type(t), TensorBase))
    return [
        stand_in(t) if issubclass(type(t), TensorBase) and count[id(t._ftorch_storage)] == 1 else t
        for t in leaves
    ]


def memory_of(leaves):
    """The storages of arguments and stand-ins, before a function may give them others."""
    return [t._ftorch_storage if issubclass(type(t), TensorBase) else None for t in leaves]


def given_back(leaves, originals, outputs, storages=None):
    """The results of a call with the arguments, and views of them, in place of those of their stand-ins.

    Args:
        storages: what `memory_of` gave before the call, if the function may have given stand-ins others.
    """
    stands = [
        (new, old, storage) for new, old, storage in zip(leaves, originals, storages or memory_of(leaves)) if new is not old
    ]
    tensors = {id(new): old for new, old, _ in stands}
    memory = {id(storage): (new, old) for new, old, storage in stands if new._ftorch_storage is storage}

    def original(t):
        if not issubclass(type(t), TensorBase):
            return t
        return tensors[id(t)] if id(t) in tensors else _in_arguments(t, memory)

    return pytree.tree_map(original, outputs)


def share_parts(leaves):
    """Whether two arguments are parts of one tensor."""
    return any(
        issubclass(type(t), TensorBase) and t._ftorch_geometry is not t._ftorch_storage.root
        and any(s is not t and issubclass(type(s), TensorBase) and s._ftorch_storage is t._ftorch_storage for s in leaves)
        for t in leaves
    )


def is_array(leaf):
    """Whether a value is NumPy's."""
    return module_of(type(leaf)) == "numpy"


def aliases(leaves):
    """Which tensor arguments share storage with which."""
    if len(leaves) < 2:
        return ()
    first: dict[int, int] = {}
    return tuple(
        first.setdefault(id(t._ftorch_storage), i) for i, t in enumerate(leaves) if issubclass(type(t), TensorBase)
    )


def requirements(leaves) -> list[bool]:
    """Of each tensor argument whether it requires grad as a leaf."""
    return [t._ftorch_requires_grad for t in leaves if issubclass(type(t), TensorBase) and t._grad_fn is None]


def modes_key():
    """The modes that are on, as part of a call's kind."""
    on = modes.autocast
    return (
        modes.grad, modes.inference, _device.get_default_device(), _dtype.get_default_dtype(),
        on and (on, tuple(autocast.state.dtypes.items()), autocast.state.cache_enabled),
    )


def returned(leaves, originals, outputs, storages):
    """What a call that ran in Python did to stand-ins, done to the arguments; ``storages`` are as for `given_back`."""
    stands = [(new, old, storage) for new, old, storage in zip(leaves, originals, storages) if new is not old]
    with no_grad():
        memory = {id(storage): (wrap(storage), old.data) for _, old, storage in stands}
        moved = [t._ftorch_storage for t, storage in zip(leaves, storages)
                 if storage is not None and t._ftorch_storage is not storage]
        for new, old, storage in stands:
            is_moved, is_written = new._ftorch_storage is not storage, storage.version or storage in moved
            if is_moved or not _is_reshaped(old._ftorch_geometry, new._ftorch_geometry):
                if is_written:
                    old.copy_(memory[id(storage)][0] if is_moved else new.detach())
                continue
            if not old._ftorch_geometry.is_dense:
                raise RuntimeError("a compiled function changed the geometry of an argument whose elements do not lie together")
            if is_written:
                own = geometry(old.shape, old.dtype, old.device, old.stride())
                old.copy_(wrap_view(storage, own, 0, None))  # also what the new geometry leaves out
            _reshape_as(old, new, is_written)
        for new, old, storage in zip(leaves, originals, storages):
            if storage is not None and new._ftorch_storage is not storage:  # `set_`, or ``.data`` was set
                now = _in_arguments(new.data, memory)
                old._ftorch_storage, old._ftorch_geometry, old._ftorch_offset = (
                    now._ftorch_storage, now._ftorch_geometry, now._ftorch_offset
                )
    for new, old in zip(leaves, originals):
        if new is not old and requirements([new]) != requirements([old]) and new._grad_fn is old._grad_fn is None:
            old.requires_grad_(new._ftorch_requires_grad)
            if new._ftorch_requires_grad:
                new.register_post_accumulate_grad_hook(functools.partial(_hand_over, old))
    return given_back(leaves, originals, outputs, storages)


def _in_arguments(t, memory):
    """A tensor, or the part of an argument that it is of its stand-in."""
    if id(t._ftorch_storage) not in memory:
        return t
    new, old = memory[id(t._ftorch_storage)]
    view = view_of(old, View(t, new), new._ftorch_geometry)
    return t if view is None else view


def _hand_over(old, new):
    """Gives an argument the gradient of its stand-in, which is the leaf of this one call's graph."""
    grad, new.grad = new.grad, None
    old.grad = grad if old.grad is None else old.grad + grad


def _is_reshaped(old, new) -> bool:
    """Whether a stand-in has another geometry than it was made with: an argument's, packed where that has gaps."""
    if old.shape != new.shape:
        return True
    return old.is_dense and old.stride != new.stride and sorted(old.stride) == sorted(new.stride)


def _reshape_as(old, new, is_written):
    """Gives an argument the geometry that its stand-in was given in place (``x.t_()``, ``x.resize_(3)``)."""
    own, offset = old._ftorch_storage, old.storage_offset()
    if new._ftorch_storage.root.numel <= old.numel():
        old.as_strided_(new.shape, new.stride(), offset + new._ftorch_offset)
    elif own.root.numel > offset + old.numel():
        raise RuntimeError("a compiled function enlarged an argument that is part of a larger tensor")
    else:
        old.resize_(new.shape)
        if is_written:
            old.copy_(new.detach())


def other_device(leaves):
    """Whether an argument lies on another device than the CPU."""
    return any(issubclass(type(t), TensorBase) and t._ftorch_geometry.device is not _device.CPU for t in leaves)


def has_overrides(leaves):
    """Whether an argument is of a subclass of tensors that may see calls."""
    from ...nn import Buffer, Parameter

    plain = (Tensor, Parameter, Buffer)
    return any(issubclass(type(t), TensorBase) and type(t) not in plain for t in leaves)


def without_sizes(key, numbers=True):
    """A kind of call with any sizes, and if not ``numbers`` with any numbers."""
    spec, leaves, aliases, mode = key
    kinds = []
    for k in leaves:
        if isinstance(k, tuple) and len(k) == 5:
            k = k[0].dtype, len(k[0].shape), k[2:]
        elif not numbers and isinstance(k, tuple) and k[0] in (int, float):
            k = k[0]
        kinds.append(k)
    return spec, tuple(kinds), aliases, mode


def _likeness(a, b):
    same = sum(x == y for x, y in zip(a[1], b[1]))
    return a[0] == b[0], same, a[3] == b[3]


def difference(key, entries, names):
    """Why a call is of another kind than the most similar one before.

    Args:
        names: PyTorch's names of the arguments, ``L['x']``.
    """
    other = max(reversed(entries), key=lambda k: _likeness(k, key))
    if key[0] != other[0]:
        return "the arguments have another structure"
    for i, (a, b) in enumerate(zip(key[1], other[1])):
        if a == b:
            continue
        name = re.sub(r"^L\['(\w+)'\]", r"\1", names[i]) if i < len(names) else f"L[{i}]"
        if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b) == 5:
            return _of_tensors(f"tensor '{name}'", a, b)
        b = b[1] if isinstance(b, tuple) and len(b) == 2 else b
        return f"{name} == {b!r}"
    if key[3] != other[3]:
        return "GLOBAL_STATE changed: grad_mode, autocast, or the default dtype or device"
    return "the arguments share memory in another way"


def _of_tensors(tensor, a, b):
    g, h = a[0], b[0]
    if g.dtype is not h.dtype:
        names = h.dtype.scalar_name, g.dtype.scalar_name
        return f"{tensor} dtype mismatch. expected {names[0]}, actual {names[1]}"
    if len(g.shape) != len(h.shape):
        return f"{tensor} rank mismatch. expected {len(h.shape)}, actual {len(g.shape)}"
    for d, (m, n) in enumerate(zip(g.shape, h.shape)):
        if m != n:
            return f"{tensor} size mismatch at index {d}. expected {n}, actual {m}"
    if a[2] != b[2]:
        return f"{tensor} requires_grad mismatch. expected requires_grad={int(b[2])}"
    return f"{tensor} has another layout"
