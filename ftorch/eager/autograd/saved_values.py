"""Attributes of nodes: ``grad_fn._saved_self``, ``_saved_dim``, ``_raw_saved_self``, and a node's inputs.

PyTorch names them after the arguments of the operator; `saved_names.txt` has a line for each node with the names that it
shows there: behind a colon ``T`` for a tensor, ``L`` for a list of tensors, ``u`` for integers that it shows without their
sign, ``d`` for a float. A tensor that the derivative here does not read is None, ``_saved_self_sym_sizes`` and the like are
taken from the call's geometries. A node that PyTorch has not shows the arguments of its op.
"""

from __future__ import annotations

import functools
import math
import sys

from ..core import api, places
from ..core.registry import OPTIONAL_TENSOR, TENSOR, TENSORS
from .nodes import FREED
from .saved_tensors import SavedByHook, unpack

_OF_GEOMETRY = {
    "_sym_sizes": lambda g: tuple(g.shape), "_sizes": lambda g: tuple(g.shape),
    "_sym_strides": lambda g: tuple(g.stride), "_strides": lambda g: tuple(g.stride),
    "_scalar_type": lambda g: g.dtype, "_sym_numel": lambda g: g.numel, "_numel": lambda g: g.numel,
    "_dim": lambda g: g.ndim,
    **{f"_sym_argsize_{i}": lambda g, i=i: g.shape[i] for i in range(3)},
    **{f"_sym_argsize_minus_{i}": lambda g, i=i: g.shape[-i] for i in range(1, 4)},
}
_SIZES_OF_OPTIONAL = "_sym_sizes_opt"
# ATen's names of arguments that the ops here call otherwise.
_OTHER_NAMES = {
    "self": "input", "mat2": "other", "interpolation_mode": "mode", "group": "num_groups",
    "L": "result", "indices": "result1", "inverse": "result", "scales": "scale_factor",
}
# Settings that are numbers in ATen.
_NUMBERED = {
    "reduction": ("none", "mean", "sum"), "interpolation_mode": ("bilinear", "nearest", "bicubic"),
    "padding_mode": ("zeros", "border", "reflection"),
}
# Lists that have a number for each spatial dimension, which may be given as one for all.
_SPATIAL = frozenset(("stride", "padding", "dilation", "kernel_size", "output_padding", "output_size"))
# Arguments through which no gradient goes have no edge in PyTorch.
_CONSTANT = frozenset(
    "index indices mask condition target offsets per_sample_index running_mean running_var source_index "
    "boundaries repeats".split()
)
# Functions whose Python numbers become tensors, which have edges that lead nowhere.
_WRAPPING = frozenset(("add", "sub", "mul", "div", "where"))


_TWO_FUNCTIONS = (
    "register_hooks(): incompatible function arguments. The following argument types are supported:\n"
    "    1. (self: torch._C._autograd.SavedTensor, arg0: Callable, arg1: Callable) -> None"
)


class SavedTensor:
    """A saved tensor in its node (``grad_fn._raw_saved_self``), to which hooks can be given."""

    def __init__(self, node=None, position=None):
        if node is None:
            raise RuntimeError("Trying to create a SavedTensor object from Python is forbidden.")
        self._node, self._position = node, position

    def _tensor(self):
        return _unpacked(self._node, self._position)

    data = property(lambda self: self._tensor().detach())

    def unpack(self):
        """The saved tensor."""
        return self._tensor()

    def register_hooks(self, pack_hook=None, unpack_hook=None):
        """Keeps what ``pack_hook`` makes of the tensor; ``unpack_hook`` makes it a tensor again.

        Raises:
            RuntimeError: if it has hooks, was released, or stands for no tensor.
            TypeError: unless both are functions.
        """
        if not (callable(pack_hook) and callable(unpack_hook)):
            raise TypeError(_TWO_FUNCTIONS)
        if self._entries() is None:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor after it has been freed. Saved intermediate values of the graph are "
                "freed when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to backward through "
                "the graph a second time or if you need to access saved variables after calling backward."
            )
        if self._kept().__class__ is SavedByHook:
            raise RuntimeError("Calling register_hooks on a saved tensor whose hooks have already been set. "
                               "Hint: only one pair of hooks is allowed at a time.")
        if self._tensor() is None:
            raise RuntimeError("Calling register_hooks on a saved tensor with value None is forbidden")
        self._keep(SavedByHook(self._tensor().detach(), pack_hook, unpack_hook))

    def _entries(self):
        return self._node.saved

    def _kept(self):
        return self._node.saved[self._position]

    def _keep(self, value):
        saved = list(self._node.saved)
        saved[self._position] = value
        self._node.saved = saved


