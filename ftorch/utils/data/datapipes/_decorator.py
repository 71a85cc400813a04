"""Decorators of datapipe classes and of their ``__iter__``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import ClassVar, get_type_hints

from .datapipe import IterDataPipe, MapDataPipe, _DataPipeMeta


class functional_datapipe:
    """Makes a datapipe class a method of all datapipes of its kind
    (``torch.utils.data.functional_datapipe``).

    Args:
        name: the method's name.
        enable_df_api_tracing: pass results to the registered ``trace_as_dataframe``.

    Raises:
        TypeError: if what it decorates is no datapipe class.

    >>> import ftorch as torch
    >>> @torch.utils.data.functional_datapipe("doubled")
    ... class Doubler(torch.utils.data.IterDataPipe):
    ...     def __init__(self, source):
    ...         self.source = source
    ...     def __iter__(self):
    ...         for sample in self.source:
    ...             yield 2 * sample
    >>> list(torch.utils.data.datapipes.iter.IterableWrapper([1, 2]).doubled())
    [2, 4]
    """

    name: str

    def __init__(self, name: str, enable_df_api_tracing=False) -> None:
        self.name = name
        self.enable_df_api_tracing = enable_df_api_tracing

    def __call__(self, cls):
        if issubclass(cls, IterDataPipe):
            if not isinstance(cls, _DataPipeMeta):
                raise TypeError("`functional_datapipe` can only decorate IterDataPipe")
            IterDataPipe.register_datapipe_as_function(
                self.name, cls, enable_df_api_tracing=self.enable_df_api_tracing
            )
        elif issubclass(cls, MapDataPipe):
            MapDataPipe.register_datapipe_as_function(self.name, cls)
        return cls


class _Setting:
    """A switch of the module, turned when an instance is made and back at the block's end."""

    active: ClassVar[bool] = False
    prev: bool

    def __init__(self) -> None:
        self.prev = type(self).active
        type(self).active = True

    def __enter__(self) -> None:
        pass

    def __exit__(self, exc_type, exc_value, traceback) -> None:
        type(self).active = self.prev


class guaranteed_datapipes_determinism(_Setting):
    """While it is on, datapipes decorated with `non_deterministic` cannot be made
    (``torch.utils.data.guaranteed_datapipes_determinism``)."""


class runtime_validation_disabled(_Setting):
    """While it is on, `runtime_validation` checks nothing
    (``torch.utils.data.runtime_validation_disabled``)."""


class non_deterministic:
    """Marks a class of streams as not deterministic (``torch.utils.data.non_deterministic``).

    Args:
        arg: the class, or a function of its constructor's arguments that says whether it is.

    Raises:
        TypeError: if an instance is made under `guaranteed_datapipes_determinism`, and for
            other things than `IterDataPipe` classes.
    """

    cls: type[IterDataPipe] | None = None
    deterministic_fn: Callable[..., bool]

    def __init__(self, arg: type[IterDataPipe] | Callable[..., bool]) -> None:
        if isinstance(arg, type):
            if not issubclass(arg, IterDataPipe):
                raise TypeError(
                    "Only `IterDataPipe` can be decorated with `non_deterministic`"
                    f", but {arg.__name__} is found"
                )
            self.cls = arg
        elif callable(arg):
            self.deterministic_fn = arg
        else:
            raise TypeError(f"{arg} can not be decorated by non_deterministic")

    def __call__(self, *args, **kwargs):
        if self.cls is not None:
            if guaranteed_datapipes_determinism.active:
                raise TypeError(
                    f"{self.cls.__name__} is non-deterministic, but you set "
                    "'guaranteed_datapipes_determinism'. You can turn off determinism for this "
                    "DataPipe if that is acceptable for your application"
                )
            return self.cls(*args, **kwargs)
        if not (isinstance(args[0], type) and issubclass(args[0], IterDataPipe)):
            raise TypeError(
                f"Only `IterDataPipe` can be decorated, but {args[0].__name__} is found"
            )
        self.cls = args[0]
        return self.deterministic_wrapper_fn

    def deterministic_wrapper_fn(self, *args, **kwargs) -> IterDataPipe:
        """Makes an instance, if the function given or the setting allows it."""
        assert self.cls is not None
        result = self.deterministic_fn(*args, **kwargs)
        if not isinstance(result, bool):
            raise TypeError(
                "deterministic_fn of `non_deterministic` decorator is required "
                f"to return a boolean value, but {type(result)} is found"
            )
        if guaranteed_datapipes_determinism.active and result:
            raise TypeError(
                f"{self.cls.__name__} is non-deterministic with the inputs, but you set "
                "'guaranteed_datapipes_determinism'. You can turn off determinism for this "
                "DataPipe if that is acceptable for your application"
            )
        return self.cls(*args, **kwargs)


def argument_validation(f):
    """Has a function check its arguments that are annotated as datapipes
    (``torch.utils.data.argument_validation``).

    As in PyTorch, datapipes carry no types of samples by themselves: a stream that has the right
    class needs a ``type`` with an ``issubtype`` method.

    Raises:
        TypeError: for an argument that is no `IterDataPipe`, or one of another type.
    """
    signature = inspect.signature(f)
    hints = get_type_hints(f)

    @wraps(f)
    def wrapper(*args, **kwargs):
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            hint = hints.get(name)
            if not isinstance(hint, _DataPipeMeta):
                continue
            if not isinstance(value, IterDataPipe):
                raise TypeError(
                    f"Expected argument '{name}' as a IterDataPipe, but found {type(value)}"
                )
            if not value.type.issubtype(hint.type):  # type: ignore[attr-defined]
                raise TypeError(
                    f"Expected type of argument '{name}' as a subtype of hint "
                    f"{hint.type}, but found {value.type}"  # type: ignore[attr-defined]
                )
        return f(*args, **kwargs)

    return wrapper


def runtime_validation(f):
    """Has an ``__iter__`` check each sample with the datapipe's ``type.issubtype_of_instance``
    (``torch.utils.data.runtime_validation``).

    Raises:
        TypeError: if it decorates another function.
        RuntimeError: while iterating, for a sample of another type.
    """
    if f.__name__ != "__iter__":
        raise TypeError(f"Can not decorate function {f.__name__} with 'runtime_validation'")

    @wraps(f)
    def wrapper(self):
        if runtime_validation_disabled.active:
            yield from f(self)
            return
        for sample in f(self):
            if not self.type.issubtype_of_instance(sample):
                raise RuntimeError(
                    f"Expected an instance as subtype of {self.type}, "
                    f"but found {sample}({type(sample)})"
                )
            yield sample

    return wrapper
