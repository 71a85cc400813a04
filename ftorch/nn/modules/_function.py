"""Modules that are one function of ``nn.functional`` with its arguments remembered."""

from __future__ import annotations

from .. import functional as F
from .module import Module


class FunctionModule(Module):
    """Applies ``F.<function>`` with attributes as further arguments.

    A subclass names the function and the attributes in ``arguments``, which go behind the input in
    this order. Its ``__init__`` hands their values to this one, in the same order, so that a user
    may also change an attribute later.

    Attributes:
        shown: the attributes of `extra_repr`: ``"size"`` shows a value, ``"size="`` also the name;
            ``inplace`` shows only if it is set.
    """

    _ftorch_function: str
    _ftorch_arguments: tuple[str, ...] = ()
    _ftorch_shown: tuple[str, ...] | None = None  # None: all arguments, with their names

    def __init__(self, *values):
        super().__init__()
        for name, value in zip(self._ftorch_arguments, values, strict=True):
            setattr(self, name, value)

    def forward(self, input):
        return getattr(F, self._ftorch_function)(input, *[getattr(self, name) for name in self._ftorch_arguments])

    def extra_repr(self):
        shown = self._ftorch_shown
        if shown is None:
            shown = tuple(f"{name}=" for name in self._ftorch_arguments)
        parts = []
        for label in shown:
            value = getattr(self, label.rstrip("="))
            if label == "inplace=":
                if value:
                    parts.append("inplace=True")
            else:
                parts.append(f"{label if label[-1] == '=' else ''}{value}")
        return ", ".join(parts)