class _SavedNone(SavedTensor):
    """In place of a tensor that a list of saved ones does not have."""

    def _tensor(self):
        return None

    def _entries(self):
        return ()

    def _kept(self):
        return None


class SavedTensorOfFunction(SavedTensor):
    """A tensor that a `Function` has saved."""

    def _tensor(self):
        return self._node.saved_tensors[self._position]

    def _entries(self):
        return self._node._ftorch_saved

    def _kept(self):
        return self._node._ftorch_saved[self._position][0]

    def _keep(self, value):
        saved = list(self._node._ftorch_saved)
        saved[self._position] = value, saved[self._position][1]
        self._node._ftorch_saved = saved


for _kind in (_SavedNone, SavedTensorOfFunction):
    _kind.__name__ = _kind.__qualname__ = SavedTensor.__name__  # one class in PyTorch


@functools.cache
def _declared() -> dict[str, dict[str, str]]:
    """{a node's name: {a name that it shows: its kind}} of PyTorch's nodes."""
    with open(places.own_file("eager/autograd/saved_names.txt"), encoding="utf-8") as file:
        lines = [line.split() for line in file]
    return {name: {field.partition(":")[0]: field.partition(":")[2] for field in fields} for name, *fields in lines}


def _unpacked(node, position):
    if node.saved is None:
        raise RuntimeError(FREED)
    i = node.backward.saved[position]
    t = unpack(node.saved[position], node, node._ftorch_edges[i] if i >= 0 else (node, -1 - i), in_graph=True)
    return t.detach() if i < 0 and t.dtype.category < 2 else t


def of_op(node, name: str):
    """``node._saved_NAME`` or ``node._raw_saved_NAME`` of a node of an op.

    Raises:
        AttributeError: if PyTorch's node has no such attribute.
    """
    raw = name.startswith("_raw_saved_")
    wanted = name.removeprefix("_raw_saved_" if raw else "_saved_")
    plan = node.backward.plan
    declared = _declared().get(type(node).__name__)
    if declared is None or wanted in declared:
        if plan.op.definition.name == "linear" and declared is not None and "mat2" in declared:
            return _of_linear(node, plan, wanted, raw)
        position = _position(node.backward, wanted)
        if position is not None:
            if position < 0:
                return None
            return SavedTensor(node, position) if raw else _unpacked(node, position)
        slot = _slot(plan, wanted)
        if raw and slot is not None and slot[0] == "l":
            saved = node.backward.saved
            return tuple(SavedTensor(node, saved.index(j)) if j in saved else _SavedNone(node) for j in slot[1])
        if not raw:
            found, value = _constant(node, plan, wanted)
            if found:
                return _shown(value, "" if declared is None else declared[wanted])
    raise AttributeError(f"'{type(node).__name__}' object has no attribute '{name}'")


def _of_linear(node, plan, wanted, raw):
    """What the node of a layer shows, which is an ``addmm`` or ``mm`` with the transposed weight."""
    if wanted in ("alpha", "beta"):
        return 1
    name, _, part = wanted.partition("_sym_")
    argument = "weight" if name == "mat2" else "input"
    # Only where its gradient is computed, for which the other one is saved, are an operand's strides kept.
    if part == "strides" and _position(node.backward, "input" if argument == "weight" else "weight") < 0:
        return ()
    if part:
        geometry = plan.inputs[_slot(plan, argument)[1]]
        values = tuple(geometry.shape if part == "sizes" else geometry.stride)
        return values[::-1] if argument == "weight" else values
    position = _position(node.backward, argument)
    if position < 0:
        return _SavedNone(node) if raw else None
    if raw:
        return SavedTensor(node, position)
    t = _unpacked(node, position)
    return t.t() if argument == "weight" else t


def _argument(plan, wanted):
    """The number of an op's argument that PyTorch calls so, or None."""
    names = plan.op.definition.argument_names
    for name in (wanted, _OTHER_NAMES.get(wanted)):
        if name in names:
            return names.index(name)
    return 0 if wanted == "self" else None


def _slot(plan, wanted):
    i = _argument(plan, wanted)
    return None if i is None else plan.structure.slots[i]


