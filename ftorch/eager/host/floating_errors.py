"""Floating-point exceptions: how NumPy is told to ignore them, for those who do it in C.

``np.errstate`` takes longer than most short traces compute.
"""

from __future__ import annotations

import numpy as np


def ignoring_errors():
    """(the context variable with what NumPy does at errors, its value where it ignores all), or two times None.

    They are private to NumPy: without them short traces are run by Python.
    """
    try:
        from numpy._core.umath import _extobj_contextvar as variable  # pyright: ignore[reportAttributeAccessIssue]

        with np.errstate(all="ignore"):
            return variable, variable.get()
    except (ImportError, AttributeError, LookupError):
        return None, None
