"""What methods of programs' objects need of the rooms above: to be saved, shown as graphs, compiled anew.

Files, graphs and the front end stand on programs. Each fills its slots here when it is imported, which
`ftorch.jit` does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Services:
    """The slots.

    Attributes:
        save: ``(program, file, extra_files)``: writes an archive (files).
        functions_of_text: ``(text, scope) -> dict``: the functions that a text defines (frontend).
        lower: ``(function, inlined=False) -> Graph``: a function as a list of operators (graph).
        text_of: ``(function) -> (text, constants)``: a function's text as PyTorch prints it (graph).
        script_module: ``(module) -> ScriptModule``: compiles a module with what its methods reach (frontend).
    """

    __slots__ = ("functions_of_text", "lower", "save", "script_module", "text_of")

    functions_of_text: Callable[..., dict]
    lower: Callable[..., Any]
    save: Callable[..., None]
    script_module: Callable[..., Any]
    text_of: Callable[..., tuple[str, list]]


services = Services()
