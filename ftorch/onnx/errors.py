"""What `ftorch.onnx` raises."""

from __future__ import annotations


class OnnxExporterError(RuntimeError):
    """A program that has no ONNX form, or a wrong argument."""


class OnnxExporterWarning(UserWarning):
    """What `ftorch.onnx` warns of."""


class SymbolicValueError(OnnxExporterError):
    """An argument of an op that has no ONNX form."""


class NoTranslation(SymbolicValueError):
    """The translation of an op does not know these arguments."""


class UnsupportedOperatorError(OnnxExporterError):
    """An op without translation."""

    def __init__(self, target, node=None, kind=""):
        name = getattr(target, "__name__", str(target))
        place = ""
        if node is not None and node.meta.get("stack_trace"):
            place = f"\n\nIt is called here:\n{node.meta['stack_trace']}"
        super().__init__(
            f"No ONNX function found for the op '{name}'{kind}. Give a translation of your own with "
            f"custom_translation_table={{torch.ops.{getattr(target, 'namespace', 'aten')}.{name}: function}}, or write the "
            f"model without it.{place}"
        )
        self.name = name


__all__ = [
    "NoTranslation", "OnnxExporterError", "OnnxExporterWarning", "SymbolicValueError",
    "UnsupportedOperatorError",
]
