"""Logging of captures: ``TORCH_LOGS=recompiles,graph_breaks,graph_code`` and `set_logs`."""

from __future__ import annotations

import logging
import os
import re

from ..capture.break_reasons import describe

logger = logging.getLogger("torch._dynamo")
enabled: set[str] = set()
_NAMES = ("recompiles", "graph_breaks", "graph_code", "graph", "dynamo", "guards", "output_code")
_warned: set[str] = set()


def set_logs(**names) -> None:
    """Says which kinds of messages are logged from now on, and no others.

    Args:
        names: ``recompiles``, ``graph_breaks``, ``graph_code``, ``guards``: True or a level of `logging`.
            Other kinds of PyTorch's say nothing here.

    >>> import ftorch as torch
    >>> torch._logging.set_logs(recompiles=True, graph_breaks=True)
    >>> torch._logging.set_logs()
    """
    enabled.clear()
    enabled.update(name for name, on in names.items() if on)


def _from_environment():
    for name in os.environ.get("TORCH_LOGS", "").split(","):
        name = name.strip().lstrip("+-")
        if name in _NAMES:
            enabled.add(name)


_from_environment()


def _say(message):
    # Asked for: said even where nobody set up logging, as PyTorch does.
    logger.warning(message)


def recompile(name, reasons) -> None:
    """A call of a function fits none of its programs."""
    if "recompiles" in enabled:
        _say(f"Recompiling function {_placed(name)}\n    triggered by the following guard failure(s):\n"
             + "\n".join(f"    - {r}" for r in reasons))


def _placed(name):
    """``f in file:line`` for ``'f' (file:line)``."""
    own, _, place = name.partition("' (")
    return f"{own[1:]} in {place[:-1]}" if place else name


def graph_break(name, reason, where) -> None:
    """A function runs in Python."""
    if "graph_breaks" in enabled:
        line = re.search('File "(.+)", line (.+), in', where)
        place = ":".join(line.groups()) if line else _placed(name).rpartition(" in ")[2]
        _say(f"Graph break in user code at {place}\n"
             f"Graph Break Reason: {describe(reason)}\n"
             f"User code traceback:{where.partition('from user code:')[2]}")


def graph(captured) -> None:
    """A program was captured."""
    if enabled & {"graph_code", "graph", "output_code"}:
        from .graph_modules import graph_module

        _say(f"TRACED GRAPH\n{graph_module(captured).code}")
    if "guards" in enabled:
        _say("GUARDS\n" + "\n".join(captured.guards._texts))


def warn_limit(name, message) -> None:
    """The recompilation limit was hit: said once for each function."""
    if name not in _warned:
        _warned.add(name)
        logger.warning(message)
