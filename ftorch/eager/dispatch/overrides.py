"""``__torch_function__``: tensor subclasses, foreign types and modes that take over calls.

Calls on plain tensors never come here. Of public functions in C, calls whose tensors are of one class with a say
have a way of their own, which asks that class with the arguments as they were written (`asker`, see `bindings.inline_caches`).
Else the call path asks (`_override` and its kin) when an operand is of another class, and `levels` when a mode is
active: the public function that is being called is then found by its code object on the stack. Composites are
wrapped (`overridable`), and hand-written methods are forwarded by the subclasses themselves
(`forward_methods`).
"""

from __future__ import annotations

import functools
import inspect
import sys
import types

from ..._alias import is_own
from .. import native
from ..call import op as _op
from ..call.operands import tensors_of
from ..core.public_functions import is_function, public_of, python_of
from ..native.contexts import repeatable
from ..tensor import DISPATCHING, PLAIN, Tensor, TensorBase, modes
from . import overridable_names, watched_methods
from .running_calls import called

# --- the protocol --------------------------------------------------------------------


def disabled(cls, func, types, args=(), kwargs=None):
    """The ``__torch_function__`` of classes that take part as plain tensors do."""
    with DisableTorchFunctionSubclass():
        return func(*args, **({} if kwargs is None else kwargs))


def dispatch_disabled(func, types, args=(), kwargs=None):
    """The ``__torch_dispatch__`` of classes that take part as plain tensors do."""
    return _op.hooks.python_disabled(func, args, {} if kwargs is None else kwargs)


def default(cls, func, types, args=(), kwargs=None):
    """Runs the function on the tensors as they are; results become instances of the subclass.

    Raises nothing: NotImplemented if another type's ``__torch_function__`` has to answer.
    """
    kwargs = {} if kwargs is None else kwargs
    for kind in types:
        if not issubclass(cls, kind):
            return NotImplemented
    with DisableTorchFunctionSubclass():
        result = func(*args, **kwargs)
    return result if _is_unwrapped(func) else convert(result, cls)


def _is_unwrapped(func):
    owner = getattr(func, "__self__", None)
    return isinstance(owner, property) and owner in (Tensor.grad, Tensor._base)


def convert(result, cls):
    """Tensors in a result as instances of ``cls``."""
    if cls is Tensor:
        return result
    if isinstance(result, TensorBase):
        return result if isinstance(result, cls) else result.as_subclass(cls)
    if isinstance(result, (tuple, list)):
        items = [convert(r, cls) for r in result]
        if hasattr(result, "_fields") and not hasattr(result, "n_fields"):
            return type(result)(*items)
        return type(result)(items)
    return result


class DisableTorchFunctionSubclass:
    """Inside, subclasses are treated as plain tensors; modes still see calls."""

    def __enter__(self):
        self.previous = modes.subclasses
        modes.subclasses = False

    @repeatable
    def __exit__(self, *_):
        modes.subclasses = self.previous


class HiddenModes(list):
    """The modes that see calls while they are not to: none. ``former`` are those that come back."""

    def __init__(self, former):
        self.former = former


class DisableTorchFunction(DisableTorchFunctionSubclass):
    """Inside, neither subclasses nor modes see calls."""

    def __enter__(self):
        self.previous, self.modes = modes.subclasses, modes.function_modes
        modes.subclasses, modes.function_modes = False, HiddenModes(self.modes)

    @repeatable
    def __exit__(self, *_):
        modes.subclasses, modes.function_modes = self.previous, self.modes


_PACKAGE = __name__.partition(".")[0]
_examined: dict[type, bool] = {}  # class -> whether it has a say


def has_say(kind: type) -> bool:
    """Whether a class has a ``__torch_function__`` to be asked."""
    found = _examined.get(kind)
    if found is None:
        function = getattr(kind, "__torch_function__", None)
        found = function is not None and getattr(function, "__func__", function) is not disabled
        if kind is Tensor or not (isinstance(kind, type) and found):
            found = False
        if len(_examined) < 4096:
            _examined[kind] = found
    return found


