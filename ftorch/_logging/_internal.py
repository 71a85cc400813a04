"""Loggers by the kind of what they say (``torch._logging._internal``), and events for programs that read logs."""

from __future__ import annotations

import dataclasses
import functools
import json
import logging
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from ..eager.native.contexts import contextmanager
from ..jit.graphs.logs import set_logs

__all__ = [
    "LazyString", "LogRegistry", "dtrace_structured", "getArtifactLogger", "get_loggers", "get_structured_logging_overhead",
    "hide_warnings", "log_registry", "register_artifact", "register_log", "set_logs", "trace_structured",
    "trace_structured_artifact", "warning_once",
]

trace_log = logging.getLogger("torch.__trace")  # events, one record each; silent until somebody gives it a handler
trace_log.propagate = False
LOG_ENV_VAR, LOG_OUT_ENV_VAR, LOG_FORMAT_ENV_VAR = "TORCH_LOGS", "TORCH_LOGS_OUT", "TORCH_LOGS_FORMAT"
TRACE_ENV_VAR, DTRACE_ENV_VAR = "TORCH_TRACE", "TORCH_DTRACE"
DEFAULT_LOG_LEVEL = logging.WARNING


@dataclasses.dataclass
class LogRegistry:
    """Which loggers there are: those of parts, by a short name, and those of kinds of messages (artifacts)."""

    log_alias_to_log_qnames: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    artifact_log_qnames: set[str] = dataclasses.field(default_factory=set)
    artifact_names: set[str] = dataclasses.field(default_factory=set)
    visible_artifacts: set[str] = dataclasses.field(default_factory=set)
    artifact_descriptions: dict[str, str] = dataclasses.field(default_factory=dict)
    off_by_default_artifact_names: set[str] = dataclasses.field(default_factory=set)
    artifact_log_formatters: dict[str, logging.Formatter] = dataclasses.field(default_factory=dict)

    def is_artifact(self, name: str) -> bool:
        """Whether it is a kind of messages."""
        return name in self.artifact_names

    def is_log(self, alias: str) -> bool:
        """Whether it is a part's short name."""
        return alias in self.log_alias_to_log_qnames

    def is_off_by_default(self, artifact_qname: str) -> bool:
        """Whether a kind is silent even where its part says everything."""
        return artifact_qname in self.off_by_default_artifact_names

    def get_log_qnames(self) -> set[str]:
        """The loggers of all parts."""
        return {name for names in self.log_alias_to_log_qnames.values() for name in names}

    def get_artifact_log_qnames(self) -> set[str]:
        """The loggers that `getArtifactLogger` has given."""
        return set(self.artifact_log_qnames)


log_registry = LogRegistry()


def get_loggers() -> list[logging.Logger]:
    """The loggers of all parts."""
    return [logging.getLogger(name) for name in sorted(log_registry.get_log_qnames())]


def register_log(setting_name: str, log_name: str | list[str]) -> None:
    """Names the loggers of a part.

    Args:
        setting_name: the short name, as in ``TORCH_LOGS``.
        log_name: the logger's full name, or several.
    """
    names = [log_name] if isinstance(log_name, str) else log_name
    log_registry.log_alias_to_log_qnames[setting_name] = list(names)


def register_artifact(setting_name: str, description: str, visible: bool = False, off_by_default: bool = False,
                      log_format: str | None = None) -> None:
    """Names a kind of messages, for `getArtifactLogger`.

    Args:
        visible: whether help lists it.
        off_by_default: whether it is silent even where its part says everything.
        log_format: how `logging` formats its records.
    """
    log_registry.artifact_names.add(setting_name)
    log_registry.artifact_descriptions[setting_name] = description
    if visible:
        log_registry.visible_artifacts.add(setting_name)
    if off_by_default:
        log_registry.off_by_default_artifact_names.add(setting_name)
    if log_format is not None:
        log_registry.artifact_log_formatters[setting_name] = logging.Formatter(log_format)


