"""Bytecode analysis: names of globals, of attributes and of modules that a code object can read."""

from __future__ import annotations

import dis
import types

_BY_NAME = frozenset(("getattr", "setattr", "hasattr", "delattr"))
_ANY = frozenset(("vars", "__dict__", "dir", "attrgetter", "methodcaller", "__getattribute__"))


class Names:
    """What a code object can reach.

    Attributes:
        globals: names of globals.
        attributes: names of attributes; None: any, since one is computed.
        asked: those that need not be there: of ``hasattr``, and all where exceptions are caught.
        imports: [(name, level)] of modules that import statements give.
    """

    def __init__(self, code):
        self.globals: set[str] = set()
        self.attributes: set[str] | None = set()
        self.asked: set[str] = set()
        self.imports: list[tuple[str, int]] = []
        self._add(code)

    def _add(self, code):
        steps = [s for s in dis.get_instructions(code) if s.opname not in ("CACHE", "EXTENDED_ARG")]
        attributes, anything = set(), False
        for i, step in enumerate(steps):
            name = step.opname
            if step.opcode not in dis.hasname:
                continue
            if name.endswith(("_GLOBAL", "_GLOBALS", "_NAME")) and not name.startswith("IMPORT"):
                self.globals.add(step.argval)
                anything = anything or step.argval in _ANY
                if step.argval in _BY_NAME:
                    literal = _literal(steps, i)
                    if literal is None:
                        anything = True
                    else:
                        attributes.add(literal)
                        self.asked.add(literal)
            elif name == "IMPORT_NAME":
                level = steps[i - 2].argval if i > 1 and isinstance(steps[i - 2].argval, int) else 0
                self.imports.append((step.argval, level))
            elif "ATTR" in name or "METHOD" in name or name == "IMPORT_FROM":
                attributes.add(step.argval)
                anything = anything or step.argval in _ANY or step.argval in _BY_NAME
        if getattr(code, "co_exceptiontable", b"") and any(s.opname == "CHECK_EXC_MATCH" for s in steps):
            self.asked |= attributes
        if anything:
            self.attributes = None
        elif self.attributes is not None:
            self.attributes |= attributes
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self._add(constant)

    def wants(self, name):
        return self.attributes is None or name in self.attributes


def _literal(steps, start):
    """The constant that is the second argument of the call whose function is loaded at a step, or None."""
    depth, before = 0, []
    wanted = None
    for i in range(start, min(start + 60, len(steps))):
        step = steps[i]
        if step.opcode in dis.hasjrel or step.opcode in dis.hasjabs:
            return None
        before.append(depth)
        try:
            depth += dis.stack_effect(step.opcode, step.arg, jump=False)
        except ValueError:
            return None
        if i == start:  # behind the function, and what Python may push with it, the first argument begins
            wanted = depth + 1 + (steps[i + 1].opname == "PUSH_NULL")
        elif step.opname == "CALL" and depth == 1:
            return _constant_of(steps[start : i + 1], before, wanted, step.arg)
    return None


def _constant_of(steps, before, wanted, count):
    starts = [k for k, d in enumerate(before) if d == wanted]  # the last one begins the second argument
    thirds = [k for k, d in enumerate(before) if d == wanted + 1]
    if not starts or count not in (2, 3):
        return None
    at = starts[-1]
    step = steps[at]
    if "CONST" not in step.opname or not isinstance(step.argval, str):
        return None
    if count == 3:
        return step.argval if thirds and thirds[-1] == at + 1 else None
    return step.argval if steps[at + 1].opname in ("PRECALL", "CALL") else None


NOTHING = Names((lambda: None).__code__)
EVERYTHING = Names((lambda: None).__code__)
EVERYTHING.attributes = None
