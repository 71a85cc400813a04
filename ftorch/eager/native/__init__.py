"""Kernels of this package for the CPU, in C++: matrix products, convolutions, max pooling, attention, the LSTM's loop, softmax,
normalization and sums in float32, cumulative functions, sorting, elements by index, bags of rows.

They are built when the package is installed, if there is a compiler; without one, XLA's are used. What is
recorded never names them: `rewrite.py` puts them into a program before XLA compiles it. With
``FTORCH_NATIVE=0`` in the environment they are not used.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
import warnings
from typing import Any

import jax
import numpy as np

from . import codes

_NAMES = (
    "ftorch_multiply",
    "ftorch_outer",
    "ftorch_convolve",
    "ftorch_convolve_pairs",
    "ftorch_weight_gradient",
    "ftorch_scan",
    "ftorch_sort",
    "ftorch_top",
    "ftorch_select",
    "ftorch_lstm",
    "ftorch_lstm_gradient",
    "ftorch_attention",
    "ftorch_attention_gradient",
    "ftorch_attention_mask_gradient",
    "ftorch_keep",
    "ftorch_put_part",
    "ftorch_take",
    "ftorch_add",
    "ftorch_add_to_zeros",
    "ftorch_bags",
    "ftorch_extremum",
    "ftorch_multiply_narrow",
    "ftorch_multiply_bytes",
    "ftorch_multiply_bfloat16",
    "ftorch_multiply_sparse",
    "ftorch_multiply_weights8",
    "ftorch_multiply_weights4",
    "ftorch_linear_dynamic",
    "ftorch_softmax",
    "ftorch_softmax_gradient",
    "ftorch_layer_norm",
    "ftorch_layer_norm_gradient",
    "ftorch_sum",
    "ftorch_max_pool",
    "ftorch_max_pool_gradient",
    "ftorch_group",
    "ftorch_elementwise",
    "ftorch_zero",
)
# What kernels compute in, where they do not say otherwise.
NUMBERS = tuple(map(np.dtype, (np.float32, np.float64, np.int32, np.int64)))
PARTS = {np.dtype(np.complex64): np.dtype(np.float32), np.dtype(np.complex128): np.dtype(np.float64)}  # of complex numbers
SUMMED = (*NUMBERS, *PARTS)  # dtypes of cumulative sums


def _register():
    """(the library, its custom calls known to XLA; it as a module); None without one."""
    spec = importlib.util.find_spec("._kernels", __name__)
    if spec is None or spec.origin is None or os.environ.get("FTORCH_NATIVE") == "0":
        return None, None
    try:
        found = importlib.import_module("._kernels", __name__)
        if others := codes.differing(found):
            raise ImportError(f"other numbers of {', '.join(others)}")
        if not hasattr(found, "name_type"):
            raise ImportError("it makes no public functions")
        found.set_brain(np.dtype(jax.numpy.bfloat16).num)
        library = ctypes.CDLL(spec.origin)
        for name in _NAMES:
            target = jax.ffi.pycapsule(getattr(library, name))
            jax.ffi.register_ffi_target(name, target, platform="cpu")
    except (ImportError, OSError, AttributeError, RuntimeError, ValueError) as error:
        warnings.warn(
            f"ftorch's kernels were built for another jaxlib, machine or version of its source ({error}); XLA's are used. "
            "Reinstall ftorch to build them anew.",
            stacklevel=2,
        )
        return None, None
    return library, found


_library: Any
module: Any  # programs and kernels that are called without XLA, or None
_library, module = _register()
available = _library is not None
multiplies_bfloat16 = available and bool(
    _library.ftorch_multiplies_bfloat16()
)  # whether the processor has instructions for it
multiplies_bytes = available and bool(_library.ftorch_multiplies_bytes())  # whether it has those for int8
_TYPES = {"p": ctypes.c_void_p, "n": ctypes.c_int64, "f": ctypes.c_float}


def call_in_c(cls: type, place: str, is_final: bool = True) -> None:
    """Lets CPython's errors call a class ``torch.place.Name``, as if it were written in C; of a final one none is derived."""
    if module is not None:
        module.name_type(cls, f"torch.{place}{cls.__name__}", is_final)


def function(name, types):
    """A function of the library that Python calls, or None: pointers "p", integers "n", floats "f"."""
    found = getattr(_library, name, None)
    if found is not None:
        found.argtypes, found.restype = [_TYPES[t] for t in types], None
    return found


@jax.jit
def computed_once(values):
    """``values``, made before what uses them is. XLA would compute an index anew for every element that is
    read by it: it leaves its own barriers out on the CPU, which `rewrite.py` makes calls of, in here."""
    return jax.lax.optimization_barrier(values)


def call(name, results, *operands, over=None, **attributes):
    """The custom call ``name``, or with NumPy arrays the kernel itself; every attribute is a sequence of integers, or
    one number of NumPy's.

    Args:
        results: what has the shape and dtype of the result; a tuple or list for several.
        over: the operand in whose memory the result is made; for several results {operand: result}.
    """
    if all(isinstance(x, np.ndarray) for x in operands):
        from . import numpy_calls

        return numpy_calls.call(name, results, operands, over, attributes)
    packed = {
        key: value if isinstance(value, np.generic) else np.array(value, np.int64) for key, value in attributes.items()
    }
    aliases = {over: 0} if isinstance(over, int) else over
    return jax.ffi.ffi_call(name, results, input_output_aliases=aliases)(*operands, **packed)
