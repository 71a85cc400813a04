"""Kernels chosen by trying (``torch.cuda.tunable``): XLA tunes its own; settings are kept without effect."""

from __future__ import annotations

_settings = {
    "enabled": False, "tuning": True, "record_untuned": False, "max_tuning_duration": 30,
    "max_tuning_iterations": 100, "filename": "tunableop_results.csv",
}


def enable(val: bool = True) -> None:
    """Notes whether tuned kernels are wanted."""
    _settings["enabled"] = bool(val)


def is_enabled() -> bool:
    """What was given to `enable`."""
    return bool(_settings["enabled"])


def tuning_enable(val: bool = True) -> None:
    """Notes whether kernels are to be tried."""
    _settings["tuning"] = bool(val)


def tuning_is_enabled() -> bool:
    """What was given to `tuning_enable`."""
    return bool(_settings["tuning"])


def set_max_tuning_duration(duration: int) -> None:
    """Notes a bound in milliseconds."""
    _settings["max_tuning_duration"] = duration


def get_max_tuning_duration():
    """What was given to `set_max_tuning_duration`."""
    return _settings["max_tuning_duration"]


def set_max_tuning_iterations(iterations: int) -> None:
    """Notes a bound on tries."""
    _settings["max_tuning_iterations"] = iterations


def get_max_tuning_iterations():
    """What was given to `set_max_tuning_iterations`."""
    return _settings["max_tuning_iterations"]


def set_filename(filename: str, insert_device_ordinal: bool = False) -> None:
    """Notes where results are to be kept."""
    _settings["filename"] = filename


def get_filename():
    """What was given to `set_filename`."""
    return _settings["filename"]


def get_results() -> tuple:
    """Nothing: XLA keeps its choices in its compiled programs."""
    return ()


def get_validators() -> tuple:
    """Nothing: see `get_results`."""
    return ()
