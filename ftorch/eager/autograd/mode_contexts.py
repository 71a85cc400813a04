"""Grad modes that transforms set while they run: inference mode, no hooks on saved tensors, and writes that nobody counts."""

from __future__ import annotations

from ..memory.storage import INFERENCE
from ..native.contexts import repeatable
from ..runtime.trace import set_birth
from ..tensor import counter_of, modes


class InferenceMode:
    """See `ftorch.inference_mode`, which decorates functions, too."""

    def __init__(self, mode: bool = True):
        self.mode = mode
        self.previous = (modes.grad, modes.inference)

    def __enter__(self):
        self.previous = (modes.grad, modes.inference)
        try:
            self._set(self.mode)
            modes.grad = not self.mode
        except BaseException:
            self.__exit__(None, None, None)
            raise

    @repeatable
    def __exit__(self, *_):
        modes.grad, inference = self.previous
        self._set(inference)

    @staticmethod
    def _set(inference):
        modes.inference = inference
        set_birth(INFERENCE if inference else 0)


class UncountedWrites:
    """See `ftorch.autograd._unsafe_preserve_version_counter`, which decorates functions, too."""

    def __init__(self, tensors):
        counters = [counter_of(t) for t in tensors]
        self.versions = [(counter, counter.version) for counter in counters]

    def __enter__(self):
        pass

    @repeatable
    def __exit__(self, *_):
        for counter, version in self.versions:
            counter.version = version


class DisabledSavedTensorsHooks:
    """See `ftorch.autograd.graph.disable_saved_tensors_hooks`, which decorates functions, too."""

    def __init__(self, error_message):
        self.error_message, self.outer = error_message, modes.saved_hooks

    def __enter__(self):
        self.outer = modes.saved_hooks
        if self.outer:
            raise RuntimeError(self.error_message)
        modes.saved_hooks = _Forbidden(self.error_message)

    @repeatable
    def __exit__(self, *_):
        modes.saved_hooks = self.outer


class _Forbidden(list):
    def __init__(self, message):
        super().__init__()
        self.message = message

    def __add__(self, _):
        raise RuntimeError(self.message)
