"""Small functions of the top level: what a thing is, checks, and the ``sym_`` functions."""

from __future__ import annotations

import builtins
import importlib
import math
import os
from collections.abc import Callable

import numpy as np

from ..eager.core import device as _device
from ..eager.core import dtype as _dtype
from ..eager.core.geometry import has_internal_overlap
from ..eager.dispatch import overrides
from ..eager.tensor import Tensor
from ..eager.tensor_api.numpy_interop import from_numpy
from ..eager.tensor_api.storages import TypedStorage, UntypedStorage

__all__ = [
    "AcceleratorError", "compiled_with_cxx11_abi", "from_file", "get_device_module", "has_lapack",
    "has_mkl", "has_openmp", "has_spectral", "is_storage", "is_tensor",
    "sym_float", "sym_int", "sym_ite", "sym_max", "sym_min", "sym_not", "sym_sqrt",
    "sym_sum", "typename",
]


# What PyTorch was built with; here XLA, LAPACK through SciPy's, and threads of XLA's own.
has_lapack = has_spectral = True
has_mkl = has_openmp = False


class AcceleratorError(RuntimeError):
    """An error of an accelerator (``torch.AcceleratorError``)."""


def is_tensor(obj) -> builtins.bool:
    """Whether an object is a tensor.

    >>> import ftorch as torch
    >>> torch.is_tensor(torch.ones(1)), torch.is_tensor(1)
    (True, False)
    """
    return isinstance(obj, Tensor)


def is_storage(obj, /) -> builtins.bool:
    """Whether an object is a storage of a tensor."""
    return isinstance(obj, (TypedStorage, UntypedStorage))


def typename(obj, /) -> str:
    """The name of an object's type: ``"torch.FloatTensor"``, ``"torch.nn.modules.linear.Linear"``.

    >>> import ftorch as torch
    >>> torch.typename(torch.ones(1)), torch.typename(3)
    ('torch.FloatTensor', 'int')
    """
    if isinstance(obj, Tensor):
        return obj.type()
    module = getattr(obj, "__module__", "") or ""
    name = getattr(obj, "__qualname__", "")
    if not name:
        kind = obj.__class__
        module, name = kind.__module__ or "", kind.__qualname__
    return name if module in ("", "builtins") else f"{module}.{name}"


def get_device_module(device=None):
    """The module of a device type, ``torch.cuda``; of the accelerator here, or the CPU, by default.

    Raises:
        RuntimeError: for a device type without one.
    """
    if device is None:
        device = next((kind for kind in ("cuda", "tpu") if _device.jax_devices(kind)), "cpu")
    kind = _device.device(device).type if isinstance(device, str) else device.type
    try:
        return importlib.import_module(f"ftorch.{kind}")
    except ModuleNotFoundError:
        raise RuntimeError(
            f"Device '{kind}' does not have a corresponding module registered as 'torch.{kind}'."
        ) from None


def from_file(filename, shared=None, size=0, *, dtype=None, layout=None, device=None,
              pin_memory=False):
    """A tensor whose memory is a file's (``torch.from_file``).

    Args:
        shared: whether what is written to the tensor is written to the file, which is made or
            extended if it has not ``size`` elements.
        size: how many elements.

    Raises:
        RuntimeError: for a file that is too small.

    >>> import ftorch as torch, tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = torch.from_file(file.name, shared=True, size=3).fill_(2)
    ...     torch.from_file(file.name, size=2)
    tensor([2., 2.])
    """
    dtype = _dtype.get_default_dtype() if dtype is None else dtype
    if not size:
        return from_numpy(np.empty(0, dtype.numpy))
    needed = size * dtype.itemsize
    if shared:
        with open(filename, "ab") as file:
            if file.tell() < needed:
                file.truncate(needed)
    found = os.path.getsize(filename)
    if found < needed:
        raise RuntimeError(
            f"file <{filename}> size <{found}> is smaller than the required mapping size <{needed}>"
        )
    memory = np.memmap(filename, np.uint8, "r+" if shared else "c", shape=(needed,))
    result = from_numpy(np.asarray(memory)).view(dtype)
    return result if device is None else result.to(device)


def compiled_with_cxx11_abi() -> builtins.bool:
    """True, as for every PyTorch since 2.7; extensions in C++ cannot be loaded."""
    return True


# --- checks --------------------------------------------------------------------------


def _assert(condition, message) -> None:
    """``assert``, for code that is traced: what has a say (``__torch_function__``) is asked."""
    if type(condition) is not Tensor and overrides.asks(condition):
        return overrides.handle(_assert, [condition], (condition, message), {})
    assert condition, message


