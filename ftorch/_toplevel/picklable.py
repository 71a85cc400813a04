"""Names by which pickle finds public functions again: ``torch.nn.functional.gelu``, ``torch.Tensor.add``.

Most are made from schemas, in modules that are not those where they are found.
"""

from __future__ import annotations

import sys
import types


def _is_found(function) -> bool:
    found = sys.modules.get(function.__module__)
    for part in function.__qualname__.split("."):
        found = getattr(found, "__dict__", {}).get(part)
    return found is function


def name_functions(scope: dict, module: str, prefix: str = "") -> None:
    """Gives each public function that pickle would not find the name under which it is in a namespace.

    Args:
        scope: the namespace: names to values.
        module: the module's name; ``prefix`` stands before the functions' names, such as ``"Tensor."``.
    """
    for name, value in list(scope.items()):
        if type(value) is types.FunctionType and not name.startswith("__") and not _is_found(value):
            value.__module__, value.__qualname__ = module, prefix + name
