"""What travels: functions with their arguments, results, and failures (``torch.distributed.rpc.internal``).

Objects are pickled; tensors travel beside the pickle as their bytes. Both ends of a connection have proved that
they know the launcher's token before anything is read.
"""

from __future__ import annotations

import io
import pickle
import traceback
from enum import Enum
from typing import Any, NamedTuple

import ftorch as torch

__all__ = ["PythonUDF", "RPCExecMode", "RemoteException", "deserialize", "serialize"]


class RPCExecMode(Enum):
    """How a function is called."""

    SYNC = "sync"
    ASYNC = "async"
    ASYNC_JIT = "async_jit"
    REMOTE = "remote"


class PythonUDF(NamedTuple):
    """A call."""

    func: Any
    args: tuple
    kwargs: dict


class RemoteException(NamedTuple):
    """A failure: its text, and its type if that can be pickled."""

    msg: str
    exception_type: Any


class _Pickler(pickle.Pickler):
    def __init__(self, file, tensors):
        super().__init__(file, 5)
        self.tensors = tensors

    def persistent_id(self, obj):
        """The number of a tensor."""
        if type(obj) in (torch.Tensor, torch.nn.Parameter) and not obj.is_sparse:
            self.tensors.append(obj)
            return len(self.tensors) - 1
        return None


class _Unpickler(pickle.Unpickler):
    def __init__(self, file, tensors):
        super().__init__(file)
        self.tensors = tensors

    def persistent_load(self, pid):
        """The tensor of a number."""
        return self.tensors[pid]


def serialize(obj) -> tuple[bytes, list]:
    """(the pickle, the tensors in it)"""
    buffer, tensors = io.BytesIO(), []
    _Pickler(buffer, tensors).dump(obj)
    return buffer.getvalue(), tensors


def deserialize(data: bytes, tensors: list):
    """The object of `serialize`."""
    return _Unpickler(io.BytesIO(data), tensors).load()


def tensor_bytes(t) -> list:
    """A tensor as values that `ftorch.distributed._wire` can send."""
    data = t.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return [str(t.dtype).removeprefix("torch."), list(t.shape), data.tobytes(), bool(t.requires_grad),
            type(t) is torch.nn.Parameter]


def tensor_of(values: list):
    """The tensor of `tensor_bytes`, without its history."""
    name, shape, data, _, _ = values
    dtype = getattr(torch, name)
    if not data:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(data), dtype=torch.uint8).view(dtype).reshape(shape)


def failure(error: BaseException, where) -> RemoteException:
    """What the caller is told."""
    text = f"On {where}:\n{error!r}\n{''.join(traceback.format_exception(error))}"
    kind = type(error)
    try:
        pickle.dumps(kind)
    except Exception:
        kind = RuntimeError
    return RemoteException(text, kind)


def raise_failure(result: RemoteException):
    """Raises the remote failure here, with its type and text.

    Raises:
        RuntimeError: in its place if its type cannot be made of a text.
    """
    try:
        error = result.exception_type(result.msg)
    except BaseException as wrong:
        raise RuntimeError(
            f"Failed to create original exception type. Error msg was {wrong!s} Original exception on remote "
            f"side was {result.msg}"
        ) from wrong
    raise error
