"""The table of translations: one declaration an op, from ATen's arguments to ONNX nodes.

A translation takes the builder (``g``), which knows the node that is being translated (``g.name``,
``g.result``, ``g.results``), and ATen's arguments: tensors are `Value`, sizes ints or `Value`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._builder import Builder, Value
from .errors import NoTranslation

TABLE: dict[str, Callable] = {}
SIMPLE: dict[str, str] = {}  # ops that are one ONNX node of the same operand


def translation(names: str):
    """Declares the ONNX form of the ops of some names (in ``torch.ops.aten``)."""

    def register(function):
        for name in names.split():
            TABLE[name] = function
        return function

    return register


class Context(Builder):
    """A builder that knows the node in translation.

    Attributes:
        name: the op's name, without in-place suffix.
        results: the shapes and dtypes of its results.
    """

    name = ""
    results: tuple[Any, ...] = ()

    @property
    def result(self):
        """The shape and dtype of the (first) result."""
        return self.results[0]

    def result_sizes(self) -> str:
        """The sizes of the result as a value; they have to be known."""
        if any(type(n) is not int for n in self.result.shape):
            raise self.error("the sizes of the result are not known")
        return self.ints(self.result.shape)

    def error(self, text: str) -> NoTranslation:
        """The error that the node has no ONNX form, and why."""
        return NoTranslation(f"aten.{self.name}: {text}")

    def translate(self, name: str, *args, results=None, **kwargs):
        """Another op's translation, within one."""
        outer = self.name, self.results
        self.name = name
        if results is not None:
            self.results = results
        try:
            return lookup(name)(self, *args, **kwargs)
        finally:
            self.name, self.results = outer


def _simple(kind):
    def translate(g, x, *_, **__):
        return g.op(kind, g.cast(x, g.result.dtype))

    return translate


def lookup(name: str) -> Callable | None:
    """The translation of an op, or None."""
    if name in TABLE:
        return TABLE[name]
    return _simple(SIMPLE[name]) if name in SIMPLE else None


__all__ = ["Context", "SIMPLE", "TABLE", "Value", "lookup", "translation"]
