"""The bases of datapipes: `IterDataPipe` streams samples, `MapDataPipe` finds them by key.

Both know the registered operations as methods (``pipe.map(f).batch(2)``). Nothing here imports the
tensor engine: workers read datapipes without it.
"""

from __future__ import annotations

import functools
from abc import ABCMeta
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, TypeVar

from ..dataset import Dataset, IterableDataset
from ._hook_iterator import _SnapshotState, hook_iterator, hook_reset

__all__ = ["DFIterDataPipe", "DataChunk", "IterDataPipe", "MapDataPipe"]

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)

# Operations whose result is no data frame although their source is one.
_NO_DATA_FRAMES = ("batch", "groupby", "_dataframes_as_tuples", "trace_as_dataframe")


class DataChunk(list[_T]):
    """A batch of a datapipe: a list (``torch.utils.data.DataChunk``).

    >>> import ftorch as torch
    >>> torch.utils.data.DataChunk([1, 2]).as_str("  ")
    '  [1, 2]'
    """

    def __init__(self, items: Iterable[_T]) -> None:
        items = list(items)
        super().__init__(items)
        self.items = items

    def as_str(self, indent: str = "") -> str:
        """The items' texts in brackets, after ``indent``."""
        return f"{indent}[{', '.join(map(str, self))}]"

    def raw_iterator(self) -> Iterator[_T]:
        """Iterates over the items as they were given."""
        yield from self.items


class _DataPipeMeta(ABCMeta):
    """The class of datapipe classes."""


class _IterDataPipeMeta(_DataPipeMeta):
    """Hooks what a class defines of ``__iter__``, ``__next__`` and ``reset``."""

    def __new__(cls, name, bases, namespace, **kwargs):
        if "reset" in namespace:
            hook_reset(namespace)
        if "__iter__" in namespace:
            hook_iterator(namespace)
        return super().__new__(cls, name, bases, namespace, **kwargs)


class _Operations:
    """The registered operations as methods, pickling with hooks, and printing."""

    functions: ClassVar[dict[str, Callable]]
    reduce_ex_hook: Callable | None = None
    getstate_hook: Callable | None = None
    str_hook: Callable | None = None
    repr_hook: Callable | None = None
    _ftorch_root: ClassVar[type]  # IterDataPipe or MapDataPipe: where hooks are kept
    _ftorch_saved: ClassVar[tuple[str, ...] | None] = None  # the attributes that are pickled, if not all

    def __getattr__(self, attribute_name):
        if attribute_name not in self._ftorch_root.functions:
            raise AttributeError(
                f"'{type(self).__name__}' object has no attribute '{attribute_name}"
            )
        function = self._ftorch_root.functions[attribute_name]
        bound = functools.partial(function, self)
        return functools.update_wrapper(bound, function, assigned=("__doc__",))

    @classmethod
    def register_function(cls, function_name, function) -> None:
        """Makes ``function`` a method of every datapipe."""
        cls.functions[function_name] = function

    @classmethod
    def _ftorch_register(cls, function_name, cls_to_register, call) -> None:
        if function_name in cls.functions:
            raise Exception(  # noqa: TRY002  (PyTorch's)
                f"Unable to add DataPipe function name {function_name} as it is already taken"
            )
        cls.functions[function_name] = functools.update_wrapper(
            functools.partial(call), cls_to_register, assigned=("__doc__",)
        )

    def __getstate__(self) -> Any:
        if self._ftorch_saved is None:
            state = self.__dict__
        else:
            state = tuple(getattr(self, name) for name in self._ftorch_saved)
        hook = self._ftorch_root.getstate_hook
        return state if hook is None else hook(state)

    def __setstate__(self, state) -> None:
        if self._ftorch_saved is None:
            self.__dict__.update(state)
        else:
            self.__dict__.update(zip(self._ftorch_saved, state, strict=True))
            self._ftorch_start_empty()

    def _ftorch_start_empty(self) -> None:
        """Sets the attributes that are not pickled."""

    def __reduce_ex__(self, *args, **kwargs):
        if (hook := self._ftorch_root.reduce_ex_hook) is not None:
            try:
                return hook(self)
            except NotImplementedError:
                pass
        return super().__reduce_ex__(*args, **kwargs)

    @classmethod
    def _ftorch_set_hook(cls, name, hook_fn):
        if getattr(cls._ftorch_root, name) is not None and hook_fn is not None:
            raise RuntimeError(f"Attempt to override existing {name}")
        setattr(cls._ftorch_root, name, hook_fn)

    @classmethod
    def set_getstate_hook(cls, hook_fn) -> None:
        """Has ``hook_fn(state)`` say what is pickled of datapipes; None takes the hook away."""
        cls._ftorch_set_hook("getstate_hook", hook_fn)

    @classmethod
    def set_reduce_ex_hook(cls, hook_fn) -> None:
        """Has ``hook_fn(datapipe)`` pickle datapipes; it may raise NotImplementedError to decline.
        None takes the hook away."""
        cls._ftorch_set_hook("reduce_ex_hook", hook_fn)

    def __repr__(self) -> str:
        return type(self).__qualname__ if self.repr_hook is None else self.repr_hook(self)

    def __str__(self) -> str:
        return type(self).__qualname__ if self.str_hook is None else self.str_hook(self)

    def __dir__(self):
        return [*super().__dir__(), *self.functions]


