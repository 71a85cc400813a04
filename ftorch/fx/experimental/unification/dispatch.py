"""Functions of this package that are chosen by the types of their arguments."""

from __future__ import annotations

from functools import partial

from .multipledispatch import dispatch as _dispatch

namespace: dict = {}
dispatch = partial(_dispatch, namespace=namespace)
