"""The public calls that a function makes, as a graph: ``torch.sin``, ``operator.add``, ``x.sum()``.

While a `Recorder` is active it sees functions by ``__torch_function__`` and the methods, operators and
attributes of tensors by wrappers around them, which are there only as long. What cannot be said as a
graph of such calls (transforms, autocast, hooks on tensors) is noted in `Recorder.failed`.
"""

from __future__ import annotations

import dis
import operator
import re
import sys
import types
from typing import Any, NamedTuple

from ..eager import op as _op
from ..eager.device import device
from ..eager.dtype import dtype
from ..eager.formats import layout, memory_format
from ..eager.overrides import TorchFunctionMode
from ..eager.tensor import Tensor, TensorBase, modes
from ..fx import Graph, GraphModule
from .state import SCALARS
from .watch import is_users

_CONSTANTS = (*SCALARS, type(...), dtype, device, layout, memory_format)
_ATTRIBUTES = ("T", "mT", "H", "mH", "real", "imag", "data")
_ENGINE = frozenset(("backward", "register_hook", "retain_grad", "register_post_accumulate_grad_hook"))
_ASSERTED = "assertion error"
_LOOKS = frozenset(("item", "tolist", "numpy", "__bool__", "__int__", "__float__", "__index__",
                    "__complex__", "__format__", "__repr__", "__str__", "__contains__"))  # fmt: skip


class Call(NamedTuple):
    """A call that was made, as FX says it, with its result and where it was made from.

    Attributes:
        grad: whether operations recorded a graph then.
        frames: the user's frames that it came from, the outermost first (if they are asked for).
    """

    op: str
    target: Any
    args: tuple
    kwargs: dict
    result: Any
    grad: bool
    frames: tuple = ()


class Break(NamedTuple):
    """Why a program ends at a place of the user's code."""

    reason: str
    frames: tuple
    lines: tuple


class Unsayable(Exception):
    """A value or call that a graph cannot hold."""


class _Below:
    """Within, the innermost function mode sees no calls."""

    __slots__ = ("outer",)

    def __enter__(self):
        self.outer = modes.function_modes
        modes.function_modes = self.outer[:-1]

    def __exit__(self, *_):
        modes.function_modes = self.outer


def _operator(name):
    """(function of `operator`, whether the operands are exchanged) of a dunder, or None."""
    base = name.strip("_")
    for known, swapped in ((base, False), (base + "_", False), (base[1:], True), (base[1:] + "_", True)):
        if (not swapped or base[0] == "r") and hasattr(operator, known):
            return getattr(operator, known), swapped
    return None


def has_tensors(value) -> bool:
    """Whether there is a tensor in a result."""
    if isinstance(value, (tuple, list)):
        return any(map(has_tensors, value))
    return isinstance(value, TensorBase)


class Recorder(TorchFunctionMode):
    """Notes public calls while it is active: see the module.

    Attributes:
        events: what was noted, a `Call` or a `Break`, in order.
        failed: why no graph says what the function does, or None.
        root: the frame of the function's caller, if frames are asked for.
    """

    def __init__(self, root=None):
        from .compiled import is_compiling

        self.events: list[Any] = []
        self.failed: str | None = None
        self.root = root
        self.looks = 0
        self._is_on = is_compiling  # not within a disabled function
        self.autocast = modes.autocast

    # --- where calls come in

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        return self._noted("call_function", func, *_as_written(args, kwargs), func, args, kwargs)

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
        result = function(*args, **kwargs)
        if looks == self.looks and result is not NotImplemented and self._is_on() and (
            has_tensors(result) or target is operator.setitem
        ):  # fmt: skip
            if modes.levels or modes.transforming:
                self.failed = self.failed or "a transform of torch.func is part of it"
            if modes.autocast is not self.autocast:
                self.failed = self.failed or "autocast is switched inside"
            frames = self.frames() if self.root is not None else ()
            self.events.append(Call(op, target, shown, named, result, modes.grad, frames))
        return result

    def note_assertion(self, t) -> None:
        """Notes that a tensor was asserted to be true."""
        from .._aten import _assert_async

        call = Call("call_function", _assert_async, (t, _ASSERTED), {}, None, modes.grad, self.frames())
        if not self.events or self.events[-1][1] is not _assert_async:
            self.events.append(call)

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
        super().__enter__()
        _active.append(self)
        if len(_active) == 1:
            _wrap_methods()
        return self

    def __exit__(self, *exception):
        _active.remove(self)
        if not _active:
            _unwrap_methods()
        super().__exit__(*exception)