class IterDataPipe(_Operations, IterableDataset[_T_co], metaclass=_IterDataPipeMeta):
    """A stream of samples with the registered operations as methods
    (``torch.utils.data.IterDataPipe``).

    Subclasses define ``__iter__`` and may define ``reset``, which every new iterator calls first.
    Only the newest iterator of a datapipe is valid; `fork` makes independent ones.

    Raises:
        RuntimeError: from an iterator after another one was made.

    >>> import ftorch as torch
    >>> numbers = torch.utils.data.datapipes.iter.IterableWrapper(range(5))
    >>> list(numbers.batch(2))
    [[0, 1], [2, 3], [4]]
    """

    functions: ClassVar[dict[str, Callable]] = {}
    _valid_iterator_id: int | None = None
    _number_of_samples_yielded: int = 0
    _snapshot_state: _SnapshotState = _SnapshotState.NotStarted
    _fast_forward_iterator: Iterator | None = None

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        saved = cls.__dict__.get("_ftorch_saved")
        if saved is not None:
            cls._ftorch_saved = (*saved, "_valid_iterator_id", "_number_of_samples_yielded")

    def __iter__(self) -> Iterator[_T_co]:
        return self  # type: ignore[return-value]

    @classmethod
    def register_datapipe_as_function(
        cls, function_name, cls_to_register, enable_df_api_tracing=False
    ) -> None:
        """Makes a datapipe class a method of all others.

        Raises:
            Exception: if the name is taken.
        """

        def call(source_dp, *args, **kwargs):
            result = cls_to_register(source_dp, *args, **kwargs)
            if (
                isinstance(result, IterDataPipe)
                and (enable_df_api_tracing or isinstance(source_dp, DFIterDataPipe))
                and function_name not in _NO_DATA_FRAMES
            ):
                result = result.trace_as_dataframe()
            return result

        cls._ftorch_register(function_name, cls_to_register, call)

    def reset(self) -> None:
        """Returns to the start: called by every new iterator. Does nothing by default."""


class DFIterDataPipe(IterDataPipe):
    """A stream of data frames: results of operations on it are passed to the registered
    ``trace_as_dataframe`` (``torch.utils.data.DFIterDataPipe``)."""

    def _is_dfpipe(self) -> bool:
        return True


class MapDataPipe(_Operations, Dataset[_T_co], metaclass=_DataPipeMeta):
    """Samples found by key, with the registered operations as methods
    (``torch.utils.data.MapDataPipe``).

    Subclasses define ``__getitem__`` and usually ``__len__``.

    >>> import ftorch as torch
    >>> letters = torch.utils.data.datapipes.map.SequenceWrapper("abcd")
    >>> letters.map(str.upper).batch(2)[1]
    ['C', 'D']
    """

    functions: ClassVar[dict[str, Callable]] = {}

    @classmethod
    def register_datapipe_as_function(cls, function_name, cls_to_register) -> None:
        """Makes a datapipe class a method of all others.

        Raises:
            Exception: if the name is taken.
        """

        def call(source_dp, *args, **kwargs):
            return cls_to_register(source_dp, *args, **kwargs)

        cls._ftorch_register(function_name, cls_to_register, call)


IterDataPipe._ftorch_root = IterDataPipe
MapDataPipe._ftorch_root = MapDataPipe


class _DataPipeSerializationWrapper:
    """Around the datapipe that a `DataLoader` reads, so that its iterators are the loader's."""

    def __init__(self, datapipe) -> None:
        self._datapipe = datapipe

    def __len__(self) -> int:
        try:
            return len(self._datapipe)
        except Exception as e:
            raise TypeError(f"{type(self).__name__} instance doesn't have valid length") from e


class _IterDataPipeSerializationWrapper(_DataPipeSerializationWrapper, IterDataPipe):
    _ftorch_saved = ("_datapipe",)

    def __init__(self, datapipe) -> None:
        super().__init__(datapipe)
        self._ftorch_start_empty()

    def _ftorch_start_empty(self):
        self._datapipe_iter: Iterator | None = None

    def __iter__(self):
        self._datapipe_iter = iter(self._datapipe)
        return self

    def __next__(self):
        if self._datapipe_iter is None:
            raise AssertionError(
                "Iterator has not been initialized; call __iter__() before __next__()"
            )
        return next(self._datapipe_iter)


class _MapDataPipeSerializationWrapper(_DataPipeSerializationWrapper, MapDataPipe):
    def __getitem__(self, idx):
        return self._datapipe[idx]