def forget(kind: type) -> bool:
    """Has a class looked at again, whose ``__torch_function__`` is another one now; whether it had a say before."""
    PLAIN.discard(kind)
    return _examined.pop(kind, False)


def asks(value) -> bool:
    """Whether a value's class is to be asked now."""
    return modes.subclasses and has_say(type(value))


def user_mode() -> bool:
    """Whether the innermost mode is one that a user wrote."""
    return bool(modes.function_modes) and overridable_names.is_users(type(modes.function_modes[-1]))


def overloaded_args(values) -> list:
    """One value of each class that has a say, subclasses before their bases."""
    found: list = []
    for value in values:
        kind = type(value)
        if has_say(kind) and all(type(f) is not kind for f in found):
            place = next((i for i, f in enumerate(found) if issubclass(kind, type(f))), len(found))
            found.insert(place, value)
    return found


def flat_arguments(args, kwargs):
    """The values of a call, those inside lists and tuples among them; a tuple whose class has a say is a value."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, (list, tuple)) and not has_say(type(value)):
            yield from value
        else:
            yield value


def handle(function, relevant, args, kwargs):
    """Asks the modes, then the classes of ``relevant``, for the result of a call.

    Raises:
        TypeError: if all of them decline.
    """
    found = overloaded_args(relevant) if modes.subclasses else []
    types = tuple(map(type, found))
    if modes.function_modes:
        stack = modes.function_modes
        mode = stack[-1]
        modes.function_modes = stack[:-1]
        try:
            seen = overridable_names.seen(type(mode), function, args, kwargs)
            shown = overridable_names.types_for_mode(type(mode), seen[0], types, relevant)
            result = mode.__torch_function__(seen[0], shown, seen[1], seen[2])
        finally:
            modes.function_modes = stack
        if result is not NotImplemented:
            return result
    for value in found:
        seen = overridable_names.seen(type(value), function, args, kwargs)
        named = types
        if overridable_names.shows_all(type(value), seen[0]) and any(type(v) is Tensor for v in relevant):
            named = (*types, Tensor)
        result = type(value).__torch_function__(seen[0], named, seen[1], seen[2])
        if result is not NotImplemented:
            return result
    if not found and not modes.function_modes:  # nobody was asked: a class has the method of a base that has a say
        return function(*args, **kwargs)
    raise _declined(function, types)


def asker(function, is_operator):
    """What asks the only class of tensors in a call that has a say, without modes: ``(class, args, kwargs) -> result``.

    Args:
        is_operator: whether Python asks the other operand where the class declines.
    """

    def ask(kind, args, kwargs):
        seen = overridable_names.seen(kind, function, args, kwargs)
        result = kind.__torch_function__(seen[0], (kind,), seen[1], seen[2])
        if result is NotImplemented and not is_operator:
            raise _declined(function, (kind,))
        return result

    return ask


def _declined(function, types):
    """The error of a call that nobody answered."""
    full = overridable_names.python_name(function, resolve_name)
    if full is not None:
        where = f" nor was it found on the currently active mode {modes.function_modes[-1]}" if modes.function_modes else ""
        text = f"no implementation found for '{full}' on types that implement __torch_function__: {list(types)}"
        error = TypeError(text + where)
        error._ftorch_declined = True  # type: ignore[attr-defined]
        return error
    asked = [f"  - mode object {modes.function_modes[-1]!r}"] if modes.function_modes else []
    asked += [f"  - tensor subclass {t}" for t in types]
    lines = "\n".join(asked)
    error = TypeError(
        f"Multiple dispatch failed for '{resolve_name(function)}'; all __torch_function__ handlers "
        f"returned NotImplemented:\n\n{lines}\n\nFor more information, try re-running with "
        "TORCH_LOGS=not_implemented"
    )
    error._ftorch_declined = True  # type: ignore[attr-defined]
    return error


def declined(error):
    """What an operator gives for an error of its call: NotImplemented where all handlers declined."""
    if getattr(error, "_ftorch_declined", False):
        return NotImplemented
    raise error


def resolve_name(f) -> str | None:
    """``"torch.add"``, ``"torch.Tensor.add"``, ``"torch.Tensor.shape.__get__"``; None if unknown."""
    owner = getattr(f, "__self__", None)
    if isinstance(f, property) or isinstance(owner, property):
        attribute = f if isinstance(f, property) else owner
        name = overridable_names.names.get(id(attribute)) or next((k for k, v in vars(Tensor).items() if v is attribute), None)
        suffix = "" if attribute is f else f".{f.__name__}"
        return None if name is None else f"torch.Tensor.{name}{suffix}"
    if hasattr(f, "namespace") and hasattr(f, "name"):  # an overload
        return str(f)
    return overridable_names.names.get(id(f)) or _names().get(id(f)) or _own_name(f)


def called_name(function) -> str:
    """``"add"``, ``"T"``: the bare name of a public function, method or attribute."""
    if isinstance(getattr(function, "__self__", None), property):
        name = (resolve_name(function) or "").removeprefix("torch.Tensor.")
        return name.removesuffix(".__get__")
    return getattr(function, "__name__", None) or getattr(function, "name", str(function))


def _own_name(function):
    if hasattr(function, "overloads"):
        return str(function)
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not (inspect.isfunction(function) and module):
        return None
    if not is_own(module):
        return f"{module}.{name}"
    own = sys.modules[_PACKAGE]
    if getattr(own, str(name), None) is function:
        return f"torch.{name}"
    if "._" not in module and ".eager." not in module and getattr(sys.modules[module], str(name), None) is function:
        return f"torch{module.removeprefix(_PACKAGE)}.{name}"
    return None


@functools.cache
def _names() -> dict[int, str]:
    """{id of a public function: its full name}."""
    from ..core import api

    found: dict[int, str] = {}

    def add(scope, path):
        for name, value in scope.items():
            if type(value).__name__ == "SimpleNamespace":
                add(vars(value), f"{path}.{name}")
            elif is_function(value) and not name.startswith("__"):
                found.setdefault(id(value), f"{path}.{name}")

    add(vars(api), "torch")
    for name, value in vars(Tensor).items():
        if is_function(value):
            found.setdefault(id(value), f"torch.Tensor.{name}")
            if name.endswith("_") and name != "__init__":  # as a function it is the same object
                found[id(value)] = f"torch.Tensor.{name}"
    return found


# --- where calls come in -------------------------------------------------------------


_NUMBERS = frozenset((int, float, bool))


def _is_asked(kind):
    return has_say(kind) or kind in DISPATCHING


def overridable(function, nested=True, known=None, parser=None):
    """A composite that asks for overrides before it runs.

    Args:
        nested: also of values in its lists.
        known: what the engine knows it as, if it is an alias or the method of a function.
        parser: says what is wrong with a call that has failed (`bindings.declared.Parser`).
    """

    @functools.wraps(function)
    def call(*args, **kwargs):
        if modes.levels and modes.levels[-1].composites:
            result = modes.levels[-1].composite(known or public_of(call), args, kwargs)
            if result is not NotImplemented:
                return result
        for value in args:
            kind = value.__class__
            if kind is list or kind is tuple:
                if nested and any(_is_asked(v.__class__) for v in value):
                    break
            elif kind not in PLAIN and kind not in _NUMBERS and _is_asked(kind):
                break
        else:
            if not modes.function_modes and (
                not kwargs or not any(_is_asked(v.__class__) for v in flat_arguments((), kwargs))
            ):
                if not _op.special[0] or _op.hooks.python_composite is None:
                    try:
                        return function(*args, **kwargs)
                    except (TypeError, AttributeError, ValueError, IndexError, KeyError) as error:
                        if parser is None:
                            raise
                        return parser.explain(error, function, args, kwargs)
        relevant = list(flat_arguments(args, kwargs))
        if not modes.function_modes and _op.hooks.python_composite is not None and not (
            modes.subclasses and any(has_say(v.__class__) for v in relevant)
        ):
            return _op.hooks.python_composite(function, relevant, args, kwargs)
        if not modes.function_modes and not modes.subclasses:  # nor is a class that is no tensor's asked
            try:
                return function(*args, **kwargs)
            except (TypeError, AttributeError, ValueError, IndexError, KeyError) as error:
                if parser is not None:
                    return parser.explain(error, function, args, kwargs)
                raise
        return handle(public_of(call), relevant, args, kwargs)

    return call


def composition(function):
    """What a composite runs once nobody has taken its call over; None for ops, which have kernels."""
    inner = getattr(python_of(function), "__wrapped__", None)
    return inner if isinstance(inner, types.FunctionType) else None


def _scan_any(operands):
    """`op.scan` for subclasses, taken as plain tensors."""
    key, tensors, scalars, grad = [], [], [], False

    def add(o):
        nonlocal grad
        key.append(o._ftorch_geometry)
        tensors.append(o)
        grad = grad or _op.is_in_graph(o)

    for o in operands:
        if isinstance(o, TensorBase):
            add(o)
        elif o is None:
            key.append(None)
        elif isinstance(o, (list, tuple)):
            key.append(len(o))
            for item in o:
                if item is None:
                    key.append(None)
                elif isinstance(item, TensorBase):
                    add(item)
                else:
                    return None
        elif o.__class__ in (float, int, bool, complex):
            key.append(o.__class__)
            scalars.append(o)
        else:
            return None
    return key, tensors, scalars, grad


def _override(op, operands, static, form="function"):
    """(scan, None) of operands to be taken as plain tensors, or (None, the result)."""
    scanned = _scan_any(operands)
    if scanned is not None and not modes.subclasses:
        return _below_overrides(scanned, op, operands, static, form)
    relevant = list(flat_arguments(operands, {}))
    call = called() if (modes.subclasses or modes.function_modes) and overloaded_args(relevant) else None
    if call is not None:
        function, args, kwargs = call
        return None, handle(function, relevant, args, kwargs)
    if scanned is None:
        raise TypeError(f"{op.name}(): invalid combination of arguments")
    return _below_overrides(scanned, op, operands, static, form)


def _below_overrides(scanned, op, operands, static, form):
    """What `_override` says where no ``__torch_function__`` answers: ``__torch_dispatch__`` may."""
    if DISPATCHING:
        handled, result = _op.hooks.subclass(op, operands, static, form)
        if handled:
            return None, result
    return scanned, None


def _override_view(definition, x, static):
    """(False, None) if the tensor is to be taken as a plain one, or (True, the result)."""
    if not modes.subclasses or not has_say(type(x)):
        return _view_below(definition, x, static)
    call = called()
    if call is None:
        return _view_below(definition, x, static)
    function, args, kwargs = call
    return True, handle(function, [x], args, kwargs)


def _view_below(definition, x, static):
    return _op.hooks.subclass_view(definition, x, static) if DISPATCHING else (False, None)


def mode_call(operands):
    """What the innermost mode makes of the call: (True, result), or (False, None) for the engine's."""
    call = called()
    if call is None:
        return False, None
    function, args, kwargs = call
    return True, handle(function, list(tensors_of(operands)), args, kwargs)


