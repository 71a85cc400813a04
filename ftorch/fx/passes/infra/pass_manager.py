"""``PassManager``: runs passes in an order that their constraints allow."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from ....nn import Module
from ...graph_module import GraphModule
from .pass_base import PassResult


def pass_result_wrapper(fn: Callable) -> Callable:
    """A function on modules as a pass: its result is `PassResult`."""

    def wrapped(gm):
        result = fn(gm)
        if result is None:
            return PassResult(gm, True)
        return result if isinstance(result, PassResult) else PassResult(result, True)

    wrapped.__name__ = fn.__name__ if inspect.isfunction(fn) else type(fn).__name__
    return wrapped


def this_before_that_pass_constraint(this: Callable, that: Callable) -> Callable:
    """A constraint of `PassManager`: one pass comes before another."""
    return lambda a, b: not (a is that and b is this)


def _topological_sort_passes(passes: list[Callable], constraints: list[Callable]) -> list[Callable]:
    """The passes in an order that fits the constraints.

    Raises:
        RuntimeError: they contradict each other.
    """
    pending, order = list(passes), []
    while pending:
        ready = next(
            (p for p in pending if all(c(p, other) for c in constraints for other in pending if other is not p)), None,
        )
        if ready is None:
            raise RuntimeError(f"Circular dependency detected within the following passes: {pending}")
        order.append(ready)
        pending.remove(ready)
    return order


class PassManager:
    """Runs passes over a module.

    Args:
        passes: functions or `PassBase` objects.
        constraints: ``constraint(a, b)`` says whether ``a`` may come before ``b``.
        steps: how often to run them, at most; stops when nothing changes.
        run_checks_after_each_pass: calls `check` after every pass.
        suppress_check_failures: ignores what `check` raises.

    Raises:
        RuntimeError: the constraints contradict each other, or a pass fails.
        TypeError: a pass does not give a `PassResult`.
    """

    def __init__(self, passes=None, constraints=None, steps=None,
                 run_checks_after_each_pass: bool = False, suppress_check_failures: bool = False):
        self.passes: list[Callable] = list(passes or ())
        self.constraints: list[Callable] = list(constraints or ())
        self.steps = steps or 1
        self.run_checks_after_each_pass = run_checks_after_each_pass
        self.suppress_check_failures = suppress_check_failures
        self._validated = False

    def add_pass(self, _pass: Callable) -> None:
        """Appends a pass."""
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: Callable) -> None:
        """Appends a constraint."""
        self.constraints.append(constraint)
        self._validated = False

    def add_checks(self, check: Callable) -> None:
        """Sets what is checked after passes: a function of one argument, ``module``.

        Raises:
            TypeError: it takes other arguments.
        """
        if len(inspect.signature(check).parameters) != 1:
            raise TypeError(
                "PassManager check function should only take in one variable, a module"
            )
        self.check = check  # type: ignore[method-assign]

    def check(self, module: Module) -> None:
        """What is checked after passes: nothing."""

    def validate_constraints(self) -> None:
        """Checks the order of the passes.

        Raises:
            RuntimeError: it breaks a constraint.
        """
        for i, constraint in enumerate(self.constraints):
            for j, first in enumerate(self.passes):
                if not all(constraint(first, other) for other in self.passes[j + 1 :]):
                    raise RuntimeError(
                        f"pass schedule constraint violated. Expected {first} before others: "
                        f"constraint {i} does not hold"
                    )
        self._validated = True

    def solve_constraints(self) -> None:
        """Orders the passes by the constraints.

        Raises:
            RuntimeError: they contradict each other.
        """
        self.passes = _topological_sort_passes(self.passes, self.constraints)
        self._validated = True

    def __call__(self, module: Module) -> PassResult:
        """Runs the passes."""
        if not self._validated:
            self.solve_constraints()
        self._check(module)
        changed = False
        for _ in range(self.steps):
            modified = False
            for function in self.passes:
                name = getattr(function, "__name__", type(function).__name__)
                try:
                    result = self._result(function, name, module)
                except Exception as e:
                    before = [getattr(p, "__name__", type(p).__name__) for p in self.passes]
                    raise Exception(  # noqa: TRY002  (PyTorch's)
                        f"An error occurred when running the '{name}' pass after the following passes: "
                        f"{before[: self.passes.index(function)]}"
                    ) from e
                module = result.graph_module
                modified = modified or result.modified
                if isinstance(module, GraphModule):
                    module.recompile()
                if self.run_checks_after_each_pass:
                    self._check(module)
            changed = changed or modified
            if not modified:
                break
        return PassResult(module, changed)  # type: ignore[arg-type]

    @staticmethod
    def _result(function, name, module):
        result = function(module)
        if not isinstance(result, PassResult) and not hasattr(result, "graph_module"):
            raise TypeError(f"The result of the pass {name} should be type PassResult. Please wrap it "
                            "with pass_result_wrapper()")
        return result

    def _check(self, module):
        try:
            self.check(module)
        except Exception:
            if not self.suppress_check_failures:
                raise


__all__ = ["PassManager", "pass_result_wrapper", "this_before_that_pass_constraint"]
