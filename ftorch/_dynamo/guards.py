"""Guards: the checks that say whether a captured program stands for a call.

They are one generated Python expression, since a training step has some hundreds of them.
"""

from __future__ import annotations

from typing import Any

from ..eager.tensor import TensorBase
from .watch import MISSING, SCALARS, Place, Watch


class Guards:
    """Checks on Python state; ``check()`` is whether all hold, ``reason()`` the first that does not."""

    def __init__(self):
        self._parts: list[str] = []
        self._texts: list[str] = []
        self._scope: dict[str, Any] = {"MISSING": MISSING}
        self._names: dict[int, str] = {}
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

    def add(self, part: str, text: str) -> None:
        """A condition in Python, and how to say it to the user."""
        self._parts.append(part)
        self._texts.append(text)

    def equal(self, expression: str, value, text: str) -> None:
        """``expression`` is the number, string or constant ``value``."""
        if value is None or isinstance(value, bool) or value is MISSING:
            known = "MISSING" if value is MISSING else repr(value)
            self.add(f"{expression} is {known}", f"{text} is {value!r}")
        elif value != value:
            self.add(f"({expression} != {expression})", f"{text} is nan")
        else:
            # Twice the same expression is cheap: both are look-ups.
            self.add(
                f"{expression} == {self.name(value)} and "
                f"{expression}.__class__ is {self.name(type(value))}",
                f"{text} == {value!r}",
            )

    def value(self, expression: str, value, text: str) -> None:
        """``expression`` is what it was: an equal scalar, a tensor of the same kind, the same object."""
        if isinstance(value, SCALARS) or value is MISSING:
            self.equal(expression, value, text)
        elif isinstance(value, TensorBase):
            self.add(
                f"getattr({expression}, '_geometry', None) is {self.name(value._geometry)} and "
                f"{expression}._requires_grad is {value._requires_grad}",
                f"{text} is a tensor of shape {list(value.shape)}",
            )
        else:
            self.add(f"{expression} is {self.name(value)}", f"{text} is the same object")

    def place(self, place: Place) -> None:
        """What is in a place is what it was."""
        holder = self.name(place.holder)
        if place.attribute:
            expression = f"getattr({holder}, {place.key!r}, MISSING)"
        else:
            expression = f"{holder}.get({place.key!r}, MISSING)"
        self.value(expression, place.value, place.name)

    def container(self, container, before, text: str) -> None:
        """A container has what it had."""
        c = self.name(container)
        self.add(f"len({c}) == {len(before)}", f"len({text}) == {len(before)}")
        if len(before) > 256:
            return
        if isinstance(container, dict):
            for k, v in before:
                try:
                    known = self.name(k)
                    self.value(f"{c}.get({known}, MISSING)", v, f"{text}[{k!r}]")
                except TypeError:
                    continue
        elif not isinstance(container, (set, frozenset)):
            for i, v in enumerate(before):
                self.value(f"{c}[{i}]", v, f"{text}[{i}]")
        else:
            self.add(f"{c} == {self.name(frozenset(before))}", f"{text} has the same elements")

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
    for place in watch.places.values():
        if id(place) not in skip:
            guards.place(place)
    for container, before, name in watch.containers.values():
        if id(container) not in skip:
            guards.container(container, before, name or "a container")
    for state in watch.modules.values():
        module = state.module
        kind = type(module).__name__
        d = guards.name(module.__dict__)
        for key, value in state.plain.items():
            guards.equal(f"{d}.get({key!r}, MISSING)", value, f"{kind}.{key}")
        for table, before in state.hooks:
            name = guards.name(table)
            if before:
                ids = guards.name(before)
                guards.add(f"tuple({name}.values()) == {ids}", f"hooks of {kind}")
            else:
                guards.add(f"not {name}", f"hooks of {kind}")
        for key, child in state.children.items():
            guards.add(
                f"{guards.name(module._modules)}[{key!r}] is {guards.name(child)}", f"{kind}.{key}"
            )
    for state in watch.optimizers.values():
        name = guards.name(state)
        guards.add(f"{name}.unchanged()", f"the options of {type(state.optimizer).__name__}")
    return guards
