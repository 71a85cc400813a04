"""``__torch_function__`` of methods: modes and the hand-written methods and attributes of `Tensor`.

Ops and composites ask for modes themselves; `Tensor.item`, `shape` and their kin don't, so that plain calls pay
nothing. While a user's ``TorchFunctionMode`` is active anywhere, the *code* of these functions is another one,
which asks the mode first: the function objects, which handlers compare (``func is torch.Tensor.item``), stay.
"""

from __future__ import annotations

import inspect
import sys
import threading
import types

from ..core import places
from ..core.public_functions import python_of
from ..tensor import Tensor, modes

# Python's own protocols of objects, and what overriding needs itself.
NOT_WATCHED = {
    "__class__", "__dir__", "__hash__", "__reduce_ex__", "__torch_function__", "as_subclass",
    "_make_subclass", "_make_wrapper_subclass", "__array_priority__", "_ftorch_geometry",
}
written: list[str] = []  # the names, once all methods are bound
_watched: dict[int, _Watched] = {}  # id of a function -> what stands for it
_watching: set[int] = set()  # the threads in which users' modes are active
_lock = threading.RLock()


def _template(*args, **kwargs):
    ask = "the watched function"
    return ask(args, kwargs)  # type: ignore[operator]


class _Watched:
    """A function whose calls a user's mode sees.

    Attributes:
        function: the object that is public.
        original: the same with its own code.
        code: what the function runs while modes are active, and shows the ``signature`` of its own code.
    """

    def __init__(self, function, known=None):
        self.function, self.known = function, known or function
        code = function.__code__
        self.original = types.FunctionType(
            code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
        )
        self.original.__kwdefaults__ = function.__kwdefaults__
        self.original.__dict__.update(function.__dict__)
        self.signature = inspect.signature(self.original)
        template = _template.__code__
        self.code = template.replace(
            co_consts=tuple(self if c == "the watched function" else c for c in template.co_consts),
            co_freevars=code.co_freevars, co_name=code.co_name, co_qualname=code.co_qualname,
        )

    def begin(self):
        """Lets calls ask modes. Can be done again."""
        self.function.__signature__ = self.signature
        self.function.__code__ = self.code

    def end(self):
        """Leaves the function as it was. Can be done again."""
        self.function.__code__ = self.original.__code__
        if "__signature__" not in self.original.__dict__:
            self.function.__dict__.pop("__signature__", None)

    def __call__(self, args, kwargs):
        if modes.function_modes and not sys._getframe(2).f_code.co_filename.startswith(places.OWN):
            from .overrides import flat_arguments, handle

            return handle(self.known, list(flat_arguments(args, kwargs)), args, kwargs)
        return self.original(*args, **kwargs)


def _prepare() -> None:
    """Makes what stands for the methods and attributes."""
    for name in written:
        value = vars(Tensor).get(name)
        value = getattr(value, "_intercepted", value)  # while a graph is recorded another stands in its place
        if name in NOT_WATCHED or name == "__iter__":  # it calls `unbind`, which is seen
            continue
        if isinstance(value, property):
            found = [(value.fget, value.__get__), (value.fset, value.__set__)]
        else:
            found = [(python_of(value), value)]
        for function, known in found:
            if isinstance(function, types.FunctionType) and id(function) not in _watched:
                _watched[id(function)] = _Watched(function, known)


def original(function):
    """The function with its own code."""
    watched = _watched.get(id(function))
    return function if watched is None else watched.original


def begin() -> None:
    """A user's mode is about to be active in this thread. Can be done again."""
    with _lock:
        if not _watched:
            _prepare()
        _watching.add(threading.get_ident())
        for watched in _watched.values():
            watched.begin()


def end(left) -> None:
    """Leaves the functions as they were if no user's mode stays active in any thread. Can be done again.

    Args:
        left: whether one stays active in this thread.
    """
    with _lock:
        if left:
            return
        _watching.discard(threading.get_ident())
        if not _watching:
            for watched in _watched.values():
                watched.end()
