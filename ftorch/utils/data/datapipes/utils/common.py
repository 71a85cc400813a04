"""Checks of functions, files, and streams that close themselves."""

from __future__ import annotations

import fnmatch
import functools
import importlib.util
import inspect
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sized
from io import IOBase
from typing import Any

__all__ = [
    "StreamWrapper",
    "get_file_binaries_from_pathnames",
    "get_file_pathnames_from_root",
    "match_masks",
    "validate_input_col",
    "validate_pathname_binary_tuple",
]


def no_length(datapipe) -> TypeError:
    """The error of a datapipe that cannot say how many samples it has."""
    return TypeError(f"{type(datapipe).__name__} instance doesn't have valid length")


def length_of(source, datapipe) -> int:
    """The length of a datapipe's source.

    Raises:
        TypeError: in the name of ``datapipe`` if the source has none.
    """
    if isinstance(source, Sized):
        return len(source)
    raise no_length(datapipe)


def validate_input_col(fn: Callable, input_col: int | tuple | list | None) -> None:
    """Checks that a function takes as many arguments as there are columns.

    Raises:
        ValueError: if it does not, or has keyword-only parameters without a default.
    """
    try:
        parameters = inspect.signature(fn).parameters.values()
    except ValueError:  # a builtin that does not tell
        return
    wanted = len(input_col) if isinstance(input_col, (list, tuple)) else 1
    kinds = inspect.Parameter
    positional = [
        p for p in parameters if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
    ]
    takes_any = any(p.kind is kinds.VAR_POSITIONAL for p in parameters)
    keywords = [p for p in parameters if p.kind is kinds.KEYWORD_ONLY and p.default is p.empty]
    function = fn.func if isinstance(fn, functools.partial) else fn
    name = getattr(function, "__name__", repr(function))
    if keywords:
        raise ValueError(
            f"The function {name} takes {len(keywords)} "
            "non-default keyword-only parameters, which is not allowed."
        )
    if len(parameters) < wanted:
        if not takes_any:
            raise ValueError(
                f"The function {name} takes {len(parameters)} "
                f"parameters, but {wanted} are required."
            )
        return
    too_few = len(positional) < wanted and not takes_any
    if too_few or any(p.default is p.empty for p in positional[wanted:]):
        raise ValueError(
            f"The function {name} takes {len(positional)} "
            f"positional parameters, but {wanted} are required."
        )


def _is_local(fn) -> bool:
    if hasattr(fn, "__code__"):
        return bool(fn.__code__.co_flags & inspect.CO_NESTED)
    named = fn if hasattr(fn, "__qualname__") else type(fn)
    return "<locals>" in getattr(named, "__qualname__", "")


def _check_unpickable_fn(fn: Callable) -> None:
    """Warns of functions that `pickle` refuses.

    Raises:
        TypeError: if it cannot be called.
    """
    if not callable(fn):
        raise TypeError(f"A callable function is expected, but {type(fn)} is provided.")
    if isinstance(fn, functools.partial):
        fn = fn.func
    if importlib.util.find_spec("dill") is not None:
        return
    for kind, found in (
        ("Local", _is_local(fn)),
        ("Lambda", getattr(fn, "__name__", None) == "<lambda>"),
    ):
        if found:
            warnings.warn(
                f"{kind} function is not supported by pickle, please use "
                "regular python function or functools.partial instead.",
                stacklevel=3,
            )
            return


def match_masks(name: str, masks: str | list[str]) -> bool:
    """Whether a file name matches a pattern or one of several; no pattern matches everything."""
    if isinstance(masks, str):
        masks = [masks] if masks else []
    return not masks or any(fnmatch.fnmatch(name, mask) for mask in masks)


def get_file_pathnames_from_root(
    root: str,
    masks: str | list[str],
    recursive: bool = False,
    abspath: bool = False,
    non_deterministic: bool = False,
) -> Iterator[str]:
    """The paths of the files in a folder, sorted unless ``non_deterministic``; of a file itself.

    Raises:
        OSError: for a folder that cannot be read, with a warning.
    """

    def fail(error):
        warnings.warn(f"{error.filename} : {error.strerror}", stacklevel=2)
        raise error

    if os.path.isfile(root):
        path = os.path.abspath(root) if abspath else root
        if match_masks(os.path.basename(path), masks):
            yield path
        return
    for path, folders, files in os.walk(root, onerror=fail):
        if abspath:
            path = os.path.abspath(path)
        if not non_deterministic:
            files.sort()
            folders.sort()
        for file in files:
            if match_masks(file, masks):
                yield os.path.join(path, file)
        if not recursive:
            return


