"""``torch._logging.scribe``: events for a service that only PyTorch's own continuous integration has; here they go nowhere."""

from __future__ import annotations

from collections.abc import Callable


def make_scribe_logger(name: str, thrift_src: str) -> Callable[..., None]:
    """A function that takes an event's fields and drops them.

    >>> from ftorch._logging.scribe import make_scribe_logger
    >>> make_scribe_logger("Events", "struct Event {}")(commit="1a2b")
    """
    def send(**fields) -> None:
        pass

    return send


open_source_signpost = make_scribe_logger("TorchOpenSourceSignpost", "")
