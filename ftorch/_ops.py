"""``torch.ops``: every op by namespace, name and overload, called with ATen's argument names.

>>> import ftorch as torch
>>> torch.ops.aten.add.Tensor(torch.ones(2), torch.ones(2), alpha=3)
tensor([4., 4.])
"""

from __future__ import annotations

import functools
import types

from .eager.binding import Bound
from .eager.registry import OVERLOADS


class OpOverload:
    """One overload of an op.

    Attributes:
        _schema: its parsed schema; ``str(overload)`` is ``"aten.add.Tensor"``.
    """

    def __init__(self, packet, definition, form="function"):
        self._packet = packet
        self._schema = definition.schema
        self._overloadname = definition.schema.overload or "default"
        self._bound = Bound(definition, "self")
        self._form = form

    def __call__(self, *args, **kwargs):
        out = kwargs.pop("out", None)
        values = self._bound.bind(args, kwargs)
        if values is None:
            raise TypeError(f"{self}() got arguments that do not fit its schema {self._schema}")
        return self._bound.invoke(values, self._form == "inplace", out)

    @property
    def overloadpacket(self):
        return self._packet

    @property
    def __name__(self):
        return f"{self._packet.__name__}.{self._overloadname}"

    def name(self):
        """The qualified name, ``"aten::add.Tensor"``."""
        suffix = "" if self._overloadname == "default" else f".{self._overloadname}"
        return f"aten::{self._packet.__name__}{suffix}"

    def __str__(self):
        return f"aten.{self.__name__}"

    def __repr__(self):
        return f"<OpOverload(op='aten.{self._packet.__name__}', overload='{self._overloadname}')>"


class OpOverloadPacket:
    """All overloads of a name; calling it picks one by the arguments."""

    def __init__(self, name, definitions, form):
        self.__name__ = name
        self._overloads = {
            d.schema.overload or "default": OpOverload(self, d, form) for d in definitions
        }

    def overloads(self):
        """The names of the overloads."""
        return list(self._overloads)

    def __getattr__(self, name):
        try:
            return self.__dict__["_overloads"][name]
        except KeyError:
            raise AttributeError(
                f"The underlying op of 'aten.{self.__dict__['__name__']}' has no overload name "
                f"'{name}'"
            ) from None

    def __call__(self, *args, **kwargs):
        for overload in self._overloads.values():
            if overload._bound.bind(args, {k: v for k, v in kwargs.items() if k != "out"}) is not None:
                return overload(*args, **kwargs)
        raise TypeError(f"aten::{self.__name__}() got arguments that fit none of its overloads")

    def __str__(self):
        return f"aten.{self.__name__}"

    def __repr__(self):
        return f"<OpOverloadPacket(op='aten.{self.__name__}')>"


class _Namespace(types.ModuleType):
    @functools.cache
    def _packet(self, name):
        if name in OVERLOADS:
            return OpOverloadPacket(name, OVERLOADS[name], "function")
        base = name.removesuffix("_")
        own = [d for d in OVERLOADS.get(base, ()) if "inplace" in d.forms]
        if base != name and own:
            return OpOverloadPacket(name, own, "inplace")
        return None

    def __getattr__(self, name):
        packet = None if name.startswith("__") else self._packet(name)
        if packet is None:
            raise AttributeError(f"'_OpNamespace' '{self.__name__}' object has no attribute '{name}'")
        return packet

    def __dir__(self):
        return sorted(OVERLOADS)


class _Ops(types.ModuleType):
    """The root: ``aten`` and ``prims`` hold the same ops."""

    def __init__(self):
        super().__init__("torch.ops")
        self.aten = _Namespace("aten")
        self.prims = self.aten


ops = _Ops()
