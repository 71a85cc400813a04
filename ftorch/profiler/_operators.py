"""``torch.ops.profiler``: named regions of a profile, entered and left by operators, as instrumented graphs do."""

from __future__ import annotations

import itertools

import numpy as np

from .._ops import REGISTERED, OpOverload, OpOverloadPacket
from .._quantized._tensor import ScriptObject
from ..eager.core.schema import parse
from ..eager.tensor import Tensor
from ..eager.tensor_api.numpy_interop import from_numpy
from ..library._schema import bind
from ._collector import record_function

_CLASS = "__torch__.torch.classes.profiler._RecordFunction"
_SIZE = 344  # the bytes of a handle, as PyTorch's
_open: dict[int, record_function] = {}  # by a handle's number
_numbers = itertools.count(1)


class _RecordFunction(ScriptObject):
    """A region that has been entered."""

    def __init__(self, region):
        self._region = region

    def __repr__(self):
        return f"ScriptObject <{_CLASS}>"


def _entered(name, args):
    region = record_function(name, args)
    region.__enter__()
    return region


def _enter(name, args):
    number = next(_numbers)
    _open[number] = _entered(name, args)
    handle = np.zeros(_SIZE, np.uint8)
    handle[:8] = np.frombuffer(np.int64(number).tobytes(), np.uint8)
    return from_numpy(handle)


def _leave(region):
    if region is not None:
        region.__exit__(None, None, None)


def _leave_handle(handle):
    _leave(_open.pop(int(handle.numpy()[:8].view(np.int64)[0]), None))


def _leave_record(record):
    if not isinstance(record, _RecordFunction):
        raise RuntimeError(
            "Overloaded torch operator invoked from Python failed to match any schema:\n"
            "profiler::_record_function_exit() Expected a value of type 'Tensor' for argument 'handle' but instead "
            f"found type '{type(record).__name__}'."
        )
    region, record._region = record._region, None  # leaving again does nothing
    _leave(region)


class _Overload(OpOverload):
    namespace = "profiler"

    def __init__(self, packet, schema, run):
        self._packet, self._schema, self._overloadname, self._run = packet, schema, schema.overload or "default", run

    def _call(self, args, kwargs):
        values, _ = bind(self.name(), self._schema, args, kwargs)
        return self._run(*values)


class _Operator(OpOverloadPacket):
    def __init__(self, *overloads):
        parsed = [(parse(f"profiler::{schema}"), run) for schema, run in overloads]
        super().__init__(parsed[0][0].name, "profiler")
        self._overloads = {s.overload or "default": _Overload(self, s, run) for s, run in parsed}
        REGISTERED[self._qualified_op_name] = self

    def _choose(self, args, kwargs):
        first, *others = self._overloads.values()
        given = next(iter((*args, *kwargs.values())), None)
        return others[0] if others and not isinstance(given, Tensor) else first


_Operator(("_record_function_enter(str name, str? args=None) -> Tensor", _enter))
_Operator((f"_record_function_enter_new(str name, str? args=None) -> {_CLASS}",
           lambda name, args: _RecordFunction(_entered(name, args))))
_Operator(("_record_function_exit(Tensor handle) -> ()", _leave_handle),
          (f"_record_function_exit._RecordFunction({_CLASS} record) -> ()", _leave_record))
