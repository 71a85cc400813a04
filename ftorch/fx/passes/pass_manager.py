"""``PassManager`` of functions: runs passes in order, under constraints on the order."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from inspect import unwrap

__all__ = ["PassManager", "inplace_wrapper", "log_hook", "loop_pass", "these_before_those_pass_constraint",
           "this_before_that_pass_constraint"]

_log = logging.getLogger(__name__)


def inplace_wrapper(fn: Callable) -> Callable:
    """A pass that changes its module, as one that returns it."""

    @wraps(fn)
    def wrapped(gm):
        fn(gm)
        return gm

    return wrapped


def log_hook(fn: Callable, level=logging.INFO) -> Callable:
    """A pass that logs the graph that it gives."""

    @wraps(fn)
    def wrapped(gm):
        result = fn(gm)
        _log.log(level, "Ran pass %s\t Return value: \t%s", fn, result)
        return result

    return wrapped


def loop_pass(base_pass: Callable, n_iter: int | None = None, predicate: Callable | None = None):
    """A pass repeated: some times, or as long as a predicate of its result holds."""
    assert (n_iter is not None) ^ (predicate is not None), (
        "Exactly one of `n_iter`or `predicate` must be specified."
    )

    @wraps(base_pass)
    def repeated(source):
        if n_iter is not None and n_iter > 0:
            for _ in range(n_iter):
                source = base_pass(source)
            return source
        if predicate is not None:
            while predicate(source):
                source = base_pass(source)
            return source
        raise RuntimeError(f"loop_pass must be given positive int n_iter (given {n_iter}) xor predicate "
                           f"(given {predicate})")

    return repeated


def _validate_pass_schedule_constraint(constraint: Callable, passes: list[Callable]) -> None:
    for i, a in enumerate(passes):
        for j, b in enumerate(passes[i + 1 :]):
            if not constraint(a, b):
                raise RuntimeError(f"pass schedule constraint violated. Expected {a} before {b} but found "
                                   f"{a} at index {i} and {b} at index{j} in pass list.")


def this_before_that_pass_constraint(this: Callable, that: Callable) -> Callable:
    """The constraint that one pass runs before another one."""
    return lambda a, b: not (a == that and b == this)


def these_before_those_pass_constraint(these: Callable, those: Callable) -> Callable:
    """As `this_before_that_pass_constraint`, for passes by what they wrap."""
    return lambda a, b: not (unwrap(a) == those and unwrap(b) == these)


class PassManager:
    """Runs passes one after the other.

    Args:
        passes: functions of one argument, which return what the next one gets.
        constraints: functions that say of two passes whether the first may stand before the second.

    Calling it raises RuntimeError if the order breaks a constraint.
    """

    def __init__(self, passes=None, constraints=None):
        self.passes: list[Callable] = passes or []
        self.constraints: list[Callable] = constraints or []
        self._validated = False

    @classmethod
    def build_from_passlist(cls, passes):
        """A manager of some passes."""
        return cls(passes)

    def add_pass(self, _pass: Callable) -> None:
        """Adds a pass at the end."""
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: Callable) -> None:
        """Adds a constraint."""
        self.constraints.append(constraint)
        self._validated = False

    def remove_pass(self, _passes: list[str]) -> None:
        """Removes passes by their names."""
        self.passes = [p for p in self.passes if p.__name__ not in _passes]
        self._validated = False

    def replace_pass(self, _target, _replacement) -> None:
        """Puts a pass in another one's place."""
        self.passes = [_replacement if p.__name__ == _target.__name__ else p for p in self.passes]
        self._validated = False

    def validate(self) -> None:
        """Checks the order.

        Raises:
            RuntimeError: it breaks a constraint.
        """
        if not self._validated:
            for constraint in self.constraints:
                _validate_pass_schedule_constraint(constraint, self.passes)
            self._validated = True

    def __call__(self, source):
        self.validate()
        out = source
        for _pass in self.passes:
            out = _pass(out)
        return out
