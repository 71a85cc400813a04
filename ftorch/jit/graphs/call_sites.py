"""Stack traces: where recorded calls come from in the user's code, and the names that it gives to what they return.

PyTorch names a node after the first variable that its value is stored in, and says in ``node.meta`` which lines and
modules it comes from. The variables are read off the frames of the user's functions, each time that a call is
recorded and at the end; a frame that has returned keeps its variables as long as it is held.
"""

from __future__ import annotations

import functools
import itertools
import sys
import traceback
from typing import NamedTuple

from ...eager.core import places
from ...eager.tensor import TensorBase
from ...nn import Module
from ..capture.user_code import is_users

_MODULE_CALL = Module.__call__.__code__
# A layer whose own variable PyTorch's graphs show.
_SHOWN = (places.PACKAGE + "nn/modules/container.py",)
_is_users = functools.cache(is_users)


class Origin(NamedTuple):
    """Where a call comes from: ``lines`` [(code, instruction)], the outermost first, and ``modules`` likewise."""

    lines: tuple
    modules: tuple

    def stack_trace(self) -> str:
        """The lines as a traceback shows them."""
        return "".join(traceback.StackSummary.from_list([_summary(*line) for line in self.lines]).format())


def _summary(code, instruction):
    line, end, column, end_column = next(itertools.islice(code.co_positions(), instruction // 2, None))
    return traceback.FrameSummary(
        code.co_filename, line or code.co_firstlineno, code.co_name, end_lineno=end, colno=column, end_colno=end_column
    )


class Store(NamedTuple):
    """A variable that got what a call returned: how many calls were made before, the value's id and the name."""

    before: int
    value: int
    name: str


class CallSites:
    """Follows the frames of a function that is being recorded.

    Args:
        start: the frame that calls it.

    Attributes:
        stores: what was stored in variables, in order.
    """

    def __init__(self, start):
        self._start = id(start)  # the frame itself would hold what holds this
        self.stores: list[Store] = []
        self._frames: dict = {}  # {id: (frame, how many calls there were before it)}, the innermost last
        self._calls = 0
        self._made: dict[int, int] = {}  # {id of a value: which call gave it}
        self._named: set[int] = set()  # calls and parts of their results that have a name

    def of_call(self, target, result) -> Origin:
        """Notes a call, which was made just now; says where it comes from."""
        lines, modules, current = [], [], {}
        frame = sys._getframe(1)
        while frame is not None and id(frame) != self._start:
            code = frame.f_code
            if code is _MODULE_CALL:
                modules.append(frame.f_locals["self"])
            elif _is_users(code.co_filename):
                lines.append((code, frame.f_lasti))
                current[id(frame)] = frame
            elif code.co_filename in _SHOWN:
                current[id(frame)] = frame
            frame = frame.f_back
        self._follow(current)
        self._note(result, getattr(target, "__module__", "") == "_operator")
        self._calls += 1
        return Origin(tuple(reversed(lines)), tuple(reversed(modules)))

    def _note(self, value, again):
        if isinstance(value, TensorBase):
            if again or id(value) not in self._made:
                self._made[id(value)] = self._calls
                self._named.discard(id(value))
        elif isinstance(value, (tuple, list)):
            for part in value:
                self._note(part, again)

    def _follow(self, current):
        """Reads the variables of frames that have ended, and of those that are running."""
        for key in [k for k in reversed(self._frames) if k not in current]:
            self._read(*self._frames.pop(key))
        for key in reversed(current):
            held = self._frames.setdefault(key, (current[key], self._calls))
            self._read(*held)

    def _read(self, frame, before):
        code = frame.f_code
        given = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        for name, value in frame.f_locals.items():
            made = self._made.get(id(value)) if isinstance(value, TensorBase) else None
            if made is None or id(value) in self._named or (name in given and made < before) or name[0] == ".":
                continue
            self._named.add(id(value))
            self.stores.append(Store(self._calls, id(value), name))

    def close(self) -> None:
        """Reads the frames for the last time and lets go of them."""
        self._follow({})
