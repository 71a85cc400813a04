"""What exported programs have for parts of tensor subclasses and for `autograd.Function` s."""

from __future__ import annotations

import importlib

from ..eager.tensor import TensorBase
from ..library import Library
from ..utils._python_dispatch import is_traceable_wrapper_subclass

lib = Library("export", "FRAGMENT")
lib.define("access_subclass_inner_tensor(Tensor src_subclass_tensor, str attr) -> Tensor")


def _access_subclass_inner_tensor(src_subclass_tensor, attr: str):
    """A tensor that a wrapper subclass holds.

    Raises:
        AssertionError: it is no such subclass.
        RuntimeError: it holds no tensor of that name.
    """
    if not is_traceable_wrapper_subclass(src_subclass_tensor):
        raise AssertionError(
            "Expected src_subclass_tensor to be a traceable wrapper subclass, but got "
            f"{type(src_subclass_tensor)}"
        )
    found = getattr(src_subclass_tensor, attr, None)
    if not isinstance(found, TensorBase):
        raise RuntimeError(f"Attribute {attr} is not a tensor or doesn't exist in {src_subclass_tensor}")
    return found


for _key in ("Autograd", "Python"):
    lib.impl("access_subclass_inner_tensor", _access_subclass_inner_tensor, _key)


def _call_custom_autograd_function_in_pre_dispatch(function_cls_name: str, *args, **kwargs):
    """Calls the `autograd.Function` of a full name.

    Raises:
        AssertionError: what has the name cannot be applied.
    """
    module, name = function_cls_name.rsplit(".", 1)
    function = getattr(importlib.import_module(module), name)
    if not hasattr(function, "apply"):
        raise AssertionError(f"Expected function class {function_cls_name} to have 'apply' method")
    return function.apply(*args, **kwargs)