def _check_with(error_type, cond, message: Callable[[], str] | None = None) -> None:
    if not isinstance(cond, builtins.bool) and not hasattr(cond, "__sym_not__"):
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if cond:
        return
    if message is None:
        text = (
            "Expected cond to be True, but got False. (Could this error message be improved? If so, "
            "please report an enhancement request to PyTorch.)"
        )
    else:
        if not callable(message):
            raise TypeError("message must be a callable")
        text = str(message())
    raise error_type(text)


def _check(cond, message=None) -> None:
    """Raises RuntimeError, with ``message()``, unless ``cond``."""
    _check_with(RuntimeError, cond, message)


def _check_index(cond, message=None) -> None:
    """Raises IndexError, with ``message()``, unless ``cond``."""
    _check_with(IndexError, cond, message)


def _check_value(cond, message=None) -> None:
    """Raises ValueError, with ``message()``, unless ``cond``."""
    _check_with(ValueError, cond, message)


def _check_type(cond, message=None) -> None:
    """Raises TypeError, with ``message()``, unless ``cond``."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond, message=None) -> None:
    """Raises NotImplementedError, with ``message()``, unless ``cond``."""
    _check_with(NotImplementedError, cond, message)


def _assert_async(cond, message: str | None = None) -> None:
    """Raises RuntimeError unless the one element of a tensor is not zero."""
    if (n := cond.numel()) != 1:
        raise RuntimeError(f"Boolean value of Tensor with {'more than one value' if n else 'no values'} is ambiguous")
    if not cond.item():
        raise RuntimeError(message or "Expected Tensor with single nonzero value, but got zero")


def _debug_has_internal_overlap(self) -> int:
    """Whether elements of a tensor lie at one memory location: 0 if not, 1 if so, 2 where the strides do not tell at once."""
    where = self._ftorch_geometry
    return 0 if where.is_dense else 1 if has_internal_overlap(where) else 2


def _check_tensor_all_with(error_type, cond, message=None) -> None:
    """Raises an error, with ``message()``, unless all elements of a bool tensor are True."""
    if not is_tensor(cond):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if str(cond.dtype) != "torch.bool":
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    _check_with(error_type, cond._is_all_true().item(), message)


def _check_tensor_all(cond, message=None) -> None:
    """Raises RuntimeError, with ``message()``, unless all elements of a bool tensor are True."""
    _check_tensor_all_with(RuntimeError, cond, message)


def _check_is_size(i, message=None, *, max=None) -> None:
    """Raises RuntimeError unless ``i`` can be a size."""
    _check(i >= 0 and (max is None or i <= max), message)


# --- sym_: Python's own, where sizes may be symbols ----------------------------------


def sym_not(a):
    """``not a``."""
    return a.__sym_not__() if hasattr(a, "__sym_not__") else not a


def sym_float(a):
    """``float(a)``, of a symbol too."""
    return a.__sym_float__() if hasattr(a, "__sym_float__") else builtins.float(a)


def sym_int(a):
    """``int(a)``, towards zero."""
    if hasattr(a, "__sym_int__"):
        return a.__sym_int__()
    if isinstance(a, builtins.float):
        return math.floor(a) if a >= 0 else math.ceil(a)
    return builtins.int(a)


def _sym_extreme(python, name):
    def function(a, b):
        if hasattr(a, name):
            return getattr(a, name)(b)
        if hasattr(b, name):
            return getattr(b, name)(a)
        kinds = {type(a), type(b)}
        found = python(a, b)
        return builtins.float(found) if builtins.float in kinds else found

    return function


def sym_max(a, b):
    """``max(a, b)``, a float if either is."""
    return _sym_extreme(builtins.max, "__sym_max__")(a, b)


def sym_min(a, b):
    """``min(a, b)``, a float if either is."""
    return _sym_extreme(builtins.min, "__sym_min__")(a, b)


def sym_sum(args):
    """``sum(args)``."""
    first, *rest = args
    return builtins.sum(rest, first)


def sym_ite(b, t, f):
    """``t if b else f``, of values of one type.

    Raises:
        AssertionError: for other conditions and values.
    """
    if not isinstance(b, builtins.bool) and not hasattr(b, "__sym_ite__"):
        raise AssertionError(f"expected SymBool or bool, got {type(b)}")
    if type(t) is not type(f):
        raise AssertionError(f"type mismatch: {type(t)} vs {type(f)}")
    return b.__sym_ite__(t, f) if hasattr(b, "__sym_ite__") else t if b else f


def sym_sqrt(a):
    """``math.sqrt(a)``."""
    return a.__sym_sqrt__() if hasattr(a, "__sym_sqrt__") else math.sqrt(a)
