"""Unification of nested values that contain logic variables (``torch.fx.experimental.unification``)."""

from .core import reify, unify
from .more import unifiable
from .variable import Var, isvar, var, variables, vars

__all__ = ["Var", "isvar", "reify", "unifiable", "unify", "var", "variables", "vars"]