def getArtifactLogger(module_qname: str, artifact_name: str) -> logging.Logger:  # noqa: N802
    """The logger of a kind of messages in a module.

    Raises:
        ValueError: the kind is not registered.

    >>> import ftorch as torch
    >>> torch._logging.getArtifactLogger("torch.mine", "graph_breaks").name
    'torch.mine.__graph_breaks'
    """
    if artifact_name not in log_registry.artifact_names:
        raise ValueError(
            f"Artifact name: {repr(artifact_name)} not registered,please call register_artifact({repr(artifact_name)}) in "
            "torch._logging.registrations."
        )
    name = f"{module_qname}.__{artifact_name}"
    log_registry.artifact_log_qnames.add(name)
    found = logging.getLogger(name)
    found.artifact_name = artifact_name  # type: ignore[attr-defined]
    return found


@functools.cache
def warning_once(logger_obj: logging.Logger, *args, **kwargs) -> None:
    """``logger_obj.warning(...)``, the first time that it is called with these arguments.

    >>> import logging
    >>> from ftorch._logging import warning_once
    >>> warning_once(logging.getLogger("doctest.once"), "said once")
    """
    logger_obj.warning(*args, **kwargs)


def safe_grad_filter(message, category, filename, lineno, file=None, line=None) -> bool:
    """Whether a warning is not the one about ``.grad`` of tensors that are no leaves: for `hide_warnings`."""
    return "The .grad attribute of a Tensor" not in str(message)


def user_warning_filter(message, category, filename, lineno, file=None, line=None) -> bool:
    """Whether a warning is not a `UserWarning`: for `hide_warnings`."""
    return category is not UserWarning


@contextmanager
def hide_warnings(filter_fn: Callable[..., bool] = lambda *args, **kwargs: True) -> Iterator[None]:
    """Shows those warnings only for which a function of ``warnings.showwarning``'s arguments is true.

    >>> import warnings
    >>> from ftorch._logging import hide_warnings
    >>> with warnings.catch_warnings(), hide_warnings(lambda message, *place: "noise" not in str(message)):
    ...     warnings.simplefilter("always")
    ...     warnings.warn("noise")
    """
    shown = warnings.showwarning

    def showwarning(*args, **kwargs):
        if filter_fn(*args, **kwargs):
            shown(*args, **kwargs)

    warnings.showwarning = showwarning
    try:
        yield
    finally:
        warnings.showwarning = shown


class LazyString:
    """A text that is made when it is written.

    >>> from ftorch._logging import LazyString
    >>> str(LazyString("{} of {}".format, 1, 2))
    '1 of 2'
    """

    def __init__(self, func: Callable[..., str], *args, **kwargs):
        self.func, self.args, self.kwargs = func, args, kwargs

    def __str__(self) -> str:
        return self.func(*self.args, **self.kwargs)


def get_structured_logging_overhead() -> float | None:
    """Seconds that events took within the running compilation: None, as none is timed."""


def trace_structured(name: str, metadata_fn: Callable[[], Any] = dict, *, payload_fn: Callable[[], Any] = lambda: None,
                     suppress_context: bool = False, expect_trace_id: bool = True, record_logging_overhead: bool = True,
                     compile_id=None) -> None:
    """Gives an event to the handlers of the logger ``torch.__trace``; costs next to nothing where it has none.

    The record's attribute ``metadata`` is ``{name: metadata_fn()}``, ``payload`` what ``payload_fn`` gives: text, or an object
    that is written as JSON.

    >>> from ftorch._logging import trace_structured
    >>> trace_structured("artifact", lambda: {"name": "mine"}, payload_fn=lambda: "text")
    """
    if not trace_log.handlers:
        return
    record: dict[str, Any] = {name: metadata_fn()}
    if compile_id is not None and not suppress_context:
        record["compile_id"] = str(compile_id)
    payload = payload_fn()
    if payload is not None and not isinstance(payload, str):
        payload = json.dumps(payload, indent=0)
    trace_log.debug("", extra={"metadata": record, "payload": payload}, stacklevel=2)


def trace_structured_artifact(name: str, encoding: str, payload_fn: Callable[[], Any] = lambda: None, compile_id=None) -> None:
    """`trace_structured` of a piece of text: a graph, a table."""
    trace_structured("artifact", lambda: {"name": name, "encoding": encoding}, payload_fn=payload_fn, compile_id=compile_id)


dtrace_structured = trace_structured
