"""Whether operations are recorded: ``no_grad``, ``enable_grad``, ``set_grad_enabled``, ``inference_mode``."""

from __future__ import annotations

import functools
import inspect
import threading
import warnings

from ..eager.autograd.mode_contexts import InferenceMode, UncountedWrites
from ..eager.native.contexts import repeatable
from ..eager.tensor import modes


def _set_grad_enabled(mode: bool) -> None:
    """Says whether operations record a graph from now on: what graphs call (`torch.no_grad`)."""
    modes.grad = bool(mode)


_set_grad_enabled.__module__ = __name__.replace("autograd.grad_mode", "_C")  # by which graphs name it


def _without_class(cls):
    """A function that makes instances, in a decorated class's place."""
    warnings.warn(
        "Decorating classes is deprecated and will be disabled in future versions. You should only decorate functions or "
        "methods. To preserve the current behavior of class decoration, you can directly decorate the `__init__` method and "
        "nothing else.", FutureWarning, stacklevel=3)
    return lambda *args, **kwargs: cls(*args, **kwargs)


class DecoratorContextManager:
    """A context manager that also decorates functions, generators and classes' methods."""

    def clone(self):
        """A fresh instance for one more entry."""
        return type(self)()

    def __enter__(self):
        raise AssertionError("abstract")

    def __exit__(self, *exception):
        raise AssertionError("abstract")

    def __call__(self, function):
        if inspect.isgeneratorfunction(function):
            return self._wrap_generator(function)
        if inspect.isclass(function):
            function = _without_class(function)

        @functools.wraps(function)
        def decorated(*args, **kwargs):
            with self.clone():
                return function(*args, **kwargs)

        return decorated

    def _wrap_generator(self, function):
        @functools.wraps(function)
        def decorated(*args, **kwargs):
            generator = function(*args, **kwargs)
            with self.clone():
                try:
                    response = generator.send(None)
                except StopIteration as stop:
                    return stop.value
            while True:
                try:
                    request = yield response
                except GeneratorExit:
                    with self.clone():
                        generator.close()
                    raise
                except BaseException as error:
                    with self.clone():
                        try:
                            response = generator.throw(error)
                        except StopIteration as stop:
                            return stop.value
                else:
                    with self.clone():
                        try:
                            response = generator.send(request)
                        except StopIteration as stop:
                            return stop.value

        return decorated


class _GradMode(DecoratorContextManager):
    enabled = False

    def __init__(self):
        self.previous = False

    def __new__(cls, orig_func=None):
        # ``@no_grad`` without parentheses, as PyTorch allows.
        self = object.__new__(cls)
        if orig_func is None:
            return self
        self.previous = False
        return self(orig_func)

    def __call__(self, function):
        if inspect.isgeneratorfunction(function):
            return self._wrap_generator(function)
        if inspect.isclass(function):
            function = _without_class(function)
        enabled = self.enabled

        @functools.wraps(function)
        def decorated(*args, **kwargs):
            outer = modes.grad
            try:  # without a call at the end, at whose beginning an interrupt could come
                try:
                    modes.grad = enabled and not modes.inference
                    return function(*args, **kwargs)
                finally:
                    modes.grad = outer
            finally:  # again, since what a trace function raises may come in the first one
                modes.grad = outer

        return decorated

    def __enter__(self):
        self.previous = modes.grad
        modes.grad = self.enabled and not modes.inference  # inference mode records nothing in any case

    @repeatable
    def __exit__(self, *_):
        modes.grad = self.previous


class no_grad(_GradMode):
    """Operations inside are not recorded, and their results do not require grad.

    >>> import ftorch as torch
    >>> x = torch.ones(1, requires_grad=True)
    >>> with torch.no_grad():
    ...     (x * 2).requires_grad
    False
    """


class enable_grad(_GradMode):
    """Records operations again inside `no_grad`."""

    enabled = True