def _position(backward, wanted):
    """Where a tensor is among the saved ones; -1 if it is none of them, None if it is no tensor."""
    plan, saved = backward.plan, backward.saved
    slot = _slot(plan, wanted)
    if slot is not None and slot[0] == "t":
        return saved.index(slot[1]) if slot[1] in saved else -1
    if slot is not None:
        return -1 if slot[0] == "n" else None
    names = [r.name or f"result{k}" for k, r in enumerate(plan.op.definition.schema.returns)]
    if plan.is_single:
        names = ["result"]
    for k, result in enumerate(names):
        shown = (result, f"result{k}" if len(names) > 1 else result)
        if wanted in shown or _OTHER_NAMES.get(wanted) in shown:
            return saved.index(-1 - k) if -1 - k in saved else -1
    return None


def _constant(node, plan, wanted):
    """(whether there is such an argument, its value): a number, a setting, or part of a geometry."""
    found = _OF_CALLS.get(plan.op.definition.name)
    if found is not None and (value := found(plan, wanted)) is not NotImplemented:
        return True, value
    i = _argument(plan, wanted)
    if i is not None:
        slot, definition = plan.structure.slots[i], plan.op.definition
        if slot[0] == "s":
            value = node.scalars[slot[1]]
            is_tensor = _declared().get(type(node).__name__, {}).get(wanted, "T") == "T"
            return True, api.tensor(value) if is_tensor and definition.kinds[i] == TENSOR else value
        if slot[0] == "v":
            if wanted == "exponent" and slot[1] == int(slot[1]):  # a float for the kernel
                return True, int(slot[1])
            return True, _setting(plan, wanted, slot[1], definition.schema.arguments[i].type.is_list)
        if slot[0] == "l":
            saved = node.backward.saved
            found = [saved.index(j) if j in saved else None for j in slot[1]]
            return True, tuple(None if p is None else _unpacked(node, p) for p in found)
        return False, None
    if wanted.endswith(_SIZES_OF_OPTIONAL):
        slot = _slot(plan, wanted.removesuffix(_SIZES_OF_OPTIONAL))
        return slot is not None, tuple(plan.inputs[slot[1]].shape) if slot is not None and slot[0] == "t" else (0,)
    for suffix, of in _OF_GEOMETRY.items():
        if wanted.endswith(suffix):
            slot = _slot(plan, wanted.removesuffix(suffix))
            if slot is not None and slot[0] == "t":
                return True, of(plan.inputs[slot[1]])
    if "transposed" in _declared().get(type(node).__name__, ()):  # of all convolutions
        if wanted == "transposed":
            return True, "transpose" in plan.op.definition.name
        if wanted == "output_padding":
            return True, (0,) * (plan.inputs[0].ndim - 2)
    return False, None


def _of_group_norm(plan, wanted):
    shape = plan.inputs[0].shape
    return {"N": shape[0], "C": shape[1], "HxW": math.prod(shape[2:])}.get(wanted, NotImplemented)


def _of_interpolation(plan, wanted):
    size = plan.geometries[0].shape[2:]
    if wanted == "output_size":
        return tuple(size)
    kind, _, axis = wanted.partition("_")
    slot = _slot(plan, "scales")
    if kind != "scales" or slot is None:
        return NotImplemented
    return None if slot[1] is None else slot[1][{"": 0, "h": -2, "w": -1, "d": -3}[axis]]


# {op: what its node shows that is no argument of it}
_OF_CALLS: dict = {
    "group_norm": _of_group_norm, "_interpolate": _of_interpolation,
    "square": lambda plan, wanted: 2 if wanted == "exponent" else NotImplemented,
}


def _setting(plan, name, value, is_list):
    """A setting in the form that ATen's operator gets it in."""
    if name in _NUMBERED and isinstance(value, str):
        return _NUMBERED[name].index(value)
    if name in _SPATIAL and is_list and plan.inputs[0].ndim > 2:
        if value is None:
            return ()
        value = (value,) if isinstance(value, int) else tuple(value)
        return value * (plan.inputs[0].ndim - 2) if len(value) == 1 else value
    return (value,) if is_list and isinstance(value, int) else value


def _shown(value, kind):
    """A value as PyTorch shows one of that kind."""
    if isinstance(value, (tuple, list)):
        return tuple([_shown(v, kind) for v in value])
    if kind == "d" and isinstance(value, int):
        return float(value)
    return value % (1 << 64) if kind == "u" and isinstance(value, int) and not isinstance(value, bool) else value


def of_view(node, name: str):
    """``node._saved_NAME`` of a view's node."""
    wanted = name.removeprefix("_saved_")
    kind = _declared().get(type(node).__name__, {}).get(wanted)
    if kind is not None:
        values = _of_slices(node) if type(node).__name__ in ("SliceBackward0", "SelectBackward0") else {}
        names = node.definition.argument_names[1:]
        if wanted in values:
            return values[wanted]
        if wanted in names and names.index(wanted) < len(node.static):
            return _shown(node.static[names.index(wanted)], kind)
        for suffix, of in _OF_GEOMETRY.items():
            if wanted == f"self{suffix}":
                return of(node.base)
    raise AttributeError(f"'{type(node).__name__}' object has no attribute '{name}'")


