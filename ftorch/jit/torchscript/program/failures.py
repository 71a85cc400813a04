"""Errors inside of programs, as they reach Python."""

from __future__ import annotations

import ast

from .builtins import RaisedError
from .places import called

__all__ = ["failure"]

_HEAD = "The following operation failed in the TorchScript interpreter."


def failure(error: Exception) -> Exception:
    """The error that Python sees of one in a program: with the program's own lines in its text.

    What the program raised is a ``torch.jit.Error``, every other of Python's errors a RuntimeError.
    Errors of other classes (out of memory, signals of a compiler) are left alone.
    """
    raised = type(error) is RaisedError
    if not raised and (type(error).__module__ != "builtins" or str(error).startswith(_HEAD)):
        return error
    lines = [_HEAD, "Traceback of TorchScript (most recent call last):"]
    traceback = error.__traceback__
    while traceback is not None:
        function = traceback.tb_frame.f_globals.get("_program_function")
        if function is not None:
            position = called(traceback.tb_frame.f_code, traceback.tb_lasti)
            lines += _place(function, traceback.tb_lineno, position)
        traceback = traceback.tb_next
    return (RaisedError if raised else RuntimeError)("\n".join([*lines, _reason(error), ""]))


def _place(function, line, position):
    if function.places is not None:
        shown = function.places.lines(function.node, position)
        if shown is not None:
            return [shown]
    statement = None
    for node in ast.walk(function.node):
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno):
            statement = node
    if statement is None or isinstance(statement, ast.FunctionDef):
        return [f"  in {function.qualified_name}"]
    text = ast.unparse(statement).split("\n")[0]
    return [f"  in {function.qualified_name}", f"    {text}", f"    {'~' * len(text)} <--- HERE"]


def _reason(error):
    text = str(error)
    if type(error) is RaisedError:
        return f"{error.qualified_name or 'RuntimeError'}: {text}"
    if isinstance(error, KeyError):
        return f"RuntimeError: KeyError: {error.args[0] if error.args else ''}"
    if isinstance(error, ZeroDivisionError):
        return "RuntimeError: division by 0"
    return f"RuntimeError: {text}"
