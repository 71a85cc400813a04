"""Whether other packages are there (``torch.utils._import_utils``)."""

from __future__ import annotations

import functools
import importlib.util
import types


def _check_module_exists(name: str) -> bool:
    """Whether a module can be found; it is not imported.

    >>> from ftorch.utils._import_utils import _check_module_exists
    >>> _check_module_exists("json"), _check_module_exists("no.such.module")
    (True, False)
    """
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:
        return False


@functools.lru_cache
def dill_available() -> bool:
    """Whether dill, which pickles lambdas, is installed."""
    return _check_module_exists("dill")


@functools.lru_cache
def import_dill() -> types.ModuleType | None:
    """The module dill, without its changes to pickle; None where it is not installed."""
    if not dill_available():
        return None
    dill = importlib.import_module("dill")
    dill.extend(use_dill=False)
    return dill
