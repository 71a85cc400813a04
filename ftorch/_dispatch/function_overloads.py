"""Public functions and methods as overloads of ``torch.ops.aten``: those that are no ops of the engine."""

from __future__ import annotations

import operator
from types import SimpleNamespace

from .. import _ops
from ..eager.core.schema import parse, qualified


class FunctionOverload(_ops.OpOverload):
    """A public function or a method as an overload of ``torch.ops.aten``."""

    _bound = None  # it has no kernel of its own

    def __init__(self, name, function, schema=None, overload="default"):
        packet = _ops.OpOverloadPacket(name)
        packet._overloads[overload] = self
        self._packet, self._overloadname = packet, overload
        self._form = "inplace" if name.endswith("_") else "function"
        arguments = ()
        if self._form == "inplace":
            arguments = (parse(f"{name}(Tensor(a!) self) -> Tensor(a!)").arguments[0],)
        self._schema = schema and qualified(parse(schema)) or SimpleNamespace(
            name=f"aten::{name}", arguments=arguments, returns=(), is_view=False, overload_name="",
            is_mutable=bool(arguments),
        )
        self._function = function

    def _fits(self, args, kwargs) -> bool:
        return True  # the function says what it does not take

    def _call(self, args, kwargs):
        return self._function(*args, **kwargs)


def _to_copy(x, *, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False,
             memory_format=None):
    return x.to(device=device, dtype=dtype, memory_format=memory_format, copy=True)


METHODS = {
    "detach": FunctionOverload(
        "detach", lambda x: x.detach(), "aten::detach(Tensor(a) self) -> Tensor(a)"
    ),
    "_to_copy": FunctionOverload(
        "_to_copy", _to_copy,
        "aten::_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device"
        "=None, bool? pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None)"
        " -> Tensor",
    ),
    "_local_scalar_dense": FunctionOverload(
        "_local_scalar_dense", lambda x: x.item(), "aten::_local_scalar_dense(Tensor self) -> Scalar"
    ),
    "lift_fresh": FunctionOverload(
        "lift_fresh", lambda x: x, "aten::lift_fresh(Tensor(a) self) -> Tensor(a)"
    ),
    **{  # the parts of sparse tensors
        name: FunctionOverload(name, operator.methodcaller(name), f"aten::{name}(Tensor(a) self) -> Tensor(a)")
        for name in ("values", "indices", "crow_indices", "col_indices", "ccol_indices", "row_indices")
    },
}