def _function_override(function, args, kwargs):
    relevant = list(flat_arguments(args, kwargs))
    if not modes.subclasses or not overloaded_args(relevant):
        return NotImplemented
    return handle(function, relevant, args, kwargs)


if native.module is not None:
    native.module.know_classes(_examined, DISPATCHING)

_op.hooks.override = _override
_op.hooks.override_view = _override_view
_op.hooks.function_override = _function_override
_op.hooks.function_mode = mode_call


# --- subclasses ----------------------------------------------------------------------


def _forward(function):
    @functools.wraps(function)
    def method(self, *args, **kwargs):
        if not modes.subclasses:
            return function(self, *args, **kwargs)
        return handle(function, [self, *flat_arguments(args, kwargs)], (self, *args), kwargs)

    return method


class _Forwarded:
    """A method that asks for overrides; asked of the class it is that of `Tensor`, as where classes inherit it."""

    __slots__ = ("function", "method")

    def __init__(self, function):
        self.function, self.method = function, _forward(function)

    def __get__(self, instance, owner=None):
        return self.function.__get__(None, owner) if instance is None else types.MethodType(self.method, instance)


class _ForwardedProperty(property):
    def __get__(self, instance, owner=None):
        return self.attribute if instance is None else self.fget(instance)  # type: ignore[misc]


