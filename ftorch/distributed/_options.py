"""What the methods of a `ProcessGroup` are told beside tensors (``AllreduceOptions`` and its sisters)."""

from __future__ import annotations

from datetime import timedelta

from ._reductions import ReduceOp


class _Options:
    """Attributes with defaults."""

    timeout: timedelta | None = None
    asyncOp = True
    _defaults: dict = {}

    def __init__(self, **given):
        for name, value in {**self._defaults, **given}.items():
            setattr(self, name, value)


def _options(name, **defaults):
    return type(name, (_Options,), {"_defaults": defaults, "__doc__": f"Options of ``{name[:-7]}``.",
                                    "__module__": "ftorch.distributed.distributed_c10d"})


AllreduceOptions = _options("AllreduceOptions", reduceOp=ReduceOp.SUM)
AllreduceCoalescedOptions = _options("AllreduceCoalescedOptions", reduceOp=ReduceOp.SUM)
AllgatherOptions = _options("AllgatherOptions")
AllToAllOptions = _options("AllToAllOptions")
BarrierOptions = _options("BarrierOptions", device_ids=None, device=None)
BroadcastOptions = _options("BroadcastOptions", rootRank=0, rootTensor=0)
GatherOptions = _options("GatherOptions", rootRank=0)
ReduceOptions = _options("ReduceOptions", reduceOp=ReduceOp.SUM, rootRank=0, rootTensor=0)
ReduceScatterOptions = _options("ReduceScatterOptions", reduceOp=ReduceOp.SUM)
ScatterOptions = _options("ScatterOptions", rootRank=0)
