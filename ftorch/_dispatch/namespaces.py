"""``torch.ops.aten`` and ``torch.ops.prims``: operators that are declared, and ATen's that are made of others."""

from __future__ import annotations

import functools

import ftorch as torch

from .._ops import REGISTERED, OpOverload, OpOverloadPacket, _OpNamespace, ops
from ..eager.core.registry import OVERLOADS
from . import aten, aten_schemas, out_overloads
from .function_overloads import METHODS


class _Aten(_OpNamespace):
    def _packet(self, name):
        return REGISTERED.get(f"aten::{name}") or self._method(name) or self._declared(name)

    def _method(self, name):
        return METHODS[name].overloadpacket if name in METHODS else None

    @functools.cache  # noqa: B019  (lives as long as the process)
    def _declared(self, name):
        form, definitions = "function", OVERLOADS.get(name)
        if aten.is_preferred(name):
            return aten.packet_of(name)
        if definitions is None:
            base = name.removesuffix("_")
            form = "inplace"
            definitions = [d for d in OVERLOADS.get(base, ()) if form in d.forms]
            if base == name or not definitions:
                return aten.packet_of(name)
        packet = OpOverloadPacket(name)
        for d in definitions:
            packet._overloads[d.schema.overload or "default"] = OpOverload(packet, d, form)
        return packet

    @staticmethod
    def _overload(packet, name):
        return out_overloads.overload_of(packet, name) or aten.overload_of(packet, name)

    @staticmethod
    def _overload_names(packet):
        return *aten_schemas.overload_names(packet.__name__), *out_overloads.names_of(packet)

    def __dir__(self):
        return sorted({*OVERLOADS, *super().__dir__()})


class _Prims(_Aten):
    """PyTorch's primitives; those that `_prims` does not define are ATen's operators of their names."""

    _overload = staticmethod(_OpNamespace._overload)
    _overload_names = staticmethod(_OpNamespace._overload_names)

    def _packet(self, name):
        known = torch._prims._ATEN  # the package registers them
        return REGISTERED.get(f"prims::{name}") or super()._packet(known.get(name, name))


_Aten.__name__ = _Prims.__name__ = "_OpNamespace"
ops._made.update(aten=_Aten("aten"), prims=_Prims("prims"))