def get_file_binaries_from_pathnames(
    pathnames: Iterable, mode: str, encoding: str | None = None
) -> Iterator[tuple[str, StreamWrapper]]:
    """Opens files: pairs of path and `StreamWrapper`.

    Raises:
        TypeError: for a path that is no str.
    """
    if not isinstance(pathnames, Iterable):
        pathnames = [pathnames]
    if mode in ("b", "t"):
        mode = "r" + mode
    for pathname in pathnames:
        if not isinstance(pathname, str):
            raise TypeError(f"Expected string type for pathname, but got {type(pathname)}")
        yield pathname, StreamWrapper(open(pathname, mode, encoding=encoding))  # noqa: SIM115


def validate_pathname_binary_tuple(data: tuple[str, IOBase]) -> None:
    """Checks for a pair of path and stream.

    Raises:
        TypeError: if it is something else.
    """
    if not isinstance(data, tuple):
        raise TypeError(f"pathname binary data should be tuple type, but it is type {type(data)}")
    if len(data) != 2:
        raise TypeError(f"pathname binary stream tuple length should be 2, but got {len(data)}")
    if not isinstance(data[0], str):
        raise TypeError(
            "pathname within the tuple should have string type pathname, "
            f"but it is type {type(data[0])}"
        )
    if not isinstance(data[1], (IOBase, StreamWrapper)):
        raise TypeError(
            "binary stream within the tuple should have IOBase or"
            f"its subclasses as type, but it is type {type(data[1])}"
        )


class StreamWrapper:
    """A file that is closed when the last reference to it is gone, or the last stream that was
    made from it is closed.

    Args:
        file_obj: the file.
        parent_stream: the `StreamWrapper` that this one reads from.
        name: what printing shows.
    """

    session_streams: dict[Any, int] = {}  # noqa: RUF012  (PyTorch's name; open ones, if wanted)
    debug_unclosed_streams: bool = False

    def __init__(self, file_obj, parent_stream=None, name=None) -> None:
        self.file_obj = file_obj
        self.child_counter = 0
        self.parent_stream = parent_stream
        self.close_on_last_child = False
        self.name = name
        self.closed = False
        if parent_stream is not None:
            if not isinstance(parent_stream, StreamWrapper):
                raise RuntimeError(
                    f"Parent stream should be StreamWrapper, {type(parent_stream)} was given"
                )
            parent_stream.child_counter += 1
        if StreamWrapper.debug_unclosed_streams:
            StreamWrapper.session_streams[self] = 1

    @classmethod
    def close_streams(cls, v, depth=0) -> None:
        """Closes all streams in nested dicts, lists and tuples, ten levels deep."""
        if depth > 10:
            return
        if isinstance(v, StreamWrapper):
            v.close()
        elif isinstance(v, (dict, list, tuple)):
            for part in v.values() if isinstance(v, dict) else v:
                cls.close_streams(part, depth + 1)

    def __getattr__(self, name):
        return getattr(self.__dict__["file_obj"], name)

    def close(self, *args, **kwargs) -> None:
        """Closes the file, and its parent if that waits for its last child."""
        if self.closed:
            return
        if StreamWrapper.debug_unclosed_streams:
            del StreamWrapper.session_streams[self]
        parent = self.parent_stream
        if parent is not None:
            parent.child_counter -= 1
            if not parent.child_counter and parent.close_on_last_child:
                parent.close()
        if hasattr(self.file_obj, "close"):
            self.file_obj.close(*args, **kwargs)
        self.closed = True

    def autoclose(self) -> None:
        """Closes the stream as soon as none is left that was made from it."""
        self.close_on_last_child = True
        if self.child_counter == 0:
            self.close()

    def __dir__(self):
        return list({*self.__dict__, *StreamWrapper.__dict__, *dir(self.file_obj)})

    def __del__(self) -> None:
        if not self.__dict__.get("closed", True):
            self.close()

    def __iter__(self):
        yield from self.file_obj

    def __next__(self):
        return next(self.file_obj)

    def __repr__(self) -> str:
        name = "" if self.name is None else f"{self.name},"
        return f"StreamWrapper<{name}{self.file_obj!r}>"

    def __getstate__(self):
        return self.file_obj

    def __setstate__(self, obj):
        self.__init__(obj)


def _deprecation_warning(name, *, deprecation_version, removal_version, old_functional_name):
    warnings.warn(
        f"`{name}()` and its functional API `.{old_functional_name}()` are deprecated since "
        f"{deprecation_version} and will be removed in {removal_version}."
        "\nSee https://github.com/pytorch/data/issues/163 for details.",
        FutureWarning,
        stacklevel=3,
    )