_active: list[Recorder] = []  # in all threads
_before: dict[str, Any] = {}


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
    method.__doc__, method.__module__ = function.__doc__, function.__module__
    return method


def _rows(self):
    """``iter(x)`` as one read after the other."""
    if _recorder() is None or not self.dim():
        return _before["__iter__"](self)
    return iter([self[i] for i in range(self.shape[0])])


def _wrap_methods():
    for name, value in list(vars(Tensor).items()):
        if name == "__iter__":
            new = _rows
        elif isinstance(value, types.FunctionType):
            if name.startswith("__") and _operator(name) is None or name in _LOOKS:
                continue
            new = _wrapped(name, value)
        elif isinstance(value, property) and name in _ATTRIBUTES:
            new = property(_wrapped(name, value.fget), value.fset, value.fdel)
        else:
            continue
        _before[name] = value
        setattr(Tensor, name, new)
    _before[""] = _op.hooks.get("custom_function")
    _op.hooks["custom_function"] = _custom_function


def _unwrap_methods():
    _op.hooks["custom_function"] = _before.pop("")
    for name, value in _before.items():
        setattr(Tensor, name, value)
    _before.clear()


def _custom_function(cls, args, kwargs):
    recorder = _recorder()
    if recorder is not None:
        return True, recorder.custom(cls, args, kwargs)
    before = _before.get("")
    return (False, None) if before is None else before(cls, args, kwargs)


# --- how a call was written


def _as_written(args, kwargs):
    """(args, kwargs) with those in their places that the user, or a module, wrote there.

    What an op was called with is known by its parameters only, see `ftorch.eager.overrides`.
    """
    named = _written_names() if kwargs else None
    if named is None:
        return args, kwargs
    positional, rest = list(args), dict(kwargs)
    for name in kwargs:
        if name in named:
            break
        positional.append(rest.pop(name))
    return tuple(positional), rest


def _written_names():
    """The keywords in the call that the innermost frame outside of the engine makes; None if unknown."""
    frame = sys._getframe(2)
    while frame is not None and "/ftorch/eager/" in frame.f_code.co_filename.replace("\\", "/"):
        frame = frame.f_back
    while frame is not None and frame.f_code.co_filename == __file__:
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
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return value
    if isinstance(value, (list, tuple)):
        return (list if isinstance(value, list) else tuple)(map(_copied, value))
    if isinstance(value, dict):
        return {k: _copied(v) for k, v in value.items()}
    return value


# --- graphs


