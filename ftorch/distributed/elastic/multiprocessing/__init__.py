"""Workers and their errors (``torch.distributed.elastic.multiprocessing``)."""

from . import errors
from .api import RunProcsResult, SignalException, Std, to_map
from .errors import ChildFailedError, ProcessFailure, record

__all__ = [
    "ChildFailedError", "ProcessFailure", "RunProcsResult", "SignalException", "Std", "errors", "record",
    "to_map",
]
