"""Public functions that are compositions of other tensor calls.

A composite has PyTorch's Python signature and is written on tensors, so it needs no kernel,
derivative or batching rule of its own. `ftorch.eager.surface.attach` puts it where ``forms`` says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

COMPOSITES: list[Composite] = []


@dataclass(frozen=True)
class Composite:
    """A function, the forms it exists in and the namespaces it is found in."""

    function: Callable
    name: str
    forms: frozenset[str]
    public: tuple[str, ...]
    aliases: tuple[str, ...]
    nested: bool


def composite(forms: str = "function", public: str = ".", aliases: str = "", name: str = "",
              nested: bool = True):
    """Declares a composite; the decorated function is returned unchanged.

    Args:
        forms: "function", "method" or both. As a method the first parameter is the tensor.
        public: dotted namespaces of the function (``"."``, ``"nn.functional"``, ``"linalg"``).
        aliases: more names.
        name: the public name, where it is not the function's.
        nested: whether ``__torch_function__`` of tensors in a list is asked. If not, the function
            has to spread the list and call its public name.
    """

    def register(function):
        COMPOSITES.append(
            Composite(
                function, name or function.__name__, frozenset(forms.split()),
                tuple(public.split()), tuple(aliases.split()), nested,
            )
        )
        return function

    return register
