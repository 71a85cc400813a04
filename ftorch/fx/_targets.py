"""The public functions and tensor methods that graphs record, and how they are called in print.

A function of several names (``torch.abs`` and ``torch.absolute``) is recorded by its own; the paths
begin with ``torch``, which is what users call ftorch.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import inspect
import operator
import types
from collections.abc import Callable
from typing import Any

import ftorch

from ..eager.core import api
from ..eager.core.public_functions import is_function
from ..eager.dispatch.overridable_names import AT_NN, BUILTIN_FUNCTIONALS
from ..eager.dispatch.running_calls import own_signature

# Modules that hold the functions of a namespace of the api under their public names.
_MODULES = {
    "": "ftorch", "nn.functional": "ftorch.nn.functional", "linalg": "ftorch.linalg",
    "fft": "ftorch.fft", "special": "ftorch.special",
}

# Functions of the top level that are written by hand, but recorded as the others are.
_BASICS = ("_assert",)

# Functions about the Python object rather than the tensor: a proxy is asked itself.
_UNRECORDED = frozenset({"is_tensor"})

# Namespaces whose functions are PyTorch's extension module's, by the name ``linalg_det``.
_IN_C = ("fft", "linalg", "special")
# Functions of the top level that PyTorch writes in Python.
_IN_PYTHON = (
    "atleast_1d atleast_2d atleast_3d block_diag broadcast_tensors cartesian_prod cdist chain_matmul einsum lu meshgrid "
    "norm split stft tensordot unique unique_consecutive unravel_index"
)
_ELSEWHERE = {
    **{f"torch.nn.functional.{name}": f"torch.{name}" for name in BUILTIN_FUNCTIONALS},
    **{f"torch.nn.functional.{name}": f"torch._C._nn.{name}" for name in AT_NN},
    "torch.nn.functional.logsigmoid": "torch._C._nn.log_sigmoid",
    **{f"torch.{name}": f"torch.functional.{name}" for name in _IN_PYTHON.split()},
}

# Functions that PyTorch writes as ``input.sigmoid()``, which is what its graphs have.
_CALLS_OF_METHODS = {f"torch.nn.functional.{name}": name for name in ("sigmoid", "tanh")}

# Parameters that PyTorch's functions do not have: NumPy's synonyms, and ATen's own.
_UNKNOWN = frozenset({"axis", "cudnn_enable", "keepdims", "out"})

# What a tensor's operator is recorded as, where the other operand is a proxy.
METHOD_OF_OPERATOR = {
    **{f"__{name}__": name for name in "add sub mul pow matmul eq ne lt le gt ge".split()},
    "__truediv__": "div", "__mod__": "remainder",
    **{name: name for name in (
        "__floordiv__", "__and__", "__or__", "__xor__", "__lshift__", "__rshift__", "__getitem__",
        "__setitem__",
    )},
}


def _namespaces():
    """(path, dictionaries with the functions of that path)."""
    pending: list = [("", api)]
    while pending:
        path, namespace = pending.pop()
        holders = [vars(namespace)]
        if path in _MODULES:
            module = importlib.import_module(_MODULES[path])
            for name in vars(namespace):
                getattr(module, name, None)  # modules that look names up late keep them now
            holders.append(vars(module))
        yield path, holders
        for name, value in vars(namespace).items():
            if isinstance(value, types.SimpleNamespace):
                pending.append((f"{path}.{name}" if path else name, value))


@functools.cache
def holders() -> list[tuple[dict, dict]]:
    """(namespace dictionary, the public functions in it by name)."""
    found = [(vars(ftorch), {name: getattr(ftorch, name) for name in _BASICS})]
    for _, dictionaries in _namespaces():
        own = dictionaries[0]
        for dictionary in dictionaries:
            functions = {
                name: value for name, value in own.items()
                if is_function(value) and name not in _UNRECORDED
                and not name.startswith("__") and dictionary.get(name) is value
            }
            found.append((dictionary, functions))
    return found


@functools.cache
def _paths() -> dict[int, str]:
    found = {id(getattr(ftorch, name)): f"torch.{name}" for name in _BASICS}
    for path, dictionaries in _namespaces():
        for name, value in dictionaries[0].items():
            if is_function(value):
                if id(value) not in found or (name == value.__name__ and path[:1] != "_"):
                    found[id(value)] = ".".join(filter(None, ("torch", path, name)))
    return found


@functools.cache
def methods() -> dict[str, Callable]:
    """The functions that are tensor methods and operators, by their names."""
    from ._interception import tensor_attributes

    return {
        name: value for name, value in tensor_attributes().items()
        if is_function(value)
        and (not name.startswith("_") or name in METHOD_OF_OPERATOR)
    }


@functools.cache
def _method_names() -> dict[int, str]:
    return {id(value): name for name, value in methods().items()}


def public_path(function) -> str | None:
    """``"torch.nn.functional.relu"`` for the function of that path; None for others."""
    path = _paths().get(id(function))
    return _ELSEWHERE.get(path, path) if path else None


def prepare() -> None:
    """Fills the tables, which have to show the namespaces as they are outside of traces."""
    for table in (holders, _paths, _method_names):
        table()


def method_name(function) -> str | None:
    """The name of a tensor method that is no public function as well, or that one is no more than a call of."""
    path = _paths().get(id(function))
    if path is not None:
        return _CALLS_OF_METHODS.get(path)
    name = _method_names().get(id(function))
    return METHOD_OF_OPERATOR.get(name, name) if name else None


def recorded_arguments(function, args, kwargs):
    """The (args, kwargs) that a graph keeps of a call of a public function."""
    path = public_path(function)
    if path is None or not path.startswith(("torch.nn.functional.", "torch.functional.")):
        return args, kwargs
    parameters = own_signature(function).parameters
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters.values()):
        return args, kwargs
    bound = own_signature(function).bind(*args, **kwargs)
    given = bound.arguments
    positional, named = [], {}
    for name, parameter in parameters.items():
        if parameter.default is parameter.empty:
            positional.append(given[name])
        elif name in given:
            named[name] = given[name]
        elif name not in _UNKNOWN:
            named[name] = parameter.default
    return tuple(positional), named


def in_python(public):
    """A function of Python's with the parameters of a public function, which it calls."""
    signature = inspect.signature(public)
    scope: dict[str, Any] = {"_public": public}
    names, given = [], []
    for name, p in signature.parameters.items():
        scope[f"_default_{name}"] = p.default
        names.append(name if p.default is p.empty else f"{name}=_default_{name}")
        given.append(name if p.default is p.empty else f"{name}={name}")
    exec(f"def {public.__name__}({', '.join(names)}):\n    return _public({', '.join(given)})", scope)
    made = scope[public.__name__]
    made.__annotations__ = {n: p.annotation for n, p in signature.parameters.items() if p.annotation is not p.empty}
    if signature.return_annotation is not signature.empty:
        made.__annotations__["return"] = signature.return_annotation
    return made


def is_of_torch(target) -> bool:
    """Whether generated code can write the target as ``torch.<...>``."""
    if public_path(target) is not None:
        return True
    root, *path = qualified_name(target).split(".")
    found = ftorch
    for part in path:
        found = getattr(found, part, None)
    return root == "torch" and found is target


def qualified_name(target) -> str:
    """The full name of a function: ``"torch.relu"``, ``"_operator.add"``, ``"my_module.f"``."""
    path = public_path(target)
    if path is not None:
        _, namespace, name = ("", *path.split("."))[-3:]
        return f"torch._C._{namespace}.{namespace}_{name}" if namespace in _IN_C else path
    name = getattr(target, "__name__", type(target).__name__)
    if hasattr(target, "overloadpacket") or hasattr(target, "overloads"):
        return f"torch.ops.{target}"
    if getattr(builtins, name, None) is target:
        return name
    if getattr(operator, name, None) is target:
        return f"_operator.{name}"
    module = getattr(target, "__module__", None) or type(target).__module__
    if module.partition(".")[0] == "ftorch":
        module = "torch" + module[len("ftorch") :]
    if isinstance(target, type):
        name = target.__qualname__
    return f"{module}.{name}"