def _of_slices(node) -> dict:
    """What a node of a slice or of an index shows; where several were taken in one view, that of the last one."""
    base, name = node.base.shape, node.definition.name
    if name == "narrow":
        dim, start, length = node.static
        dim %= len(base)
        return {"dim": dim, "start": start, "end": start + length, "step": 1}
    if name == "_index_slice":
        items = [(d, item) for d, item in enumerate(node.static[0]) if isinstance(item, tuple)]
        if items and len(items) == len(node.static[0]):
            cut = [(d, item) for d, item in items if item != (0, 1, base[d])] or items[-1:]
            dim, (start, step, length) = cut[-1]
            end = start + step * length
            return {"dim": dim, "start": start, "end": sys.maxsize if end >= base[dim] else end, "step": step}
    if name == "_index_select" and all(isinstance(item, int) for item in node.static[0]):
        indices = node.static[0]
        return {"dim": 0, "index": indices[-1], "self_sym_sizes": tuple(base[len(indices) - 1 :])}
    return {}


def of_split(node, name: str):
    """``node._saved_NAME`` of a node whose results are pieces of a tensor."""
    wanted = name.removeprefix("_saved_")
    if wanted in _declared().get(type(node).__name__, ()):
        sizes = [g.shape[node.dim] for g in node.pieces] if node.join == "cat" else []
        if wanted == "dim":
            return node.dim
        if wanted == "split_size" and sizes:
            return sizes[0]
        if wanted == "split_sizes":
            return tuple(sizes)
        if wanted == "self_sym_sizes" and sizes:
            shape = list(node.pieces[0].shape)
            shape[node.dim] = sum(sizes)
            return tuple(shape)
    raise AttributeError(f"'{type(node).__name__}' object has no attribute '{name}'")


def names_of(node) -> list[str]:
    """The names that ``dir`` lists for a node."""
    declared = _declared().get(type(node).__name__)
    if declared is None:
        return [] if getattr(node, "backward", None) is None else _own_names(node.backward)
    return [f"{prefix}_{name}" for name, kind in declared.items() if _is_there(node, name, kind)
            for prefix in (("_raw_saved", "_saved") if kind in ("T", "L") and kind else ("_saved",))]


def _is_there(node, name, kind):
    """Whether a node here knows what PyTorch's shows."""
    if kind == "T" and getattr(node, "backward", None) is not None and _position(node.backward, name) is not None:
        return True
    try:
        getattr(node, f"_saved_{name}")
    except AttributeError:
        return False
    except RuntimeError:  # what it saved was freed
        return True
    return True


def _own_names(backward):
    """Those of an op that PyTorch has not: of the tensors it saves and of its settings."""
    plan, found = backward.plan, []
    for name, slot in zip(plan.op.definition.argument_names, plan.structure.slots):
        if slot[0] == "t" and slot[1] in backward.saved:
            found += [f"_raw_saved_{name}", f"_saved_{name}"]
        elif slot[0] in "sv":
            found.append(f"_saved_{name}")
    for i in backward.saved:
        if i < 0:
            name = "result" if plan.is_single else f"result{-1 - i}"
            found += [f"_raw_saved_{name}", f"_saved_{name}"]
    return found


def shown_edges(node) -> list:
    """The indices of an op's edges in PyTorch's order; None for an operand that is a Python number.

    Tensors through which no gradient can go (indices, masks) have no edge there.
    """
    plan = node.backward.plan
    definition = plan.op.definition
    wraps = definition.name in _WRAPPING
    shown: list = []
    number_first = plan.structure.slots[0][0] == "s" and wraps
    for slot, kind, name in zip(plan.structure.slots, definition.kinds, definition.argument_names):
        if slot[0] == "t":
            if name not in _CONSTANT or plan.inputs[slot[1]].dtype.category >= 2:
                shown.append(slot[1])
        elif slot[0] == "l" and kind == TENSORS:
            shown.extend(slot[1])
        elif kind == OPTIONAL_TENSOR or (slot[0] == "s" and kind == TENSOR and wraps):
            if name not in _CONSTANT and not (number_first and slot is plan.structure.slots[0]):
                shown.append(None)
    if node.backward.first is not None:
        shown.insert(0, shown.pop(shown.index(node.backward.first)))
    if number_first and definition.name != "sub":  # its tensor comes first
        shown.append(None)
    return shown