class enforce_grad_layout_policy(DecoratorContextManager):
    """Sets whether the first gradient of a leaf is laid out in memory as the leaf is (the default).

    Set at once, and restored when used as a context. Without it a gradient keeps the strides in which it
    arrives, which saves a copy.

    >>> import ftorch as torch
    >>> x = torch.ones(2, 3).t().requires_grad_()
    >>> with torch.autograd.enforce_grad_layout_policy(False):
    ...     (x * 2).sum().backward()
    >>> x.grad.shape
    torch.Size([3, 2])
    """

    def __init__(self, enable: bool = True):
        self.previous = modes.grad_layout
        self.enable = bool(enable)
        modes.grad_layout = self.enable

    def __enter__(self):
        modes.grad_layout = self.enable

    @repeatable
    def __exit__(self, *_):
        modes.grad_layout = self.previous

    def clone(self):
        """A context of the same setting, for decorated functions."""
        return type(self)(self.enable)


class set_grad_enabled(DecoratorContextManager):
    """Sets grad mode at once, and restores it when used as a context.

    >>> import ftorch as torch
    >>> with torch.set_grad_enabled(False):
    ...     torch.is_grad_enabled()
    False
    """

    def __init__(self, mode: bool):
        if not isinstance(mode, bool):
            raise TypeError(
                f"set_grad_enabled(): argument 'enabled' (position 1) must be bool, not {type(mode).__name__}"
            )
        self.previous = modes.grad
        self.mode = mode
        modes.grad = self.mode

    def __call__(self, function):
        modes.grad = self.previous
        return super().__call__(function)

    def __enter__(self):
        modes.grad = self.mode

    @repeatable
    def __exit__(self, *_):
        modes.grad = self.previous

    def clone(self):
        return type(self)(self.mode)

    def __repr__(self):
        return f"torch.autograd.grad_mode.set_grad_enabled(mode={self.mode})"


class inference_mode(InferenceMode, DecoratorContextManager):
    """`no_grad`, and code inside promises never to use its results in a graph."""

    def __new__(cls, mode=True):
        if isinstance(mode, bool):
            return object.__new__(cls)
        return cls()(mode)

    def clone(self):
        return type(self)(self.mode)


class _Settings(threading.local):
    """What is said of the engine, and has no effect: it runs in one thread, and takes views anew from their bases."""

    multithreading = True
    view_replay = False


_settings = _Settings()


def is_multithreading_enabled() -> bool:
    """What `set_multithreading_enabled` said."""
    return _settings.multithreading


def is_view_replay_enabled() -> bool:
    """What `_force_original_view_tracking` said."""
    return _settings.view_replay


class _Setting(DecoratorContextManager):
    """Sets one of the engine's settings, from the call on or inside a block."""

    name = ""

    def __init__(self, mode: bool):
        self.mode, self.outer = mode, getattr(_settings, self.name)
        setattr(_settings, self.name, bool(mode))

    def __call__(self, orig_func):
        setattr(_settings, self.name, self.outer)  # a decorator says it inside only
        return super().__call__(orig_func)

    def __enter__(self):
        setattr(_settings, self.name, bool(self.mode))

    @repeatable
    def __exit__(self, *_):
        setattr(_settings, self.name, self.outer)


class _force_original_view_tracking(_Setting):  # noqa: N801
    """Kept for programs that ask for views' own functions: they are taken anew from their bases in any case."""

    name = "view_replay"

    def clone(self):
        return type(self)(self.mode)


class _unsafe_preserve_version_counter(UncountedWrites, DecoratorContextManager):  # noqa: N801
    """Writes inside a block are not counted: backward will not know of them."""

    def __init__(self, tensors):
        super().__init__((tensors,) if hasattr(tensors, "_ftorch_storage") else tensors)


class set_multithreading_enabled(_Setting):
    """Accepted for compatibility: backward always runs in the calling thread."""

    name = "multithreading"

    def clone(self):
        return type(self)(self.mode)


def is_grad_enabled() -> bool:
    """Whether operations are recorded in this thread."""
    return modes.grad


def is_inference_mode_enabled() -> bool:
    """Whether this thread is inside ``inference_mode``."""
    return modes.inference
