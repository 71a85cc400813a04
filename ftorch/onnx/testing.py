"""Checks of exported models in tests (``torch.onnx.testing``)."""

from __future__ import annotations

import ftorch as torch

from ..testing import assert_close
from ..utils import _pytree as pytree
from .verification import inputs_of

__all__ = ["assert_onnx_program"]


def assert_onnx_program(
    program, *, rtol=None, atol=None, args=None, kwargs=None, strategy="TorchExportNonStrictStrategy",
    backend="onnxruntime",
) -> None:
    """Checks that a model gives what the program gives that it was made of.

    Args:
        program: what `ftorch.onnx.export` gave.
        rtol, atol: tolerances as of `ftorch.testing.assert_close`.
        args, kwargs: the inputs; by default the example that was exported.
        strategy: how the program has to have been captured; None is any.
        backend: what runs the model, "onnxruntime" or "reference".

    Raises:
        AssertionError: it does not.
        ValueError: another strategy, no inputs, or an unknown backend.

    >>> import ftorch as torch
    >>> program = torch.onnx.export(torch.nn.ReLU(), (torch.ones(2),))
    >>> torch.onnx.testing.assert_onnx_program(program)
    """
    if strategy is not None and program._capture_strategy != strategy:
        raise ValueError(
            f"Expected strategy '{strategy}' is used to capture the exported program, but got "
            f"'{program._capture_strategy}'."
        )
    if program.exported_program is None:
        raise ValueError(
            "The ONNXProgram does not contain an ExportedProgram. To verify the ONNX program, initialize ONNXProgram "
            "with an ExportedProgram, or assign the ExportedProgram to the ONNXProgram.exported_program attribute."
        )
    exported, args, kwargs = inputs_of(program, args, kwargs)
    if backend not in ("onnxruntime", "reference"):
        raise ValueError(f"Unsupported backend '{backend}'. Supported backends are 'onnxruntime' and 'reference'.")
    expected = [_real(v) for v in pytree.tree_leaves(exported.module()(*args, **kwargs)) if v is not None]
    run = program if backend == "onnxruntime" else program.call_reference
    assert_close(
        tuple(run(*args, **kwargs)), tuple(expected), rtol=rtol, atol=atol, equal_nan=True, check_device=False
    )


def _real(value):
    if not isinstance(value, torch.Tensor):
        return torch.tensor(value)
    return torch.view_as_real(value) if value.is_complex() else value
