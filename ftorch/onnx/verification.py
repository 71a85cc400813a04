"""How far a model's values are from those of the program that it was made of (``torch.onnx.verification``)."""

from __future__ import annotations

import dataclasses
import logging
import math
from typing import Any

import ftorch as torch

from ..fx import Interpreter
from ..utils import _pytree as pytree

__all__ = ["VerificationInfo", "verify_onnx_program"]

_log = logging.getLogger(__name__)
_BINS = [0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 1e6]


@dataclasses.dataclass
class VerificationInfo:
    """How far a value of a model is from the program's.

    Attributes:
        name: of the value.
        max_abs_diff, max_rel_diff: the largest differences; inf where there are no elements.
        abs_diff_hist, rel_diff_hist: how many differences are between bounds, and these bounds.
        expected_dtype, actual_dtype: the program's dtype and the model's.
    """

    name: str
    max_abs_diff: float
    max_rel_diff: float
    abs_diff_hist: tuple[Any, Any]
    rel_diff_hist: tuple[Any, Any]
    expected_dtype: Any
    actual_dtype: Any

    @classmethod
    def from_tensors(cls, name: str, expected, actual) -> VerificationInfo:
        """Compares two tensors or numbers.

        >>> import ftorch as torch
        >>> from ftorch.onnx.verification import VerificationInfo
        >>> VerificationInfo.from_tensors("y", torch.ones(2), torch.tensor([1.0, 1.5])).max_abs_diff
        0.5
        """
        expected, actual = (v if isinstance(v, torch.Tensor) else torch.tensor(v) for v in (expected, actual))
        absolute, relative = _differences(expected.detach().cpu(), actual.detach().cpu())
        bins = torch.tensor(_BINS)
        largest = [d.max().item() if d.dim() or d.isfinite() else math.inf for d in (absolute, relative)]
        tables = [torch.histogram(d.float(), bins=bins) for d in (absolute, relative)]
        return cls(name, *largest, *tables, expected.dtype, actual.dtype)

    def asdict(self) -> dict[str, Any]:
        """The same as lists, numbers and strings."""
        found = dict(vars(self))
        for key, value in found.items():
            if key.endswith("hist"):
                found[key] = [part.tolist() for part in value]
            elif key.endswith("dtype"):
                found[key] = str(value)
        return found


def _differences(expected, actual):
    if not expected.numel() or not actual.numel():
        return torch.tensor(math.inf), torch.tensor(math.inf)
    if expected.dtype is torch.bool:
        expected, actual = expected.to(torch.float32), actual.to(torch.float32)
    if expected.is_complex():
        expected = torch.view_as_real(expected)
    absolute = (expected - actual).abs()
    return absolute, absolute / (expected.abs() + 1e-7)


def inputs_of(program, args, kwargs, what="verify"):
    """(the exported program, args, kwargs) of a comparison: by default the example that was exported.

    Raises:
        ValueError: there is no exported program, or no example.
    """
    exported = program.exported_program
    if exported is None:
        raise ValueError(
            "The ONNX program does not contain an exported_program. Please provide an exported_program to "
            f"{what} the ONNX program."
        )
    if args is None and kwargs is None:
        if exported.example_inputs is None:
            raise ValueError(
                "No example inputs provided and the exported_program does not contain example inputs. "
                "Please provide arguments to verify the ONNX program."
            )
        args, kwargs = exported.example_inputs
    return exported, args or (), kwargs or {}


class _Comparison(Interpreter):
    """Runs the program, and compares what its nodes give with the model's values."""

    def __init__(self, module, program, inputs):
        super().__init__(module)
        self.program, self.inputs = program, inputs
        self.found: list[VerificationInfo] = []

    def run_node(self, n):
        result = super().run_node(n)
        name = self.program._value_names.get(n.name) if n.op == "call_function" else None
        if name is None or not isinstance(result, torch.Tensor):
            return result
        try:
            (value,) = self.program.compute_values([name], *self.inputs)
        except Exception:  # noqa: BLE001  (of the runtime, which need not know the node)
            _log.warning("Failed to compute value for node %s", n.name, exc_info=True)
            return result
        info = VerificationInfo.from_tensors(n.name, result, value)
        self.found.append(info)
        level = logging.WARNING if info.max_abs_diff > 0.01 or info.max_rel_diff > 0.1 else logging.INFO
        _log.log(
            level, "Verification info for node %s: max_abs_diff: %s, max_rel_diff: %s", n.name, info.max_abs_diff,
            info.max_rel_diff,
        )
        return result


def verify_onnx_program(onnx_program, args=None, kwargs=None, compare_intermediates: bool = False):
    """Compares what a model and its program give.

    Args:
        onnx_program: what `ftorch.onnx.export` gave.
        args, kwargs: the inputs; by default the example that was exported.
        compare_intermediates: compares the values in between, too, as far as the model still has them.

    Returns:
        A `VerificationInfo` for each value.

    Raises:
        ValueError: there is no program to compare with, or no inputs.

    >>> import ftorch as torch
    >>> program = torch.onnx.export(torch.nn.ReLU(), (torch.ones(2),))
    >>> [info.max_abs_diff for info in torch.onnx.verification.verify_onnx_program(program)]
    [0.0]
    """
    exported, args, kwargs = inputs_of(onnx_program, args, kwargs)
    if compare_intermediates:
        module = exported.module()
        comparison = _Comparison(module, onnx_program, (args, kwargs))
        comparison.run(*pytree.tree_leaves((args, kwargs)))
        return comparison.found
    expected = pytree.tree_leaves(exported.module()(*args, **kwargs))
    names = [value.name for value in onnx_program.model_proto.graph.output]
    return [
        VerificationInfo.from_tensors(name, one, other)
        for one, other, name in zip(expected, onnx_program(*args, **kwargs), names)
    ]
