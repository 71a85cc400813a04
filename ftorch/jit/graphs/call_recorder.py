"""Function-level tracing: a function's public calls as a graph, ``torch.sin``, ``operator.add``, ``x.sum()``.

While a `Recorder` is active it sees the functions that its thread calls by ``__torch_function__`` and the methods,
operators and attributes of tensors by what stands in their place (`ftorch.fx._interception`). What cannot be said as a
graph of such calls (transforms, autocast, hooks on tensors) is noted in `Recorder.failed`.
"""

from __future__ import annotations

import dis
import functools
import operator
import sys
from typing import Any, NamedTuple

from ..._dynamo import exc
from ...eager.call import op as _op
from ...eager.core import device as _device
from ...eager.core import dtype as _dtype
from ...eager.core import places
from ...eager.core.public_functions import is_function
from ...eager.dispatch import autocast
from ...eager.dispatch.overrides import TorchFunctionMode, mode_call
from ...eager.dispatch.running_calls import own_signature
from ...eager.native.contexts import repeatable
from ...eager.tensor import TensorBase, modes
from ...fx import _interception
from ...fx._interception import Interception, tensor_attributes
from ..capture import break_reasons
from ..capture.user_code import is_users
from .python_numbers import Number, plain

_ATTRIBUTES = ("T", "mT", "H", "mH", "real", "imag", "data")
_ENGINE = frozenset(("backward", "register_hook", "retain_grad", "register_post_accumulate_grad_hook"))
_NUMBERS = ("item", "tolist")
_SIZES = frozenset(("shape", "size", "numel", "nelement", "nbytes", "__len__", "stride"))
_LOOKS = frozenset(("numpy", "__bool__", "__int__", "__float__", "__index__",
                    "__complex__", "__format__", "__repr__", "__str__", "__contains__"))


class Call(NamedTuple):
    """A call that was made, as FX says it, with its result and where it was made from.

    Attributes:
        grad: whether operations recorded a graph then; ``autocast`` see `autocast_now`.
        frames: the user's frames that it came from, the outermost first (if they are asked for).
        origin: the places of the user's code and the modules that it came from (`CallSites`).
    """

    op: str
    target: Any
    args: tuple
    kwargs: dict
    result: Any
    grad: bool
    autocast: tuple
    frames: tuple = ()
    origin: Any = None


class Break(NamedTuple):
    """Why a program ends at a place of the user's code."""

    reason: str
    frames: tuple
    lines: tuple


class _Below:
    """Within, the innermost function mode sees no calls."""

    __slots__ = ("outer",)

    def __enter__(self):
        self.outer = modes.function_modes
        modes.function_modes = self.outer[:-1]

    @repeatable
    def __exit__(self, *_):
        modes.function_modes = self.outer


def _operator(name):
    """(function of `operator`, whether the operands are exchanged) of a dunder, or None."""
    base = name.strip("_")
    for known, swapped in ((base, False), (base + "_", False), (base[1:], True), (base[1:] + "_", True)):
        if (not swapped or base[0] == "r") and hasattr(operator, known):
            return getattr(operator, known), swapped
    return None


VALUES = (TensorBase, Number)


def has_values(value) -> bool:
    """Whether there is a tensor in a result, or a number out of one."""
    if isinstance(value, (tuple, list)):
        return any(map(has_values, value))
    return isinstance(value, VALUES)


