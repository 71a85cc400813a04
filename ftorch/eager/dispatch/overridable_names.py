"""Overridable functions, by the names under which a user's ``__torch_function__`` sees them.

The engine knows a function and its aliases, an operator and the method of the same meaning, by one object
(its *canonical* one), and so do the classes and modes of this package. Handlers that users write get what
PyTorch gives them: the name that was called, keyword arguments where PyTorch's function is written in
Python, and None for the keywords of one that is not and was called without any.
"""

from __future__ import annotations

import functools
import inspect
import types

from ..._alias import is_own
from ..tensor import Tensor, TensorBase
from . import watched_methods

_canonical: dict[int, object] = {}  # id of a function -> what the engine's own classes know it as
_faces: dict[int, object] = {}  # id of a function -> what users' handlers get
names: dict[int, str] = {}  # id of a function -> its full name, where the namespaces do not say it

# Operators that PyTorch's handlers see as such, not as the method of the same meaning.
OPERATORS = frozenset(
    f"__{name}__"
    for name in "floordiv lshift ilshift rshift irshift and or xor invert eq iand ior ixor pow".split()
)
# Reflected and older operators that they see as another method.
_SEEN_AS = {
    "__radd__": "add", "__rmul__": "mul", "__rand__": "bitwise_and", "__ror__": "bitwise_or",
    "__rxor__": "bitwise_xor", "__div__": "div", "__itruediv__": "div_", "__nonzero__": "__bool__",
    "__long__": "__int__", "__ipow__": "pow_",
}
# Functions of ``torch.functional`` and methods that are written in Python in PyTorch.
_PYTHON_FUNCTIONS = frozenset(
    "cdist lu norm pca_lowrank svd_lowrank lobpcg split stft tensordot unique unique_consecutive meshgrid "
    "align_tensors atleast_1d atleast_2d atleast_3d block_diag broadcast_tensors cartesian_prod chain_matmul "
    "einsum unravel_index".split()
)
_PYTHON_METHODS = frozenset(
    "norm split unique unique_consecutive lu stft istft backward module_load __floordiv__ __rfloordiv__ "
    "__rtruediv__ __rlshift__ __rrshift__ __contains__ __rmod__ __deepcopy__ __len__ __format__ __reversed__ "
    "__repr__ __setstate__ dim_order is_shared register_hook register_post_accumulate_grad_hook resize resize_as "
    "share_memory_ storage storage_type __dlpack_device__ __rmatmul__ __pow__ __rpow__ "
    "__rsub__".split()
)
# Functions of ``torch.nn.functional`` that are builtins in PyTorch, and those of them that are its extension module's.
BUILTIN_FUNCTIONALS = frozenset(
    "adaptive_avg_pool1d avg_pool1d avg_pool2d avg_pool3d bilinear celu_ channel_shuffle conv1d "
    "conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d cosine_similarity "
    "elu_ gelu hardshrink hardtanh_ leaky_relu_ linear logsigmoid native_channel_shuffle one_hot "
    "pairwise_distance pdist pixel_shuffle pixel_unshuffle prelu relu_ rrelu_ "
    "scaled_dot_product_attention selu_ softplus softshrink threshold_".split()
)
AT_NN = frozenset(
    "avg_pool2d avg_pool3d elu_ gelu hardtanh_ leaky_relu_ linear logsigmoid one_hot scaled_dot_product_attention softplus "
    "softshrink".split()
)
# Others that are written in Python in PyTorch: in its package, and in its class of tensors.
_OF_PACKAGE = frozenset("broadcast_shapes eig from_dlpack lstsq solve symeig".split())
_OF_CLASS = frozenset("__array_wrap__ __rdiv__ eig lstsq reinforce solve symeig to_sparse_coo unflatten".split())
_PYTHON_POOLING = frozenset(
    f"{kind}_max_pool{n}d" for kind in ("adaptive", "fractional") for n in (1, 2, 3)
) | {"max_pool1d", "max_pool2d", "max_pool3d"}


def home(path: str, name: str) -> str | None:
    """Where PyTorch has the builtin that a public function is: ".", "linalg", "fft", "special", "nn.functional" for its
    extension's layers; None for functions in Python.

    Args:
        path: the namespace; "Tensor" for methods.
    """
    if path == "Tensor":
        return None if name in _PYTHON_METHODS | _OF_CLASS else path
    if path == "_C._nn":
        return "nn.functional"
    if path == "nn.functional":
        return None if name not in BUILTIN_FUNCTIONALS else path if name in AT_NN else "."
    return path if path in ("linalg", "fft", "special") or path == "." and name not in _PYTHON_FUNCTIONS | _OF_PACKAGE else None


def know(function, as_):
    """Remembers that the engine's own classes know a function as another one."""
    _canonical[id(function)] = as_


def canonical(function):
    """The object that stands for a function and its aliases."""
    return _canonical.get(id(function), function)


def complete(tensor_class, functions):
    """Fills the tables when all functions are bound.

    Args:
        tensor_class: `Tensor`.
        functions: {name: function} of the top level.
    """
    methods = vars(tensor_class)
    for name, seen in _SEEN_AS.items():
        _faces[id(methods[name])] = methods[seen]
    _rename(methods["__rtruediv__"], "__rdiv__", "torch.Tensor.__rtruediv__")
    for name in ("type", "norm", "split"):
        if methods[name].__name__ != name:
            _rename(methods[name], name, f"torch.Tensor.{name}")
    for name in _PYTHON_METHODS:
        names.setdefault(id(seen_as(methods[name])), f"torch.Tensor.{name}")
    for name in _PYTHON_FUNCTIONS:
        if name in functions:
            names[id(functions[name])] = f"torch.functional.{name}"


