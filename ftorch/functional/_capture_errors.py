"""Exceptions of captures that graphs raise, too; users find them in ``torch._dynamo.exc``."""

from __future__ import annotations

_MODULE = __name__.replace("functional._capture_errors", "_dynamo.exc")


class TorchDynamoException(RuntimeError):
    """The base of all of them."""

    __module__ = _MODULE


class UncapturedHigherOrderOpError(TorchDynamoException):
    """A function of a control flow operator that a graph cannot hold."""

    __module__ = _MODULE
