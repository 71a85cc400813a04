"""How precisely products of float32 are made, by device and operation: ``fp32_precision`` in `ftorch.backends`.

A setting that is ``"none"`` is that of the level above: an operation's is its device's, a device's that of all. That of
GPUs' matrix products is JAX's setting (`torch.set_float32_matmul_precision`), that of GPUs' convolutions is said by each
of them; the others are remembered.
"""

from __future__ import annotations

import jax

from ..eager.call import op as _op
from ..eager.dynamic_shapes import traces as _traces
from ..eager.kernels.nn import conv_xla as _convolutions
from ..eager.runtime import executor as _executor
from ..eager.runtime import program as _program
from ..eager.surface import settings as _settings

_KNOWN = ("none", "ieee", "tf32", "bf16")
# Set values by (device, operation); what is not there was never set. PyTorch's mkldnn shares that of all.
_values: dict[tuple[str, str], str] = {}
_seen = [0]  # how often the older setting had been set
_LEGACY = {"highest": ("ieee", "ieee"), "high": ("tf32", "tf32"), "medium": ("tf32", "bf16")}  # (cuda, mkldnn)


def _sync():
    """Takes over what `torch.set_float32_matmul_precision` set meanwhile."""
    if _settings.precision_set != _seen[0]:
        _seen[0] = _settings.precision_set
        set_by_it = _LEGACY[_settings.get_float32_matmul_precision()]
        _values["cuda", "matmul"], _values["mkldnn", "matmul"] = set_by_it


def get(device: str, operation: str = "all") -> str:
    """The precision of an operation ("matmul", "conv", "rnn") or of all, on "cuda", "mkldnn" or "generic"."""
    _sync()
    if device == "mkldnn" and operation == "all":
        device = "generic"
    ladder = [("generic", "all")]
    if device == "cuda":
        ladder.insert(0, ("cuda", "all"))
    if operation != "all":
        ladder.insert(0, (device, operation))
    found = next((v for key in ladder if (v := _values.get(key, "none")) != "none"), "none")
    if found == "bf16" and device == "cuda":
        return "none"
    if found == "none" and device == "cuda" and operation in ("conv", "rnn") and (device, operation) not in _values:
        return "tf32"  # as PyTorch starts
    return found


def put(device: str, operation: str, precision: str) -> None:
    """Sets a precision.

    Raises:
        RuntimeError: there is no such precision, or not on GPUs.
    """
    _sync()
    if precision not in _KNOWN:
        raise RuntimeError(f"Unknown precision: {precision}")
    if device == "cuda" and precision == "bf16":
        raise RuntimeError("backend 'cuda' does not support precision 'bf16'")
    _values["generic" if device == "mkldnn" and operation == "all" else device, operation] = precision
    wanted = "high" if get("cuda", "matmul") == "tf32" else "highest"
    if device != "mkldnn" and (wanted == "highest") != (_settings.get_float32_matmul_precision() == "highest"):
        _settings.set_float32_matmul_precision(wanted)
    _seen[0] = _settings.precision_set
    _tell_convolutions(get("cuda", "conv") == "tf32")


def _tell_convolutions(tf32):
    if tf32 == _convolutions.tf32:
        return
    _executor.flush()
    _convolutions.tf32 = tf32
    if _program.latest:  # an accelerator has programs that were traced with the other
        _op.clear_plans()
        _program.forget()
        _traces.forget()
        jax.clear_caches()


_allowed = [True]  # what `allow_tf32` of cuDNN was set to


def allows_tf32() -> bool:
    """Whether cuDNN's operations may use TF32: the older setting.

    Raises:
        RuntimeError: the newer ones say something else.
    """
    if any((get("cuda", operation) == "tf32") != _allowed[0] for operation in ("conv", "rnn")):
        raise RuntimeError(
            "PyTorch is checking whether allow_tf32 is enabled for cuDNN without a specific operator name,but the current "
            "flag(s) indicate that cuDNN conv and cuDNN RNN have different TF32 flags.This combination indicates that you "
            "have used a mix of the legacy and new APIs to set the TF32 flags. We suggest only using the new API to set the "
            "TF32 flag(s). See also: "
            "https://pytorch.org/docs/main/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices"
        )
    return _allowed[0]


def allow_tf32(whether: bool) -> None:
    """Sets the older setting, and with it the newer ones."""
    _allowed[0] = whether
    for operation in ("conv", "rnn"):
        put("cuda", operation, "tf32" if whether else "none")


class Precision:
    """An operation whose ``fp32_precision`` can be set: ``torch.backends.cudnn.conv``."""

    def __init__(self, device: str, operation: str):
        self._place = device, operation

    @property
    def fp32_precision(self) -> str:
        """ "ieee", "tf32", "bf16", or "none": as the level above says."""
        return get(*self._place)

    @fp32_precision.setter
    def fp32_precision(self, value: str):
        put(*self._place, value)
