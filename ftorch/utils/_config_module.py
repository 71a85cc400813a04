"""Modules of settings (``torch.utils._config_module``): names that exist can be set, others cannot."""

from __future__ import annotations

import contextlib
import copy
import functools
import hashlib
import importlib
import pickle
import sys
import types
from typing import Any

from ..eager.native.contexts import repeatable


class _Settings:
    """What a module of settings and a group in it share: the names in ``_types`` are settings.

    Attributes:
        _types: {name: the type that a value has to have as an option, or None for any}.
        _path: what the module or group is called; ``_aliases`` maps older names to newer ones.
    """

    _path: str
    _types: dict[str, type | None]
    _aliases: dict[str, str]

    def __getattr__(self, name):
        if name in self.__dict__.get("_aliases", ()):
            return getattr(*self._meant(name))
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(f"{self.__dict__.get('_path')}.{name} does not exist")

    def _meant(self, name):
        """(the settings that have an older or shared name, the name there)."""
        module, _, own = self._aliases[name].rpartition(".")
        return importlib.import_module(module) if module else self, own

    def __setattr__(self, name, value):
        if name in self._aliases:
            setattr(*self._meant(name), value)
            return
        if name not in self._types and not name.startswith("__"):
            raise AttributeError(f"{self._path}.{name} does not exist")
        super().__setattr__(name, value)


class Group(_Settings):
    """Settings with a name in common: ``config.triton.cudagraphs``."""

    def __init__(self, path):
        self.__dict__.update(_path=path, _types={}, _aliases={})


class ConfigModule(_Settings, types.ModuleType):
    """A module of settings, see `install`."""

    def _holder(self, name):
        """(the module or group that has a setting, its name there)."""
        *outer, name = name.split(".")
        return functools.reduce(getattr, outer, self), name

    def _names(self):
        for name, kind in self._types.items():
            if kind is not Group:
                yield name
                continue
            for inner in getattr(self, name)._types:
                yield f"{name}.{inner}"

    def get_type(self, name: str):
        """The type that a value of a setting has to have, or None."""
        holder, own = self._holder(name)
        getattr(holder, own)
        return holder._types.get(own)

    def get_config_copy(self) -> dict[str, Any]:
        """{name: value}, with copies of the values."""
        return {name: copy.copy(getattr(*self._holder(name))) for name in self._names()}

    to_dict = shallow_copy_dict = get_config_copy

    def load_config(self, maybe_pickled_config: bytes | dict[str, Any]) -> None:
        """Sets what `save_config` or `get_config_copy` gave."""
        values = maybe_pickled_config
        for name, value in (pickle.loads(values) if isinstance(values, bytes) else values).items():
            setattr(*self._holder(name), value)

    def save_config_portable(self, *, ignore_private_configs: bool = True) -> dict[str, Any]:
        """The settings whose names do not begin with an underscore."""
        return {
            k: v for k, v in self.get_config_copy().items()
            if not (ignore_private_configs and any(p.startswith("_") for p in k.split(".")))
        }

    def save_config(self) -> bytes:
        """The settings, for `load_config`."""
        return pickle.dumps(self.get_config_copy(), protocol=2)

    def get_hash(self) -> bytes:
        """A number that says which values the settings have."""
        return hashlib.md5(repr(sorted(self.save_config_portable().items())).encode()).digest()

    def codegen_config(self) -> str:
        """Python that sets what is not as it was at first."""
        before = self.__dict__["_initial"]
        return "\n".join(
            f"{self._path}.{k} = {v!r}" for k, v in self.get_config_copy().items() if before[k] != v
        )

    def patch(self, arg1=None, arg2=None, **kwargs):
        """Settings for a while, in a ``with`` block or a decorated function.

        Args: ``patch(name=value)``, ``patch("group.name", value)`` or ``patch({...})``.

        Raises:
            AssertionError: for other arguments; AttributeError: for names that do not exist.
        """
        if arg1 is None:
            return _Patch(self, kwargs)
        if kwargs:
            raise AssertionError("cannot pass both positional and keyword arguments to patch")
        if arg2 is not None:
            return _Patch(self, {arg1: arg2})
        if not isinstance(arg1, dict):
            raise AssertionError("first argument must be a dict when passing a single positional arg to patch")
        return _Patch(self, arg1)


class _Patch(contextlib.ContextDecorator):
    def __init__(self, module, changes):
        self._module, self._changes = module, dict(changes)

    def __enter__(self):
        holders = [self._module._holder(name) for name in self._changes]  # all of them are there, or none is set
        self._before = [(*holder, getattr(*holder)) for holder in holders]
        for holder, value in zip(holders, self._changes.values()):
            setattr(*holder, value)

    @repeatable
    def __exit__(self, *_):
        for holder, name, value in reversed(self._before):
            setattr(holder, name, value)

    def _recreate_cm(self):
        return _Patch(self._module, self._changes)


def install(name: str, *, true: str = "", false: str = "", plain: dict | None = None,
            open: dict | None = None, aliases: dict | None = None) -> None:
    """Makes a module one of settings.

    Args:
        true, false: names of switches, by what they are at first; ``plain`` other settings of one type;
            ``open`` those that may have values of several. ``"group.name"`` is one of a group.
        aliases: {older name: setting}, or {name: "module.setting"} for what another module has.
    """
    module = sys.modules[name]
    module.__class__ = ConfigModule
    path = name.replace("ftorch", "torch", 1)
    module.__dict__.update(_path=path, _types={}, _aliases=aliases or {})
    values = {
        **dict.fromkeys(true.split(), True), **dict.fromkeys(false.split(), False), **(plain or {}),
    }
    for key, value in sorted({**values, **(open or {})}.items(), key=lambda item: "." in item[0]):
        holder: Any = module
        *outer, own = key.split(".")
        for part in outer:
            if not isinstance(holder.__dict__.get(part), Group):
                holder._types[part] = Group
                holder.__dict__[part] = Group(f"{holder._path}.{part}")
            holder = holder.__dict__[part]
        holder._types[own] = type(value) if key in values else None
        holder.__dict__[own] = value
    module.__dict__["_initial"] = module.get_config_copy()  # type: ignore[attr-defined]
