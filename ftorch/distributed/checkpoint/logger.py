"""Records of saving and loading: when it began and ended, and what failed."""

from __future__ import annotations

import functools
import logging
import time
from typing import Any
from uuid import uuid4

from .. import c10d_logger
from .logging_handlers import DCP_LOGGER_NAME

__all__: list[str] = []

logger = logging.getLogger()
_dcp_logger = c10d_logger._get_or_create_logger(DCP_LOGGER_NAME)


def _msg_dict_from_dcp_method_args(*args, **kwargs) -> dict[str, Any]:
    names = ("storage_writer", "storage_reader", "planner")
    given = {name: kwargs[name] for name in names if kwargs.get(name)}
    storage = given.get("storage_writer") or given.get("storage_reader")
    name = kwargs.get("checkpoint_id") or getattr(storage, "checkpoint_id", None)
    return {
        "checkpoint_id": None if name is None else str(name), "uuid": str(uuid4().int),
        **{key: type(value).__name__ for key, value in given.items()},
    }


def _get_msg_dict(func_name, *args, **kwargs) -> dict[str, Any]:
    return _msg_dict_from_dcp_method_args(*args, **kwargs) | c10d_logger._get_msg_dict(func_name, *args, **kwargs)


def _dcp_method_logger(log_exceptions: bool = False, **wrapper_kwargs: Any):
    """A function's beginning, end and (with ``log_exceptions``) error are recorded."""
    def decorator(func):
        @functools.wraps(func)
        def wrapper(*args, **kwargs):
            row = _get_msg_dict(func.__name__, *args, **{**wrapper_kwargs, **kwargs})
            began = time.time_ns()
            row |= {"event": "start", "time": began, "log_exceptions": log_exceptions}
            _dcp_logger.debug(dict(row))
            try:
                result = func(*args, **kwargs)
            except BaseException as error:
                if log_exceptions:
                    _dcp_logger.error(row | {"event": "exception", "error": f"{error}", "time": time.time_ns()})
                raise
            ended = time.time_ns()
            _dcp_logger.debug(row | {"event": "end", "time": ended, "times_spent": ended - began})
            return result

        return wrapper

    return decorator


def _init_logger(rank: int) -> None:
    """Shows what is logged on the console, with the rank."""
    logger.setLevel(logging.INFO)
    handler = logging.StreamHandler()
    handler.setLevel(logging.INFO)
    handler.setFormatter(logging.Formatter(f"[{rank}] %(asctime)s - %(name)s - %(levelname)s - %(message)s"))
    logger.addHandler(handler)