def seen_as(function):
    """What users' handlers get for a function."""
    return _faces.get(id(function), function)


@functools.cache
def never(name):
    """The attribute of a name that is False for all tensors with elements of their own."""
    attribute = property(lambda self: False)
    names[id(attribute)] = name
    return attribute


def _rename(function, name, full_name):
    copy = types.FunctionType(
        function.__code__, function.__globals__, name, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__, copy.__doc__ = function.__kwdefaults__, function.__doc__
    copy.__dict__.update(function.__dict__)
    copy.__qualname__ = name
    _faces[id(function)] = copy
    know(copy, canonical(function))
    names[id(copy)] = full_name


@functools.cache
def is_users(handler) -> bool:
    """Whether a class's ``__torch_function__`` was written outside this package."""
    function = handler.__torch_function__
    return not is_own(getattr(getattr(function, "__func__", function), "__module__", None))


def seen(kind, function, args, kwargs):
    """(function, args, kwargs) as the ``__torch_function__`` of a class gets them."""
    if not is_users(kind):
        return canonical(function), args, kwargs
    face = seen_as(function)
    if is_python(face):
        return face, *_spread(face, args, kwargs)
    return face, args, kwargs or None


def shows_all(kind, function) -> bool:
    """Whether a class's handler is told of plain tensors among the types: of functions that PyTorch has in Python."""
    return is_users(kind) and is_python(function)


def types_for_mode(kind, function, types, relevant):
    """The types that a mode is told of: plain tensors', too, of Python's functions, attributes and methods without arguments.

    Args:
        kind: the mode's class.
        types: those that have a say.
        relevant: the values of the call.
    """
    if not is_users(kind):
        return types
    if is_python(function) or is_own(getattr(function, "__module__", None), "nn.init"):
        return (*types, Tensor) if any([type(v) is Tensor for v in relevant]) else types
    if not types and relevant and isinstance(relevant[0], TensorBase) and _is_bare(function):
        return (type(relevant[0]),)
    return types


@functools.lru_cache(1 << 10)
def _is_bare(function):
    """Whether a function is an attribute's, or a method without arguments."""
    from .running_calls import own_signature

    if isinstance(getattr(function, "__self__", None), property):
        return True
    try:
        return vars(Tensor).get(function.__name__) is function and len(own_signature(function).parameters) == 1
    except (AttributeError, TypeError, ValueError):
        return False


def is_python(function):
    """Whether PyTorch's function is written in Python, where it takes part in overriding by itself."""
    if not isinstance(function, types.FunctionType):
        return False
    full = names.get(id(function))
    if full is not None:
        owner, _, name = full.rpartition(".")
        return owner == "torch.functional" or (owner == "torch.Tensor" and name in _PYTHON_METHODS)
    if "__signature__" in watched_methods.original(function).__dict__:
        return True
    if function.__name__ in _PYTHON_POOLING:
        return is_own(function.__module__, "nn") or ".nn." in (function.__module__ or "")
    return not is_own(function.__module__)  # what `handle_torch_function` was called with


def python_name(function, full_name):
    """The name of a function that is written in Python in PyTorch, by the module that has it; else None.

    Args:
        full_name: gives a function's full name (`overrides.resolve_name`).
    """
    face = seen_as(function)
    if not is_python(face):
        return None
    full = full_name(face) or f"{face.__module__}.{face.__name__}"
    return f"torch._tensor.{face.__name__}" if full.startswith("torch.Tensor.") else full


@functools.cache
def _parameters(function):
    from .running_calls import own_signature

    declared = own_signature(function).parameters
    shown = inspect.signature(function).parameters
    kinds = {p.kind for p in declared.values()}
    if kinds & {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}:
        return None
    return own_signature(function), [name for name in declared if name in shown]


class _Place(int):
    """Where an argument is found: among those by position, then those by keyword."""


@functools.lru_cache(1 << 12)
def _spreading(function, positional: int, names: tuple[str, ...]):
    """(what is given by position, {name: what is given by keyword}), each a `_Place` or a default; None: as it was written.

    Args:
        positional, names: how many arguments a call gives by position, and those that it names.
    """
    places = tuple(map(_Place, range(positional + len(names))))
    try:
        found = _parameters(function)
        bound = None if found is None else found[0].bind(*places[:positional], **dict(zip(names, places[positional:])))
    except (TypeError, ValueError):
        return None
    if bound is None:
        return None
    bound.apply_defaults()
    by_position, by_keyword = [], {}
    for name, parameter in found[0].parameters.items():
        if parameter.default is inspect.Parameter.empty:
            by_position.append(bound.arguments[name])
        elif name in found[1] or name in names:
            by_keyword[name] = bound.arguments[name]
    return by_position, by_keyword


def _spread(function, args, kwargs):
    """Arguments that have defaults as keywords, all of them."""
    own = is_own(getattr(function, "__module__", None))
    found = _spreading(function, len(args), tuple(kwargs)) if own else None
    if found is None:
        return args, kwargs
    given = (*args, *kwargs.values())
    return tuple([given[v] if v.__class__ is _Place else v for v in found[0]]), {
        name: given[v] if v.__class__ is _Place else v for name, v in found[1].items()
    }
