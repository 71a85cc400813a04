"""Unification: values of variables with which two structures are equal."""

from . import core, match, more, multipledispatch, unification_tools, utils, variable  # noqa: F401
from .core import reify, unify
from .more import unifiable
from .multipledispatch import dispatch
from .variable import Var, isvar, var, variables, vars

__all__ = ["Var", "dispatch", "isvar", "reify", "unifiable", "unify", "var", "variables", "vars"]
