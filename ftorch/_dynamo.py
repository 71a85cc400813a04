"""The names of PyTorch's capturing front end that programs reach for (``torch._dynamo``)."""

from __future__ import annotations

import types

from .compiler import (  # noqa: F401
    allow_in_graph,
    assume_constant_result,
    disable,
    is_compiling,
    list_backends,
    reset,
)
from .jit.compiler import compile as optimize  # noqa: F401

# Settings of the front end: taken, and without effect on XLA.
config = types.SimpleNamespace(
    cache_size_limit=8, recompile_limit=8, suppress_errors=False, verbose=False,
    capture_scalar_outputs=False, capture_dynamic_output_shape_ops=False, optimize_ddp=True,
    automatic_dynamic_shapes=True, inline_inbuilt_nn_modules=True,
)  # fmt: skip


def graph_break(msg: str = "") -> None:
    """Ends the program that is being captured: the caller's code stays eager."""
    disable(lambda: None, reason=msg or None)()


def mark_dynamic(t, index, *, min=None, max=None) -> None:
    """Does nothing: every shape has a program of its own."""


def mark_static(t, index=None) -> None:
    """Does nothing: every shape has a program of its own."""


def mark_static_address(t, guard: bool = True) -> None:
    """Does nothing: programs take tensors wherever they are."""


def maybe_mark_dynamic(t, index) -> None:
    """Does nothing: every shape has a program of its own."""
