"""``GradScaler``: keeps gradients in the range of half precision by scaling the loss."""

from __future__ import annotations

import collections
import enum
import warnings
from collections.abc import Iterable

from ..eager.core import api as torch
from ..eager.runtime import capture_trace
from ..eager.tensor import Tensor

__all__ = ["GradScaler", "OptState"]


class OptState(enum.Enum):
    """What was last done with an optimizer."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _fresh_state():
    return {"stage": OptState.READY, "found_inf": None}


class GradScaler:
    """Scales losses up and gradients down, skips steps with infinities, and adapts the scale.

    Args:
        device: the device type; for "cuda" without a GPU the scaler is disabled.
        init_scale: the first scale.
        growth_factor: what the scale is multiplied by after ``growth_interval`` good steps in a row.
        backoff_factor: what it is multiplied by after a step with infinities or NaNs.
        enabled: False makes every method pass things through.

    >>> import ftorch as torch
    >>> scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    >>> w = torch.ones(1, requires_grad=True)
    >>> optimizer = torch.optim.SGD([w], lr=0.5)
    >>> scaler.scale(w.sum()).backward()
    >>> w.grad
    tensor([8.])
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> w
    tensor([0.5000], requires_grad=True)
    """

    def __init__(self, device="cuda", init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5,
                 growth_interval=2000, enabled=True):
        self._device = device
        self._enabled = enabled
        if device == "cuda" and enabled:
            from ..cuda import is_available

            if not is_available():
                warnings.warn(
                    "torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.",
                    stacklevel=2,
                )
                self._enabled = False
        if self._enabled:
            if growth_factor <= 1.0:
                raise AssertionError("The growth factor must be > 1.0.")
            if backoff_factor >= 1.0:
                raise AssertionError("The backoff factor must be < 1.0.")
            self._init_scale = init_scale
            self._scale: Tensor | None = None
            self._growth_factor = growth_factor
            self._backoff_factor = backoff_factor
            self._growth_interval = growth_interval
            self._init_growth_tracker = 0
            self._growth_tracker: Tensor | None = None
            self._per_optimizer_states: dict = collections.defaultdict(_fresh_state)

    def _make_scale(self, where):
        with capture_trace.outside_capture():
            self._make_scale_now(where)

    def _make_scale_now(self, where):
        self._scale = torch.full((), self._init_scale, dtype=torch.tensor(0.0).dtype, device=where)
        self._growth_tracker = torch.full(
            (), self._init_growth_tracker, dtype=torch.tensor(0).int().dtype, device=where
        )

    def scale(self, outputs):
        """A tensor, or nested iterable of tensors, times the scale.

        Raises:
            ValueError: for anything else.
        """
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            if self._scale is None:
                self._make_scale(outputs.device)
            return outputs * self._scale.to(device=outputs.device, non_blocking=True)
        if isinstance(outputs, Iterable) and not isinstance(outputs, str):
            scaled = [self.scale(v) for v in outputs]
            return type(outputs)(scaled) if isinstance(outputs, (list, tuple)) else scaled
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def _check_scale(self, what):
        if self._scale is None:
            raise AssertionError(
                f"Attempted {what} but _scale is None.  This may indicate your script did not use "
                "scaler.scale(loss or outputs) earlier in the iteration."
            )

    def unscale_(self, optimizer) -> None:
        """Divides the gradients of an optimizer's parameters by the scale, and looks for infinities.

        Raises:
            RuntimeError: if it was done since the last `update`, or after `step`.
            ValueError: for float16 gradients.
        """
        if not self._enabled:
            return
        self._check_scale("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.UNSCALED:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        from ..autograd.grad_mode import no_grad

        with no_grad():
            inverse = self._scale.double().reciprocal().float()
            state["found_inf"] = self._unscale(optimizer, inverse)
        state["stage"] = OptState.UNSCALED

    def _unscale_grads_(self, optimizer, inv_scale, found_inf, allow_fp16):
        """Multiplies the gradients by ``inv_scale``; {device: ``found_inf``, or 1.0 where one of them was infinite or NaN}.

        Raises:
            ValueError: for float16 gradients, unless ``allow_fp16``.
        """
        bad: dict = {}
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                grad = parameter.grad
                if grad is None:
                    continue
                if not allow_fp16 and str(grad.dtype) == "torch.float16":
                    raise ValueError("Attempting to unscale FP16 gradients.")
                if grad.is_sparse and str(grad.dtype) == "torch.float16":  # sums of one place might overflow later
                    grad = parameter.grad = grad.coalesce()
                values = grad._values() if grad.is_sparse else grad
                bad.setdefault(grad.device, []).append(values.isfinite().all().logical_not())
                values.mul_(inv_scale.to(grad.device))
        found = {}
        for device, flags in bad.items():
            before = found_inf.to(device)
            found[device] = torch.where(torch.stack(flags).any(), torch.ones_like(before), before)
        return found

    def _unscale(self, optimizer, inverse):
        """Multiplies the gradients; 1.0 where one was infinite or NaN, else 0.0 (on the device)."""
        none = torch.zeros((), dtype=inverse.dtype, device=inverse.device)
        found = [f.to(inverse.device) for f in self._unscale_grads_(optimizer, inverse, none, False).values()]
        if len(found) > 1:
            return torch.stack(found).amax()
        return found[0] if found else None

    def step(self, optimizer, *args, **kwargs):
        """``optimizer.step()`` unless a gradient is infinite or NaN; unscales first if need be.

        Raises:
            RuntimeError: with a closure, or if it was done since the last `update`.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._check_scale("step")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if state["stage"] is OptState.READY:
            self.unscale_(optimizer)
        if state["found_inf"] is None:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        result = None
        if capture_trace.capturing() is not None and hasattr(optimizer, "_ftorch_rule"):
            # In a compiled step the update itself looks at the flag.
            optimizer.found_inf = state["found_inf"]
            try:
                result = optimizer.step(*args, **kwargs)
            finally:
                del optimizer.found_inf
        elif not state["found_inf"].item():
            result = optimizer.step(*args, **kwargs)
        state["stage"] = OptState.STEPPED
        return result

    def update(self, new_scale=None) -> None:
        """Adapts the scale after the steps of an iteration, or sets it.

        Raises:
            AssertionError: if no gradients were looked at.
        """
        if not self._enabled:
            return
        self._check_scale("update")
        if new_scale is not None:
            if isinstance(new_scale, Tensor):
                self._scale.copy_(new_scale)
            else:
                self._scale.fill_(new_scale)
        else:
            found = [s["found_inf"] for s in self._per_optimizer_states.values() if s["found_inf"] is not None]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update.")
            if capture_trace.capturing() is not None:
                self._adapt_recorded(torch.stack(found).any())
            else:
                self._adapt(any(f.item() for f in found))
        self._per_optimizer_states = collections.defaultdict(_fresh_state)

    def _adapt(self, found_inf):
        if found_inf:
            self._scale.mul_(self._backoff_factor)
            self._growth_tracker.zero_()
            return
        good = int(self._growth_tracker.item()) + 1
        if good == self._growth_interval:
            grown = self._scale * self._growth_factor
            if bool(grown.isfinite()):
                self._scale.copy_(grown)
            good = 0
        self._growth_tracker.fill_(good)

    def _adapt_recorded(self, found_inf):
        """`_adapt` by tensor operations, for a compiled step."""
        good = self._growth_tracker + 1
        grows = good == self._growth_interval
        grown = self._scale * self._growth_factor
        grown = torch.where(grows & grown.isfinite(), grown, self._scale)
        self._scale.copy_(torch.where(found_inf, self._scale * self._backoff_factor, grown))
        self._growth_tracker.copy_(torch.where(found_inf | grows, torch.zeros_like(good), good))

    def get_scale(self) -> float:
        """The scale, 1.0 if disabled."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def get_growth_factor(self) -> float:
        """What the scale grows by."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Sets what the scale grows by."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """What the scale shrinks by."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Sets what the scale shrinks by."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """After how many good steps in a row the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Sets after how many good steps in a row the scale grows."""
        self._growth_interval = new_interval

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        if self._growth_tracker is None:
            return self._init_growth_tracker
        return int(self._growth_tracker.item())

    def is_enabled(self) -> bool:
        """Whether the scaler does anything."""
        return self._enabled

    def state_dict(self) -> dict:
        """The state for checkpoints; empty if disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict) -> None:
        """Continues from `state_dict`.

        Raises:
            RuntimeError: for an empty one, of a disabled scaler.
        """
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled "
                "instance of GradScaler."
            )
        self._init_scale = state_dict["scale"]
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._scale is not None:
            self._scale.fill_(self._init_scale)
            self._growth_tracker.fill_(self._init_growth_tracker)

    def __getstate__(self):
        state = self.__dict__.copy()
        if self._enabled:
            if self._per_optimizer_states:
                raise AssertionError(
                    "A GradScaler instance may only be pickled at the beginning of an iteration, or "
                    "at the end after scaler.update()."
                )
            state["_init_scale"] = self.get_scale()
            state["_init_growth_tracker"] = self._get_growth_tracker()
            state["_scale"] = state["_growth_tracker"] = None
        return state
