"""``detect_anomaly``: errors in backward show where forward was called; NaNs are found."""

from __future__ import annotations

import warnings

from ..eager.native.contexts import repeatable
from ..eager.tensor import modes


class set_detect_anomaly:
    """Switches anomaly detection on or off; restores it when used as a context."""

    def __init__(self, mode: bool, check_nan: bool = True):
        self.previous = modes.anomaly
        modes.anomaly = ("nan" if check_nan else "trace") if mode else False

    def __enter__(self):
        return None

    @repeatable
    def __exit__(self, *_):
        modes.anomaly = self.previous


class detect_anomaly:
    """Finds the forward call of a node that fails, or gives NaN, in backward."""

    def __init__(self, check_nan: bool = True):
        self.check_nan = check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only "
            "be enabled for debugging.",
            stacklevel=2,
        )

    def __enter__(self):
        self.previous = modes.anomaly
        modes.anomaly = "nan" if self.check_nan else "trace"

    @repeatable
    def __exit__(self, *_):
        modes.anomaly = self.previous


def is_anomaly_enabled() -> bool:
    """Whether anomaly detection is on in this thread."""
    return bool(modes.anomaly)


def is_anomaly_check_nan_enabled() -> bool:
    """Whether it also looks for NaN."""
    return modes.anomaly != "trace"


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Switches anomaly detection on or off."""
    modes.anomaly = ("nan" if check_nan else "trace") if mode else False
