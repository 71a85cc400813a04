"""Purity analysis of what is not written in Python: which functions depend on nothing but their arguments.

What is not known to be pure ends a capture. The tables name what is; all else reads or changes something that a
program would not see: files, clocks, random generators, environments, other threads.
"""

from __future__ import annotations

import array
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import importlib.util
import itertools
import operator
import os
import re
import struct
import sys
import threading
import types
import uuid
import weakref
import zoneinfo
from typing import Any

import numpy as np

from ..._alias import is_own
from .static_attributes import attribute, module_of, mro_of, vars_of

# --- functions

_MODULES = frozenset((
    "builtins", "math", "cmath", "operator", "_operator", "itertools", "functools", "_functools", "collections",
    "_collections", "_collections_abc", "_abc", "_struct", "struct", "_json", "_sre", "re", "_string", "unicodedata",
    "binascii", "zlib", "_bisect", "_heapq", "_statistics", "_datetime", "datetime", "_decimal", "decimal", "_csv",
    "_codecs", "_hashlib", "_md5", "_sha1", "_sha2", "_sha256", "_sha512", "_blake2", "_sha3", "_typing", "_opcode",
    "_ast", "_pickle", "marshal", "_imp", "_stat", "_types", "types",
))
# Of what makes classes: the names and the text that it evaluates are its arguments.
MAKING_CLASSES = frozenset(
    f.__code__ for f in (
        collections.namedtuple, getattr(dataclasses, "_create_fn", None),
        getattr(getattr(dataclasses, "_FuncBuilder", None), "add_fns_to_class", None),
    ) if f is not None
)
_IMPURE = frozenset((
    "input", "open", "breakpoint", "print", "id", "globals", "eval", "exec", "getcontext", "setcontext",
    "localcontext",
))
_OF_OTHERS = {  # the pure ones of modules of which most are not
    "_thread": ("RLock", "allocate_lock"),
    "sys": ("exc_info", "exception", "intern", "getsizeof", "_getframe", "is_finalizing", "audit", "getprofile",
            "setprofile", "gettrace", "settrace"),
    "_io": ("text_encoding",),
    "posix": ("fspath",),
    "nt": ("fspath",),
    "_warnings": ("_filters_mutated",),
    "_weakref": ("_remove_dead_weakref",),  # a dictionary's of weak values, when one of them goes
}
_LIBRARIES = ("jax", "jaxlib", "ml_dtypes")
_NUMPY_IMPURE = frozenset(("fromfile", "_get_extobj_dict", "_make_extobj", "_load_from_filelike", "set_typeDict",
                           "tofile", "dump", "seterrobj", "geterrobj"))
_CLOCKS = frozenset(("now", "today", "utcnow", "fromtimestamp", "astimezone", "timestamp"))
_LOCKS = (type(threading.Lock()), type(threading.RLock()))
_LOCKING = frozenset(("acquire", "release", "__enter__", "__exit__", "_is_owned", "_release_save", "_acquire_restore"))

_OWNERS: tuple[type, ...] = (
    str, bytes, bytearray, memoryview, int, float, complex, list, tuple, dict, set, frozenset, range, slice,
    type(None), BaseException, collections.deque, types.MappingProxyType, re.Pattern, re.Match, struct.Struct,
    decimal.Decimal, fractions.Fraction, np.ndarray, np.generic, np.dtype, np.ufunc, array.array, functools.partial,
    property, types.GeneratorType, types.CoroutineType, types.CodeType, types.FunctionType, types.CellType,
    types.FrameType, types.TracebackType, type({}.keys()), type({}.values()), type({}.items()), enum.Enum,
    types.SimpleNamespace, operator.attrgetter, operator.itemgetter, operator.methodcaller, classmethod, staticmethod,
    type(iter([])), type(iter("")), type(iter({})), type(iter(())), type(iter(set())), type(iter(range(0))), zip, map,
    filter, enumerate, reversed, itertools.chain, itertools.product, itertools.count, itertools.cycle,
)
_MOMENTS = (datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo)


def is_pure(function) -> bool:
    """Whether a function of C, as Python's profiler gives it, depends on nothing but its arguments, and changes no others."""
    name = getattr(function, "__name__", "")
    owner = getattr(function, "__self__", None)
    if owner is None or issubclass(type(owner), types.ModuleType):
        kind = getattr(function, "__objclass__", None)
        if kind is not None:
            return _is_pure_method(name, kind)
        module = getattr(function, "__module__", None) or attribute(owner, "__name__") or "builtins"
        root = module.partition(".")[0]
        if root == "numpy":
            return name not in _NUMPY_IMPURE and not module.startswith("numpy.random")
        if module in _MODULES:
            return name not in _IMPURE
        return name in _OF_OTHERS.get(module, ()) or root in _LIBRARIES or is_own(module)
    if issubclass(type(owner), type):
        if name in ("__new__", "__init_subclass__", "__subclasshook__"):
            return _is_pure_method(name, owner) or is_python_class(owner)
        if name in ("mro", "__subclasses__", "__instancecheck__", "__subclasscheck__", "__dir__"):
            return True
        return _is_pure_method(name, owner)
    return _is_pure_method(name, type(owner))


