"""Functions put in place of others for a while, as tracers of their own that libraries write do it."""

from __future__ import annotations

import builtins
import functools
from typing import Any, NamedTuple

from ..eager.native.contexts import contextmanager, putting_back
from ..nn import Module
from .proxy import proxies_in

_orig_module_call, _orig_module_getattr = Module.__call__, Module.__getattr__
_MARK = "__fx_already_patched"  # of functions that stay; PyTorch sets it under a mangled name, so patches nest


def _find_proxy(*objects_to_search):
    """A proxy in values or containers of them, or None."""
    return next(proxies_in(objects_to_search), None)


def _create_wrapped_func(orig_fn):
    """A function that is recorded as one call when a proxy is among its arguments."""

    @functools.wraps(orig_fn)
    def wrapped(*args, **kwargs):
        proxy = _find_proxy(args, kwargs)
        if proxy is None:
            return orig_fn(*args, **kwargs)
        result = proxy.tracer.create_proxy("call_function", orig_fn, args, kwargs)
        result.node.meta["is_wrapped"] = True
        return result

    return wrapped


def _create_wrapped_method(cls, name):
    """A class's method that is recorded as one call when a proxy is among its arguments."""
    orig_fn = getattr(cls, name)

    @functools.wraps(orig_fn)
    def wrapped(*args, **kwargs):
        proxy = _find_proxy(args, kwargs)
        return orig_fn(*args, **kwargs) if proxy is None else proxy.tracer.create_proxy("call_method", name, args, kwargs)

    return wrapped


class _PatchedFn(NamedTuple):
    """One function in another's place: ``patch`` puts it there, ``revert`` takes it away."""

    frame_dict: Any
    fn_name: str
    orig_fn: Any
    new_fn: Any

    def revert(self) -> None:
        raise NotImplementedError

    def patch(self) -> None:
        raise NotImplementedError


class _PatchedFnSetItem(_PatchedFn):
    """In a dictionary."""

    def revert(self) -> None:
        self.frame_dict[self.fn_name] = self.orig_fn

    def patch(self) -> None:
        self.frame_dict[self.fn_name] = self.new_fn


class _PatchedFnDel(_PatchedFn):
    """In a dictionary that had none: a built-in function's."""

    def revert(self) -> None:
        del self.frame_dict[self.fn_name]

    def patch(self) -> None:
        self.frame_dict[self.fn_name] = self.new_fn


class _PatchedFnSetAttr(_PatchedFn):
    """In a class."""

    def revert(self) -> None:
        setattr(self.frame_dict, self.fn_name, self.orig_fn)

    def patch(self) -> None:
        setattr(self.frame_dict, self.fn_name, self.new_fn)


class _Patcher:
    """A context at whose end all is as it was.

    Attributes:
        patches_made: what has been put in place, in order.

    >>> from ftorch.fx._symbolic_trace import _Patcher
    >>> scope = {"f": abs}
    >>> with _Patcher() as patcher:
    ...     patcher.patch(scope, "f", lambda x: "other")
    ...     scope["f"](-1)
    'other'
    >>> scope["f"](-1)
    1
    """

    def __init__(self) -> None:
        self.patches_made: list[_PatchedFn] = []
        self.visited: set[int] = set()

    def _make(self, patch):
        self.patches_made.append(patch)
        patch.patch()

    def patch(self, frame_dict: dict[str, Any], name: str, new_fn, deduplicate: bool = True) -> None:
        """Puts a function into a dictionary."""
        if name not in frame_dict and hasattr(builtins, name):
            self._make(_PatchedFnDel(frame_dict, name, None, new_fn))
        elif not getattr(frame_dict[name], _MARK, False):
            self._make(_PatchedFnSetItem(frame_dict, name, frame_dict[name], new_fn))

    def patch_method(self, cls: type, name: str, new_fn, deduplicate: bool = True) -> None:
        """Puts a function into a class, likewise."""
        orig_fn = getattr(cls, name)
        if not getattr(orig_fn, _MARK, False):
            self._make(_PatchedFnSetAttr(cls, name, orig_fn, new_fn))

    def visit_once(self, thing: object) -> bool:
        """True for an object the first time, then False."""
        is_new = id(thing) not in self.visited
        self.visited.add(id(thing))
        return is_new

    def revert_all_patches(self) -> list[_PatchedFn]:
        """Takes everything away, and keeps what it was; gives it."""
        for patch in self.patches_made:
            patch.revert()
        return self.patches_made

    def reapply_all_patches(self) -> list[_PatchedFn]:
        """Puts everything there again; gives it."""
        for patch in self.patches_made:
            patch.patch()
        return self.patches_made

    def __enter__(self) -> _Patcher:
        return self

    def __exit__(self, *_) -> None:
        while self.patches_made:
            self.patches_made.pop().revert()
        self.visited.clear()


CURRENT_PATCHER: _Patcher | None = None


@contextmanager
def _new_patcher():
    """A `_Patcher` that is the current one within the context."""
    own = _Patcher()
    with putting_back(_end_patcher, own, CURRENT_PATCHER):
        _set_patcher(own)
        yield own


def _set_patcher(patcher):
    global CURRENT_PATCHER
    CURRENT_PATCHER = patcher


def _end_patcher(patcher, former):
    patcher.revert_all_patches()
    _set_patcher(former)


@contextmanager
def _maybe_revert_all_patches():
    """Without what the current patcher has put in place."""
    current = CURRENT_PATCHER
    if current is not None:
        current.revert_all_patches()
    try:
        yield
    finally:
        if current is not None:
            current.reapply_all_patches()


def _autowrap_check(patcher: _Patcher, frame_dict: dict[str, Any], function_ids: set[int]) -> None:
    """Records the functions with given identities that a dictionary has, once for each dictionary."""
    if patcher.visit_once(frame_dict):
        for name, value in list(frame_dict.items()):
            if not name.startswith("_") and callable(value) and id(value) in function_ids:
                patcher.patch(frame_dict, name, _create_wrapped_func(value))


def _transfer_attrs(fr: object, to: object) -> None:
    """Gives an object those attributes of another (no methods) that it lacks."""
    for name in dir(fr):
        if not name.startswith("__") and not hasattr(to, name) and not callable(value := getattr(fr, name)):
            setattr(to, name, value)