class Builder:
    """Makes a graph of some calls.

    Args:
        is_made: whether a storage was made while the calls were recorded (by something that is no call).
        name_input: gives the name of the input that a tensor is.
        grad: whether operations record where the graph begins and ends.
        lenient: the graph is only to be read: it may hold arguments that code cannot say.

    Attributes:
        inputs: the tensors that the graph takes, in order.
    """

    def __init__(self, calls, *, is_made=lambda t: False, name_input, grad, lenient=False):
        self.graph = Graph()
        self.inputs: list[TensorBase] = []
        self._nodes: dict[int, Any] = {}
        self._held: list = []
        self._anchor = None  # the first node that is no placeholder
        self._is_made, self._name_input, self._now = is_made, name_input, grad
        self._lenient = lenient
        self._names: dict[str, int] = {}
        for call in calls:
            self._add(call)
        self._set_grad(grad)

    def module(self, outputs) -> GraphModule:
        """The graph with some tensors as its results."""
        from ..nn import Module

        self.graph.output(tuple(self._node(t) for t in outputs))
        for node in list(reversed(self.graph.nodes)):
            unused = node.op == "call_function" and node.target is operator.getitem and not node.users
            if unused and node.meta.pop("part", False):
                self.graph.erase_node(node)
        return GraphModule(Module(), self.graph, "GraphModule")

    def last(self, wanted):
        """The results that no call takes; of calls with several, those whose ids are wanted."""
        nodes = [self._nodes[id(t)] for t in self._held]
        return [
            t for t, n in zip(self._held, nodes) if n.op != "placeholder"
            and (id(t) in wanted or not n.users and "part" not in n.meta)
        ]  # fmt: skip

    def has(self, t) -> bool:
        """Whether a tensor is an input, or the result of a call."""
        return id(t) in self._nodes

    def _create(self, *what):
        node = self.graph.create_node(*what)
        self._anchor = self._anchor or node
        return node

    def _set_grad(self, grad):
        if grad is not self._now:
            from .._C import _set_grad_enabled

            self._create("call_function", _set_grad_enabled, (grad,), {})
            self._now = grad

    def _add(self, call):
        self._set_grad(call.grad)
        args, kwargs = self._argument(call.args), self._argument(call.kwargs)
        node = self._create(call.op, call.target, args, kwargs)
        renames = call.op == "call_function" and getattr(call.target, "__module__", "") == "_operator"
        self._know(call.result, node, renames)

    def _know(self, result, node, renames):
        if isinstance(result, TensorBase):
            if renames or id(result) not in self._nodes:
                self._nodes[id(result)] = node
                self._held.append(result)
                node.meta["example_value"] = _example(result)
        elif isinstance(result, (tuple, list)) and has_tensors(result):
            for i, part in enumerate(result):
                if has_tensors(part):
                    item = self._create("call_function", operator.getitem, (node, i), {})
                    item.meta["part"] = True
                    self._know(part, item, renames)

    def _argument(self, a):
        if isinstance(a, TensorBase):
            return self._node(a)
        if isinstance(a, _CONSTANTS):
            return a
        if isinstance(a, tuple):
            parts = [self._argument(v) for v in a]
            return type(a)(*parts) if hasattr(a, "_fields") else tuple(parts)
        if isinstance(a, list):
            return [self._argument(v) for v in a]
        if isinstance(a, dict):
            return {k: self._argument(v) for k, v in a.items()}
        if isinstance(a, slice):
            return slice(*map(self._argument, (a.start, a.stop, a.step)))
        if self._lenient:
            return a
        raise Unsayable(f"a {type(a).__name__} is an argument")

    def _node(self, t):
        found = self._nodes.get(id(t))
        if found is None:
            found = self._made(t) if self._is_made(t) else self._input(t)
            self._nodes[id(t)] = found
            self._held.append(t)
        return found

    def _input(self, t):
        name = self._name_input(t)
        count = self._names[name] = self._names.get(name, 0) + 1
        name = name if count == 1 else f"{name}{count - 1}_"
        with self.graph.inserting_before(self._anchor):
            node = self.graph.placeholder(name)
        node.meta["example_value"] = _example(t)
        self.inputs.append(t)
        return node

    def _made(self, t):
        """A small tensor that Python numbers made is made of them again."""
        from ..eager.interop import tensor

        if t._storage.trace is not None or t.numel() > 64 or t._requires_grad:
            raise Unsayable("a tensor is made by something that is no call")
        kwargs = {"dtype": t.dtype}
        return self._create("call_function", tensor, (t._storage.array.tolist(),), kwargs)


def _example(t):
    """The tensor without its elements, for ``node.meta``."""
    from .._subclasses.fake_tensor import fake_like

    return fake_like(t)


def input_name(source: str) -> str:
    """``L['x'][0]`` as the name of an input, ``L_x_0_``."""
    return re.sub(r"[^a-zA-Z0-9]+", "_", source)