class Recorder(TorchFunctionMode):
    """Notes public calls while it is active: see the module.

    Attributes:
        events: what was noted, a `Call` or a `Break`, in order.
        raised: the last exception of a call, and that call.
        failed: why no graph says what the function does, or None.
        root: the frame of the function's caller, if frames are asked for.
        unbacked: whether there is a tensor whose size depends on values.
        sites: where calls come from, and what the user calls their results (`CallSites`); None: that is not asked.
        keeps_numbers: what ``item`` gives is a `Number`; ``strict``: it may not decide anything.
    """

    def __init__(self, root=None, keeps_numbers=False, strict=False, sites=None):
        from ..compiling import is_capturing

        self.sites = sites

        self.keeps_numbers, self.strict = keeps_numbers, strict
        self.events: list[Any] = []
        self.failed: str | None = None
        self.raised: tuple | None = None
        self.root = root
        self.looks = 0
        self.unbacked = self._in_call = False
        self._look = ""
        self._is_on = is_capturing  # not within a disabled function
        self._modes = _modes_now()

    # --- where calls come in

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        shown = args, kwargs
        if kwargs and sys._getframe(2).f_code is mode_call.__code__:
            shown = _as_written(func, args, kwargs)
        return self._noted("call_function", func, *shown, func, args, kwargs)

    def method(self, name, function, args, kwargs):
        """A call of a tensor's method, operator or attribute."""
        if name in _ENGINE:
            self.failed = self.failed or f"{name} was called"
        with _Below():
            if name in _ATTRIBUTES:
                return self._noted("call_function", getattr, (args[0], name), {}, function, args, {})
            found = _operator(name) if name.startswith("__") else None
            if found is None:
                return self._noted("call_method", name, args, kwargs, function, args, kwargs)
            target, swapped = found
            shown = args[::-1] if swapped else args
            return self._noted("call_function", target, shown, {}, function, args, {})

    def custom(self, cls, args, kwargs):
        """A call of an `autograd.Function`, which has a gradient of its own."""
        with _Below():
            return self._noted("call_function", cls.apply, args, kwargs, cls.apply, args, kwargs)

    def _noted(self, op, target, shown, named, function, args, kwargs):
        """Makes a call, and notes it with its arguments as they are shown in graphs."""
        looks, shown, named = self.looks, _copied(shown), _copied(named)
        self._in_call, self._look = True, ""
        try:
            result = function(*plain(args), **{k: plain(v) for k, v in kwargs.items()})
        except Exception as error:
            self.raised = error, op, target, shown, named
            raise
        finally:
            self._in_call, look = False, self._look
        if target in _NUMBERS and self.keeps_numbers and not self.looks:
            result = self._numbers(result)
        elif look:
            self.unbacked = True
            if not has_values(result):
                self.failed = self.failed or f"{look} looks at values"
        if looks == self.looks and result is not NotImplemented and self._is_on() and (
            has_values(result) or target is operator.setitem
        ):
            if modes.levels or modes.transforming:
                self.failed = self.failed or "a transform of torch.func is part of it"
            if _modes_now() != self._modes:
                self.failed = self.failed or "a default dtype or device is switched inside"
            frames = self.frames() if self.root is not None else ()
            self._append(op, target, shown, named, result, frames)
        return result

    def _append(self, op, target, args, kwargs, result, frames=()):
        now = autocast_now()
        origin = None if self.sites is None else self.sites.of_call(target, result)
        self.events.append(Call(op, target, args, kwargs, result, modes.grad, now, frames, origin))

    def _numbers(self, value):
        return [self._numbers(v) for v in value] if isinstance(value, list) else Number(self, value)

    def number(self, function, operands, value):
        """A number made of others by a function of `operator`."""
        result = Number(self, value)
        self._append("call_function", function, operands, {}, result)
        return result

    def looked(self, called) -> None:
        """A value was looked at: in a call that a graph can make again, or by Python."""
        self._look = called
        if not self._in_call:
            self.failed = self.failed or f"{called} looks at values"

    def asked_size(self) -> None:
        """Python asks for a size, which may be one that depends on values."""
        if self.unbacked:
            self.failed = self.failed or "a size that depends on values decides something"

    def asked(self, value) -> None:
        """Python asks what a `Number` is.

        Raises:
            UserError: in a capture that has to be whole.
        """
        frame, _ = break_reasons.innermost()
        if self.strict and frame is not None and break_reasons.jump(frame) == "branch":
            raise exc.UserError(break_reasons.guard_on("if"))
        self.failed = self.failed or "a number out of a tensor decides something"

    def note_assertion(self, t) -> bool:
        """Notes that a tensor is asserted to be true, if that is what its truth value is asked for."""
        from ..._dispatch.aten import _assert_async

        message = break_reasons.assertion()
        if message is None:
            return False
        frames = self.frames() if self.root is not None else ()
        self._append("call_function", _assert_async, (t, message), {}, None, frames)
        return True

    def ended(self, reason) -> None:
        """Notes that a program ends here."""
        self.looks += 1
        frames = self.frames()
        self.events.append(Break(reason, frames, tuple(f.f_lineno for f in frames)))

    def frames(self):
        """The user's frames up to the root, the outermost first."""
        found, frame = [], sys._getframe(1)
        while frame is not None and frame is not self.root:
            if is_users(frame.f_code.co_filename):
                found.append(frame)
            frame = frame.f_back
        return tuple(reversed(found))

    # --- being active

    def __enter__(self):
        self._interception = Interception()
        super().__enter__()
        try:
            self._interception.methods(_methods())
        except BaseException:  # an interrupt
            self.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(self, *exception):
        try:
            self._interception.__exit__()
        finally:
            super().__exit__(*exception)
            if self.sites is not None:
                self.sites.close()


