"""Records of functions that fail in `torch.distributed`: with the group, its sizes and ranks."""

from __future__ import annotations

import functools
import logging
from typing import Any

from .logging_handlers import _log_handlers

__all__: list[str] = []

_DEFAULT_DESTINATION = "default"
_FORMAT = "%(asctime)s %(filename)s:%(lineno)s %(levelname)s p:%(processName)s t:%(threadName)s: %(message)s"


def _get_logging_handler(destination: str = _DEFAULT_DESTINATION) -> tuple[logging.Handler, str]:
    handler = _log_handlers[destination]
    return handler, f"{type(handler).__name__}-{destination}"


def _get_or_create_logger(destination: str = _DEFAULT_DESTINATION) -> logging.Logger:
    handler, name = _get_logging_handler(destination)
    handler.setFormatter(logging.Formatter(_FORMAT))
    logger = logging.getLogger(f"c10d-{name}")
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    logger.addHandler(handler)
    return logger


_c10d_logger = _get_or_create_logger()


def _get_msg_dict(func_name, *args, **kwargs) -> dict[str, Any]:
    from . import distributed_c10d as dist

    if not dist.is_initialized():
        return {"func_name": f"{func_name}"}
    group = kwargs.get("group") or kwargs.get("process_group")
    return {
        "func_name": f"{func_name}", "pg_name": f"{dist._get_process_group_name(kwargs.get('pg') or dist.group.WORLD)}",
        "backend": f"{dist.get_backend(group)}", "world_size": f"{dist.get_world_size()}",
        "group_size": f"{dist.get_world_size(group)}", "global_rank": f"{dist.get_rank()}",
        "local_rank": f"{dist.get_rank(group)}",
    }


def _exception_logger(func):
    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        try:
            return func(*args, **kwargs)
        except Exception as error:
            _c10d_logger.debug(_get_msg_dict(func.__name__, *args, **kwargs) | {"error": f"{error}"})
            raise

    return wrapper


def _time_logger(func):
    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        return func(*args, **kwargs)

    return wrapper
