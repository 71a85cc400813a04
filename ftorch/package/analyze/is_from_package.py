"""Whether something comes out of a package."""

import types
from typing import Any

from .._mangling import is_mangled


def is_from_package(obj: Any) -> bool:
    """Whether a module, or an object's class, comes out of a package."""
    if isinstance(obj, types.ModuleType):
        return is_mangled(obj.__name__)
    return is_mangled(type(obj).__module__)