def _is_pure_method(name, kind):
    if issubclass(kind, _MOMENTS):
        return name not in _CLOCKS
    if issubclass(kind, _LOCKS):
        return name in _LOCKING
    if issubclass(kind, (np.ndarray, np.generic)) and name in _NUMPY_IMPURE:
        return False
    if issubclass(kind, _OWNERS) or kind is object:
        return True
    module = module_of(kind)
    root = module.partition(".")[0]
    if root in _LIBRARIES or is_own(module):
        return True
    if root == "numpy":
        return not module.startswith("numpy.random")
    if name in vars(object) or name == "__reduce_ex__":
        return True
    base = c_base(kind)
    return base is not kind and base is not object and _is_pure_method(name, base)


# --- objects

IMMUTABLE: tuple[type, ...] = (
    *_MOMENTS, decimal.Decimal, fractions.Fraction, uuid.UUID, re.Pattern, re.Match, struct.Struct, range, slice,
    type(...), type(NotImplemented), np.dtype, np.generic, np.ufunc, type(np.sum), enum.Enum, types.CodeType,
    types.BuiltinFunctionType, types.GetSetDescriptorType, types.MemberDescriptorType, types.WrapperDescriptorType,
    types.MethodWrapperType, types.MethodDescriptorType, types.ClassMethodDescriptorType, types.GenericAlias,
    type(int | str), operator.attrgetter, operator.itemgetter, operator.methodcaller, zoneinfo.ZoneInfo,
    functools._lru_cache_wrapper, types.NoneType,
)
HARMLESS = (*_LOCKS,)  # whose state is nobody's result
BUFFERS = (np.ndarray, array.array, bytearray, memoryview)
LARGEST_BUFFER = 1 << 20  # bytes that a guard compares
_DESCRIPTORS = (
    types.MethodDescriptorType, types.WrapperDescriptorType, types.GetSetDescriptorType,
    types.ClassMethodDescriptorType,
)


def is_python_class(kind: type) -> bool:
    """Whether a class was written in Python: it has no descriptors of C of its own."""
    scope = vars_of(kind)
    if getattr(scope.get("__new__"), "__self__", None) is kind:
        return False
    return not any(
        issubclass(type(v), _DESCRIPTORS) and v.__objclass__ is kind and k not in ("__dict__", "__weakref__")
        for k, v in scope.items()
    )


@functools.lru_cache(1 << 12)
def c_base(kind: type) -> type:
    """The first class that a class inherits from which is not written in Python."""
    for base in mro_of(kind):
        if not is_python_class(base):
            return base
    return object


def of_library(value) -> bool:
    """Whether an object is this package's, or JAX's."""
    module = module_of(type(value))
    return is_own(module) or module.partition(".")[0] in _LIBRARIES


@functools.lru_cache(1 << 10)
def is_standard(module: str) -> bool:
    """Whether a module is of Python's own library, by its name."""
    return module.partition(".")[0] in sys.stdlib_module_names and module != "__main__"


def is_library(module: str) -> bool:
    """Whether a module is of Python's own library or of NumPy."""
    return is_standard(module) or module.partition(".")[0] == "numpy"


def is_unknown(value) -> bool:
    """Whether an object's state is held in C, in a way that nobody here knows."""
    base = c_base(type(value))
    if base is object or base is threading.local or issubclass(base, IMMUTABLE + HARMLESS):
        return False
    return not issubclass(base, (BaseException, types.ModuleType, type, property, classmethod, staticmethod,
                                 types.SimpleNamespace, int, float, complex, str, bytes))


def content(value) -> Any:
    """What is in a buffer now, as guards compare it; None if it cannot be told or is too long."""
    if issubclass(type(value), np.ndarray):
        if value.dtype.hasobject or value.nbytes > LARGEST_BUFFER:
            return None
        return value.shape, value.dtype.str, value.tobytes()
    try:
        view = memoryview(value)
        return None if view.nbytes > LARGEST_BUFFER else (view.format, view.tobytes())
    except (BufferError, TypeError, ValueError):
        return None


def is_decimal(value) -> bool:
    """Whether a value, a class or a module computes by the thread's context of decimal numbers."""
    return value is decimal or value is decimal.Decimal or issubclass(type(value), decimal.Decimal)


class DecimalContext:
    """The context by which the thread's decimal numbers are rounded, as a state that is watched."""

    @property
    def rounding(self):
        c = decimal.getcontext()
        return f"{c.prec} {c.rounding} {c.Emin} {c.Emax} {c.capitals} {c.clamp} {sorted(map(str, c.traps.items()))}"

    @rounding.setter
    def rounding(self, _):
        """Who changes it calls what is not pure."""


def environment() -> dict:
    """The dictionary that ``os.environ`` keeps its variables in."""
    return os.environ._data


WEAK = (weakref.ref, *weakref.ProxyTypes, weakref.WeakValueDictionary, weakref.WeakSet)


def module_named(name: str, package: str | None, level: int):
    """The module that an import statement would give, if it is there already."""
    if level:
        try:
            name = importlib.util.resolve_name("." * level + name, package)
        except (ImportError, TypeError):
            return None
    return sys.modules.get(name)
