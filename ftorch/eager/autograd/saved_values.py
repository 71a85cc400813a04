"""What a node shows of its call: ``grad_fn._saved_self``, ``_saved_dim``, ``_raw_saved_self``, and its inputs.

PyTorch names them after the arguments of the operator. A tensor that the derivative does not read is None,
``_saved_self_sym_sizes`` and the like are taken from the call's geometries.
"""

from __future__ import annotations

from ..core import api
from ..core.registry import OPTIONAL_TENSOR, TENSOR, TENSORS
from .nodes import FREED
from .saved_tensors import SavedByHook, unpack

_OF_GEOMETRY = {
    "_sym_sizes": lambda g: tuple(g.shape), "_sizes": lambda g: tuple(g.shape),
    "_sym_strides": lambda g: tuple(g.stride), "_strides": lambda g: tuple(g.stride),
    "_scalar_type": lambda g: g.dtype, "_sym_numel": lambda g: g.numel, "_numel": lambda g: g.numel,
    "_dim": lambda g: g.ndim,
}
# Arguments through which no gradient goes have no edge in PyTorch.
_CONSTANT = frozenset(
    "index indices mask condition target offsets per_sample_index running_mean running_var source_index "
    "boundaries repeats".split()
)
# Functions whose Python numbers become tensors, which have edges that lead nowhere.
_WRAPPING = frozenset(("add", "sub", "mul", "div", "where"))


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

    def register_hooks(self, pack_hook, unpack_hook):
        """Keeps what ``pack_hook`` makes of the tensor; ``unpack_hook`` makes it a tensor again.

        Raises:
            RuntimeError: if it has hooks, or was released.
        """
        if self._entries() is None:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor after it has been freed. Saved intermediate values of the graph are "
                "freed when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to backward through "
                "the graph a second time or if you need to access saved variables after calling backward."
            )
        if self._kept().__class__ is SavedByHook:
            raise RuntimeError("Calling register_hooks on a saved tensor whose hooks have already been set. "
                               "Hint: only one pair of hooks is allowed at a time.")
        for hook in (pack_hook, unpack_hook):
            if not callable(hook):
                raise TypeError("incompatible function arguments: register_hooks takes two functions")
        self._keep(SavedByHook(self._tensor().detach(), pack_hook, unpack_hook))

    def _entries(self):
        return self._node.saved

    def _kept(self):
        return self._node.saved[self._position]

    def _keep(self, value):
        saved = list(self._node.saved)
        saved[self._position] = value
        self._node.saved = saved


class SavedTensorOfFunction(SavedTensor):
    """A tensor that a `Function` has saved."""

    def _tensor(self):
        return self._node.saved_tensors[self._position]

    def _entries(self):
        return self._node._saved

    def _kept(self):
        return self._node._saved[self._position][0]

    def _keep(self, value):
        saved = list(self._node._saved)
        saved[self._position] = value, saved[self._position][1]
        self._node._saved = saved


def _unpacked(node, position):
    if node.saved is None:
        raise RuntimeError(FREED)
    i = node.backward.saved[position]
    return unpack(node.saved[position], node, node.edges[i] if i >= 0 else (node, -1 - i))


def of_op(node, name: str):
    """``node._saved_NAME`` or ``node._raw_saved_NAME`` of a node of an op.

    Raises:
        AttributeError: if the op has no such argument or result.
    """
    raw = name.startswith("_raw_saved_")
    wanted = name.removeprefix("_raw_saved_" if raw else "_saved_")
    plan = node.backward.plan
    position = _position(node, plan, wanted)
    if position is not None:
        if position < 0:
            return None
        return SavedTensor(node, position) if raw else _unpacked(node, position)
    slot, _ = _slot(plan, wanted)
    if raw and slot is not None and slot[0] == "l":
        saved = node.backward.saved
        return tuple(SavedTensor(node, saved.index(j)) if j in saved else None for j in slot[1])
    if not raw:
        found, value = _constant(node, plan, wanted)
        if found:
            return value
    raise AttributeError(f"'{type(node).__name__}' object has no attribute '{name}'")


def _slot(plan, wanted):
    definition = plan.op.definition
    names = definition.argument_names
    if wanted not in names:
        return None, None
    i = names.index(wanted)
    return plan.structure.slots[i], definition.kinds[i]


def _position(node, plan, wanted):
    """Where a tensor is among the saved ones; -1 if it is none of them, None if it is no tensor."""
    saved = node.backward.saved
    slot, _ = _slot(plan, wanted)
    if slot is not None and slot[0] == "t":
        return saved.index(slot[1]) if slot[1] in saved else -1
    if slot is not None and slot[0] == "n":
        return -1
    if slot is not None:
        return None
    names = [r.name or f"result{k}" for k, r in enumerate(plan.op.definition.schema.returns)]
    if plan.is_single:
        names = ["result"]
    for k, result in enumerate(names):
        if wanted in (result, f"result{k}" if len(names) > 1 else result):
            return saved.index(-1 - k) if -1 - k in saved else -1
    return None


def _constant(node, plan, wanted):
    """(whether there is such an argument, its value): a number, a setting, or part of a geometry."""
    slot, kind = _slot(plan, wanted)
    if slot is not None:
        if slot[0] == "s":
            value = node.scalars[slot[1]]
            return True, api.tensor(value) if kind == TENSOR else value
        if slot[0] == "v":
            names = plan.op.definition.argument_names
            declared = plan.op.definition.schema.arguments[names.index(wanted)].type
            return True, _static(wanted, slot[1], declared.is_list)
        if slot[0] == "l":
            found = [node.backward.saved.index(j) if j in node.backward.saved else None for j in slot[1]]
            return True, tuple(None if p is None else _unpacked(node, p) for p in found)
    for suffix, of in _OF_GEOMETRY.items():
        if wanted.endswith(suffix):
            slot, _ = _slot(plan, wanted.removesuffix(suffix))
            if slot is not None and slot[0] == "t":
                return True, of(plan.inputs[slot[1]])
    return False, None


def _static(name, value, is_list=False):
    """A setting as PyTorch shows it: dimensions are unsigned there."""
    if is_list and isinstance(value, int):
        value = (value,)
    if name in ("dim", "dims", "dim0", "dim1") and value is not None:
        if isinstance(value, (tuple, list)):
            return tuple(d % (1 << 64) for d in value)
        return value % (1 << 64)
    return tuple(value) if isinstance(value, list) else value


def of_view(node, name: str):
    """``node._saved_NAME`` of a view's node."""
    wanted = name.removeprefix("_saved_")
    names = node.definition.argument_names[1:]
    if wanted in names and names.index(wanted) < len(node.static):
        return _static(wanted, node.static[names.index(wanted)])
    for suffix, of in _OF_GEOMETRY.items():
        if wanted == f"self{suffix}":
            return of(node.base)
    raise AttributeError(f"'{type(node).__name__}' object has no attribute '{name}'")


def names_of(backward) -> list[str]:
    """The names that ``dir`` lists for a node: of the tensors it saves and of the op's settings."""
    plan, found = backward.plan, []
    definition = plan.op.definition
    for name, slot in zip(definition.argument_names, plan.structure.slots):
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
