"""Cache keys of calls: by which a compiled function finds programs, and how they differ.

The kind of a call is its arguments' structure, what each argument is, which share memory, and the modes
that are on.
"""

from __future__ import annotations

import re
from typing import Any

from ...eager.core import device as _device
from ...eager.core import dtype as _dtype
from ...eager.dispatch import autocast
from ...eager.functions.nn import attention_choice
from ...eager.tensor import Tensor, TensorBase, modes
from .argument_parts import is_movable
from .data_objects import Stand
from .python_state import CONSTANTS, SCALARS
from .static_attributes import module_of


def argument_key(leaf):
    """What of an argument is part of a call's kind, wherever it lies if it can be moved."""
    kind = type(leaf)
    if issubclass(kind, TensorBase):
        g = leaf._ftorch_geometry
        root = None if g is leaf._ftorch_storage.root or is_movable(leaf) else (leaf._ftorch_offset, leaf._ftorch_storage.root)
        return g, root, leaf._ftorch_requires_grad, kind, leaf._grad_fn is None
    if issubclass(kind, SCALARS):
        if leaf != leaf:
            return kind, "nan"
        return (kind, leaf) if leaf or kind is not float or "-" not in str(leaf) else (kind, "-0.0")
    if issubclass(kind, _VALUES):
        return leaf
    return id(leaf)


_VALUES = (*CONSTANTS, Stand)


def placed(key, leaves):
    """The kind of a call whose arguments have to lie where they do."""
    kinds = [
        (kind[0], (t._ftorch_offset, t._ftorch_storage.root, t._base is None), *kind[2:])
        if issubclass(type(t), TensorBase) else kind for kind, t in zip(key[1], leaves)
    ]
    return key[0], tuple(kinds), *key[2:]


def aliases(leaves):
    """Which tensor arguments share storage with which, and which of those are the same part of it, or one tensor."""
    if len(leaves) < 2:
        return ()
    first: dict[int, int] = {}
    found = [first.setdefault(id(t._ftorch_storage), i) for i, t in enumerate(leaves) if issubclass(type(t), TensorBase)]
    if len(first) == len(found):
        return tuple(found)
    same: dict[Any, int] = {}
    return tuple([
        (first[id(t._ftorch_storage)], same.setdefault((id(t._ftorch_storage), t._ftorch_offset, t._ftorch_geometry), i),
         same.setdefault(id(t), i))
        for i, t in enumerate(leaves) if issubclass(type(t), TensorBase)
    ])


def requirements(leaves) -> list[bool]:
    """Of each tensor argument whether it requires grad as a leaf."""
    return [t._ftorch_requires_grad for t in leaves if issubclass(type(t), TensorBase) and t._grad_fn is None]


def modes_key():
    """The modes that are on, as part of a call's kind."""
    on, stack = modes.autocast, _device.local.stack
    return (
        modes.grad, modes.inference, stack[-1] if stack else _device.default, _dtype.default,
        on and (on, tuple(autocast.state.dtypes.items()), autocast.state.cache_enabled),
        tuple(attention_choice.allowed.values()),  # by which calls of attention are refused
    )


def is_eager(leaves):
    """Whether a call with an argument like these is never captured.

    That is an array of NumPy's, a tensor on another device than the CPU, or one of a subclass that may see calls.
    """
    from ...nn import Buffer, Parameter

    for leaf in leaves:
        kind = type(leaf)
        if issubclass(kind, TensorBase):
            if leaf._ftorch_geometry.device is not _device.CPU or kind not in (Tensor, Parameter, Buffer):
                return True
        elif module_of(kind) == "numpy":
            return True
    return False


def without_sizes(key, numbers=True):
    """A kind of call with any sizes, and if not ``numbers`` with any numbers."""
    spec, leaves, aliases, mode = key
    kinds = []
    for k in leaves:
        if isinstance(k, tuple) and len(k) == 5:
            k = k[0].dtype, len(k[0].shape), k[1:]
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