def _forward_property(attribute):
    def get(self):
        if not modes.subclasses:
            return attribute.fget(self)
        return handle(attribute.__get__, [self], (self,), {})

    def put(self, value):
        if not modes.subclasses:
            return attribute.fset(self, value)
        return handle(attribute.__set__, [self, value], (self, value), {})

    made = _ForwardedProperty(get, put if attribute.fset else None, attribute.fdel)
    made.attribute = attribute
    return made


def forward_methods(cls, written) -> None:
    """Makes a subclass ask for overrides in the hand-written methods and attributes of `Tensor`.

    Args:
        written: their names.
    """
    function = getattr(cls.__torch_function__, "__func__", cls.__torch_function__)
    if getattr(cls, "__torch_dispatch__", None) is not getattr(Tensor, "__torch_dispatch__", None):
        DISPATCHING.add(cls)
        _op.hooks.python_classes(cls)
        if function is default:  # as in PyTorch: such a class sees calls at one place
            type.__setattr__(cls, "__torch_function__", classmethod(disabled))
            return
    has_say(cls)  # for those in C, who ask nobody
    if function is disabled:
        if cls not in DISPATCHING:
            PLAIN.add(cls)
        return
    before = cls.__mro__[: cls.__mro__.index(Tensor)]
    users, own = not is_own(cls.__module__), []
    for name in written:
        if name in watched_methods.NOT_WATCHED or (name == "__iter__" and users):  # that calls `unbind`, which is seen
            continue
        if any(name in vars(c) for c in before):
            own.append(name)
        elif (value := _forwarded(name, users)) is not None:
            setattr(cls, name, value)
    if users and own:
        _forward_super(cls, written)