def _modes_now():
    return _device.get_default_device(), _dtype.get_default_dtype()


def autocast_now():
    """``torch.autocast`` on the CPU: (its dtype, whether it is on, whether casts of parameters are kept)."""
    state = autocast.state
    return state.dtypes["cpu"], bool(modes.autocast) and "cpu" in modes.autocast, state.cache_enabled


def _recorder():
    """The recorder that the calling thread's calls go to, or None."""
    innermost = modes.function_modes[-1] if modes.function_modes else None
    return innermost if isinstance(innermost, Recorder) else None


def _wrapped(name, function):
    def method(*args, **kwargs):
        recorder = _recorder()
        if recorder is None:
            return function(*args, **kwargs)
        return recorder.method(name, function, args, kwargs)

    method.__name__ = method.__qualname__ = name
    method.__code__ = method.__code__.replace(co_name=name, co_qualname=name)
    method.__doc__, method.__module__ = function.__doc__, getattr(function, "__module__", None) or __name__
    return method


def _rows(function):
    """``iter(x)`` as one read after the other."""

    def __iter__(self):
        if _recorder() is None or not self.dim():
            return function(self)
        return iter([self[i] for i in range(self.shape[0])])

    return __iter__


def _sized(function):
    def method(*args, **kwargs):
        recorder = _recorder()
        if recorder is not None:
            recorder.asked_size()
        return function(*args, **kwargs)

    return method


@functools.cache
def _methods():
    """{name of a tensor method or attribute: the one that tells this thread's recorder}."""
    found: dict[str, Any] = {}
    for name, value in tensor_attributes().items():
        if name == "__iter__":
            found[name] = _rows(value)
        elif name in _SIZES:
            found[name] = _sized(value) if callable(value) else property(_sized(value.fget))
        elif is_function(value):
            if not (name.startswith("__") and _operator(name) is None or name in _LOOKS):
                found[name] = _wrapped(name, value)
        elif isinstance(value, property) and name in _ATTRIBUTES:
            found[name] = property(_wrapped(name, value.fget))
    return found


def _custom_function(cls, args, kwargs):
    recorder = _recorder()
    if recorder is not None:
        return True, recorder.custom(cls, args, kwargs)
    return _custom_before(cls, args, kwargs)


_custom_before = _op.hooks.custom_function
_op.hooks.custom_function = _custom_function


# --- how a call was written


def _as_written(function, args, kwargs):
    """(args, kwargs) with those in their places that the user, or a module, wrote there.

    What an op was called with is known by its parameters only, see `ftorch.eager.dispatch.overrides`.
    """
    named = _written_names()
    if named is None:
        return args, kwargs
    parameters = list(own_signature(function).parameters.values())
    positional, rest = list(args), dict(kwargs)
    for name in kwargs:
        next_ = parameters[len(positional)] if len(positional) < len(parameters) else None
        if name in named or next_ is None or next_.name != name or (
            next_.kind is not next_.POSITIONAL_OR_KEYWORD
        ):
            break
        positional.append(rest.pop(name))
    return tuple(positional), rest


def _written_names():
    """The keywords in the call that the innermost frame outside of the engine makes; None if unknown."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith(places.ENGINE):
        frame = frame.f_back
    while frame is not None and frame.f_code.co_filename in (__file__, _interception.__file__):
        frame = frame.f_back
    if frame is None:
        return None
    names: tuple = ()
    for step in dis.get_instructions(frame.f_code):
        if step.offset >= frame.f_lasti:
            if step.opname == "CALL_FUNCTION_EX":
                return None
            return names
        if step.opname == "KW_NAMES":
            names = frame.f_code.co_consts[step.arg]
        elif step.opname == "LOAD_CONST" and isinstance(step.argval, tuple):
            names = step.argval if all(isinstance(n, str) for n in step.argval) else ()
        elif step.opname not in ("PRECALL", "CACHE"):
            names = ()
    return names


def _copied(value):
    """Containers of arguments as they are now."""
    if isinstance(value, tuple) and (hasattr(value, "_fields") or hasattr(value, "n_fields")):
        return value
    if isinstance(value, (list, tuple)):
        return (list if isinstance(value, list) else tuple)(map(_copied, value))
    if isinstance(value, dict):
        return {k: _copied(v) for k, v in value.items()}
    return value
