"""Operators that take functions (``torch._higher_order_ops``)."""

from .functional.control_flow import (  # noqa: F401
    associative_scan,
    cond,
    map,
    scan,
    while_loop,
)

__all__ = ["associative_scan", "cond", "map", "scan", "while_loop"]
