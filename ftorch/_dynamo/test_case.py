"""Test cases of compiled functions (``torch._dynamo.test_case``): nothing compiled, and no counts, when a test begins."""

from __future__ import annotations

import contextlib
import importlib

import ftorch as torch

from ..testing._internal.common_utils import TestCase as _TestCase
from ..testing._internal.common_utils import run_tests as _run_tests
from . import config, reset
from .utils import counters

__all__ = ["TestCase", "run_tests"]


def run_tests(needs: str | tuple[str, ...] = ()) -> None:
    """Runs the tests of the main module.

    Args:
        needs: modules without which none is run; ``"cuda"`` is a GPU.
    """
    for need in (needs,) if isinstance(needs, str) else needs:
        if need == "cuda" and not torch.cuda.is_available():
            return
        if need != "cuda":
            try:
                importlib.import_module(need)
            except ImportError:
                return
    _run_tests()


class TestCase(_TestCase):
    """A case whose tests begin with nothing compiled, and leave whether gradients are recorded as it was."""

    _exit_stack: contextlib.ExitStack

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls._exit_stack = contextlib.ExitStack()
        cls._exit_stack.enter_context(config.patch(  # type: ignore[attr-defined]
            raise_on_ctx_manager_usage=True, suppress_errors=False, log_compilation_metrics=False,
        ))

    @classmethod
    def tearDownClass(cls) -> None:
        cls._exit_stack.close()
        super().tearDownClass()

    def setUp(self) -> None:
        self._grad_before = torch.is_grad_enabled()
        super().setUp()
        reset()
        counters.clear()

    def tearDown(self) -> None:
        reset()
        counters.clear()
        super().tearDown()
        torch.set_grad_enabled(self._grad_before)
