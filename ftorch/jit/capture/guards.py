"""Guards: the checks that say whether a captured program stands for a call.

They are one generated Python expression, since a training step has some hundreds of them.
"""

from __future__ import annotations

import types
from dataclasses import dataclass
from typing import Any

from ..._alias import is_own
from ...eager.tensor import TensorBase
from .purity import content
from .python_state import SCALARS, Place, builtin_of, unchanged
from .state_watch import Watch
from .static_attributes import MISSING, in_class


@dataclass(frozen=True)
class GuardFilterEntry:
    """A guard, as ``options={"guard_filter_fn": ...}`` is shown it (``torch._dynamo.types``).

    Attributes:
        guard_type: PyTorch's word for its kind.
        is_global: it is about a global.
        orig_guard: ``orig_guard.source`` says whether it is about a module.
    """

    name: str
    has_value: bool
    value: object
    guard_type: str
    derived_guard_types: tuple[str, ...] = ()
    is_global: bool = False
    module: object = None

    @property
    def orig_guard(self):
        return self

    source = orig_guard

    def is_unspecialized_nn_module(self) -> bool:
        """Whether it is about a module."""
        return self.module is not None

    def is_unspecialized_builtin_nn_module(self) -> bool:
        """Whether it is about a module of ``torch.nn``."""
        return is_own(type(self.module).__module__, "nn")


_FEW = 8  # elements that are compared one by one, whatever they are


class Guards:
    """Checks on Python state; ``check()`` is whether all hold, ``reason()`` the first that does not."""

    def __init__(self):
        self._parts: list[str] = []
        self._texts: list[str] = []
        self._scope: dict[str, Any] = {"MISSING": MISSING}
        self._names: dict[int, str] = {}
        self._check = None
        self._entries: list[GuardFilterEntry] = []
        self.owners: dict[int, Any] = {}  # the modules of dictionaries, by their ids
        self.about: dict[str, Any] = {}  # of what the next ones are: fields of their entries

    def keep(self, choose) -> None:
        """Drops the guards for which a function of all `GuardFilterEntry` gives False."""
        kept = choose(self._entries)
        if len(kept) != len(self._entries):
            raise AssertionError("guard_filter_fn must give one value for each guard")
        rows = [r for r, k in zip(zip(self._parts, self._texts, self._entries), kept) if k]
        self._parts, self._texts, self._entries = map(list, zip(*rows)) if rows else ([], [], [])
        self._check = None

    def __len__(self):
        return len(self._parts)

    def name(self, value) -> str:
        """A name for an object in the generated code."""
        found = self._names.get(id(value))
        if found is None:
            found = self._names[id(value)] = f"o{len(self._names)}"
            self._scope[found] = value
        return found

    def add(self, part: str, text: str, kind: str = "DICT_LENGTH", value: Any = MISSING) -> None:
        """A condition in Python, how to say it to the user, its kind, and what it is about."""
        self._parts.append(part)
        self._texts.append(text)
        self._entries.append(
            GuardFilterEntry(text, value is not MISSING, value, kind, **self.about)
        )

    def equal(self, expression: str, value, text: str) -> None:
        """``expression`` is the number, string or constant ``value``."""
        if value is None or issubclass(type(value), bool) or value is MISSING:
            known = "MISSING" if value is MISSING else repr(value)
            self.add(f"{expression} is {known}", f"{text} is {value!r}", "CONSTANT_MATCH", value)
            return
        is_kind = f"type({expression}) is {self.name(type(value))}"  # first: another's `==` is not asked
        if value != value:
            self.add(f"{is_kind} and ({expression} != {expression})", f"{text} is nan", "EQUALS_MATCH", value)
            return
        # Zeros have signs. Twice the same expression is cheap: both are look-ups.
        is_zero = value == 0 and not issubclass(type(value), int)
        same = f"repr({expression}) == {repr(value)!r}" if is_zero else f"{expression} == {self.name(value)}"
        self.add(f"{is_kind} and {same}", f"{text} == {value!r}", "EQUALS_MATCH", value)

    def value(self, expression: str, value, text: str) -> None:
        """``expression`` is what it was: an equal scalar, a tensor of the same kind, the same object."""
        if issubclass(type(value), SCALARS) or value is MISSING:
            self.equal(expression, value, text)
        elif issubclass(type(value), TensorBase):
            root = value._ftorch_storage.root  # programs read all of a storage
            place = "" if value._ftorch_geometry is root else f" and {expression}._ftorch_offset == {value._ftorch_offset}"
            self.add(
                f"issubclass(type({expression}), {self.name(TensorBase)}) and "
                f"{expression}._ftorch_geometry is {self.name(value._ftorch_geometry)} and "
                f"{expression}._ftorch_storage.root is {self.name(root)}{place} and "
                f"{expression}._ftorch_requires_grad is {value._ftorch_requires_grad}",
                f"{text} is a tensor of shape {list(value.shape)}", "TENSOR_MATCH", value,
            )
        else:
            same = f"{text} is the same object"
            self.add(f"{expression} is {self.name(value)}", same, "ID_MATCH", value)

    def place(self, place: Place) -> None:
        """What is in a place is what it was."""
        holder = self.name(place.holder)
        self.about = {
            "module": self.owners.get(id(place.holder)),
            "is_global": issubclass(type(place.holder), dict) and "__builtins__" in place.holder,
        }
        slot = in_class(type(place.holder), place.key) if place.attribute else MISSING
        if place.key == "__class__" and place.attribute:
            expression = f"type({holder})"
        elif type(slot) is types.MemberDescriptorType:
            expression = f"{self.name(slot)}.__get__({holder})"  # an empty one raises: `check` says that guards fail
        elif place.attribute:
            expression = f"getattr({holder}, {place.key!r}, MISSING)"
        elif place.value is MISSING or not issubclass(type(place.holder), (dict, types.MappingProxyType)):
            expression = f"{holder}.get({place.key!r}, MISSING)"
        else:
            expression = f"{holder}[{place.key!r}]"  # where it is gone, `check` says that guards fail
        is_named = self.about["is_global"] and place.name == place.key
        self.value(expression, place.value, f"G['{place.key}']" if is_named else place.name)

    def container(self, container, before, text: str) -> None:
        """A container has what it had."""
        c = self.name(container)
        kind = builtin_of(container)
        plain = type(container) is kind  # of others, what their classes make of `len` and indices is not asked
        size = f"len({c})" if plain else f"{self.name(kind)}.__len__({c})"
        item = f"{c}[{{}}]".format if plain else f"{self.name(kind)}.__getitem__({c}, {{}})".format
        length = f"{size} == {len(before)}", f"len({text}) == {len(before)}"
        if issubclass(kind, (set, frozenset)):
            self.add(*length)
            self.add(f"{self.name(frozenset(before))} == {c}", f"{text} has the same elements")
            return
        is_dict = kind is dict
        values = [v for _, v in before] if is_dict else before
        if len(before) > _FEW and all(issubclass(type(v), SCALARS) for v in values):
            self._scope.setdefault("unchanged", unchanged)
            self.add(f"unchanged({c}, {self.name(before)})", f"{text} has the same elements")
            return
        if is_dict:
            self.add(f"[*dict.keys({c})] == {self.name([k for k, _ in before])}", f"the keys of {text} are the same")
            for k, v in before:
                self.value(item(self.name(k)), v, f"{text}[{k!r}]")
            return
        self.add(*length)
        for i, v in enumerate(values):
            self.value(item(i), v, f"{text}[{i}]")

    def buffer(self, value, before, text: str) -> None:
        """An array of NumPy, or another buffer, has the elements that it had."""
        self._scope.setdefault("content", content)
        self.add(f"content({self.name(value)}) == {self.name(before)}", f"the elements of {text} are the same")

    def check(self) -> bool:
        """Whether all hold."""
        if self._check is None:
            # Chunks: Python's compiler recurses into long chains.
            lines = ["def check():"]
            for start in range(0, len(self._parts), 32):
                joined = " and ".join(f"({p})" for p in self._parts[start : start + 32])
                lines.append(f" if not ({joined}): return False")
            lines.append(" return True")
            exec(compile("\n".join(lines), "<guards>", "exec"), self._scope)
            self._check = self._scope["check"]
        try:
            return self._check()
        except (AttributeError, KeyError, IndexError, TypeError, RuntimeError, ValueError):
            return False

    def reason(self) -> str:
        """What does not hold, in words."""
        for part, text in zip(self._parts, self._texts):
            try:
                holds = eval(part, self._scope)
            except Exception:
                holds = False
            if not holds:
                return text
        return ""


