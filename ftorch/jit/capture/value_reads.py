"""Graph breaks at data-dependent values: captures go on where the function looks at a value.

With ``fullgraph=True`` PyTorch captures what a look gives (`item`, `nonzero`, masks) as a part of the
graph; it refuses what Python would decide by it (``if``). So does `LookingTrace`: the steps so far are run.
"""

from __future__ import annotations

from ..._dynamo import config, exc
from ...autograd.grad_mode import no_grad
from ...eager.core import device as _device
from ...eager.runtime import capture_trace
from ...eager.runtime.trace import Trace
from . import break_reasons

# What asks for a decision, and what PyTorch raises for it.
_REFUSED = {
    "equal": "Data dependent operator", "allclose": "Data dependent operator",
    "is_nonzero": "", "__contains__": "", "__index__": "",
}
_SCALARS = frozenset(("item", "__int__", "__float__", "__bool__", "tolist", "__format__", "_local_scalar_dense"))


class LookingTrace(capture_trace.CaptureTrace):
    """A capture that goes on after looks at values.

    Attributes:
        looked: whether there was one: the trace alone does not say what the function does.
        recorder: what notes the function's calls and is told of looks, or None.
        before: {id of a storage that was written to: (it, its array and version before)}.
    """

    def __init__(self, on_break, fullgraph, recorder=None):
        super().__init__(_device.CPU, on_break)
        self.fullgraph, self.looked = fullgraph, False
        self.recorder = recorder
        self.before: dict[int, tuple] = {}

    def overwritten(self, storage):
        if self.recorder is not None:
            self.before.setdefault(id(storage), (storage, storage.array, storage.version))

    def take_back(self) -> None:
        """Gives the storages that were written to what they had before."""
        for storage, array, version in self.before.values():
            storage.array, storage.trace, storage.version = array, None, version
        self.before = {}

    def forget(self) -> None:
        """Holds nothing of the calls any more: what else is alive is somebody's."""
        self.recorder.events.clear()
        self.before = {}

    def let_go(self) -> None:
        """Refers to nothing of the capture any more, which is over: tensors are freed without the garbage collector."""
        self.forget()
        self.recorder.root = None
        self.recorder = self.on_truth = self.watch = self.on_break = None

    def flush(self, again=False):
        if self.captures:
            frame, called = break_reasons.innermost()
            refusal = self._refusal(frame, called)
            if refusal is not None:
                self.end(refusal)
            else:
                self.looked = True
                if self.recorder is not None:
                    self.recorder.looked(called)
        elif self.recorder is not None and self.steps:
            self.recorder.ended(break_reasons.of_look())
        with capture_trace.unwatched():
            Trace.flush(self, again)

    def end(self, reason):
        if self.recorder is not None and reason != "an exception was raised":
            self.recorder.ended(break_reasons.describe(reason))
        super().end(reason)

    def _refusal(self, frame, called):
        """Why a look ends the capture, or None."""
        if not self.fullgraph and not (
            config.capture_scalar_outputs if called in _SCALARS
            else config.capture_dynamic_output_shape_ops
        ):
            return break_reasons.of_look()
        if frame is None:
            return None
        if called == "__bool__" and break_reasons.jump(frame) == "branch":
            return break_reasons.BRANCH
        if called == "tolist" and break_reasons.asked("tolist").dtype.is_floating_point:
            return break_reasons.of_look()
        title = _REFUSED.get(called)
        if title == "" and self.fullgraph:
            raise exc.UserError(break_reasons.guard_on(called))
        return None if title is None else break_reasons.of_operator(title, called)


def note_assertion(trace, t) -> bool:
    """Lets a program check what an ``assert`` asks of a tensor, rather than look at it.

    Returns:
        Whether the truth value of ``t`` is asked for by an ``assert``, with a constant message.
    """
    message = break_reasons.assertion()
    if message is None or t._ftorch_storage.trace is not trace:
        return False
    with no_grad():
        flag = t.reshape(()) != 0
    trace.assertions.append((flag, message))
    return True

