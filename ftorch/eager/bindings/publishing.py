"""Builtin functions and method descriptors, by the extension module: public functions are these, as in PyTorch.

Without it, functions are objects that do not bind (`core.public_functions.Function`), and methods are Python's.
"""

from __future__ import annotations

import sys
import types

from .. import native
from ..autograd.views import view_call
from ..call.op import call_out
from ..core import device, dtype, formats, geometry
from ..core.public_functions import Function, know
from ..core.return_values import RETURN_TYPES, on_made
from ..sampling.generator import Generator
from ..tensor import TensorBase

PACKAGE = __name__.partition(".")[0]


class _VariableFunctionsClass:
    """What functions of the top level are methods of."""


_VariableFunctionsClass.__module__ = f"{PACKAGE}._C"
# Modules of PyTorch's extension module, whose functions are called ``linalg_det``.
MODULES = {name: types.ModuleType(f"{PACKAGE}._C._{name}") for name in ("linalg", "fft", "special")}
for _module in MODULES.values():
    sys.modules[_module.__name__] = _module


def _make(slow, learn, composition, explain, owner, name, module, is_method=False):
    doc = slow.__doc__ or ""
    if native.module is not None:
        made = native.module.function(slow, learn, composition, explain, owner, name, doc, module, is_method)
        if made is not None:
            know(made, slow)
            return made
    if is_method:
        return slow
    made = Function(slow, name, owner, doc, module)
    know(made, slow)
    return made


def function(slow, path: str, learn=None, composition=None, explain=None):
    """The public function of one in Python.

    Args:
        slow: takes any call.
        path: the namespace that it is found in: ".", "linalg", "nn.functional".
        learn: finds the cache entry of a call (`inline_caches`), or is the number of a getter.
        composition: what ``slow`` comes to where nobody takes calls over.
        explain: called with (error, composition, args, kwargs) once that has failed.
    """
    name = slow.__name__
    if path == ".":
        made = _make(slow, learn, composition, explain, _VariableFunctionsClass, name, PACKAGE)
        setattr(_VariableFunctionsClass, name, made)
        return made
    module = MODULES.get(path)
    made = _make(slow, learn, composition, explain, module, name, f"{PACKAGE}._C._nn" if module is None else module.__name__)
    if module is not None:
        setattr(module, name, made)
    return made


def method(slow, learn=None, composition=None, explain=None, name=None):
    """The method of a function in Python; parameters as of `function`, and its name if it has another one."""
    name = name or slow.__name__
    made = _make(slow, learn, composition, explain, TensorBase, name, None, True)
    if made is not slow:
        setattr(TensorBase, name, made)
    return made


# Classes of arguments, beside tensors and Python's own, that have no say in calls.
_ORDINARY = frozenset((
    complex, bytes, slice, range, type(...), dtype.dtype, device.device, formats.layout, formats.memory_format, geometry.Size,
    Generator,
))
# Classes that are written in C in PyTorch: the module that CPython's messages name them with, beside the package's.
_IN_C = {dtype.dtype: "", device.device: "", formats.layout: "", formats.memory_format: "", formats.qscheme: "",
         geometry.Size: "", dtype.finfo: "", dtype.iinfo: "", Generator: "_C."}


if native.module is not None:
    native.module.configure_functions(_ORDINARY, view_call, call_out, TensorBase)
for _class, _place in _IN_C.items():
    native.call_in_c(_class, _place, _class is not Generator)
for _class in RETURN_TYPES.values():
    native.call_in_c(_class, "return_types.")
on_made.append(lambda cls: native.call_in_c(cls, "return_types."))