def of_watch(watch: Watch, skip: set[int]) -> Guards:
    """The guards of what a function read.

    Args:
        skip: ids of places and containers that need none: the program sets them itself.
    """
    guards = Guards()
    guards.owners = {id(s.scope): s.module for s in watch.modules.values()}
    for place in watch.places.values():
        if id(place) not in skip:
            guards.place(place)
    guards.about = {}
    for container, before, name in watch.containers.values():
        if id(container) not in skip:
            guards.container(container, before, name or "a container")
    for value, before, name in watch.buffers.values():
        guards.buffer(value, before, name or "an array")
    classes: set[type] = set()
    for state in watch.modules.values():
        module, of = state.module, type(state.module)
        kind = of.__name__
        guards.about = {"module": module}
        same = f"type({guards.name(module)}) is {guards.name(of)}"
        guards.add(same, f"the class of a module is {kind}", "TYPE_MATCH", module)
        forward = in_class(of, "forward")
        if of not in classes and type(forward) is types.FunctionType:
            guards.add(f"{guards.name(of)}.forward is {guards.name(forward)}", f"{kind}.forward is the same function")
        classes.add(of)
        d = guards.name(state.scope)
        if "forward" not in state.scope:
            guards.add(f"'forward' not in {d}", f"{kind}.forward is the class's")
        for key, value in state.plain.items():
            guards.equal(f"{d}[{key!r}]", value, f"{kind}.{key}")
        for key, value in state.packed.items():
            guards.value(f"{d}.get({key!r})", value, f"{kind}.{key}")
        empty = []
        for table, before in state.hooks:
            name = guards.name(table)
            if before:
                ids = guards.name(before)
                guards.add(f"tuple({name}.values()) == {ids}", f"hooks of {kind}", "EMPTY_NN_MODULE_HOOKS_DICT")
            else:
                empty.append(name)
        if empty:
            guards.add(f"not ({' or '.join(empty)})", f"hooks of {kind}", "EMPTY_NN_MODULE_HOOKS_DICT")
        for table, count in state.lengths:
            guards.add(f"len({guards.name(table)}) == {count}", f"the parts of {kind} are {count}")
        for key, child in state.children.items():
            guards.add(
                f"{guards.name(state.parts)}[{key!r}] is {guards.name(child)}", f"{kind}.{key}",
                "ID_MATCH", child,
            )
    guards.about = {}
    for state in watch.optimizers.values():
        name = guards.name(state)
        guards.add(f"{name}.unchanged()", f"the options of {type(state.optimizer).__name__}")
    return guards