def _forwarded(name, users):
    """A hand-written method or attribute of `Tensor` as one that asks for overrides, or None where there is none."""
    value = vars(Tensor).get(name)
    if value is False and users:  # ``is_sparse`` and its kin, which are one object for plain tensors
        value = overridable_names.never(name)
    if isinstance(value, property):
        return _forward_property(value)
    if is_function(value):
        return _forward(value) if name.startswith("__") else _Forwarded(value)
    return None


def _forward_super(cls, written):
    """Puts a class below the others of ``cls`` and above `Tensor`, for ``super().detach()`` in a method that overrides."""
    global _super_forwarding
    if _super_forwarding is None:
        found = {name: _forwarded(name, True) for name in written if name not in (*watched_methods.NOT_WATCHED, "__iter__")}
        scope = {"__slots__": (), "__module__": Tensor.__module__, "__qualname__": "Tensor"}
        scope.update((name, value) for name, value in found.items() if value is not None)
        _super_forwarding = type.__new__(type(Tensor), "Tensor", (Tensor,), scope)
    if _super_forwarding not in cls.__mro__:
        bases = [_super_forwarding if base is Tensor else base for base in cls.__bases__]
        cls.__bases__ = (*bases, *(() if Tensor in cls.__bases__ else (_super_forwarding,)))


_super_forwarding: type | None = None


class TorchFunctionMode:
    """A mode whose ``__torch_function__`` sees every public call made inside its ``with`` block.

    >>> import ftorch as torch
    >>> class Log(torch.overrides.TorchFunctionMode):
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         print(func.__name__)
    ...         return func(*args, **(kwargs or {}))
    >>> with Log():
    ...     y = torch.ones(2) + 1
    ones
    add
    """

    def __torch_function__(self, func, types, args=(), kwargs=None):
        raise NotImplementedError

    def __enter__(self):
        if overridable_names.is_users(type(self)):
            watched_methods.begin()
        modes.function_modes = [*modes.function_modes, self]
        _op.special[0] += 1
        return self

    @repeatable
    def __exit__(self, *_):
        left = modes.function_modes[:-1]
        if overridable_names.is_users(type(self)):
            watched_methods.end(any([overridable_names.is_users(type(mode)) for mode in left]))
        modes.function_modes = left
        _op.special[0] -= 1  # nothing is called in between: what is called again has done nothing yet

    @classmethod
    def push(cls, *args, **kwargs):
        """The older way of ``with Mode():``."""
        return cls(*args, **kwargs)
